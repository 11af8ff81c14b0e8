// Health and metadata, through the SDK's generated client.
import assert from "node:assert/strict";
import { apis, runtime } from "sandbox0";
import { check, finish } from "./support.mjs";

const health = new apis.HealthApi(
    new runtime.Configuration({ basePath: process.env.SANDBOX0_BASE_URL }));

await check("healthz", async () => {
  const answer = await health.healthzGet();
  assert.equal(answer.success, true);
  assert.equal(answer.data.status, "ok");
});
await check("readyz", async () => {
  assert.equal((await health.readyzGet()).success, true);
});
await check("metadata", async () => {
  const { data } = await health.metadataGet();
  assert.equal(data.gatewayMode, "direct");
  assert.equal(data.service, "atoll");
});
finish();
