// The network of a sandbox: what it may reach, what it says of it, and who reaches it. What really
// leaves is looked at from the other side of a cable, in tests/boundary; here no packet leaves.
import assert from "node:assert/strict";
import { ALL_TRAFFIC, Sandbox } from "e2b";
import { check, finish, NotApplicable, withSandbox } from "./support.mjs";

const NOWHERE = "192.0.2.1";  // for documentation: nobody is there
const refusedAt = async (sandbox, address) => {
  // Connecting proves nothing: the boundary takes every connection, and judges.
  const { stdout } = await sandbox.commands.run(
      `timeout 3 bash -c 'exec 3<>/dev/tcp/${address}/80 && echo hello >&3 && head -c 1 <&3' ` +
      "2>/dev/null | wc -c");
  return stdout.trim() === "0";
};

await check("Sandbox.create(allowInternetAccess), Sandbox.getInfo: none at all", async () => {
  await withSandbox(async (sandbox) => {
    assert.equal((await sandbox.getInfo()).allowInternetAccess, false);
    assert.ok(await refusedAt(sandbox, NOWHERE));
  }, { allowInternetAccess: false });
});
await check("Sandbox.create(network): allowOut and denyOut, and what it tells of them", async () => {
  await withSandbox(async (sandbox) => {
    const { network } = await sandbox.getInfo();
    assert.deepEqual(network.denyOut, [ALL_TRAFFIC]);
    assert.deepEqual(network.allowOut, ["198.51.100.0/24", "api.example.com", "*.example.org"]);
    assert.ok(await refusedAt(sandbox, NOWHERE));
  }, { network: { denyOut: [ALL_TRAFFIC],
                  allowOut: ["198.51.100.0/24", "api.example.com", "*.example.org"] } });
}, { since: "2.45.0" });
await check("Sandbox.create(network): names without denying all are refused", async () => {
  await assert.rejects(Sandbox.create({ network: { allowOut: ["api.example.com"] } }), /400/);
  await assert.rejects(Sandbox.create({ network: { denyOut: ["api.example.com"] } }), /400/);
}, { since: "2.45.0" });
await check("Sandbox.create(network): rules with headers, which are never told", async () => {
  await withSandbox(async (sandbox) => {
    const { network } = await sandbox.getInfo();
    assert.ok(network.rules["api.example.com"]);
    assert.ok(!JSON.stringify(network).includes("a-hidden-value"));
  }, { network: { denyOut: [ALL_TRAFFIC], allowOut: ["api.example.com"],
                  rules: { "api.example.com": [{ transform: {
                    headers: { Authorization: "Bearer a-hidden-value" } } }] } } });
}, { since: "2.45.0" });
await check("Sandbox.create(network): public traffic only with its token", async () => {
  await withSandbox(async (sandbox) => {
    assert.ok(sandbox.trafficAccessToken);
    assert.equal((await sandbox.getInfo()).network.allowPublicTraffic, false);
    assert.equal((await sandbox.commands.run("echo still")).stdout, "still\n");
  }, { network: { allowPublicTraffic: false } });
  await withSandbox(async (sandbox) => {
    assert.ok(!sandbox.trafficAccessToken);
  });
}, { since: "2.45.0" });
await check("Sandbox.create(network): maskRequestHost and httpsPorts are kept", async () => {
  await withSandbox(async (sandbox) => {
    const { network } = await sandbox.getInfo();
    assert.equal(network.maskRequestHost, "localhost:${PORT}");
    assert.deepEqual(network.httpsPorts, [8443]);
  }, { network: { maskRequestHost: "localhost:${PORT}", httpsPorts: [8443] } });
}, { since: "2.51.0" });
await check("Sandbox.updateNetwork(allowOut, denyOut, allowInternetAccess, rules): replaces, by " +
            "object and by id", async () => {
  await withSandbox(async (sandbox) => {
    await sandbox.updateNetwork({ denyOut: [ALL_TRAFFIC], allowOut: ["198.51.100.0/24"] });
    let { network } = await sandbox.getInfo();
    assert.deepEqual([network.allowOut, network.denyOut], [["198.51.100.0/24"], [ALL_TRAFFIC]]);
    await Sandbox.updateNetwork(sandbox.sandboxId, { allowInternetAccess: false });
    assert.ok(await refusedAt(sandbox, NOWHERE));
    await sandbox.updateNetwork({ denyOut: [ALL_TRAFFIC], allowOut: ["api.example.com"],
                                  rules: { "api.example.com": [{ transform: {
                                    headers: { "X-Injected": "1" } } }] } });
    ({ network } = await sandbox.getInfo());
    assert.ok(network.rules["api.example.com"]);
    await sandbox.updateNetwork({});
    ({ network } = await sandbox.getInfo());
    assert.ok(!network?.allowOut?.length && !network?.denyOut?.length);
    await assert.rejects(Sandbox.updateNetwork("i0123456789abcdefghij", {}), /not ?found|404/i);
  });
});
await check("Sandbox.create(network), Sandbox.updateNetwork(egressProxy): a proxy to go through, " +
            "whose password is never told", async () => {
  const egressProxy = { address: "203.0.113.7:1080", username: "me", password: "a-hidden-value" };
  const judge = async (sandbox) => {
    const { network } = await sandbox.getInfo();
    assert.equal(network.egressProxy.address, egressProxy.address);
    assert.ok(!JSON.stringify(network).includes("a-hidden-value"));
  };
  await withSandbox(judge, { network: { egressProxy } });
  await withSandbox(async (sandbox) => {
    await sandbox.updateNetwork({ egressProxy });
    await judge(sandbox);
  });
}, { since: "2.51.0" });
await check("Sandbox.create(iam): refused with the reason, for there is nobody to sign tokens",
    async () => {
  await assert.rejects(Sandbox.create({ iam: { tokens: {
    aws: { audience: "sts.amazonaws.com", tokenType: "JWT-SVID" } } } }), /iam|identity|token/i);
}, { since: "2.51.0" });
await check("Sandbox.getHost: a server in the sandbox, through the proxy's host name", async () => {
  await withSandbox(async (sandbox) => {
    const has = (await sandbox.commands.run("command -v python3 || true")).stdout;
    if (!has) {
      throw new NotApplicable("the template has no Python");
    }
    const server = await sandbox.commands.run("python3 -m http.server 3000 -d /etc",
                                              { background: true, timeoutMs: 0 });
    const url = new URL("/hostname", process.env.E2B_SANDBOX_URL);
    let answer;
    for (let turn = 0; turn < 50 && answer?.status !== 200; turn += 1) {
      answer = await get(url, sandbox.getHost(3000));
    }
    assert.equal(answer.status, 200);
    await server.kill();
  });
});

// fetch() does not let one choose the host.
async function get(url, host) {
  const http = await import("node:http");
  return new Promise((resolve, reject) => {
    http.get(url, { headers: { Host: host } }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve({ status: answer.statusCode }));
    }).on("error", reject);
  });
}
finish();
