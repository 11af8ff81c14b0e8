// State: pauses, resumes, forks, snapshots, and what is measured.
import assert from "node:assert/strict";
import { Sandbox } from "e2b";
import { check, finish, isAbout, killed, NotApplicable, since, until, withSandbox } from "./support.mjs";

const out = async (sandbox, command, options) =>
    (await sandbox.commands.run(command, options)).stdout.trim();
const everything = async (paginator) => {
  const items = [];
  while (paginator.hasNext) {
    items.push(...await paginator.nextItems());
  }
  return items;
};
const paused = async (sandbox, options) =>
    sandbox.pause ? sandbox.pause(options) : sandbox.betaPause(options);

await withSandbox(async (sandbox) => {
  let process_;
  await check("Sandbox.pause: memory and files stay, nothing answers meanwhile", async () => {
    await sandbox.files.write("kept", "file");
    process_ = await sandbox.commands.run("exec -a remembered sleep 600",
                                          { background: true, timeoutMs: 0 });
    assert.equal(await sandbox.pause(), true);
    assert.equal(await sandbox.isRunning(), false);
    assert.equal((await Sandbox.getInfo(sandbox.sandboxId)).state, "paused");
  });
  await check("Sandbox.pause: again is false", async () => {
    assert.equal(await sandbox.pause(), false);
    assert.equal(await Sandbox.pause(sandbox.sandboxId), false);
  });
  await check("Sandbox.list(query): paused ones", async () => {
    const found = await everything(Sandbox.list({ query: { state: ["paused"] } }));
    const entry = found.find((each) => each.sandboxId === sandbox.sandboxId);
    assert.equal(entry.state, "paused");
    assert.equal(entry.name, "base");
  });
  await check("Sandbox.connect(timeoutMs): resumes, with the same processes", async () => {
    const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 200_000 });
    assert.equal(again.sandboxId, sandbox.sandboxId);
    assert.equal(await again.files.read("kept"), "file");
    assert.ok((await again.commands.list()).some((each) => each.pid === process_.pid));
    assert.equal(await out(again, "pgrep -cf '^remembered'"), "1");
    assert.ok(isAbout((await again.getInfo()).endAt, 200));
    assert.equal((await again.getInfo()).state, "running");
  });
  await check("Sandbox.pause, Sandbox.connect: the object of before works on", async () => {
    assert.equal(await paused(sandbox), true);
    await sandbox.connect({ timeoutMs: 300_000 });
    assert.equal(await out(sandbox, "echo alive"), "alive");
  });
  await check("Sandbox.betaPause(keepMemory): the old name", async () => {
    assert.equal(await sandbox.betaPause({ keepMemory: true }), true);
    assert.equal(await Sandbox.betaPause(sandbox.sandboxId), false);
    await sandbox.connect({ timeoutMs: 300_000 });
  });
  await check("Sandbox.pause(keepMemory), Sandbox.connect: files stay, processes do not", async () => {
    await sandbox.files.write("kept2", "on disk");
    assert.equal(await sandbox.pause({ keepMemory: false }), true);
    await sandbox.connect({ timeoutMs: 300_000 });
    assert.equal(await sandbox.files.read("kept2"), "on disk");
    assert.equal(await out(sandbox, "pgrep -cf '^remembered' || true"), "0");
  }, { since: "2.45.0" });
  await check("Sandbox.connect(onResume): a reboot of what has its memory", async () => {
    await sandbox.commands.run("exec -a forgotten sleep 600", { background: true, timeoutMs: 0 });
    await sandbox.pause();
    await sandbox.connect({ timeoutMs: 300_000, onResume: "reboot" });
    assert.equal(await out(sandbox, "pgrep -cf '^forgotten' || true"), "0");
    assert.equal(await sandbox.files.read("kept2"), "on disk");
  }, { since: "2.51.0" });
  await check("Sandbox.pause: of what never was", async () => {
    await assert.rejects(Sandbox.pause("i0123456789abcdefghij"), /not ?found|404/i);
  });

  await check("Sandbox.fork(count, timeoutMs): the same state, each on its own", async () => {
    await sandbox.files.write("shared", "before");
    await sandbox.commands.run("exec -a forked sleep 600", { background: true, timeoutMs: 0 });
    const forks = await sandbox.fork({ count: 3, timeoutMs: 120_000 });
    try {
      assert.equal(forks.length, 3);
      assert.ok(forks.every((each) => each instanceof Sandbox), `${forks}`);
      assert.equal(new Set([sandbox, ...forks].map((each) => each.sandboxId)).size, 4);
      await Promise.all(forks.map(async (fork, index) => {
        if (!(fork instanceof Sandbox)) {
          throw fork;
        }
        assert.equal(await fork.files.read("shared"), "before");
        assert.equal(await out(fork, "pgrep -cf '^forked'"), "1");
        assert.equal(await out(fork, "echo $E2B_SANDBOX_ID"), fork.sandboxId);
        await fork.files.write("shared", `of ${index}`);
      }));
      assert.equal(await sandbox.files.read("shared"), "before");
      assert.equal(await forks[1].files.read("shared"), "of 1");
      assert.ok(isAbout((await forks[0].getInfo()).endAt, 120));
    } finally {
      await Promise.all(forks.map((each) => each instanceof Sandbox && each.kill()));
    }
  });
  await check("Sandbox.fork: by id, once", async () => {
    const [fork, ...more] = await Sandbox.fork(sandbox.sandboxId);
    if (!(fork instanceof Sandbox)) {
      throw fork;
    }
    try {
      assert.deepEqual(more, []);
      assert.equal(await fork.files.read("shared"), "before");
    } finally {
      await fork.kill();
    }
    await assert.rejects(Sandbox.fork("i0123456789abcdefghij"), /not ?found|404/i);
  });

  const name = `conformance-${process.pid}`;
  const snapshots = [];
  await check("Sandbox.createSnapshot, Sandbox.create(template): a sandbox from it", async () => {
    await sandbox.files.write("in-snapshot", "then");
    await sandbox.commands.run("exec -a snapshot sleep 600", { background: true, timeoutMs: 0 });
    const snapshot = await sandbox.createSnapshot();
    snapshots.push(snapshot.snapshotId);
    await sandbox.files.write("in-snapshot", "now");
    await withSandbox(async (copy) => {
      assert.equal(await copy.files.read("in-snapshot"), "then");
      assert.equal(await out(copy, "pgrep -cf '^snapshot'"), "1");
    }, { template: snapshot.snapshotId });
    assert.equal(await sandbox.files.read("in-snapshot"), "now");
  });
  await check("Sandbox.createSnapshot(name): by id and with a name", async () => {
    const snapshot = await Sandbox.createSnapshot(sandbox.sandboxId, { name });
    snapshots.push(snapshot.snapshotId);
    if (since("2.45.0")) {
      assert.ok(snapshot.names.some((each) => each.includes(name)), `${snapshot.names}`);
    }
    await withSandbox(async (copy) => {
      assert.equal(await copy.files.read("in-snapshot"), "now");
    }, { template: snapshot.snapshotId });
  });
  await check("Sandbox.listSnapshots(sandboxId, limit, nextToken): page by page", async () => {
    const all = await everything(sandbox.listSnapshots());
    assert.equal(all.length, snapshots.length);
    const paginator = Sandbox.listSnapshots({ sandboxId: sandbox.sandboxId, limit: 1 });
    const first = await paginator.nextItems();
    assert.equal(first.length, 1);
    const rest = Sandbox.listSnapshots({ sandboxId: sandbox.sandboxId, limit: 1,
                                         nextToken: paginator.nextToken });
    assert.deepEqual([...first, ...await everything(rest)].map((each) => each.snapshotId),
                     all.map((each) => each.snapshotId));
    assert.deepEqual(await everything(Sandbox.listSnapshots({ sandboxId: "i0123456789abcdefghij" })),
                     []);
  });
  await check("Sandbox.listSnapshots(name): by its name", async () => {
    const found = await everything(Sandbox.listSnapshots({ name }));
    assert.deepEqual(found.map((each) => each.snapshotId), [snapshots[1]]);
  }, { since: "2.51.0" });
  await check("Sandbox.deleteSnapshot: true, then false, then no template", async () => {
    for (const snapshot of snapshots) {
      assert.equal(await Sandbox.deleteSnapshot(snapshot), true);
      assert.equal(await Sandbox.deleteSnapshot(snapshot), false);
      await assert.rejects(Sandbox.create(snapshot), /404|not ?found/i);
    }
    assert.deepEqual(await everything(sandbox.listSnapshots()), []);
  });

  await check("Sandbox.getMetrics: sampled by itself", async () => {
    const metrics = await until(async () => {
      const found = await sandbox.getMetrics();
      return found.length > 0 && found;
    }, "a first sample");
    const last = metrics[metrics.length - 1];
    assert.ok(isAbout(last.timestamp, 0, 60));
    assert.ok(last.cpuCount >= 1 && last.cpuUsedPct >= 0);
    assert.ok(last.memUsed > 0 && last.memTotal >= last.memUsed);
    assert.ok(last.diskUsed >= 0 && last.diskTotal > 0);
  });
  await check("Sandbox.getMetrics(start, end): by id, in that time", async () => {
    const hour = 3_600_000;
    assert.deepEqual(await Sandbox.getMetrics(sandbox.sandboxId, {
      start: new Date(Date.now() - 2 * hour), end: new Date(Date.now() - hour) }), []);
    assert.ok((await Sandbox.getMetrics(sandbox.sandboxId, {
      start: new Date(Date.now() - hour), end: new Date(Date.now() + 1000) })).length > 0);
  }, { since: "2.45.0" });  // older ones do not send it
});

