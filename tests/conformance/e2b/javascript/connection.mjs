// How a client says who it is and where the server is, and what it is told when that is wrong.
import assert from "node:assert/strict";
import http from "node:http";
import net from "node:net";
import { ApiClient, AuthenticationError, ConnectionConfig, Sandbox } from "e2b";
import * as e2b from "e2b";
import { API_URL, check, finish, NotApplicable, since, withSandbox } from "./support.mjs";

const key = process.env.E2B_API_KEY;

await check("Sandbox.create(apiKey): a wrong one", async () => {
  await assert.rejects(Sandbox.create({ apiKey: `e2b_${"0".repeat(40)}` }), AuthenticationError);
  await assert.rejects(Sandbox.getInfo("i0123456789abcdefghij", { apiKey: `e2b_${"0".repeat(40)}` }),
                       AuthenticationError);
  await assert.rejects(Sandbox.list({ apiKey: `e2b_${"0".repeat(40)}` }).nextItems(),
                       AuthenticationError);
});
await check("Sandbox.create(apiKey): none", async () => {
  delete process.env.E2B_API_KEY;
  try {
    await assert.rejects(Sandbox.create(), AuthenticationError);
  } finally {
    process.env.E2B_API_KEY = key;
  }
});
await check("Sandbox.create(apiKey, apiUrl, sandboxUrl, validateApiKey): said in the call", async () => {
  const saved = { ...process.env };
  for (const name of ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL"]) {
    delete process.env[name];
  }
  try {
    await withSandbox(async (sandbox) => {
      assert.equal((await sandbox.commands.run("echo here")).stdout, "here\n");
    }, { apiKey: key, apiUrl: API_URL, sandboxUrl: API_URL, validateApiKey: false });
  } finally {
    Object.assign(process.env, saved);
  }
});
await check("Sandbox.create(logger): hears of the requests", async () => {
  const heard = [];
  const say = (...words) => { heard.push(words); };
  try {
    await withSandbox(async () => {}, { logger: { debug: say, info: say, warn: say, error: say } });
  } catch (error) {
    if (/onResponse: must return new Response/.test(error.message)) {
      throw new NotApplicable("with a logger this version does not take its own client's answers");
    }
    throw error;
  }
  assert.ok(heard.length > 0);
});
await check("Sandbox.create(headers, apiHeaders): are no trouble", async () => {
  await withSandbox(async (sandbox) => {
    assert.equal(await sandbox.isRunning(), true);
  }, { headers: { "X-Mine": "1" }, ...(since("2.51.0") && { apiHeaders: { "X-Other": "2" } }) });
});
await check("Sandbox.create(requestTimeoutMs, signal): given up", async () => {
  const controller = new AbortController();
  controller.abort();
  await assert.rejects(Sandbox.create({ signal: controller.signal, requestTimeoutMs: 10_000 }));
}, { since: "2.45.0" });
await check("Sandbox.create(retries): 429 with a time is tried again", async () => {
  // A server of ours in front, which refuses the first request.
  let refused = 0;
  const front = http.createServer((request, answer) => {
    if (refused === 0) {
      refused += 1;
      answer.writeHead(429, { "Retry-After": "0", "Content-Type": "application/json" });
      answer.end('{"code":429,"message":"busy"}');
      return;
    }
    const onward = http.request(new URL(request.url, API_URL),
        { method: request.method, headers: request.headers }, (back) => {
          answer.writeHead(back.statusCode, back.headers);
          back.pipe(answer);
        });
    request.pipe(onward);
  });
  await new Promise((resolve) => front.listen(0, "127.0.0.1", resolve));
  try {
    await withSandbox(async (sandbox) => {
      assert.equal(refused, 1);
      assert.equal(await sandbox.isRunning(), true);
    }, { apiUrl: `http://127.0.0.1:${front.address().port}`, retries: 2 });
  } finally {
    front.close();
  }
}, { since: "2.51.0" });
await check("Sandbox.create(proxy): through one", async () => {
  let tunnels = 0;
  const proxy = http.createServer();
  proxy.on("connect", (request, client, head) => {
    tunnels += 1;
    const [host, port] = request.url.split(":");
    const server = net.connect(Number(port), host, () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      server.write(head);
      server.pipe(client).pipe(server);
    });
    server.on("error", () => client.destroy());
    client.on("error", () => server.destroy());
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  try {
    await withSandbox(async (sandbox) => {
      assert.equal((await sandbox.commands.run("echo around")).stdout, "around\n");
      assert.ok(tunnels > 0);
    }, { proxy: `http://127.0.0.1:${proxy.address().port}` });
  } finally {
    proxy.close();
  }
}, { since: "2.45.0" });
await check("Sandbox.create(domain): is where getHost is", async () => {
  await withSandbox(async (sandbox) => {
    assert.match(sandbox.getHost(80), new RegExp(`^80-${sandbox.sandboxId}\\.`));
  }, { domain: "sandboxes.example" });
});
await check("E2B.constructor: a client with its own settings", async () => {
  const client = new e2b.E2B({ apiKey: key, apiUrl: API_URL, sandboxUrl: API_URL });
  const sandbox = await client.Sandbox.create({ timeoutMs: 60_000 });
  try {
    assert.equal((await sandbox.commands.run("echo mine")).stdout, "mine\n");
    assert.equal((await client.Sandbox.getInfo(sandbox.sandboxId)).sandboxId, sandbox.sandboxId);
  } finally {
    await sandbox.kill();
  }
  const wrong = new e2b.E2B({ apiKey: `e2b_${"1".repeat(40)}`, apiUrl: API_URL });
  await assert.rejects(wrong.Sandbox.create(), AuthenticationError);
});
await check("ConnectionConfig.getHost, ConnectionConfig.getSandboxUrl, " +
            "ConnectionConfig.getSandboxDirectUrl, ConnectionConfig.getSignal: local rules", async () => {
  const config = new ConnectionConfig();
  assert.equal(config.getHost("i1", 80, "d.example"), "80-i1.d.example");
  assert.equal(config.getSandboxUrl("i1", { sandboxDomain: "d.example", envdPort: 49983 }), API_URL);
  assert.equal(config.getSandboxDirectUrl("i1", { sandboxDomain: "d.example", envdPort: 49983 }),
               API_URL);
  assert.ok(config.getSignal(1000));
}, { since: "2.45.0" });
await check("ApiClient.constructor: the raw paths", async () => {
  const client = new ApiClient(new ConnectionConfig());
  // @ts-expect-error: not in its list of paths
  const health = await client.api.GET("/health", {});
  assert.equal(health.response.status, 204);
  const listed = await client.api.GET("/v2/sandboxes", { params: { query: { limit: 1 } } });
  assert.equal(listed.response.status, 200);
  const missing = await client.api.GET("/sandboxes/{sandboxID}",
                                       { params: { path: { sandboxID: "i0123456789abcdefghij" } } });
  assert.equal(missing.response.status, 404);
  assert.equal(missing.error.code, 404);
});
finish();
