// Network policies and credential sources: written, bound, replaced, deleted.
import assert from "node:assert/strict";
import { check, client, finish, withSandbox } from "./support.mjs";

const sources = client.credentialSources;
const name = "conformance-javascript";
const request = (token) => ({
  name,
  resolverKind: "static_headers",
  spec: { staticHeaders: { values: { token } } },
});
const policy = {
  mode: "block-all",
  egress: {
    trafficRules: [
      { name: "api", action: "allow", domains: ["api.example"], ports: [{ port: 443, protocol: "tcp" }] },
    ],
    credentialRules: [
      {
        credentialRef: "gh",
        protocol: "https",
        tlsMode: "terminate-reoriginate",
        domains: ["api.example"],
        httpMatch: { methods: ["GET"], pathPrefixes: ["/repos/"] },
      },
    ],
  },
  credentialBindings: [
    {
      ref: "gh",
      sourceRef: name,
      projection: {
        type: "http_headers",
        httpHeaders: { headers: [{ name: "Authorization", valueTemplate: "Bearer {{ .token }}" }] },
      },
    },
  ],
};

try {
  await check("make, read, list, rotate", async () => {
    const made = await sources.create(request("secret"));
    assert.equal(made.name, name);
    assert.equal(made.currentVersion, 1);
    assert.ok(made.createdAt instanceof Date);
    assert.equal((await sources.get(name)).resolverKind, "static_headers");
    assert.ok((await sources.list()).some((each) => each.name === name));
    await assert.rejects(sources.create(request("secret")), { statusCode: 409 });
    assert.equal((await sources.update(name, request("next"))).currentVersion, 2);
  });
  await check("policies of sandboxes", async () => {
    await withSandbox(async (sandbox) => {
      assert.equal((await sandbox.getNetworkPolicy()).mode, "allow-all");
      const answer = await sandbox.updateNetworkPolicy(policy);
      assert.equal(answer.mode, "block-all");
      const found = await sandbox.getNetworkPolicy();
      assert.equal(found.egress.trafficRules[0].name, "api");
      assert.equal(found.credentialBindings[0].sourceRef, name);
      await assert.rejects(sources.delete(name), { statusCode: 409 });
      await sandbox.updateNetworkPolicy({ mode: "allow-all", credentialBindings: [] });
      assert.equal((await sandbox.getNetworkPolicy()).mode, "allow-all");
      await assert.rejects(sandbox.updateNetworkPolicy({ mode: "maybe" }), { statusCode: 400 });
    });
  });
  await check("a policy of the claim", async () => {
    await withSandbox(
      async (sandbox) => assert.equal((await sandbox.getNetworkPolicy()).mode, "block-all"),
      { hardTtl: 600, network: { mode: "block-all" } }
    );
  });
} finally {
  await check("delete", async () => {
    await sources.delete(name);
    await assert.rejects(sources.get(name), { statusCode: 404 });
  });
}
finish();