await check("Sandbox.create(lifecycle): paused by its timeout, with its memory", async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 3000, lifecycle: { onTimeout: "pause" } });
  try {
    assert.equal((await sandbox.getInfo()).lifecycle.onTimeout, "pause");
    await sandbox.commands.run("exec -a survivor sleep 600", { background: true, timeoutMs: 0 });
    await until(async () => (await sandbox.getInfo()).state === "paused", "it is paused");
    await sandbox.connect({ timeoutMs: 60_000 });
    assert.equal(await out(sandbox, "pgrep -cf '^survivor'"), "1");
  } finally {
    await sandbox.kill();
  }
}, { since: "2.45.0" });
await check("Sandbox.create(lifecycle): paused by its timeout, without its memory", async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 3000, lifecycle: {
    onTimeout: { action: "pause", keepMemory: false } } });
  try {
    await sandbox.files.write("kept", "1");
    await sandbox.commands.run("exec -a victim sleep 600", { background: true, timeoutMs: 0 });
    await until(async () => (await sandbox.getInfo()).state === "paused", "it is paused");
    await sandbox.connect({ timeoutMs: 60_000 });
    assert.equal(await sandbox.files.read("kept"), "1");
    assert.equal(await out(sandbox, "pgrep -cf '^victim' || true"), "0");
  } finally {
    await sandbox.kill();
  }
}, { since: "2.45.0" });
await check("Sandbox.create(lifecycle): traffic resumes it", async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000, lifecycle: {
    onTimeout: "pause", autoResume: true } });
  try {
    assert.deepEqual((await sandbox.getInfo()).lifecycle, { onTimeout: "pause", autoResume: true });
    await sandbox.pause();
    assert.equal(await out(sandbox, "echo woken"), "woken");
    assert.equal((await sandbox.getInfo()).state, "running");
  } finally {
    await sandbox.kill();
  }
}, { since: "2.45.0" });
await check("Sandbox.create(lifecycle): auto-resume without a memory is refused", async () => {
  await assert.rejects(Sandbox.create({ timeoutMs: 60_000, lifecycle: {
    onTimeout: { action: "pause", keepMemory: false }, autoResume: true } }));
}, { since: "2.45.0" });
await check("Sandbox.kill: of a paused one", async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 });
  if (!(sandbox.pause ?? sandbox.betaPause)) {
    await sandbox.kill();
    throw new NotApplicable("this version cannot pause");
  }
  await paused(sandbox);
  assert.ok(killed(await sandbox.kill()));
  await assert.rejects(Sandbox.connect(sandbox.sandboxId), /not ?found|404/i);
});
finish();
