// Signed addresses of files, used without the SDK; and what needs a token.
import assert from "node:assert/strict";
import { getSignature } from "e2b";
import { check, finish, withSandbox } from "./support.mjs";

const form = (name, content) => {
  const body = new FormData();
  body.append("file", new Blob([content]), name);
  return { method: "POST", body };
};

await withSandbox(async (sandbox) => {
  const { files } = sandbox;
  await check("Sandbox.downloadUrl: by anybody who has it", async () => {
    await files.write("/home/user/for you.txt", "signed ä");
    const url = await sandbox.downloadUrl("/home/user/for you.txt");
    assert.match(url, /signature=v1_/);
    const answer = await fetch(url);
    assert.equal(answer.status, 200);
    assert.equal(await answer.text(), "signed ä");
  });
  await check("Sandbox.downloadUrl(user): a relative path", async () => {
    const answer = await fetch(await sandbox.downloadUrl("for you.txt", { user: "user" }));
    assert.equal(await answer.text(), "signed ä");
    await files.write("secret", "root's", { user: "root" });
    assert.equal(await (await fetch(await sandbox.downloadUrl("secret", { user: "root" }))).text(),
                 "root's");
  });
  await check("Sandbox.downloadUrl(useSignatureExpiration): while it is time", async () => {
    const answer = await fetch(await sandbox.downloadUrl("/home/user/for you.txt",
                                                         { useSignatureExpiration: 60 }));
    assert.equal(answer.status, 200);
    await answer.text();
  });
  await check("Sandbox.downloadUrl(useSignatureExpiration): too late", async () => {
    const answer = await fetch(await sandbox.downloadUrl("/home/user/for you.txt",
                                                         { useSignatureExpiration: -10 }));
    assert.equal(answer.status, 401);
    assert.match((await answer.json()).message, /signature is already expired/);
  });
  await check("Sandbox.downloadUrl: with a range, and in a browser", async () => {
    const url = await sandbox.downloadUrl("/home/user/for you.txt");
    const part = await fetch(url, { headers: { Range: "bytes=1-3" } });
    assert.equal(part.status, 206);
    assert.equal(await part.text(), "ign");
    const asked = await fetch(url, { headers: { Origin: "https://elsewhere.example" } });
    assert.ok(["*", "https://elsewhere.example"].includes(
        asked.headers.get("access-control-allow-origin")));
    assert.match(asked.headers.get("content-disposition") ?? "", /inline/);
    await asked.text();
  });
  await check("Sandbox.downloadUrl: changed by a letter", async () => {
    const url = new URL(await sandbox.downloadUrl("/home/user/for you.txt"));
    for (const [key, value] of [["path", "/etc/passwd"], ["signature", "v1_x"],
                                ["username", "root"]]) {
      const other = new URL(url);
      other.searchParams.set(key, value);
      const answer = await fetch(other);
      assert.equal(answer.status, 401, `${key}: ${answer.status}`);
      await answer.text();
    }
    const bare = new URL(url);
    bare.searchParams.delete("signature");
    assert.ok([400, 401, 404].includes((await fetch(bare)).status));
  });
  await check("Sandbox.downloadUrl: is not for writing", async () => {
    const answer = await fetch(await sandbox.downloadUrl("/home/user/for you.txt"), form("x", "x"));
    assert.equal(answer.status, 401);
    assert.equal(await files.read("/home/user/for you.txt"), "signed ä");
  });
  await check("Sandbox.uploadUrl: a form, where it says", async () => {
    const answer = await fetch(await sandbox.uploadUrl("/home/user/up/loaded.txt"),
                               form("other-name", "content"));
    assert.equal(answer.status, 200);
    const [info] = await answer.json();
    assert.equal(info.path, "/home/user/up/loaded.txt");
    assert.equal(await files.read("up/loaded.txt"), "content");
  });
  await check("Sandbox.uploadUrl: without a path the file's own name is it", async () => {
    const answer = await fetch(await sandbox.uploadUrl(), form("named.txt", "by itself"));
    assert.equal(answer.status, 200);
    assert.equal(await files.read("/home/user/named.txt"), "by itself");
  });
  await check("Sandbox.uploadUrl(user, useSignatureExpiration): whose it is", async () => {
    const url = await sandbox.uploadUrl("uploaded", { user: "root", useSignatureExpiration: 60 });
    assert.equal((await fetch(url, form("x", "x"))).status, 200);
    assert.equal((await sandbox.commands.run("stat -c %U /root/uploaded", { user: "root" })).stdout,
                 "root\n");
    const late = await sandbox.uploadUrl("late", { useSignatureExpiration: -10 });
    assert.equal((await fetch(late, form("x", "x"))).status, 401);
    assert.equal(await files.exists("late"), false);
  });
  await check("getSignature: the same as in the address", async () => {
    const url = new URL(await sandbox.downloadUrl("/home/user/for you.txt", { user: "user" }));
    const { signature } = await getSignature({ path: "/home/user/for you.txt", operation: "read",
      user: "user", envdAccessToken: sandbox.envdAccessToken });
    assert.equal(url.searchParams.get("signature"), signature);
  });
});
finish();
