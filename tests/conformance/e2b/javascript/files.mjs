// Files: every format both ways, information, directories, who owns what.
import assert from "node:assert/strict";
import { FileType, InvalidArgumentError, NotFoundError } from "e2b";
import { check, finish, withSandbox } from "./support.mjs";

const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7919 + (index >> 8)) & 0xff);
const same = (left, right) => assert.equal(Buffer.compare(Buffer.from(left), Buffer.from(right)), 0);
const streamOf = (...pieces) => new ReadableStream({
  start(controller) {
    pieces.forEach((piece) => controller.enqueue(piece));
    controller.close();
  },
});
const collected = async (stream) => {
  const pieces = [];
  for await (const piece of stream) {
    pieces.push(Buffer.from(piece));
  }
  return Buffer.concat(pieces);
};

await withSandbox(async (sandbox) => {
  const { files } = sandbox;
  const out = async (command, options) => (await sandbox.commands.run(command, options)).stdout.trim();

  await check("Filesystem.write: a string, and what it answers", async () => {
    const info = await files.write("/home/user/text.txt", "wörds\n");
    assert.deepEqual([info.name, info.type, info.path],
                     ["text.txt", FileType.FILE, "/home/user/text.txt"]);
    assert.equal(await out("cat text.txt; stat -c '%U:%G %a' text.txt"), "wörds\nuser:user 644");
  });
  await check("Filesystem.write: ArrayBuffer", async () => {
    await files.write("buffer.bin", bytes.buffer);
    same(await files.read("buffer.bin", { format: "bytes" }), bytes);
  });
  await check("Filesystem.write: Blob", async () => {
    await files.write("blob.bin", new Blob([bytes, "tail"]));
    same(await files.read("blob.bin", { format: "bytes" }), Buffer.concat([bytes, Buffer.from("tail")]));
  });
  await check("Filesystem.write: ReadableStream", async () => {
    await files.write("stream.bin", streamOf(bytes.slice(0, 1000), bytes.slice(1000)));
    same(await files.read("stream.bin", { format: "bytes" }), bytes);
  });
  await check("Filesystem.write(useOctetStream): the bytes as they are", async () => {
    await files.write("octets.bin", new Blob([bytes]), { useOctetStream: true });
    same(await files.read("octets.bin", { format: "bytes" }), bytes);
  });
  await check("Filesystem.write(useOctetStream): not, with a stream", async () => {
    await files.write("form.bin", streamOf(bytes), { useOctetStream: false });
    same(await files.read("form.bin", { format: "bytes" }), bytes);
  });
  await check("Filesystem.write(gzip): compressed on the way, not at rest", async () => {
    await files.write("gzip.txt", "a line\n".repeat(50_000), { gzip: true });
    assert.equal(await out("stat -c %s gzip.txt; tail -n 1 gzip.txt"), "350000\na line");
  });
  await check("Filesystem.write: nothing at all", async () => {
    await files.write("empty", "");
    assert.equal(await files.read("empty"), "");
    assert.equal((await files.read("empty", { format: "bytes" })).length, 0);
    assert.equal((await files.getInfo("empty")).size, 0);
  });
  await check("Filesystem.write: replaces what was longer", async () => {
    await files.write("replaced", "a long content");
    await files.write("replaced", "short");
    assert.equal(await files.read("replaced"), "short");
  });
  await check("Filesystem.write: makes the directories on the way", async () => {
    await files.write("/home/user/new/deep/er/file", "x");
    assert.equal(await out("stat -c '%U %a' new new/deep/er"), "user 755\nuser 755");
  });
  await check("Filesystem.write: several files at once", async () => {
    const infos = await files.write([
      { path: "many/a.txt", data: "A" },
      { path: "/home/user/many/b.bin", data: bytes.buffer },
      { path: "many/c.txt", data: new Blob(["C"]) },
    ]);
    assert.deepEqual(infos.map((each) => each.path), ["/home/user/many/a.txt",
                     "/home/user/many/b.bin", "/home/user/many/c.txt"]);
    assert.equal(await files.read("many/a.txt"), "A");
    same(await files.read("many/b.bin", { format: "bytes" }), bytes);
    assert.equal(await files.read("many/c.txt"), "C");
    assert.deepEqual(await files.write([]), []);
  });
  await check("Filesystem.writeFiles(user, metadata, gzip, useOctetStream): the other name of it",
      async () => {
    const infos = await files.writeFiles([{ path: "wf/1", data: "1" }, { path: "wf/2", data: "2" }],
        { user: "root", metadata: { kind: "numbers" }, gzip: true, useOctetStream: true });
    assert.equal(infos.length, 2);
    assert.equal(await out("cat /root/wf/1 /root/wf/2; stat -c %U /root/wf/1", { user: "root" }),
                 "12root");
    assert.deepEqual((await files.getInfo("/root/wf/1", { user: "root" })).metadata,
                     { kind: "numbers" });
  }, { since: "2.45.0" });
  await check("Filesystem.writeFiles: in old versions", async () => {
    await files.writeFiles([{ path: "wf/1", data: "1" }, { path: "wf/2", data: "2" }]);
    assert.equal(await out("cat wf/1 wf/2"), "12");
  });
  await check("Filesystem.write(user): whose home, and whose file", async () => {
    await files.write("of-root", "r", { user: "root" });
    assert.equal(await out("stat -c %U /root/of-root", { user: "root" }), "root");
    await assert.rejects(files.write("x", "x", { user: "nobody-knows-me" }));
  });
  await check("Filesystem.write(metadata): kept with the file, replaced as a whole", async () => {
    const written = await files.write("marked", "m", { metadata: { Author: "me", step: "1" } });
    assert.deepEqual(written.metadata, { author: "me", step: "1" });
    assert.deepEqual((await files.getInfo("marked")).metadata, { author: "me", step: "1" });
    const listed = (await files.list("/home/user")).find((each) => each.name === "marked");
    assert.deepEqual(listed.metadata, { author: "me", step: "1" });
    await files.write("marked", "m", { metadata: { other: "2" }, useOctetStream: true });
    assert.deepEqual((await files.getInfo("marked")).metadata, { other: "2" });
    const moved = await files.rename("marked", "marked2");
    assert.deepEqual(moved.metadata, { other: "2" });
  }, { since: "2.45.0" });
  await check("Filesystem.write(metadata): what cannot be is refused", async () => {
    await assert.rejects(files.write("bad", "x", { metadata: { "a b": "x" } }), InvalidArgumentError);
    await assert.rejects(files.write("bad", "x", { metadata: { a: "ü" } }), InvalidArgumentError);
  }, { since: "2.45.0" });
  await check("Filesystem.write(requestTimeoutMs, signal): an abort leaves no upload", async () => {
    const controller = new AbortController();
    controller.abort();
    await assert.rejects(files.write("aborted", "x",
        { signal: controller.signal, requestTimeoutMs: 10_000 }));
    assert.equal(await files.exists("aborted"), false);
  }, { since: "2.45.0" });
  await check("Filesystem.write: onto a directory is refused", async () => {
    await assert.rejects(files.write("/home/user/many", "x"), /directory|400|invalid/i);
  });
  await check("Filesystem.write, Filesystem.read: names with everything in them", async () => {
    const path = "/home/user/ä b+c%20&d?e#f='\"/🙂.txt";
    await files.write(path, "named");
    assert.equal(await files.read(path), "named");
    assert.equal((await files.list("/home/user/ä b+c%20&d?e#f='\""))[0].name, "🙂.txt");
    await files.write([{ path: "/home/user/ä b/x \"q\".txt", data: "1" },
                       { path: "/home/user/ä b/y%41.txt", data: "2" }]);
    assert.equal(await files.read("/home/user/ä b/x \"q\".txt"), "1");
    assert.equal(await files.read("/home/user/ä b/y%41.txt"), "2");
  });
  await check("Filesystem.read(format): text, bytes, blob, stream", async () => {
    await files.write("formats", bytes.buffer);
    same(await files.read("formats", { format: "bytes" }), bytes);
    same(await (await files.read("formats", { format: "blob" })).arrayBuffer(), bytes);
    same(await collected(await files.read("formats", { format: "stream" })), bytes);
    await files.write("formats", "text ä");
    assert.equal(await files.read("formats", { format: "text" }), "text ä");
    assert.equal(await files.read("formats"), "text ä");
  });
  await check("Filesystem.read(gzip, streamIdleTimeoutMs): the same bytes", async () => {
    await files.write("compressible", "again and again\n".repeat(20_000));
    const text = await files.read("compressible", { gzip: true });
    assert.equal(text.length, 320_000);
    const stream = await files.read("compressible",
        { gzip: true, format: "stream", streamIdleTimeoutMs: 30_000 });
    assert.equal((await collected(stream)).length, 320_000);
  });
  await check("Filesystem.read(user): relative to whose home", async () => {
    await files.write("/root/mine", "root's", { user: "root" });
    assert.equal(await files.read("mine", { user: "root" }), "root's");
  });
  await check("Filesystem.read: ~ and relative paths", async () => {
    await files.write("~/tilde", "home");
    assert.equal(await files.read("/home/user/tilde"), "home");
    assert.equal(await files.read("./tilde"), "home");
  });
  await check("Filesystem.read: what is not there", async () => {
    await assert.rejects(files.read("/no/such/file"), (error) => error instanceof NotFoundError);
  });
  await check("Filesystem.read: a directory", async () => {
    await assert.rejects(files.read("/home/user"));
  });
  await check("Filesystem.read: files of the kernel, whose size is not known", async () => {
    assert.match(await files.read("/proc/self/status"), /^Name:/);
  });
  await check("Filesystem.read(signal, requestTimeoutMs): aborted", async () => {
    const controller = new AbortController();
    controller.abort();
    await assert.rejects(files.read("formats",
        { signal: controller.signal, requestTimeoutMs: 10_000 }));
  }, { since: "2.45.0" });
  await check("Filesystem.getInfo: of a file", async () => {
    await files.write("info", "12345");
    await sandbox.commands.run("chmod 640 info");
    const info = await files.getInfo("info");
    assert.deepEqual([info.name, info.path, info.type, info.size, info.mode, info.permissions,
                      info.owner, info.group],
                     ["info", "/home/user/info", FileType.FILE, 5, 0o640, "-rw-r-----", "user",
                      "user"]);
    assert.ok(Math.abs(info.modifiedTime.getTime() - Date.now()) < 120_000);
    assert.equal(info.symlinkTarget, undefined);
  });
  await check("Filesystem.getInfo: of a directory and of links", async () => {
    const directory = await files.getInfo("/home/user");
    assert.deepEqual([directory.type, directory.name], [FileType.DIR, "user"]);
    assert.match(directory.permissions, /^d/);
    await sandbox.commands.run("ln -sfn info link; ln -sfn many dirlink");
    const link = await files.getInfo("link");
    assert.deepEqual([link.type, link.symlinkTarget], [FileType.FILE, "/home/user/info"]);
    assert.equal((await files.getInfo("dirlink")).type, FileType.DIR);
  });
  await check("Filesystem.getInfo(user): what is not there", async () => {
    await assert.rejects(files.getInfo("/none", { user: "root" }), NotFoundError);
  });
  await check("Filesystem.exists(user): yes and no", async () => {
    assert.equal(await files.exists("info"), true);
    assert.equal(await files.exists("many"), true);
    assert.equal(await files.exists("none"), false);
    assert.equal(await files.exists("mine", { user: "root" }), true);
  });
  await check("Filesystem.makeDir(user): true, then false", async () => {
    assert.equal(await files.makeDir("made/on/the/way"), true);
    assert.equal(await files.makeDir("made/on/the/way"), false);
    assert.equal(await out("stat -c '%F %U %a' made/on/the/way"), "directory user 755");
    assert.equal(await files.makeDir("by-root", { user: "root" }), true);
    assert.equal(await out("stat -c %U /root/by-root", { user: "root" }), "root");
    await assert.rejects(files.makeDir("info"));
  });
  await check("Filesystem.list: what is in it", async () => {
    await sandbox.commands.run("mkdir -p l/a/b/c && echo 1 >l/f && echo 2 >l/a/g && echo 3 >l/a/b/h " +
                               "&& ln -s f l/link");
    const entries = (await files.list("l")).sort((x, y) => x.name < y.name ? -1 : 1);
    assert.deepEqual(entries.map((each) => [each.name, each.type, each.path]), [
      ["a", FileType.DIR, "/home/user/l/a"], ["f", FileType.FILE, "/home/user/l/f"],
      ["link", FileType.FILE, "/home/user/l/link"]]);
    assert.equal(entries[1].size, 2);
    assert.equal(entries[2].symlinkTarget, "/home/user/l/f");
    assert.deepEqual(await files.list("l/a/b/c"), []);
  });
  await check("Filesystem.list(depth, user): deeper, and refused below one", async () => {
    const two = (await files.list("l", { depth: 2 })).map((each) => each.path).sort();
    assert.deepEqual(two, ["/home/user/l/a", "/home/user/l/a/b", "/home/user/l/a/g",
                           "/home/user/l/f", "/home/user/l/link"]);
    assert.equal((await files.list("l", { depth: 10 })).length, 7);
    await assert.rejects(files.list("l", { depth: 0 }), InvalidArgumentError);
    assert.ok((await files.list("/root", { user: "root" })).some((each) => each.name === "mine"));
  });
  await check("Filesystem.list: through a link, under the name that was asked", async () => {
    await sandbox.commands.run("ln -sfn l l-link");
    assert.ok((await files.list("l-link")).every((each) => each.path.startsWith("/home/user/l-link/")));
  });
  await check("Filesystem.list: not there, or not a directory", async () => {
    await assert.rejects(files.list("/none"), NotFoundError);
    await assert.rejects(files.list("info"), InvalidArgumentError);
  });
  await check("Filesystem.rename(user): files and directories, parents made", async () => {
    await files.write("from", "moved");
    const info = await files.rename("from", "to/new/place");
    assert.deepEqual([info.name, info.path, info.type, info.size],
                     ["place", "/home/user/to/new/place", FileType.FILE, 5]);
    assert.equal(await files.exists("from"), false);
    await files.rename("to", "to2");
    assert.equal(await files.read("to2/new/place"), "moved");
    await assert.rejects(files.rename("none", "x", { user: "user" }), NotFoundError);
  });
  await check("Filesystem.remove(user): files, trees, and nothing", async () => {
    await files.remove("to2");
    assert.equal(await files.exists("to2"), false);
    await files.remove("/root/mine", { user: "root" });
    assert.equal(await files.exists("/root/mine", { user: "root" }), false);
    await files.remove("to2");
  });
  await check("Filesystem.list, Filesystem.getInfo, Filesystem.exists, Filesystem.makeDir, " +
              "Filesystem.rename, Filesystem.remove, (requestTimeoutMs, signal): aborted", async () => {
    const controller = new AbortController();
    controller.abort();
    const options = { signal: controller.signal, requestTimeoutMs: 10_000 };
    for (const call of [() => files.list("l", options), () => files.getInfo("l", options),
                        () => files.exists("l", options), () => files.makeDir("z", options),
                        () => files.rename("l", "z", options), () => files.remove("l", options)]) {
      await assert.rejects(call());
    }
    assert.equal(await files.exists("l"), true);
  }, { since: "2.45.0" });
  await check("Filesystem.write, Filesystem.read: sixteen megabytes both ways", async () => {
    const large = new Uint8Array(16 << 20).fill(0x5a);
    large.set(bytes, 1_000_000);
    await files.write("large", large.buffer);
    same(await files.read("large", { format: "bytes" }), large);
  });
  await check("Filesystem.write, Filesystem.read: thirty at the same time", async () => {
    await Promise.all(Array.from({ length: 30 }, (_, index) =>
        files.write(`parallel/${index}`, `content ${index}`)));
    const read = await Promise.all(Array.from({ length: 30 }, (_, index) =>
        files.read(`parallel/${index}`)));
    assert.deepEqual(read, Array.from({ length: 30 }, (_, index) => `content ${index}`));
  });
});
finish();
