// The command line and templates: built from a Dockerfile, listed, published, deleted.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { Sandbox } from "e2b";
import { e2b, home, run } from "./command_line.mjs";
import { check, finish } from "./support.mjs";

const name = `conformance-cli-${process.pid}-${Date.now()}`;
fs.writeFileSync(path.join(home, "file.txt"), "from the context\n");
fs.writeFileSync(path.join(home, "Dockerfile"), `FROM ${process.env.E2B_IMAGE}\n` +
    "ENV COLOUR=blue\nCOPY file.txt /file.txt\nRUN cat /file.txt >/copied\n");

await check("CLI template create --cpu-count --memory-mb: from a Dockerfile", async () => {
  await e2b("template", "create", name, "--cpu-count", "1", "--memory-mb", "512");
  const sandbox = await Sandbox.create(name, { timeoutMs: 60_000 });
  try {
    assert.equal(await sandbox.files.read("/copied"), "from the context\n");
    const info = await sandbox.getInfo();
    assert.deepEqual([info.name, info.cpuCount, info.memoryMB], [name, 1, 512]);
  } finally {
    await sandbox.kill();
  }
});
await check("CLI template create: a failing step is told", async () => {
  fs.writeFileSync(path.join(home, "bad.Dockerfile"),
                   `FROM ${process.env.E2B_IMAGE}\nRUN exit 9\n`);
  const done = await run(["template", "create", `${name}-bad`, "--dockerfile", "bad.Dockerfile"]);
  assert.notEqual(done.code, 0);
  assert.match(done.stdout + done.stderr, /exit 9|exit status 9|failed/i);
});
await check("CLI template list --format: it is there", async () => {
  assert.match(await e2b("template", "list"), new RegExp(name));
  const listed = JSON.parse(await e2b("template", "list", "--format", "json"));
  assert.ok(JSON.stringify(listed).includes(name));
});
await check("CLI template publish, CLI template unpublish: without questions", async () => {
  await e2b("template", "publish", "--yes", name);
  await e2b("template", "unpublish", "--yes", name);
});
await check("CLI template init: writes sources, asks nothing of the server", async () => {
  await e2b("template", "init", "--name", "fresh", "--language", "typescript", "--path", home);
  assert.ok(fs.readdirSync(home).length > 2);
});
await check("CLI template delete --yes: and it is gone", async () => {
  await e2b("template", "delete", "--yes", name);
  await assert.rejects(Sandbox.create(name));
});
await run(["template", "delete", "--yes", `${name}-bad`]);
finish();
