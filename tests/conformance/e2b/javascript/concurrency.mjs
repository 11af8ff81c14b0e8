// Many sandboxes through one client process: commands, transfers and watches at the same time.
import assert from "node:assert/strict";
import { Sandbox } from "e2b";
import { check, finish, killed, until, WHOLE } from "./support.mjs";

const COUNT = WHOLE ? 50 : 12;
const bytes = Uint8Array.from({ length: 200_000 }, (_, index) => (index * 31 + (index >> 7)) & 0xff);
let sandboxes = [];

await check(`Sandbox.create: many at once (${COUNT})`, async () => {
  const made = await Promise.allSettled(Array.from({ length: COUNT }, (_, index) =>
      Sandbox.create({ timeoutMs: 600_000, metadata: { index: `${index}` } })));
  sandboxes = made.filter((each) => each.status === "fulfilled").map((each) => each.value);
  const refused = made.filter((each) => each.status === "rejected");
  assert.equal(refused.length, 0, `${refused[0]?.reason}`);
  assert.equal(new Set(sandboxes.map((each) => each.sandboxId)).size, COUNT);
});
try {
  await check("Commands.run: three in each, none mixed up", async () => {
    await Promise.all(sandboxes.flatMap((sandbox, index) => [1, 2, 3].map(async (number) => {
      const result = await sandbox.commands.run(
          `echo ${index}-${number}; sleep 0.$((RANDOM % 5)); echo $E2B_SANDBOX_ID`);
      assert.equal(result.stdout, `${index}-${number}\n${sandbox.sandboxId}\n`);
    })));
  });
  await check("Filesystem.write, Filesystem.read: in all of them, both ways", async () => {
    await Promise.all(sandboxes.map(async (sandbox, index) => {
      const mine = bytes.map((value) => (value + index) & 0xff);
      await sandbox.files.write("content", mine.buffer);
      const back = await sandbox.files.read("content", { format: "bytes" });
      assert.equal(Buffer.compare(Buffer.from(back), Buffer.from(mine)), 0);
    }));
  });
  await check("Filesystem.watchDir, Commands.run, Filesystem.write: all at the same time", async () => {
    await Promise.all(sandboxes.map(async (sandbox, index) => {
      const seen = new Set();
      await sandbox.files.makeDir("watched");
      const handle = await sandbox.files.watchDir("watched", (event) => { seen.add(event.name); },
                                                  { timeoutMs: 0 });
      const running = await sandbox.commands.run(
          `for n in $(seq 20); do echo ${index} >watched/c$n; done; sleep 1; echo over`,
          { background: true });
      await Promise.all([1, 2, 3].map((number) => sandbox.files.write(`watched/f${number}`, "x")));
      assert.equal((await running.wait()).stdout, "over\n");
      await until(() => seen.size >= 23, `all files seen, not ${[...seen]}`, 60);
      assert.equal(seen.size, 23);
      await handle.stop();
    }));
  });
  await check("Commands.run(background), CommandHandle.kill: long ones in all of them", async () => {
    const handles = await Promise.all(sandboxes.map((sandbox) =>
        sandbox.commands.run("sleep 300", { background: true, timeoutMs: 0 })));
    await Promise.all(handles.map(async (handle) => {
      assert.equal(await handle.kill(), true);
      await assert.rejects(handle.wait(), { exitCode: -1 });
    }));
  });
} finally {
  await check("Sandbox.kill: all at once", async () => {
    assert.ok((await Promise.all(sandboxes.map((sandbox) => sandbox.kill()))).every(killed));
  });
}
finish();
