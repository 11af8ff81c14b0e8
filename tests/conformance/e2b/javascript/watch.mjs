// Watching directories: which events, recursively, with entries, and how it ends.
import assert from "node:assert/strict";
import { FilesystemEventType, FileType, NotFoundError } from "e2b";
import { check, finish, learn, until, withSandbox } from "./support.mjs";

await withSandbox(async (sandbox) => {
  const { files } = sandbox;
  const watched = async (path, options) => {
    const events = [];
    const handle = learn("WatchHandle", await files.watchDir(path, (event) => { events.push(event); },
                                                             options));
    const has = (type, name) => until(() => events.find(
        (each) => each.type === type && each.name === name),
        `${type} ${name} among ${JSON.stringify(events)}`);
    return { events, handle, has };
  };

  await check("Filesystem.watchDir, WatchHandle.stop: create, write, chmod, rename, remove", async () => {
    await files.makeDir("w");
    const { events, handle, has } = await watched("w");
    await files.write("w/new", "1");
    await has(FilesystemEventType.CREATE, "new");
    await has(FilesystemEventType.WRITE, "new");
    await sandbox.commands.run("chmod 600 w/new");
    await has(FilesystemEventType.CHMOD, "new");
    await files.rename("w/new", "w/renamed");
    await has(FilesystemEventType.RENAME, "new");
    await has(FilesystemEventType.CREATE, "renamed");
    await files.remove("w/renamed");
    await has(FilesystemEventType.REMOVE, "renamed");
    assert.equal(events[0].entry, undefined);
    await handle.stop();
    const count = events.length;
    await files.write("w/unheard", "1");
    await sandbox.commands.run("sleep 0.3");
    assert.equal(events.length, count);
  });
  await check("Filesystem.watchDir(recursive): also what is made later", async () => {
    await files.makeDir("r/old");
    const { handle, has } = await watched("r", { recursive: true });
    await files.write("r/old/file", "1");
    await has(FilesystemEventType.CREATE, "old/file");
    await files.makeDir("r/young/deep");
    await has(FilesystemEventType.CREATE, "young");
    await until(async () => {
      await files.write("r/young/deep/file", `${Date.now()}`);
      await sandbox.commands.run("sleep 0.1");
      return true;
    }, "written");
    await has(FilesystemEventType.WRITE, "young/deep/file");
    await handle.stop();
  });
  await check("Filesystem.watchDir(recursive): not without it", async () => {
    await files.makeDir("flat/below");
    const { events, handle, has } = await watched("flat");
    await files.write("flat/below/unseen", "1");
    await files.write("flat/seen", "1");
    await has(FilesystemEventType.CREATE, "seen");
    assert.ok(!events.some((each) => each.name.includes("unseen")));
    await handle.stop();
  });
  await check("Filesystem.watchDir(includeEntry): what it is now", async () => {
    await files.makeDir("e");
    const { handle, has } = await watched("e", { includeEntry: true });
    await files.write("e/file", "12345");
    const created = await has(FilesystemEventType.WRITE, "file");
    assert.deepEqual([created.entry.name, created.entry.type, created.entry.path],
                     ["file", FileType.FILE, "/home/user/e/file"]);
    await files.remove("e/file");
    assert.equal((await has(FilesystemEventType.REMOVE, "file")).entry, undefined);
    await handle.stop();
  }, { since: "2.45.0" });
  await check("Filesystem.watchDir(allowNetworkMounts, user, requestTimeoutMs): accepted", async () => {
    const { handle, has } = await watched("/root",
        { allowNetworkMounts: true, user: "root", requestTimeoutMs: 20_000 });
    await files.write("/root/seen", "1", { user: "root" });
    await has(FilesystemEventType.CREATE, "seen");
    await handle.stop();
  });
  await check("Filesystem.watchDir(onExit): told after a stop", async () => {
    await files.makeDir("x");
    let ended;
    const { handle } = await watched("x", { onExit: (error) => { ended = [error]; } });
    await handle.stop();
    await until(() => ended !== undefined, "onExit was called");
  });
  await check("Filesystem.watchDir(timeoutMs, onExit): ends by itself", async () => {
    let ended;
    const begun = Date.now();
    await watched("x", { timeoutMs: 1000, onExit: (error) => { ended = [error]; } });
    await until(() => ended !== undefined, "onExit was called");
    assert.ok(Date.now() - begun >= 900);
  });
  await check("Filesystem.watchDir(signal): ends by an abort", async () => {
    let ended;
    const controller = new AbortController();
    await watched("x", { signal: controller.signal, timeoutMs: 0, onExit: () => { ended = true; } });
    controller.abort();
    await until(() => ended, "onExit was called");
  }, { since: "2.45.0" });
  await check("Filesystem.watchDir: not there, or not a directory", async () => {
    await assert.rejects(files.watchDir("/none", () => {}), NotFoundError);
    await files.write("plain", "x");
    await assert.rejects(files.watchDir("plain", () => {}));
  });
  await check("Filesystem.watchDir: a thousand files, none forgotten", async () => {
    await files.makeDir("many");
    const { events, handle } = await watched("many");
    await sandbox.commands.run("for n in $(seq 1000); do : >many/$n; done");
    await until(() => new Set(events.filter((each) => each.type === FilesystemEventType.CREATE)
        .map((each) => each.name)).size === 1000, "a thousand created");
    await handle.stop();
  });
});
finish();
