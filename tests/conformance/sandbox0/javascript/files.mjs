// Files: write, read, stat, list, move, delete, directories, binary content, watching.
import assert from "node:assert/strict";
import { check, finish, withSandbox } from "./support.mjs";

await withSandbox(async (sandbox) => {
  const textOf = async (path) => Buffer.from(await sandbox.readFile(path)).toString();

  await check("text", async () => {
    assert.equal((await sandbox.writeFile("/workspace/a", "content")).success, true);
    assert.equal(await textOf("/workspace/a"), "content");
  });
  await check("bytes", async () => {
    const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7919) & 0xff);
    await sandbox.writeFile("/workspace/binary", bytes);
    assert.deepEqual(await sandbox.readFile("/workspace/binary"), bytes);
  });
  await check("nothing at all", async () => {
    await sandbox.writeFile("/workspace/empty", "");
    assert.equal((await sandbox.readFile("/workspace/empty")).length, 0);
  });
  await check("JSON is content, not an answer", async () => {
    await sandbox.writeFile("/workspace/data.json", '{"data":{"content":"x"}}');
    assert.equal(await textOf("/workspace/data.json"), '{"data":{"content":"x"}}');
  });
  await check("names with everything in them", async () => {
    const path = "/workspace/ä b+c%20&d?e#f/🙂";
    await sandbox.writeFile(path, "named");
    assert.equal(await textOf(path), "named");
    assert.equal((await sandbox.listFiles("/workspace/ä b+c%20&d?e#f"))[0].name, "🙂");
  });
  await check("relative paths are below /workspace", async () => {
    await sandbox.writeFile("relative/file", "here");
    assert.equal(await textOf("/workspace/relative/file"), "here");
  });
  await check("a write replaces", async () => {
    await sandbox.writeFile("/workspace/a", "longer than before");
    await sandbox.writeFile("/workspace/a", "short");
    assert.equal(await textOf("/workspace/a"), "short");
  });
  await check("stat of a file", async () => {
    const info = await sandbox.statFile("/workspace/a");
    assert.equal(info.name, "a");
    assert.equal(info.path, "/workspace/a");
    assert.equal(info.type, "file");
    assert.equal(info.size, 5);
    assert.equal(info.mode, "0644");
    assert.equal(info.isLink, false);
    assert.ok(Math.abs(info.modTime.getTime() - Date.now()) < 120_000);
  });
  await check("stat of a link", async () => {
    await sandbox.cmd("ln -s a /workspace/link");
    const info = await sandbox.statFile("/workspace/link");
    assert.equal(info.type, "symlink");
    assert.equal(info.isLink, true);
    assert.equal(info.linkTarget, "a");
  });
  await check("directories", async () => {
    assert.equal((await sandbox.mkdir("/workspace/dir")).success, true);
    await sandbox.mkdir("/workspace/deep/er/still", true);
    assert.equal((await sandbox.statFile("/workspace/deep/er/still")).type, "dir");
    await assert.rejects(sandbox.mkdir("/workspace/no/parents"), { statusCode: 404 });
  });
  await check("list", async () => {
    await sandbox.writeFile("/workspace/dir/x", "1");
    await sandbox.mkdir("/workspace/dir/y");
    const entries = (await sandbox.listFiles("/workspace/dir")).sort(
        (left, right) => left.name.localeCompare(right.name));
    assert.deepEqual(entries.map((each) => [each.name, each.type]), [["x", "file"], ["y", "dir"]]);
    assert.deepEqual(await sandbox.listFiles("/workspace/dir/y"), []);
  });
  await check("move", async () => {
    const moved = await sandbox.moveFile("/workspace/dir/x", "/workspace/new/place/x");
    assert.equal(moved.success, true);
    assert.equal(await textOf("/workspace/new/place/x"), "1");
    await assert.rejects(sandbox.statFile("/workspace/dir/x"), { statusCode: 404 });
    await sandbox.moveFile("/workspace/new", "/workspace/newer");
    assert.equal(await textOf("/workspace/newer/place/x"), "1");
  });
  await check("delete, also of trees and of nothing", async () => {
    assert.equal((await sandbox.deleteFile("/workspace/newer")).success, true);
    await assert.rejects(sandbox.statFile("/workspace/newer"), { statusCode: 404 });
    assert.equal((await sandbox.deleteFile("/workspace/newer")).success, true);
  });
  await check("eight megabytes both ways", async () => {
    const bytes = new Uint8Array(8 << 20).fill(0x5a);
    await sandbox.writeFile("/workspace/large", bytes);
    assert.equal(Buffer.compare(await sandbox.readFile("/workspace/large"), bytes), 0);
  });
});
finish();
