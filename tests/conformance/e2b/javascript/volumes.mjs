// Volumes: made, listed, destroyed; their content through the API and in sandboxes.
import assert from "node:assert/strict";
import * as e2b from "e2b";
import { check, finish, NotApplicable, withSandbox } from "./support.mjs";

// Older packages do not have the class; every check then says so.
const Volume = /** @type {typeof e2b.Volume} */ (e2b.Volume ?? class {});
const name = `conformance-${process.pid}-${Date.now()}`;
const bytes = Uint8Array.from({ length: 100_000 }, (_, index) => (index * 7919) & 0xff);
const collected = async (stream) => {
  const pieces = [];
  for await (const piece of stream) {
    pieces.push(Buffer.from(piece));
  }
  return Buffer.concat(pieces);
};

let volume;
try {
  await check("Volume.create: a name, and no second of it", async () => {
    volume = await Volume.create(name);
    assert.equal(volume.name, name);
    assert.ok(volume.volumeId && volume.token);
    await assert.rejects(Volume.create(name));
    await assert.rejects(Volume.create("no such/name"));
  });
  await check("Volume.connect, Volume.getInfo: by id", async () => {
    const again = await Volume.connect(volume.volumeId);
    assert.deepEqual([again.name, again.volumeId], [name, volume.volumeId]);
    const info = await Volume.getInfo(volume.volumeId);
    assert.deepEqual([info.name, info.volumeId], [name, volume.volumeId]);
    await assert.rejects(Volume.getInfo("no-such-volume"), { name: /NotFoundError$/ });
    await assert.rejects(Volume.connect("no-such-volume"), { name: /NotFoundError$/ });
  });
  await check("Volume.list: it is there", async () => {
    assert.ok((await Volume.list()).some((each) => each.volumeId === volume.volumeId));
  });
  await check("Volume.writeFile(uid, gid, mode, force), Volume.readFile(format, " +
            "streamIdleTimeoutMs): all kinds both ways",
      async () => {
    const written = await volume.writeFile("/text", "wörds", { uid: 1000, gid: 1000, mode: 0o640 });
    assert.deepEqual([written.name, written.path, written.type, written.size, written.uid,
                      written.gid, written.mode & 0o777],
                     ["text", "/text", "file", 6, 1000, 1000, 0o640]);
    assert.equal(await volume.readFile("/text"), "wörds");
    await volume.writeFile("/bytes", bytes.buffer);
    assert.equal(Buffer.compare(Buffer.from(await volume.readFile("/bytes", { format: "bytes" })),
                                Buffer.from(bytes)), 0);
    await volume.writeFile("/blob", new Blob(["blob"]));
    assert.equal(await (await volume.readFile("/blob", { format: "blob" })).text(), "blob");
    await volume.writeFile("/stream", new ReadableStream({ start(controller) {
      controller.enqueue(bytes.slice(0, 5000));
      controller.enqueue(bytes.slice(5000));
      controller.close();
    } }));
    const stream = await volume.readFile("/stream", { format: "stream", streamIdleTimeoutMs: 30_000 });
    assert.equal(Buffer.compare(await collected(stream), Buffer.from(bytes)), 0);
    await volume.writeFile("/text", "new", { force: true });
    assert.equal(await volume.readFile("/text"), "new");
    await volume.writeFile("/empty", "");
    assert.equal(await volume.readFile("/empty"), "");
  });
  await check("Volume.readFile: what is not there", async () => {
    await assert.rejects(volume.readFile("/none"), { name: /NotFoundError$/ });
  });
  await check("Volume.makeDir(uid, gid, mode, force): with and without parents", async () => {
    const made = await volume.makeDir("/dir", { uid: 1000, gid: 1000, mode: 0o750 });
    assert.deepEqual([made.name, made.type, made.mode & 0o777, made.uid],
                     ["dir", "directory", 0o750, 1000]);
    await assert.rejects(volume.makeDir("/a/b/c"));
    await volume.makeDir("/a/b/c", { force: true });
    assert.equal((await volume.getInfo("/a/b/c")).type, "directory");
  });
  await check("Volume.list(depth): what is in it", async () => {
    await volume.writeFile("/dir/file", "1");
    const top = (await volume.list("/")).map((each) => each.name).sort();
    assert.deepEqual(top, ["a", "blob", "bytes", "dir", "empty", "stream", "text"]);
    const deeper = (await volume.list("/", { depth: 2 })).map((each) => each.path).sort();
    assert.ok(deeper.includes("/dir/file") && deeper.includes("/a/b"), `${deeper}`);
    assert.ok(!deeper.includes("/a/b/c"));
    await assert.rejects(volume.list("/none"));
  });
  await check("Volume.getInfo, Volume.exists: of a path", async () => {
    const info = await volume.getInfo("/dir/file");
    assert.deepEqual([info.name, info.path, info.size, info.type], ["file", "/dir/file", 1, "file"]);
    assert.ok(Math.abs(info.mtime.getTime() - Date.now()) < 120_000);
    assert.equal(await volume.exists("/dir/file"), true);
    assert.equal(await volume.exists("/dir/none"), false);
  });
  await check("Volume.updateMetadata(uid, gid, mode): of a path", async () => {
    const changed = await volume.updateMetadata("/dir/file", { uid: 1000, gid: 100, mode: 0o600 });
    assert.deepEqual([changed.uid, changed.gid, changed.mode & 0o777], [1000, 100, 0o600]);
    await assert.rejects(volume.updateMetadata("/none", { mode: 0o600 }));
  });
  await check("Sandbox.create(volumeMounts): the same files there", async () => {
    if (volume === undefined) {
      throw new NotApplicable("this version has no volumes");
    }
    await withSandbox(async (sandbox) => {
      assert.equal((await sandbox.commands.run("cat /data/dir/file", { user: "root" })).stdout, "1");
      await sandbox.commands.run("echo inside >/data/from-sandbox && sync", { user: "root" });
      const { volumeMounts } = await sandbox.getInfo();
      assert.deepEqual(volumeMounts, [{ name, path: "/data" }]);
    }, { volumeMounts: { "/data": volume } });
    assert.equal(await volume.readFile("/from-sandbox"), "inside\n");
    await withSandbox(async (sandbox) => {
      assert.equal((await sandbox.commands.run("cat /by-name/from-sandbox",
                                               { user: "root" })).stdout, "inside\n");
    }, { volumeMounts: { "/by-name": name } });
  }, { since: "2.45.0" });
  await check("Volume.remove(token): files and trees", async () => {
    await volume.remove("/a");
    assert.equal(await volume.exists("/a"), false);
    await volume.remove("/text", { token: volume.token });
    assert.equal(await volume.exists("/text"), false);
  });
  await check("Volume.readFile(token): a wrong one, or another's", async () => {
    await assert.rejects(volume.readFile("/bytes", { token: "wrong" }));
  });
} finally {
  await check("Volume.destroy: true, then false", async () => {
    assert.equal(await Volume.destroy(volume.volumeId), true);
    assert.equal(await Volume.destroy(volume.volumeId), false);
    assert.ok(!(await Volume.list()).some((each) => each.volumeId === volume.volumeId));
  });
}
// What every method of a volume takes.
await check("Volume.list(token, signal, requestTimeoutMs), Volume.getInfo(token), " +
            "Volume.exists(token), Volume.makeDir(token), Volume.writeFile(token), " +
            "Volume.updateMetadata(token), Volume.remove(token): the volume's own token", async () => {
  const made = await Volume.create(`${name}-token`);
  try {
    const options = { token: made.token, requestTimeoutMs: 20_000 };
    const controller = new AbortController();
    controller.abort();
    await made.makeDir("/d", options);
    await made.writeFile("/d/f", "1", options);
    await made.updateMetadata("/d/f", { mode: 0o644 }, options);
    assert.equal(await made.exists("/d/f", options), true);
    assert.equal((await made.getInfo("/d/f", options)).size, 1);
    assert.equal((await made.list("/d", options)).length, 1);
    await made.remove("/d", options);
    await assert.rejects(made.list("/", { ...options, signal: controller.signal }));
  } finally {
    await Volume.destroy(made.volumeId);
  }
}, { since: "2.45.0" });
finish();
