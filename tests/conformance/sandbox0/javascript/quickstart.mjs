// The quick start of the official SDK's README, word for word but for the template's lifetime.
import assert from "node:assert/strict";
import { check, client, finish } from "./support.mjs";

const sandbox = await client.sandboxes.claim("default", { ttl: 300, hardTtl: 3600 });
try {
  await check("a REPL keeps its state", async () => {
    await sandbox.run("python", "x = 41");
    const result = await sandbox.run("python", "print(x + 1)");
    assert.equal(result.outputRaw, "42\n");
  });
  await check("a command", async () => {
    const result = await sandbox.cmd("sh -lc 'pwd && ls -la'");
    assert.equal(result.exitCode, 0);
    assert.match(result.outputRaw, /^\/.*\n.*total /s);
  });
  await check("a streamed command", async () => {
    const stream = await sandbox.cmdStream("streamed", {
      command: ["sh", "-c", "echo hello && echo warn >&2"],
    });
    const heard = {};
    for await (const output of stream.outputs()) {
      heard[output.source] = (heard[output.source] ?? "") + output.data;
    }
    assert.deepEqual(heard, { stdout: "hello\n", stderr: "warn\n" });
    assert.equal((await stream.wait()).exitCode, 0);
  });
} finally {
  await check("deleting it", () => client.sandboxes.delete(sandbox.id));
}
finish();
