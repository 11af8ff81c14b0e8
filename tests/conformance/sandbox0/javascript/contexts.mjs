// Contexts over plain HTTP: REPLs, commands, input, resize, signal, restart, list.
import assert from "node:assert/strict";
import { check, finish, withSandbox } from "./support.mjs";

await withSandbox(async (sandbox) => {
  for (const [alias, first, second, wanted] of [
    ["python", "x = 6", "print(x * 7)", "42\n"],
    ["node", "let y = 6", "console.log(y * 7)", "42\n"],
    ["bash", "z=6", "echo $((z * 7))", "42\n"],
  ]) {
    await check(`${alias} keeps state between runs`, async () => {
      await sandbox.run(alias, first);
      assert.equal((await sandbox.run(alias, second)).outputRaw, wanted);
    });
  }
  await check("an exception is output, and the REPL goes on", async () => {
    const broken = await sandbox.run("python", "1 / 0");
    assert.match(broken.outputRaw, /ZeroDivisionError/);
    assert.equal((await sandbox.run("python", "print('on')")).outputRaw, "on\n");
  });
  await check("two runs of one alias share a context", async () => {
    const one = await sandbox.run("python", "1");
    const two = await sandbox.run("python", "2");
    assert.equal(one.contextId, two.contextId);
  });
  await check("a REPL with its own environment and directory", async () => {
    const context = await sandbox.createContext({
      type: "repl", repl: { alias: "python" }, cwd: "/tmp", envVars: { WORD: "own" },
    });
    assert.equal(context.alias, "python");
    const code = "import os; print(os.getcwd(), os.environ['WORD'])";
    const result = await sandbox.run("python", code, { contextId: context.id });
    assert.equal(result.outputRaw, "/tmp own\n");
    await sandbox.deleteContext(context.id);
  });
  await check("input while a REPL is created", async () => {
    const context = await sandbox.createContext({
      type: "repl", repl: { alias: "python", input: "print(2 ** 10)\n" }, waitUntilDone: true,
    });
    assert.equal(context.outputRaw, "1024\n");
    await sandbox.deleteContext(context.id);
  });
  await check("restart keeps the id and forgets the state", async () => {
    const context = await sandbox.createContext({ type: "repl", repl: { alias: "python" } });
    await sandbox.contextExec(context.id, "kept = 1\n");
    assert.equal((await sandbox.restartContext(context.id)).id, context.id);
    const executed = await sandbox.contextExec(context.id, "print('kept' in globals())\n");
    assert.equal(executed.outputRaw, "False\n");
    await sandbox.deleteContext(context.id);
  });

  await check("a command's streams, exit code and state", async () => {
    const result = await sandbox.cmd("sh -c 'echo out; echo err >&2; exit 3'");
    assert.equal(result.stdout, "out\n");
    assert.equal(result.stderr, "err\n");
    assert.equal(result.exitCode, 3);
    assert.equal(result.state, "crashed");
    assert.equal((await sandbox.cmd("true")).state, "stopped");
  });
  await check("a command's options", async () => {
    const result = await sandbox.cmd("ignored", {
      command: ["sh", "-c", "echo $PWD $WORD"], cwd: "/tmp", envVars: { WORD: "two words" },
    });
    assert.equal(result.stdout, "/tmp two words\n");
  });
  await check("a command on a terminal", async () => {
    const result = await sandbox.cmd("sh -c 'tty >/dev/null && stty size'",
                                     { ptyRows: 33, ptyCols: 111 });
    assert.equal(result.outputRaw.trim(), "33 111");
  });
  await check("ttl_sec ends a command", async () => {
    const result = await sandbox.cmd("sleep 600", { ttlSec: 1 });
    assert.equal(result.state, "killed");
  });

  await check("input, resize and signal of a terminal", async () => {
    const started = await sandbox.cmd("cat", { wait: false, ptyRows: 24, ptyCols: 80 });
    const id = started.contextId;
    assert.equal((await sandbox.contextInput(id, "typed\n")).success, true);
    assert.equal((await sandbox.contextResize(id, 40, 120)).success, true);
    assert.equal((await sandbox.contextSignal(id, "SIGTERM")).success, true);
    const stream = await sandbox.connectWsContext(id);
    let text = "";
    for await (const output of stream.outputs()) {
      assert.equal(output.source, "pty");
      text += output.data;
    }
    assert.ok(text.startsWith("typed"), text);
    assert.equal((await stream.wait()).exitCode, 143);
    assert.equal((await sandbox.getContext(id)).running, false);
  });
  await check("signals by number", async () => {
    const { contextId } = await sandbox.cmd("sleep 600", { wait: false });
    await sandbox.contextSignal(contextId, "9");
    const stream = await sandbox.connectWsContext(contextId);
    assert.equal((await stream.wait()).exitCode, 137);
  });
  await check("list, get and delete", async () => {
    const { contextId } = await sandbox.cmd("sleep 600", { wait: false });
    const listed = (await sandbox.listContexts()).find((each) => each.id === contextId);
    assert.equal(listed.type, "cmd");
    assert.equal(listed.running, true);
    const found = await sandbox.getContext(contextId);
    assert.equal(found.id, contextId);
    assert.equal(found.paused, false);
    assert.equal((await sandbox.deleteContext(contextId)).success, true);
    await assert.rejects(sandbox.getContext(contextId), { statusCode: 404 });
  });
});
finish();
