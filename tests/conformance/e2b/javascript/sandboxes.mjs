// Sandboxes: how they are made, found, told about, kept alive, and ended.
import assert from "node:assert/strict";
import { Sandbox } from "e2b";
import { check, finish, isAbout, killed, learn, NotApplicable, since, until, withSandbox }
    from "./support.mjs";

const mark = `${process.pid}-${Date.now()}`;
const everything = async (paginator) => {
  const items = [];
  while (paginator.hasNext) {
    items.push(...await paginator.nextItems());
  }
  return items;
};
const ids = (items) => items.map((each) => each.sandboxId);

await withSandbox(async (sandbox) => {
  await check("Sandbox.create(metadata), Sandbox.getInfo: everything it tells", async () => {
    const info = await sandbox.getInfo();
    assert.equal(info.sandboxId, sandbox.sandboxId);
    assert.deepEqual(info.metadata, { mark, "with space": "ä & = % +" });
    assert.equal(info.state, "running");
    assert.equal(info.name, "base");
    assert.ok(info.templateId.length > 0);
    assert.ok(isAbout(info.startedAt, 0, 120));
    assert.ok(info.cpuCount >= 1 && info.memoryMB >= 128);
    assert.equal(info.envdVersion, "0.6.13");
  });
  await check("Sandbox.create(timeoutMs): counted from when it is ready", async () => {
    assert.ok(isAbout((await sandbox.getInfo()).endAt, 300));
  });
  await check("Sandbox.create(envs): in every command, below its own", async () => {
    const run = async (options) => (await sandbox.commands.run("echo $FROM_CREATE", options)).stdout;
    assert.equal(await run(), "sandbox's\n");
    assert.equal(await run({ envs: { FROM_CREATE: "command's" } }), "command's\n");
  });
  await check("Sandbox.getInfo, Sandbox.getFullInfo: by id", async () => {
    assert.equal((await Sandbox.getInfo(sandbox.sandboxId)).sandboxId, sandbox.sandboxId);
    assert.equal((await Sandbox.getFullInfo(sandbox.sandboxId)).sandboxId, sandbox.sandboxId);
  });
  await check("Sandbox.getInfo: the lifecycle, when nothing was said", async () => {
    const { lifecycle } = await sandbox.getInfo();
    assert.deepEqual(lifecycle, { onTimeout: "kill", autoResume: false });
  }, { since: "2.45.0" });
  await check("Sandbox.getInfo: of a sandbox that never was", async () => {
    await assert.rejects(Sandbox.getInfo("i0123456789abcdefghij"), /not ?found|404/i);
  });
  await check("Sandbox.setTimeout: longer and shorter, by object and by id", async () => {
    await sandbox.setTimeout(1_000_000);
    assert.ok(isAbout((await sandbox.getInfo()).endAt, 1000));
    await Sandbox.setTimeout(sandbox.sandboxId, 200_000);
    assert.ok(isAbout((await sandbox.getInfo()).endAt, 200));
    await assert.rejects(Sandbox.setTimeout("i0123456789abcdefghij", 1000), /not ?found|404/i);
  });
  await check("Sandbox.setTimeout(requestTimeoutMs, signal), Sandbox.getInfo(requestTimeoutMs, " +
              "signal), Sandbox.isRunning(requestTimeoutMs, signal): aborted", async () => {
    const controller = new AbortController();
    controller.abort();
    const options = { signal: controller.signal, requestTimeoutMs: 20_000 };
    await assert.rejects(sandbox.setTimeout(1_000_000, options));
    await assert.rejects(sandbox.getInfo(options));
    await assert.rejects(sandbox.isRunning(options));
    assert.ok(isAbout((await sandbox.getInfo()).endAt, 200, 60));
  }, { since: "2.45.0" });
  await check("Sandbox.connect(timeoutMs): extends, never shortens", async () => {
    const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 60_000 });
    assert.equal(again.sandboxId, sandbox.sandboxId);
    assert.ok(isAbout((await sandbox.getInfo()).endAt, 200, 60));
    await again.files.write("through-connect", "1");
    assert.equal(await sandbox.files.read("through-connect"), "1");
    await sandbox.connect({ timeoutMs: 400_000 });
    assert.ok(isAbout((await sandbox.getInfo()).endAt, 400, 60));
  });
  await check("Sandbox.connect: to what never was", async () => {
    await assert.rejects(Sandbox.connect("i0123456789abcdefghij"), /not ?found|404/i);
  });
  await check("Sandbox.connect: the old form of an id, with its client", async () => {
    const same = await Sandbox.connect(`${sandbox.sandboxId}-abcdef12`);
    assert.equal((await same.commands.run("echo $E2B_SANDBOX_ID")).stdout, `${sandbox.sandboxId}\n`);
  });
  await check("Sandbox.getHost: port, id and domain", async () => {
    assert.match(sandbox.getHost(3000), new RegExp(`^3000-${sandbox.sandboxId}\\..+`));
  });
  await check("Sandbox.isRunning: yes", async () => {
    assert.equal(await sandbox.isRunning({ requestTimeoutMs: 10_000 }), true);
  });

  // Two more, to be told apart. They start after a moment that can be asked for.
  const between = new Date();
  const others = [];
  for (const number of ["1", "2"]) {
    others.push(await Sandbox.create("base", { metadata: { mark, number }, timeoutMs: 300_000 }));
  }
  const mine = { mark };
  await check("Sandbox.list(query): by metadata, all of it", async () => {
    assert.deepEqual(ids(await everything(Sandbox.list({ query: { metadata: mine } }))).sort(),
                     ids([sandbox, ...others]).sort());
    assert.deepEqual(ids(await everything(Sandbox.list({ query: {
      metadata: { mark, number: "2" } } }))), [others[1].sandboxId]);
    assert.deepEqual(ids(await everything(Sandbox.list({ query: {
      metadata: { "with space": "ä & = % +", mark } } }))), [sandbox.sandboxId]);
    assert.deepEqual(await everything(Sandbox.list({ query: { metadata: { mark: "x" } } })), []);
  });
  await check("Sandbox.list: what an entry tells", async () => {
    const [entry] = await everything(Sandbox.list({ query: { metadata: { mark, number: "1" } } }));
    const info = await others[0].getInfo();
    for (const key of ["sandboxId", "templateId", "name", "metadata", "startedAt", "state",
                       "cpuCount", "memoryMB", "envdVersion"]) {
      assert.deepEqual(entry[key], info[key], key);
    }
  });
  await check("Sandbox.list(limit, nextToken), Paginator.nextItems, Paginator.hasNext, " +
              "Paginator.nextToken: page by page", async () => {
    const paginator = learn("Paginator", Sandbox.list({ query: { metadata: mine }, limit: 2 }));
    assert.equal(paginator.hasNext, true);
    const first = await paginator.nextItems();
    assert.equal(first.length, 2);
    assert.equal(paginator.hasNext, true);
    const rest = Sandbox.list({ query: { metadata: mine }, limit: 2, nextToken: paginator.nextToken });
    const second = await paginator.nextItems();
    assert.equal(second.length, 1);
    assert.equal(paginator.hasNext, false);
    assert.equal(paginator.nextToken, undefined);
    assert.deepEqual(ids(await rest.nextItems()), ids(second));
    assert.equal(new Set([...ids(first), ...ids(second)]).size, 3);
    await assert.rejects(paginator.nextItems());
  });
  await check("Sandbox.list(order): by their start", async () => {
    const listed = async (order) =>
        ids(await everything(Sandbox.list({ query: { metadata: mine }, order, limit: 1 })));
    const ascending = await listed("asc");
    assert.equal(ascending[0], sandbox.sandboxId);
    assert.deepEqual(await listed("desc"), ascending.reverse());
    assert.deepEqual(ids(await everything(Sandbox.list({ query: { metadata: mine } }))), ascending);
  }, { since: "2.51.0" });
  await check("Sandbox.list(query): started after", async () => {
    const found = ids(await everything(Sandbox.list({ query: { metadata: mine,
                                                               startedAfter: between } })));
    assert.deepEqual(found.sort(), ids(others).sort());
  }, { since: "2.51.0" });
  await check("Sandbox.list(query): by template", async () => {
    const found = async (template) =>
        (await everything(Sandbox.list({ query: { metadata: mine, template } }))).length;
    assert.equal(await found("base"), 3);
    assert.equal(await found((await sandbox.getInfo()).templateId), 3);
    assert.equal(await found("something-else"), 0);
  }, { since: "2.51.0" });
  await check("Sandbox.list(query): by state", async () => {
    const found = async (state) => ids(await everything(Sandbox.list({
      query: { metadata: mine, state } })));
    assert.equal((await found(["running"])).length, 3);
    assert.deepEqual(await found(["paused"]), []);
    assert.equal((await found(["running", "paused"])).length, 3);
  });
  await check("Sandbox.kill: by object and by id, true and then false", async () => {
    assert.ok(killed(await others[0].kill({ requestTimeoutMs: 30_000 })));
    assert.equal(await Sandbox.kill(others[1].sandboxId), true);
    assert.equal(await Sandbox.kill(others[1].sandboxId), false);
    assert.deepEqual(ids(await everything(Sandbox.list({ query: { metadata: mine } }))),
                     [sandbox.sandboxId]);
  });
  await check("Sandbox.isRunning: no, of what was killed", async () => {
    assert.equal(await others[0].isRunning(), false);
  });
  await check("Commands.run, Filesystem.read: in a sandbox that was killed", async () => {
    await assert.rejects(others[0].commands.run("true"), /sandbox|timeout|not found/i);
    await assert.rejects(others[0].files.read("x"), /sandbox|timeout|not found/i);
  });
}, { metadata: { mark, "with space": "ä & = % +" }, envs: { FROM_CREATE: "sandbox's" } });

