// Sandboxes: claim, get, list, status, update, refresh, delete.
import assert from "node:assert/strict";
import { SandboxWaitTimeoutError } from "sandbox0";
import { check, client, finish, isAbout, withSandbox } from "./support.mjs";

const { sandboxes } = client;

await withSandbox(async (sandbox) => {
  await check("the claim's answer", () => {
    assert.match(sandbox.id, /^[a-z0-9][a-z0-9-]*$/);
    assert.equal(sandbox.template, "default");
    assert.equal(sandbox.status, "running");
    assert.notEqual(sandbox.podName, "");
    assert.deepEqual(sandbox.bootstrapMounts, []);
  });
  await check("get", async () => {
    const found = await sandboxes.get(sandbox.id);
    assert.equal(found.id, sandbox.id);
    assert.equal(found.templateId, "default");
    assert.equal(found.status, "running");
    assert.equal(found.paused, false);
    assert.equal(found.autoResume, true);
    assert.equal(found.resources.memory, "512Mi");
    assert.ok(found.runtimeGeneration >= 1);
    assert.ok(isAbout(found.createdAt, 0) && isAbout(found.claimedAt, 0));
  });
  await check("ttl and hard_ttl", async () => {
    const found = await sandboxes.get(sandbox.id);
    assert.ok(isAbout(found.expiresAt, 900), String(found.expiresAt));
    assert.ok(isAbout(found.hardExpiresAt, 1800), String(found.hardExpiresAt));
  });
  await check("env_vars reach the processes", async () => {
    assert.equal((await sandbox.cmd("printenv GREETING")).stdout, "hello world\n");
  });
  await check("status", async () => {
    const status = await sandboxes.status(sandbox.id);
    assert.equal(status.sandboxId, sandbox.id);
    assert.equal(status.templateId, "default");
    assert.equal(status.status, "running");
  });
  await check("update", async () => {
    const config = { ttl: 1200, autoResume: false, resources: { memory: "640Mi" } };
    const updated = await sandboxes.update(sandbox.id, { config });
    assert.equal(updated.resources.memory, "640Mi");
    assert.equal(updated.autoResume, false);
    assert.ok(isAbout(updated.expiresAt, 1200) && isAbout(updated.hardExpiresAt, 1800));
  });
  await check("refresh", async () => {
    assert.ok(isAbout((await sandboxes.refresh(sandbox.id)).expiresAt, 1200));
    const answer = await sandboxes.refresh(sandbox.id, { duration: 600 });
    assert.equal(answer.sandboxId, sandbox.id);
    assert.ok(isAbout(answer.expiresAt, 600));
  });
  await check("waiting for a state", async () => {
    const found = await sandboxes.waitForLifecycle(sandbox.id, (each) => each.status === "running");
    assert.equal(found.id, sandbox.id);
    await assert.rejects(
        sandboxes.waitForLifecycle(sandbox.id, (each) => each.status === "failed",
                                   { timeoutMs: 50, pollIntervalMs: 10 }),
        SandboxWaitTimeoutError);
  });
}, { config: { ttl: 900, hardTtl: 1800, resources: { memory: "512Mi" },
               envVars: { GREETING: "hello world" } } });

await check("memory beside the configuration", () => withSandbox(async (sandbox) => {
  assert.equal((await sandboxes.get(sandbox.id)).resources.memory, "384Mi");
}, { config: { hardTtl: 600 }, memory: "384Mi" }));

await check("a template's alias and list filters", () => withSandbox(async (first) => {
  const second = await sandboxes.claim("default", { hardTtl: 600 });
  try {
    const all = await sandboxes.list();
    assert.ok([first.id, second.id].every((id) => all.sandboxes.some((each) => each.id === id)));
    assert.ok(all.count >= 2 && all.hasMore === false);
    const page = await sandboxes.list({ limit: 1 });
    assert.equal(page.sandboxes.length, 1);
    assert.equal(page.hasMore, true);
    const next = await sandboxes.list({ limit: 1, offset: 1 });
    assert.notEqual(next.sandboxes[0].id, page.sandboxes[0].id);
    assert.ok((await sandboxes.list({ status: "running" })).count >= 2);
    assert.equal((await sandboxes.list({ status: "paused" })).count, 0);
    assert.equal((await sandboxes.list({ paused: true })).count, 0);
    assert.ok((await sandboxes.list({ templateId: "default" })).count >= 2);
    assert.equal((await sandboxes.list({ templateId: "no-such-template" })).count, 0);
  } finally {
    await sandboxes.delete(second.id);
  }
}));

await check("a session deletes its sandbox", async () => {
  const session = await sandboxes.open("default", { hardTtl: 600 });
  const { id } = session.sandbox;
  assert.equal((await sandboxes.sandbox(id).cmd("echo here")).stdout, "here\n");
  await session.close();
  await assert.rejects(sandboxes.get(id), { statusCode: 404 });
});

await check("the answer of delete", async () => {
  const sandbox = await sandboxes.claim("default", { hardTtl: 600 });
  assert.match((await sandboxes.delete(sandbox.id)).data.message, /deleted/);
});
finish();
