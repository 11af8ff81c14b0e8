// Watching files over the WebSocket.
import assert from "node:assert/strict";
import { check, finish, withSandbox } from "./support.mjs";

// The next event about a path, of one of the kinds.
async function eventAbout(events, path, kinds) {
  for (;;) {
    const { done, value } = await events.read();
    assert.ok(!done, `the watch ended before an event about ${path}`);
    assert.equal(value.type, "event", JSON.stringify(value));
    if (value.path === path && kinds.includes(value.event)) {
      return value;
    }
  }
}

await withSandbox(async (sandbox) => {
  await sandbox.mkdir("/workspace/w/below", true);

  await check("create and write", async () => {
    const stream = await sandbox.watchFiles("/workspace/w");
    const events = stream.readable.getReader();
    await sandbox.cmd("sh -c 'echo 1 >/workspace/w/file'");
    const created = await eventAbout(events, "/workspace/w/file", ["create"]);
    assert.equal(created.watchId, stream.watchId);
    await eventAbout(events, "/workspace/w/file", ["write"]);
    stream.unsubscribe(stream.watchId);
  });
  await check("rename, change of mode and removal", async () => {
    await sandbox.writeFile("/workspace/w/before", "x");
    const stream = await sandbox.watchFiles("/workspace/w");
    const events = stream.readable.getReader();
    await sandbox.moveFile("/workspace/w/before", "/workspace/w/after");
    await eventAbout(events, "/workspace/w/before", ["rename"]);
    await eventAbout(events, "/workspace/w/after", ["create"]);
    await sandbox.cmd("chmod 600 /workspace/w/after");
    await eventAbout(events, "/workspace/w/after", ["chmod"]);
    await sandbox.deleteFile("/workspace/w/after");
    await eventAbout(events, "/workspace/w/after", ["remove"]);
    stream.close();
  });
  await check("recursive, with directories made later", async () => {
    const stream = await sandbox.watchFiles("/workspace/w", true);
    const events = stream.readable.getReader();
    await sandbox.cmd("touch /workspace/w/below/one");
    await eventAbout(events, "/workspace/w/below/one", ["create"]);
    await sandbox.cmd("sh -c 'mkdir -p /workspace/w/new/er && echo 2 >/workspace/w/new/er/two'");
    await eventAbout(events, "/workspace/w/new/er/two", ["create", "write"]);
    stream.close();
  });
  await check("a directory that is not there is made", async () => {
    const stream = await sandbox.watchFiles("/workspace/appears");
    await sandbox.writeFile("/workspace/appears/file", "x");
    await eventAbout(stream.readable.getReader(), "/workspace/appears/file", ["create", "write"]);
    stream.close();
  });
  await check("the events of the SDK's own generator", async () => {
    const stream = await sandbox.watchFiles("/workspace/w");
    await sandbox.writeFile("/workspace/w/generated", "x");
    for await (const event of stream.events()) {
      assert.equal(event.type, "event");
      if (event.path === "/workspace/w/generated") {
        break;
      }
    }
    stream.close();
  });
});
finish();
