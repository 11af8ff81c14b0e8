// Secrets: write-only values, their versions, and how they are used.
import assert from "node:assert/strict";
import * as e2b from "e2b";
import { check, finish, learn } from "./support.mjs";

// Older packages do not have the class; every check then says so.
const Secret = /** @type {typeof e2b.Secret} */ (e2b.Secret ?? class {});
const name = `conformance-${process.pid}-${Date.now()}`;

let made;
try {
  await check("Secret.create(metadata): what it tells, and what it does not", async () => {
    made = await Secret.create(name, "the value", { metadata: { owner: "me" } });
    assert.deepEqual([made.name, made.version, made.metadata], [name, 1, { owner: "me" }]);
    assert.ok(made.secretId && made.createdAt instanceof Date);
    assert.ok(!JSON.stringify(made).includes("the value"));
    await assert.rejects(Secret.create(name, "again"));
  });
  await check("Secret.getInfo: by id and by name", async () => {
    assert.equal((await Secret.getInfo(made.secretId)).name, name);
    assert.equal((await Secret.getInfo(name)).secretId, made.secretId);
    await assert.rejects(Secret.getInfo("no-such-secret"), { name: "SecretNotFoundError" });
  });
  await check("Secret.update(metadata): a new version", async () => {
    const updated = await Secret.update(name, "another", { metadata: { owner: "you" } });
    assert.deepEqual([updated.version, updated.metadata], [2, { owner: "you" }]);
    const kept = await Secret.update(made.secretId, "third");
    assert.deepEqual([kept.version, kept.metadata], [3, { owner: "you" }]);
  });
  await check("Secret.exists: yes and no", async () => {
    assert.equal(await Secret.exists(name), true);
    assert.equal(await Secret.exists("no-such-secret"), false);
  });
  await check("Secret.list(limit, nextToken), Paginator.nextItems: page by page", async () => {
    await Secret.create(`${name}-2`, "x");
    const paginator = learn("Paginator", Secret.list({ limit: 1 }));
    const found = [];
    let token;
    while (paginator.hasNext) {
      found.push(...await paginator.nextItems());
      token ??= paginator.nextToken;
    }
    assert.ok([name, `${name}-2`].every((each) => found.some((one) => one.name === each)));
    const [second] = await Secret.list({ limit: 1, nextToken: token }).nextItems();
    assert.equal(second.name, found[1].name);
  });
  await check("Secret.fill, Secret.iamToken(audience, tokenType): forms", async () => {
    assert.equal(Secret.fill("key"), "${e2b.secrets.key}");
    assert.equal(Secret.iamToken({ audience: "a", tokenType: "JWT-SVID" }).audience, "a");
  });
} finally {
  await check("Secret.destroy: true, then false", async () => {
    await Secret.destroy(`${name}-2`);
    assert.equal(await Secret.destroy(name), true);
    assert.equal(await Secret.destroy(name), false);
    assert.equal(await Secret.exists(name), false);
  });
}
finish();
