// The first minute of somebody who tries it: create, run, write, read, kill.
import assert from "node:assert/strict";
import { Sandbox } from "e2b";
import { check, finish, killed } from "./support.mjs";

let sandbox;
await check("Sandbox.create: without any option", async () => {
  sandbox = await Sandbox.create();
  assert.match(sandbox.sandboxId, /^i[a-z0-9]{20}$/);
});
await check("Commands.run: output and exit code", async () => {
  const result = await sandbox.commands.run("echo out; echo err >&2");
  assert.deepEqual([result.exitCode, result.stdout, result.stderr], [0, "out\n", "err\n"]);
});
await check("Filesystem.write, Filesystem.read: text there and back", async () => {
  await sandbox.files.write("/home/user/hello.txt", "hello, wörld");
  assert.equal(await sandbox.files.read("/home/user/hello.txt"), "hello, wörld");
  assert.equal((await sandbox.commands.run("cat hello.txt")).stdout, "hello, wörld");
});
await check("Sandbox.kill, Sandbox.isRunning: it is gone", async () => {
  assert.equal(await sandbox.isRunning(), true);
  assert.ok(killed(await sandbox.kill()));
  assert.equal(await sandbox.isRunning(), false);
});
finish();
