// The quick start of the official JavaScript SDK, and a little of everything around it.
import assert from "node:assert/strict";
import { Client } from "sandbox0";

const client = new Client({
  token: process.env.SANDBOX0_TOKEN,
  baseUrl: process.env.SANDBOX0_BASE_URL,
});

const sandbox = await client.sandboxes.claim("default", { ttl: 300, hardTtl: 3600 });
try {
  await sandbox.run("python", "x = 41");
  const result = await sandbox.run("python", "print(x + 1)");
  assert.equal(result.outputRaw, "42\n");

  const command = await sandbox.cmd("sh -lc 'echo out; echo err >&2; exit 3'");
  assert.equal(command.stdout, "out\n");
  assert.equal(command.stderr, "err\n");
  assert.equal(command.exitCode, 3);

  const stream = await sandbox.cmdStream("streamed", {
    command: ["sh", "-c", "echo hello && echo warn >&2"],
  });
  const heard = {};
  for await (const output of stream.outputs()) {
    heard[output.source] = (heard[output.source] ?? "") + output.data;
  }
  assert.deepEqual(heard, { stdout: "hello\n", stderr: "warn\n" });
  assert.equal((await stream.wait()).exitCode, 0);

  await sandbox.mkdir("/workspace/a/b", true);
  await sandbox.writeFile("/workspace/a/b/text", "content");
  assert.equal(Buffer.from(await sandbox.readFile("/workspace/a/b/text")).toString(), "content");
  assert.equal((await sandbox.statFile("/workspace/a/b/text")).size, 7);
  await sandbox.moveFile("/workspace/a/b/text", "/workspace/a/moved");
  assert.deepEqual((await sandbox.listFiles("/workspace/a")).map((file) => file.name).sort(),
                   ["b", "moved"]);
  await sandbox.deleteFile("/workspace/a");

  const contexts = await sandbox.listContexts();
  const repl = contexts.find((each) => each.type === "repl");
  assert.equal(repl.alias, "python");
  assert.equal((await sandbox.restartContext(repl.id)).id, repl.id);
  const executed = await sandbox.contextExec(repl.id, "'x' in globals()\n");
  assert.equal(executed.outputRaw, "False\n");
} finally {
  await client.sandboxes.delete(sandbox.id);
}
console.log("conforms");
