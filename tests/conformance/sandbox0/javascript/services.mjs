// Services: set, read, cleared, and called by their public address.
import assert from "node:assert/strict";
import { check, finish, withSandbox } from "./support.mjs";

await withSandbox(async (sandbox) => {
  await check("updateServices and getServices", async () => {
    const code = "def handler(request):\n    return {'body': 'hello ' + request['path']}\n";
    const answer = await sandbox.updateServices([
      {
        id: "hook",
        runtime: {
          type: "function",
          _function: { runtime: "python", handler: "handler", source: { type: "inline", code } },
        },
        ingress: { _public: true, routes: [{ id: "hook", pathPrefix: "/hook", resume: true }] },
      },
      { id: "web", port: 3000, ingress: { _public: false } },
    ]);
    assert.deepEqual(answer.services.map((each) => each.id), ["hook", "web"]);
    assert.equal(answer.services[0].publishable, true);
    assert.deepEqual(answer.services[1].publishBlockers, ["not_public", "missing_runtime"]);
    const listed = await sandbox.getServices();
    const called = await fetch(`${listed.services[0].publicUrl}/hook/x`);
    assert.equal(called.status, 200);
    assert.equal(await called.text(), "hello /hook/x");
  });
  await check("clearServices", async () => {
    assert.deepEqual((await sandbox.clearServices()).services, []);
  });
});
finish();
