// Volumes: made, listed, forked, restored, mounted; their files, archives and watches.
import assert from "node:assert/strict";
import { check, client, finish, withSandbox } from "./support.mjs";

const volumes = client.volumes;

// A tar of one file, by hand: the SDK takes the archive as it is.
function tarOf(name, text) {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write("0000644\0", 100);
  header.write("0000000\0", 108);
  header.write("0000000\0", 116);
  header.write(text.length.toString(8).padStart(11, "0") + "\0", 124);
  header.write("00000000000\0", 136);
  header.write("        0", 148);
  header.write("ustar\0" + "00", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(sum.toString(8).padStart(6, "0") + "\0 ", 148);
  const content = Buffer.alloc(Math.ceil(text.length / 512) * 512);
  content.write(text);
  return Buffer.concat([header, content, Buffer.alloc(1024)]);
}

const volume = await volumes.create({ accessMode: "RWX", defaultPosixUid: 1000 });
const textOf = async (path, id = volume.id) =>
  Buffer.from(await volumes.readFile(id, path)).toString();
try {
  await check("create, get and list", async () => {
    assert.equal(volume.accessMode, "RWX");
    assert.equal(volume.defaultPosixUid, 1000);
    assert.equal(volume.backend, "s0fs");
    assert.ok(Math.abs(volume.createdAt.getTime() - Date.now()) < 120_000);
    const found = await volumes.get(volume.id);
    assert.equal(found.id, volume.id);
    assert.equal(typeof found.meteredStorageBytes, "number");
    assert.ok((await volumes.list()).some((each) => each.id === volume.id));
    await assert.rejects(volumes.get("vol-none"), { statusCode: 404 });
  });
  await check("files", async () => {
    assert.equal((await volumes.writeFile(volume.id, "/a/file", "content")).success, true);
    assert.equal(await textOf("/a/file"), "content");
    const info = await volumes.statFile(volume.id, "/a/file");
    assert.equal(info.type, "file");
    assert.equal(info.size, 7);
    assert.equal((await volumes.mkdir(volume.id, "/b/c", true)).success, true);
    assert.equal((await volumes.moveFile(volume.id, "/a/file", "/b/c/file")).success, true);
    assert.deepEqual((await volumes.listFiles(volume.id, "/b/c")).map((each) => each.name),
                     ["file"]);
    assert.equal((await volumes.deleteFile(volume.id, "/b")).success, true);
    await assert.rejects(volumes.statFile(volume.id, "/b"), { statusCode: 404 });
  });
  await check("bytes", async () => {
    const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7919) & 0xff);
    await volumes.writeFile(volume.id, "/binary", bytes);
    assert.deepEqual(await volumes.readFile(volume.id, "/binary"), bytes);
  });
  await check("an archive", async () => {
    const counts = await volumes.importArchive(volume.id, "/in", tarOf("packed.txt", "packed"));
    assert.equal(counts.files, 1);
    assert.equal(counts.bytes, 6);
    assert.equal(await textOf("/in/packed.txt"), "packed");
  });
  await check("a watch", async () => {
    const stream = await volumes.watchFiles(volume.id, "/watched", true);
    await volumes.writeFile(volume.id, "/watched/new", "x");
    const events = stream.readable.getReader();
    for (let path = ""; path !== "/watched/new";) {
      const { done, value } = await events.read();
      assert.ok(!done);
      path = value.path;
    }
    stream.close();
  });
  await check("snapshots and restore", async () => {
    await volumes.writeFile(volume.id, "/state", "old");
    const snapshot = await volumes.createSnapshot(volume.id, { name: "moment" });
    assert.equal(snapshot.volumeId, volume.id);
    await volumes.writeFile(volume.id, "/state", "new");
    assert.equal((await volumes.restoreSnapshot(volume.id, snapshot.id)).data.status, "restored");
    assert.equal(await textOf("/state"), "old");
    assert.equal((await volumes.listSnapshots(volume.id)).length, 1);
    assert.equal((await volumes.getSnapshot(volume.id, snapshot.id)).name, "moment");
    const begun = await volumes.create({ snapshotId: snapshot.id });
    assert.equal(await textOf("/state", begun.id), "old");
    await volumes.delete(begun.id);
    assert.equal((await volumes.deleteSnapshot(volume.id, snapshot.id)).success, true);
    assert.equal((await volumes.deleteSnapshot(volume.id, snapshot.id)).success, true);
    await assert.rejects(volumes.createSnapshot(volume.id, { name: "" }), { statusCode: 400 });
  });
  await check("fork", async () => {
    const fork = await volumes.fork(volume.id, { accessMode: "ROX" });
    assert.equal(fork.sourceVolumeId, volume.id);
    assert.equal(fork.accessMode, "ROX");
    assert.equal(await textOf("/state", fork.id), "old");
    await volumes.delete(fork.id);
    const plain = await volumes.fork(volume.id);
    await volumes.delete(plain.id);
  });
  await check("mounted in sandboxes, live", async () => {
    const options = { config: { hardTtl: 600 }, mounts: [
      { sandboxvolumeId: volume.id, mountPoint: "/workspace/bootstrap-data" }] };
    await withSandbox(async (one) => {
      assert.deepEqual(one.bootstrapMounts.map((each) => [each.sandboxvolumeId, each.state]),
                       [[volume.id, "mounted"]]);
      await withSandbox(async (other) => {
        await one.cmd("sh -c 'echo -n shared > /workspace/bootstrap-data/live'");
        const heard = await other.cmd("cat /workspace/bootstrap-data/live");
        assert.equal(heard.outputRaw, "shared");
        assert.equal(await textOf("/live"), "shared");
        await assert.rejects(volumes.delete(volume.id), { statusCode: 409 });
      }, options);
    }, options);
  });
  await check("open and close", async () => {
    const session = await volumes.open({});
    assert.equal((await volumes.get(session.volume.id)).accessMode, "RWO");
    await session.close();
    await assert.rejects(volumes.get(session.volume.id), { statusCode: 404 });
  });
} finally {
  await check("delete, also twice", async () => {
    assert.equal((await volumes.delete(volume.id, { force: true })).success, true);
    assert.equal((await volumes.delete(volume.id)).success, true);
  });
}
finish();
