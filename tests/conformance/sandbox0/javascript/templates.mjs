// Templates: list, get, create from an image, use, update, delete.
import assert from "node:assert/strict";
import * as sandbox0 from "sandbox0";
import { check, client, finish } from "./support.mjs";

const { templates } = client;
const image = process.env.SANDBOX0_IMAGE;
const name = "conformance-javascript";
const specification = (init) => sandbox0.templateSpec(
    sandbox0.container(image, sandbox0.resources("512Mi"),
                       { env: [{ name: "LIST", value: "from the list" }] }), init);

await check("list and get of the builtin one", async () => {
  assert.ok((await templates.list()).some((each) => each.templateId === "default"));
  const found = await templates.get("default");
  assert.equal(found.scope, "public");
  assert.ok(found.spec.mainContainer.image && found.createdAt instanceof Date);
});
try {
  await check("create and wait", async () => {
    const request = sandbox0.templateCreateRequest(name, specification({
      description: "made by a test", displayName: "Conformance", tags: ["a", "b"],
      envVars: { WORD: "from the template" },
    }));
    const made = await templates.create(request);
    assert.equal(made.templateId, name);
    assert.equal(made.scope, "team");
    const ready = await templates.waitUntilReady(name, { timeoutMs: 60_000, pollIntervalMs: 50 });
    assert.equal(ready.spec.description, "made by a test");
    assert.deepEqual(ready.spec.tags, ["a", "b"]);
    assert.equal(ready.spec.mainContainer.image, image);
    assert.equal(ready.spec.mainContainer.resources.memory, "512Mi");
  });
  await check("a sandbox of it", async () => {
    const sandbox = await client.sandboxes.claim(name, { hardTtl: 600 });
    try {
      const result = await sandbox.cmd("sh -c 'echo $WORD, $LIST, $FROM_IMAGE'");
      assert.equal(result.stdout, "from the template, from the list, yes\n");
      assert.equal((await client.sandboxes.get(sandbox.id)).resources.memory, "512Mi");
      assert.equal((await templates.get(name)).status.activeCount, 1);
    } finally {
      await client.sandboxes.delete(sandbox.id);
    }
  });
  await check("a second one of that name is refused", async () => {
    const request = sandbox0.templateCreateRequest(name, specification());
    await assert.rejects(templates.create(request), { statusCode: 409, code: "conflict" });
  });
  await check("update", async () => {
    const spec = specification({ description: "changed", envVars: { WORD: "changed" } });
    const changed = await templates.update(name, sandbox0.templateUpdateRequest(spec));
    assert.equal(changed.spec.description, "changed");
    assert.equal((await templates.get(name)).spec.envVars.WORD, "changed");
  });
} finally {
  await check("delete", async () => {
    assert.match((await templates.delete(name)).data.message, /deleted/);
    await assert.rejects(templates.get(name), { statusCode: 404 });
  });
}
await check("an image that cannot be fetched is a typed failure", async () => {
  const broken = `${name}-broken`;
  const spec = sandbox0.templateSpec(
      sandbox0.container(`${image}-missing`, sandbox0.resources("512Mi")));
  await templates.create(sandbox0.templateCreateRequest(broken, spec));
  try {
    await assert.rejects(templates.waitUntilReady(broken, { timeoutMs: 60_000 }),
                         sandbox0.TemplateCreationFailedError);
  } finally {
    await templates.delete(broken);
  }
});
finish();
