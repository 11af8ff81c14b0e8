// Terminals: what is typed, what is seen, how large it is, how it ends.
import assert from "node:assert/strict";
import { NotFoundError } from "e2b";
import { check, finish, learn, until, withSandbox } from "./support.mjs";

const encode = (text) => new TextEncoder().encode(text);

await withSandbox(async (sandbox) => {
  const { pty } = sandbox;
  const opened = async (options = {}) => {
    const terminal = { screen: "" };
    const decoder = new TextDecoder();
    terminal.onData = (data) => { terminal.screen += decoder.decode(data, { stream: true }); };
    terminal.handle = learn("CommandHandle", await pty.create(
        { cols: 80, rows: 24, onData: terminal.onData, timeoutMs: 60_000, ...options }));
    terminal.type = (text) => pty.sendInput(terminal.handle.pid, encode(text));
    terminal.sees = (pattern) => until(() => pattern.exec(terminal.screen),
                                       `${pattern} on ${JSON.stringify(terminal.screen)}`);
    return terminal;
  };

  await check("Pty.create(cols, rows, onData): a shell on a terminal of that size", async () => {
    const terminal = await opened({ cols: 91, rows: 31 });
    await terminal.type("stty size; echo \"<$TERM-$(id -un)-$PWD>\"; shopt login_shell\n");
    await terminal.sees(/31 91/);
    await terminal.sees(/<xterm-256color-user-\/home\/user>/);
    await terminal.sees(/login_shell\s+on/);
    await terminal.type("exit 6\n");
    await assert.rejects(terminal.handle.wait(), { exitCode: 6 });
  });
  await check("Pty.create(user, envs, cwd): who, with what, where", async () => {
    const terminal = await opened({ user: "root", envs: { MARK: "märk" }, cwd: "/tmp" });
    await terminal.type("echo \"<$MARK|$(id -un)|$PWD>\"\n");
    await terminal.sees(/<märk\|root\|\/tmp>/);
    await terminal.handle.kill();
  });
  await check("Pty.sendInput: interrupts by its control character", async () => {
    const terminal = await opened();
    await terminal.type("sleep 60\n");
    await until(async () => (await sandbox.commands.run("pgrep -c sleep || true")).stdout.trim() === "1",
                "it sleeps");
    await terminal.type("\u0003");
    await terminal.type("echo back-$((6*7))\n");
    await terminal.sees(/back-42/);
    await terminal.handle.kill();
  });
  await check("Pty.resize(cols, rows): the program is told", async () => {
    const terminal = await opened();
    await pty.resize(terminal.handle.pid, { cols: 132, rows: 50 });
    await terminal.type("stty size\n");
    await terminal.sees(/50 132/);
    await terminal.handle.kill();
  });
  await check("Pty.kill: true, then false", async () => {
    const terminal = await opened();
    assert.equal(await pty.kill(terminal.handle.pid), true);
    await assert.rejects(terminal.handle.wait());
    await until(async () => !(await sandbox.commands.list())
        .some((each) => each.pid === terminal.handle.pid), "it left the list");
    assert.equal(await pty.kill(terminal.handle.pid), false);
  });
  await check("Pty.connect(onData, timeoutMs): the same terminal again", async () => {
    const first = await opened();
    await first.type("export REMEMBERED=yes\n");
    await first.handle.disconnect();
    let screen = "";
    const decoder = new TextDecoder();
    const second = await pty.connect(first.handle.pid, {
      onData: (data) => { screen += decoder.decode(data, { stream: true }); }, timeoutMs: 60_000 });
    assert.equal(second.pid, first.handle.pid);
    await pty.sendInput(second.pid, encode("echo remembered-$REMEMBERED\n"));
    await until(() => /remembered-yes/.test(screen), `an answer on ${JSON.stringify(screen)}`);
    await second.kill();
  });
  await check("Pty.create(timeoutMs): ends by itself", async () => {
    const terminal = await opened({ timeoutMs: 1500 });
    await assert.rejects(terminal.handle.wait());
  });
  await check("Pty.sendInput, Pty.resize: of a terminal that is not there", async () => {
    await assert.rejects(pty.sendInput(999_999, encode("x")), NotFoundError);
    await assert.rejects(pty.resize(999_999, { cols: 1, rows: 1 }), NotFoundError);
  });
  await check("Pty.create, Pty.connect, Pty.sendInput, Pty.resize, Pty.kill, " +
              "(requestTimeoutMs, signal): aborted", async () => {
    const terminal = await opened();
    const controller = new AbortController();
    controller.abort();
    const options = { signal: controller.signal, requestTimeoutMs: 20_000 };
    const { pid } = terminal.handle;
    for (const call of [() => pty.sendInput(pid, encode("x"), options),
                        () => pty.resize(pid, { cols: 9, rows: 9 }, options),
                        () => pty.kill(pid, options),
                        () => pty.connect(pid, { onData() {}, ...options }),
                        () => pty.create({ cols: 80, rows: 24, onData() {}, ...options })]) {
      await assert.rejects(call());
    }
    await terminal.type("echo still-$((1+1))\n");
    await terminal.sees(/still-2/);
    await terminal.handle.kill();
  }, { since: "2.45.0" });
  await check("Commands.list: terminals are in it", async () => {
    const terminal = await opened();
    const found = (await sandbox.commands.list()).find((each) => each.pid === terminal.handle.pid);
    assert.equal(found.cmd, "/bin/bash");
    assert.deepEqual(found.args, ["-i", "-l"]);
    await terminal.handle.kill();
  });
});
finish();
