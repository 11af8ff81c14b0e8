// The command line: what it does with sandboxes. Templates are elsewhere.
import assert from "node:assert/strict";
import { Sandbox } from "e2b";
import { e2b, help, program, run } from "./command_line.mjs";
import { check, finish, NotApplicable, until } from "./support.mjs";

const made = new Set();
let id;
try {
  await check("CLI sandbox create --detach: prints its id", async () => {
    if (!(await help("sandbox", "create")).includes("--detach")) {
      throw new NotApplicable("this version of the command line cannot create without a terminal");
    }
    const before = new Set((await Sandbox.list().nextItems()).map((each) => each.sandboxId));
    const printed = await e2b("sandbox", "create", "--detach", "base");
    [id] = printed.match(/i[a-z0-9]{20}/) ?? [];
    assert.ok(id && !before.has(id), printed);
    made.add(id);
  });
  if (id === undefined) {
    id = (await Sandbox.create({ timeoutMs: 300_000 })).sandboxId;
    made.add(id);
  }
  await check("CLI sandbox exec: output, exit code, directory, user, variables", async () => {
    const done = await run(["sandbox", "exec", "-c", "/tmp", "-u", "root", "-e", "WORD=said", id,
                            "echo $WORD; pwd; id -un; exit 3"]);
    assert.equal(done.stdout, "said\n/tmp\nroot\n");
    assert.equal(done.code, 3);
  });
  await check("CLI sandbox exec: what is typed into it", async () => {
    const done = await run(["sandbox", "exec", id, "tr a-z A-Z"], { input: "typed\n" });
    assert.equal(done.stdout, "TYPED\n", done.stderr);
  });
  await check("CLI sandbox exec --background: and away", async () => {
    await e2b("sandbox", "exec", "--background", id, "sleep 1; touch /home/user/later");
    const sandbox = await Sandbox.connect(id);
    await until(() => sandbox.files.exists("later"), "it was done");
  });
  await check("CLI sandbox list: as a table and as JSON", async () => {
    assert.match(await e2b("sandbox", "list"), new RegExp(id));
    const listed = JSON.parse(await e2b("sandbox", "list", "--format", "json"));
    assert.ok(listed.some((each) => each.sandboxId === id || each.sandboxID === id));
  });
  await check("CLI sandbox info: as text and as JSON", async () => {
    assert.match(await e2b("sandbox", "info", id), new RegExp(id));
    const info = JSON.parse(await e2b("sandbox", "info", "--format", "json", id));
    assert.equal(info.state, "running");
  });
  await check("CLI sandbox metrics: something was measured", async () => {
    const sandbox = await Sandbox.connect(id);
    await until(async () => (await sandbox.getMetrics()).length > 0, "a sample");
    assert.match(await e2b("sandbox", "metrics", id), /CPU/i);
  });
  await check("CLI sandbox logs: are printed", async () => {
    await e2b("sandbox", "logs", id);
  });
  await check("CLI sandbox connect: a terminal", async () => {
    const done = await run(["-qec", `${process.execPath} ${program} sandbox connect ${id}`,
                            "/dev/null"],
                           { command: ["script"], input: "echo typed-$((6*7)); exit\n" });
    assert.match(done.stdout, /typed-42/, done.stderr);
  });
  await check("CLI sandbox pause, CLI sandbox resume: and it is listed as such", async () => {
    await e2b("sandbox", "pause", id);
    assert.equal((await Sandbox.getInfo(id)).state, "paused");
    assert.match(await e2b("sandbox", "list", "--state", "paused"), new RegExp(id));
    await e2b("sandbox", "resume", id);
    assert.equal((await Sandbox.getInfo(id)).state, "running");
  });
  await check("CLI sandbox snapshot create, list, delete: there and gone", async () => {
    if (!(await help("sandbox")).includes("snapshot")) {
      throw new NotApplicable("this version of the command line has no snapshots");
    }
    await e2b("sandbox", "snapshot", "create", id);
    const [snapshot] = await Sandbox.listSnapshots({ sandboxId: id }).nextItems();
    assert.ok((await e2b("sandbox", "snapshot", "list", id)).includes(snapshot.snapshotId));
    await e2b("sandbox", "snapshot", "delete", snapshot.snapshotId);
    assert.deepEqual(await Sandbox.listSnapshots({ sandboxId: id }).nextItems(), []);
  });
  await check("CLI sandbox kill: and a second time", async () => {
    await e2b("sandbox", "kill", id);
    const again = await run(["sandbox", "kill", id]);
    assert.match(again.stdout + again.stderr, /not found|wasn't found|wasn.t/i);
    made.delete(id);
  });
} finally {
  for (const each of made) {
    await Sandbox.kill(each);
  }
}
finish();
