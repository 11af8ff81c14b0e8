// Watching files over the WebSocket.
import assert from "node:assert/strict";
import { check, finish, withSandbox } from "./support.mjs";

// The first event about a path, of one of the kinds.
async function eventAbout(watch, path, kinds) {
  for await (const event of watch) {
    assert.equal(event.type, "event", JSON.stringify(event));
    if (event.path === path && kinds.includes(event.event)) {
      return event;
    }
  }
  throw new Error(`the watch ended before an event about ${path}`);
}

await withSandbox(async (sandbox) => {
  await sandbox.mkdir("/workspace/w/below", true);

  await check("create, write, rename and remove", async () => {
    const stream = await sandbox.watchFiles("/workspace/w");
    assert.ok(stream.watchId);
    const events = stream.events();
    await sandbox.cmd("sh -c 'echo 1 >/workspace/w/file'");
    const created = await eventAbout(events, "/workspace/w/file", ["create"]);
    assert.equal(created.watchId, stream.watchId);
    await eventAbout({ [Symbol.asyncIterator]: () => ({ next: () => events.next() }) },
                     "/workspace/w/file", ["write"]);
    stream.unsubscribe(stream.watchId);
  });
  await check("removal", async () => {
    await sandbox.writeFile("/workspace/w/gone", "x");
    const stream = await sandbox.watchFiles("/workspace/w");
    await sandbox.deleteFile("/workspace/w/gone");
    await eventAbout(stream.events(), "/workspace/w/gone", ["remove"]);
    stream.close();
  });
  await check("recursive, with directories made later", async () => {
    const stream = await sandbox.watchFiles("/workspace/w", true);
    const events = stream.events();
    const shared = { [Symbol.asyncIterator]: () => ({ next: () => events.next() }) };
    await sandbox.cmd("touch /workspace/w/below/one");
    await eventAbout(shared, "/workspace/w/below/one", ["create"]);
    await sandbox.cmd("sh -c 'mkdir -p /workspace/w/new/er && echo 2 >/workspace/w/new/er/two'");
    await eventAbout(shared, "/workspace/w/new/er/two", ["create", "write"]);
    stream.close();
  });
  await check("a directory that is not there is made", async () => {
    const stream = await sandbox.watchFiles("/workspace/appears");
    await sandbox.writeFile("/workspace/appears/file", "x");
    await eventAbout(stream.events(), "/workspace/appears/file", ["create", "write", "rename"]);
    stream.close();
  });
});
finish();
