// Commands: how they start, what comes back, who they are, how they end.
import assert from "node:assert/strict";
import { CommandExitError, InvalidArgumentError, NotFoundError, SandboxError, TimeoutError }
    from "e2b";
import { check, finish, learn, until, withSandbox } from "./support.mjs";

await withSandbox(async (sandbox) => {
  const { commands } = sandbox;
  const out = async (command, options) => (await commands.run(command, options)).stdout.trim();
  const background = async (command, options) =>
      learn("CommandHandle", await commands.run(command, { background: true, ...options }));
  const alive = async (pid) => (await commands.list()).some((each) => each.pid === pid);

  await check("Commands.run: a login shell of the default user in its home", async () => {
    assert.equal(await out("id -un; pwd; echo $HOME; echo $USER; shopt -q login_shell && echo login"),
                 "user\n/home/user\n/home/user\nuser\nlogin");
  });
  await check("Commands.run: what the shell understands", async () => {
    assert.equal(await out("for n in 1 2 3; do echo -n $n; done | rev; echo ' \"$HOME\" ä'"),
                 "321 \"$HOME\" ä");
  });
  await check("Commands.run: a failure is a CommandExitError with everything in it", async () => {
    await assert.rejects(commands.run("echo out; echo err >&2; exit 7"), (error) => {
      assert.ok(error instanceof CommandExitError);
      assert.deepEqual([error.exitCode, error.stdout, error.stderr, error.error],
                       [7, "out\n", "err\n", "exit status 7"]);
      return true;
    });
  });
  await check("Commands.run: a signal", async () => {
    await assert.rejects(commands.run("kill -9 $$"), (error) => {
      assert.deepEqual([error.exitCode, error.error], [-1, "signal: killed"]);
      return true;
    });
  });
  await check("Commands.run: what bash says of a missing program", async () => {
    await assert.rejects(commands.run("no-such-program"), { exitCode: 127 });
  });
  await check("Commands.run(cwd): there", async () => {
    assert.equal(await out("pwd", { cwd: "/tmp" }), "/tmp");
  });
  await check("Commands.run(cwd): missing is an invalid argument", async () => {
    await assert.rejects(commands.run("pwd", { cwd: "/no/such/place" }), (error) => {
      assert.ok(error instanceof InvalidArgumentError, error.name);
      assert.match(error.message, /cwd '\/no\/such\/place' does not exist/);
      return true;
    });
  });
  await check("Commands.run(user): root and somebody unknown", async () => {
    assert.equal(await out("id -un; pwd; echo $HOME", { user: "root" }), "root\n/root\n/root");
    await assert.rejects(commands.run("id", { user: "nobody-knows-me" }),
                         /invalid username|user/i);
  });
  await check("Commands.run(envs): seen, and only by that command", async () => {
    assert.equal(await out("echo $ONE-$TWO", { envs: { ONE: "1", TWO: "a b\"'$" } }), "1-a b\"'$");
    assert.equal(await out("echo -$ONE-"), "--");
  });
  await check("Commands.run: what E2B puts into the environment", async () => {
    assert.equal(await out("echo $E2B_SANDBOX $E2B_SANDBOX_ID"), `true ${sandbox.sandboxId}`);
  });
  await check("Commands.run(onStdout, onStderr): piece by piece, while it runs", async () => {
    const seen = [];
    let first = 0;
    const result = await commands.run("echo one; sleep 0.5; echo two >&2; sleep 0.2; echo three", {
      onStdout: (data) => { first ||= Date.now(); seen.push(data); },
      onStderr: (data) => seen.push(`!${data}`),
    });
    assert.ok(Date.now() - first >= 500, "the first line came with the last one");
    assert.deepEqual(seen, ["one\n", "!two\n", "three\n"]);
    assert.equal(result.stdout, "one\nthree\n");
  });
  await check("Commands.run(timeoutMs): the process is ended too", async () => {
    await assert.rejects(commands.run("exec -a timed-out sleep 60", { timeoutMs: 1000 }),
                         (error) => error instanceof TimeoutError);
    await until(async () => await out("pgrep -cf '^timed-out' || true") === "0", "it ended");
  });
  await check("Commands.run(timeoutMs): none", async () => {
    assert.equal(await out("sleep 0.3; echo done", { timeoutMs: 0 }), "done");
  });
  await check("Commands.run(requestTimeoutMs): bounds the start, not the run", async () => {
    assert.equal(await out("sleep 1.5; echo done", { requestTimeoutMs: 1000 }), "done");
  });
  await check("Commands.run(signal): aborting lets go", async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 500);
    const begun = Date.now();
    await assert.rejects(commands.run("sleep 20", { signal: controller.signal }));
    assert.ok(Date.now() - begun < 15_000);
  }, { since: "2.45.0" });
  await check("Commands.run(background), CommandHandle.wait: a handle and its result", async () => {
    const handle = await background("echo begun; sleep 0.2; echo ended");
    assert.ok(handle.pid > 0);
    assert.equal(handle.exitCode, undefined);
    const result = await handle.wait();
    assert.equal(result.stdout, "begun\nended\n");
    assert.deepEqual([handle.exitCode, handle.stdout, handle.stderr], [0, "begun\nended\n", ""]);
    assert.ok(!handle.error);
  });
  await check("CommandHandle.wait, CommandHandle.exitCode, CommandHandle.error, " +
              "CommandHandle.stdout, CommandHandle.stderr: of a failure", async () => {
    const handle = await background("echo out; echo err >&2; exit 3");
    await assert.rejects(handle.wait(), { exitCode: 3 });
    assert.deepEqual([handle.exitCode, handle.stdout, handle.stderr, handle.error],
                     [3, "out\n", "err\n", "exit status 3"]);
  });
  await check("Commands.list: what runs, with its command line and directory", async () => {
    const handle = await background("sleep 30", { cwd: "/tmp", envs: { MARK: "x" } });
    const found = (await commands.list()).find((each) => each.pid === handle.pid);
    assert.equal(found.cmd, "/bin/bash");
    assert.deepEqual(found.args, ["-l", "-c", "sleep 30"]);
    assert.equal(found.cwd, "/tmp");
    assert.equal(found.envs.MARK, "x");
    await handle.kill();
    await until(async () => !(await alive(handle.pid)), "it left the list");
  });
  await check("Commands.kill: true, then false", async () => {
    const handle = await background("sleep 30");
    assert.equal(await commands.kill(handle.pid), true);
    await assert.rejects(handle.wait(), { exitCode: -1, error: "signal: killed" });
    await until(async () => !(await alive(handle.pid)), "it left the list");
    assert.equal(await commands.kill(handle.pid), false);
    assert.equal(await commands.kill(999_999), false);
  });
  await check("CommandHandle.kill: true, then false", async () => {
    const handle = await background("sleep 30");
    assert.equal(await handle.kill(), true);
    await assert.rejects(handle.wait(), CommandExitError);
    await until(async () => !(await alive(handle.pid)), "it left the list");
    assert.equal(await handle.kill(), false);
  });
  await check("Commands.run(stdin), Commands.sendStdin, Commands.kill: text and bytes", async () => {
    let heard = "";
    const handle = await background("cat", { stdin: true, onStdout: (data) => { heard += data; } });
    await commands.sendStdin(handle.pid, "typed ä\n");
    await until(() => heard === "typed ä\n", "the echo");
    await commands.sendStdin(handle.pid, "again\n");
    await until(() => heard === "typed ä\nagain\n", "the second echo");
    await commands.kill(handle.pid);
    await handle.wait().catch(() => {});
  });
  await check("Commands.sendStdin: bytes that are no text", async () => {
    const handle = await background("head -c 3 | od -An -tx1", { stdin: true });
    await commands.sendStdin(handle.pid, new Uint8Array([0, 255, 10]));
    assert.equal((await handle.wait()).stdout.trim(), "00 ff 0a");
  }, { since: "2.45.0" });
  await check("Commands.closeStdin: is an end of file", async () => {
    const handle = await background("cat; echo over", { stdin: true });
    await commands.sendStdin(handle.pid, "last\n");
    await commands.closeStdin(handle.pid);
    assert.equal((await handle.wait()).stdout, "last\nover\n");
  });
  await check("CommandHandle.sendStdin, CommandHandle.closeStdin: through the handle", async () => {
    const handle = await background("tr a-z A-Z", { stdin: true });
    await handle.sendStdin("shout");
    await handle.closeStdin();
    assert.equal((await handle.wait()).stdout, "SHOUT");
  });
  await check("Commands.run(stdin): without it there is none", async () => {
    assert.equal(await out("cat; echo end", { timeoutMs: 20_000 }), "end");
  });
  await check("Commands.sendStdin: to nobody", async () => {
    await assert.rejects(commands.sendStdin(999_999, "x"),
                         (error) => error instanceof NotFoundError || error instanceof SandboxError);
  });
  await check("CommandHandle.disconnect, Commands.connect(onStdout, timeoutMs): it ran on", async () => {
    const handle = await background("for n in $(seq 100); do echo $n; sleep 0.1; done; exit 4");
    await handle.disconnect();
    assert.ok(await alive(handle.pid));
    let heard = "";
    const again = await commands.connect(handle.pid, {
      onStdout: (data) => { heard += data; }, timeoutMs: 60_000 });
    assert.equal(again.pid, handle.pid);
    await until(() => /\d+\n\d+\n/.test(heard), "output after connecting");
    await again.kill();
    await assert.rejects(again.wait(), CommandExitError);
  });
  await check("Commands.connect(onStderr): two listeners hear the same", async () => {
    const handle = await background("read line; echo \"$line\" >&2; exit 2", { stdin: true });
    let heard = "";
    const second = await commands.connect(handle.pid, { onStderr: (data) => { heard += data; } });
    await commands.sendStdin(handle.pid, "both\n");
    await assert.rejects(handle.wait(), { exitCode: 2, stderr: "both\n" });
    await assert.rejects(second.wait(), { exitCode: 2, stderr: "both\n" });
    assert.equal(heard, "both\n");
  });
  await check("Commands.connect: an exit is remembered for a while", async () => {
    const handle = await background("exit 5");
    await assert.rejects(handle.wait(), { exitCode: 5 });
    const late = await commands.connect(handle.pid);
    await assert.rejects(late.wait(), { exitCode: 5 });
  });
  await check("Commands.connect: to nobody", async () => {
    await assert.rejects(commands.connect(999_999), NotFoundError);
  });
  await check("Commands.run: bytes that are no text, and characters cut in two", async () => {
    const result = await commands.run(
        "for n in $(seq 2000); do printf 'ä€🙂'; done; printf '\\xff'");
    assert.equal(result.stdout, "ä€🙂".repeat(2000) + "\ufffd");
  });
  await check("Commands.run: sixteen megabytes of output", async () => {
    const result = await commands.run("head -c 16777216 /dev/zero | tr '\\0' x",
                                      { timeoutMs: 120_000 });
    assert.equal(result.stdout.length, 16 << 20);
  });
  await check("Commands.run: twenty at the same time", async () => {
    const results = await Promise.all(Array.from({ length: 20 }, (_, index) =>
        commands.run(`sleep 0.2; echo ${index}`)));
    assert.deepEqual(results.map((each) => Number(each.stdout)), [...Array(20).keys()]);
  });
  await check("Commands.run: what it leaves behind does not keep it", async () => {
    const begun = Date.now();
    assert.equal(await out("sleep 30 >/dev/null 2>&1 & echo left"), "left");
    assert.ok(Date.now() - begun < 20_000);
  });
  await check("Commands.run: sudo without a password", async () => {
    assert.equal(await out("sudo id -un"), "root");
  });
}, { metadata: { area: "commands" } });
finish();