await check("Sandbox.create(timeoutMs): then it is gone", async () => {
  const short = await Sandbox.create({ timeoutMs: 2000 });
  assert.equal(await short.isRunning(), true);
  await until(async () => !(await short.isRunning()), "it is gone");
  await assert.rejects(short.getInfo(), /not ?found|404/i);
});
await check("Commands.run: the sandbox ends in the middle of it", async () => {
  const short = await Sandbox.create({ timeoutMs: 60_000 });
  const running = short.commands.run("sleep 60");
  const judged = assert.rejects(running, (error) => {
    assert.match(`${error.name}: ${error.message}`, /Timeout|sandbox|terminated/i);
    return true;
  });
  await until(async () => (await short.commands.list()).length === 1, "it runs");
  await short.kill();
  await judged;
});
await check("Sandbox.create(template): by name, in the options and as a word", async () => {
  const sandbox = since("2.45.0") ? await Sandbox.create({ template: "base", timeoutMs: 60_000 })
                                  : await Sandbox.create("base", { timeoutMs: 60_000 });
  try {
    assert.equal((await sandbox.getInfo()).name, "base");
  } finally {
    await sandbox.kill();
  }
});
await check("Sandbox.create(template): that nobody made", async () => {
  await assert.rejects(Sandbox.create("no-such-template"), /404|not ?found/i);
});
await check("Sandbox.create(timeoutMs): nothing, or too much", async () => {
  await assert.rejects(Sandbox.create({ timeoutMs: 0 }), /400/);
  await assert.rejects(Sandbox.create({ timeoutMs: 1e12 }), /400/);
});
await check("Sandbox.create(secure): not secured, where it can be asked for", async () => {
  if (since("2.51.0")) {
    throw new NotApplicable("every sandbox is secured from 2.51 on");
  }
  const sandbox = await Sandbox.create({ secure: false, timeoutMs: 60_000 });
  try {
    assert.equal((await sandbox.commands.run("echo open")).stdout, "open\n");
    const url = await sandbox.downloadUrl("/etc/hostname");
    assert.ok(!url.includes("signature"), url);
  } finally {
    await sandbox.kill();
  }
});
await check("Sandbox.betaCreate(timeoutMs, autoPause): the old name, where it is", async () => {
  // @ts-expect-error: versions that have it
  const sandbox = await Sandbox.betaCreate({ timeoutMs: 60_000, autoPause: true });
  try {
    assert.equal((await sandbox.commands.run("echo beta")).stdout, "beta\n");
  } finally {
    await sandbox.kill();
  }
});
await check("Sandbox.create(mcp): says what is missing", async () => {
  await assert.rejects(Sandbox.create({ mcp: { exa: { apiKey: "x" } }, timeoutMs: 60_000 }),
                       /mcp-gateway/);
});
await check("Sandbox.getMcpUrl, Sandbox.getMcpToken: without it", async () => {
  await withSandbox(async (sandbox) => {
    assert.match(sandbox.getMcpUrl(), new RegExp(`^https://50005-${sandbox.sandboxId}\\..*/mcp$`));
    await sandbox.getMcpToken().catch(() => undefined);
  });
});
finish();
