// The contexts' WebSocket: output as it comes, input, resize, signals, replay.
import assert from "node:assert/strict";
import { check, finish, heard, reader, withSandbox } from "./support.mjs";

await withSandbox(async (sandbox) => {
  await check("streams stay apart and the end is told", async () => {
    const stream = await sandbox.cmdStream("sh -c 'echo out; echo err >&2; exit 7'");
    assert.deepEqual(await heard(stream), { stdout: "out\n", stderr: "err\n" });
    const done = await stream.wait();
    assert.equal(done.exitCode, 7);
    assert.equal(done.state, "crashed");
  });
  await check("a terminal: input, echo, resize", async () => {
    const stream = await sandbox.cmdStream("bash --norc -i", {
      envVars: { PS1: "ready> " }, ptyRows: 24, ptyCols: 80,
    });
    const until = reader(stream);
    await until("ready> ");
    stream.sendInput("echo a$((1+1))c\n");
    await until("a2c");
    stream.sendResize(50, 132);
    stream.sendInput("stty size\n");
    await until("50 132");
    stream.sendInput("exit 5\n");
    assert.equal((await stream.wait()).exitCode, 5);
  });
  await check("a signal ends the process", async () => {
    const stream = await sandbox.cmdStream("sh -c 'echo up; exec sleep 600'");
    await reader(stream)("up\n");
    stream.sendSignal("SIGKILL");
    const done = await stream.wait();
    assert.equal(done.exitCode, 137);
    assert.equal(done.state, "killed");
  });
  await check("input as a WritableStream", async () => {
    const stream = await sandbox.cmdStream("head -n 2", { ptyRows: 24, ptyCols: 80 });
    const writer = stream.writable.getWriter();
    await writer.write({ type: "input", data: "one\n" });
    await writer.write({ data: "two\n" });
    assert.equal((await stream.wait()).exitCode, 0);
  });
  await check("a REPL over the socket", async () => {
    const context = await sandbox.createContext({ type: "repl", repl: { alias: "python" } });
    const stream = await sandbox.connectWsContext(context.id);
    const until = reader(stream);
    stream.sendInput("print('so' + 'cket')\n", "request-1");
    await until("socket");
    stream.close();
    await sandbox.deleteContext(context.id);
  });
  await check("who comes late gets everything", async () => {
    const { contextId } = await sandbox.cmd("seq 1 2000");
    const output = await heard(await sandbox.connectWsContext(contextId));
    assert.equal(output.stdout.split("\n").length, 2001);
    assert.ok(output.stdout.endsWith("\n1999\n2000\n"));
  });
  await check("a large output arrives whole", async () => {
    const stream = await sandbox.cmdStream("sh -c 'yes 0123456789abcde | head -c 8388608'");
    const { stdout } = await heard(stream);
    assert.equal(stdout.length, 8 << 20);
    assert.equal((await stream.wait()).exitCode, 0);
  });
  await check("characters are never cut in two", async () => {
    const stream = await sandbox.cmdStream("sh -c 'yes zwölf-Ärger-€-🙂 | head -n 50000'");
    const { stdout } = await heard(stream);
    assert.equal(stdout, "zwölf-Ärger-€-🙂\n".repeat(50000));
  });
});
finish();
