// A sandbox by host names alone; the last word printed is its id.
import assert from "node:assert/strict";
import { Sandbox } from "e2b";

const sandbox = await Sandbox.create({ timeoutMs: 120_000 });
try {
  assert.equal((await sandbox.commands.run("echo over TLS")).stdout, "over TLS\n");
  await sandbox.files.write("a.txt", "there and back");
  assert.equal(await sandbox.files.read("a.txt"), "there and back");
  assert.equal(await (await fetch(await sandbox.downloadUrl("a.txt"))).text(), "there and back");
  await sandbox.commands.run("python3 -m http.server 3000 --bind 127.0.0.1", { background: true });
  const url = `https://${sandbox.getHost(3000)}/a.txt`;
  // The port is knocked at for a moment; a program needs longer when the machine is busy.
  let answer = await fetch(url);
  for (let tries = 0; answer.status === 502 && tries < 20; tries += 1) {
    await answer.text();
    answer = await fetch(url);
  }
  assert.equal(answer.status, 200);
  assert.equal(await answer.text(), "there and back");
} finally {
  await sandbox.kill();
}
console.log(sandbox.sandboxId);
process.exit();
