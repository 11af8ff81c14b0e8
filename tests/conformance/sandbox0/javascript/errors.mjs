// Failures become the SDK's APIError with status, code, message and request id.
import assert from "node:assert/strict";
import { APIError, Client } from "sandbox0";
import { check, client, finish, withSandbox } from "./support.mjs";

async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof APIError, String(error));
    assert.ok(error.message.length > 0);
    return error;
  }
  throw new Error("it succeeded");
}

async function refused(promise, statusCode, code) {
  const error = await failure(promise);
  assert.equal(error.statusCode, statusCode, `${error.statusCode} ${error.code} ${error.message}`);
  assert.equal(error.code, code, error.message);
  return error;
}

await check("a wrong key", async () => {
  const stranger = new Client({ token: "s0_wrong", baseUrl: process.env.SANDBOX0_BASE_URL });
  await refused(stranger.sandboxes.list(), 401, "unauthorized");
});
await check("a key that is a function", async () => {
  const lazy = new Client({
    token: async () => process.env.SANDBOX0_TOKEN, baseUrl: process.env.SANDBOX0_BASE_URL,
  });
  assert.ok(Array.isArray((await lazy.sandboxes.list()).sandboxes));
});
await check("the request id is in the error", async () => {
  const error = await failure(client.sandboxes.get("rs-none"));
  assert.match(error.requestId, /./);
  assert.match(error.body, /"success":false/);
});
await check("no such sandbox", () => refused(client.sandboxes.get("rs-none"), 404, "not_found"));
await check("no such template", async () => {
  assert.equal((await failure(client.sandboxes.claim("no-such-template"))).statusCode, 404);
  await refused(client.templates.get("no-such-template"), 404, "not_found");
});
await check("a lifetime that makes no sense", () =>
  refused(client.sandboxes.claim("default", { ttl: 100, hardTtl: 10 }), 400, "bad_request"));
await check("memory that is no quantity", () =>
  refused(client.sandboxes.claim("default", { memory: "much" }), 400, "bad_request"));
await check("what does not exist yet is refused, not ignored", async () => {
  const error = await failure(client.sandboxes.claim("default", { config: {}, snapshotId: "x" }));
  assert.ok([400, 404, 501].includes(error.statusCode), String(error.statusCode));
});

await withSandbox(async (sandbox) => {
  await check("no such file", () =>
    refused(sandbox.readFile("/workspace/none"), 404, "file_not_found"));
  await check("a directory is no file", () =>
    refused(sandbox.readFile("/etc"), 409, "path_not_file"));
  await check("a file is no directory", () =>
    refused(sandbox.listFiles("/etc/passwd"), 409, "path_not_directory"));
  await check("a directory that exists", () =>
    refused(sandbox.mkdir("/etc"), 409, "path_exists"));
  await check("no such command", () =>
    refused(sandbox.cmd("no-such-command-anywhere"), 400, "create_failed"));
  await check("no such context", () =>
    refused(sandbox.getContext("ctx-00000000"), 404, "context_not_found"));
  await check("no such language", async () => {
    assert.equal((await failure(sandbox.run("no-such-language", "1"))).statusCode, 400);
  });
  await check("a signal that does not exist", async () => {
    const { contextId } = await sandbox.cmd("sleep 600", { wait: false });
    await refused(sandbox.contextSignal(contextId, "SIGNOTHING"), 400, "bad_request");
    await sandbox.deleteContext(contextId);
  });
  await check("a size without a terminal", async () => {
    const { contextId } = await sandbox.cmd("sleep 600", { wait: false });
    await refused(sandbox.contextResize(contextId, 24, 80), 409, "pty_unavailable");
    await sandbox.deleteContext(contextId);
  });
  await check("input after the end", async () => {
    const { contextId } = await sandbox.cmd("true", { ptyRows: 24, ptyCols: 80 });
    await refused(sandbox.contextInput(contextId, "late\n"), 410, "process_finished");
  });
  await check("a socket to nothing", () => assert.rejects(
      sandbox.connectWsContext("ctx-00000000").then((stream) => stream.wait())));
});
finish();
