"""Commands: how they start, what comes back, who they are, how they end."""
import time

from e2b import (CommandExitException, InvalidArgumentException, NotFoundException,
                 SandboxException, TimeoutException)
from support import SYNC, NotApplicable, case, raises, run_cases, sandbox_of, since, until


async def out(sandbox, command, **options):
    return (await sandbox.commands.run(command, **options)).stdout.strip()


async def gone(sandbox, pid):
    return all(each.pid != pid for each in await sandbox.commands.list())


@case("Commands.run: a login shell of the default user in its home")
async def _(sandbox):
    assert await out(sandbox, "id -un; pwd; echo $HOME; shopt -q login_shell && echo login") == \
        "user\n/home/user\n/home/user\nlogin"


@case("Commands.run: a failure is a CommandExitException with everything in it")
async def _(sandbox):
    try:
        await sandbox.commands.run("echo out; echo err >&2; exit 7")
    except CommandExitException as error:
        assert (error.exit_code, error.stdout, error.stderr, error.error) == \
            (7, "out\n", "err\n", "exit status 7"), error
    else:
        raise AssertionError("it succeeded")


@case("Commands.run: a signal")
async def _(sandbox):
    try:
        await sandbox.commands.run("kill -9 $$")
    except CommandExitException as error:
        assert (error.exit_code, error.error) == (-1, "signal: killed"), error
    else:
        raise AssertionError("it succeeded")


@case("Commands.run(cwd): there, and missing")
async def _(sandbox):
    assert await out(sandbox, "pwd", cwd="/tmp") == "/tmp"
    with raises(InvalidArgumentException, "does not exist"):
        await sandbox.commands.run("pwd", cwd="/no/such/place")


@case("Commands.run(user): root and somebody unknown")
async def _(sandbox):
    assert await out(sandbox, "id -un; pwd", user="root") == "root\n/root"
    with raises(Exception, "user"):
        await sandbox.commands.run("id", user="nobody-knows-me")


@case("Commands.run(envs): seen, and only by that command")
async def _(sandbox):
    assert await out(sandbox, "echo $ONE", envs={"ONE": "a b\"'$ä"}) == "a b\"'$ä"
    assert await out(sandbox, "echo -$ONE-") == "--"


@case("Commands.run(on_stdout, on_stderr): piece by piece, while it runs")
async def _(sandbox):
    seen, moments = [], []

    def hear(data):
        moments.append(time.monotonic())
        seen.append(data)
    result = await sandbox.commands.run(
        "echo one; sleep 0.5; echo two >&2; sleep 0.2; echo three",
        on_stdout=hear, on_stderr=lambda data: seen.append("!" + data))
    assert seen == ["one\n", "!two\n", "three\n"], seen
    assert moments[1] - moments[0] > 0.5, "the first line came with the last one"
    assert result.stdout == "one\nthree\n"


@case("Commands.run(retain_output), Commands.connect(retain_output): not kept")
async def _(sandbox):
    if not since("2.63.0"):
        raise NotApplicable("needs 2.63.0")
    seen = []
    result = await sandbox.commands.run("echo one", on_stdout=seen.append, retain_output=False)
    assert not result.stdout and seen == ["one\n"], (result, seen)
    handle = await sandbox.commands.run("read x; echo $x", background=True, stdin=True)
    again = await sandbox.commands.connect(handle.pid, retain_output=False)
    await sandbox.commands.send_stdin(handle.pid, "heard\n")
    assert not (await again.wait()).stdout
    assert (await handle.wait()).stdout == "heard\n"


@case("Commands.run(timeout): the process is ended too")
async def _(sandbox):
    with raises(TimeoutException):
        await sandbox.commands.run("exec -a timed-out sleep 60", timeout=1)

    async def ended():
        return await out(sandbox, "pgrep -cf '^timed-out' || true") == "0"
    await until(ended, "it ended")


@case("Commands.run(timeout): none")
async def _(sandbox):
    assert await out(sandbox, "sleep 0.3; echo done", timeout=0) == "done"


@case("Commands.run(request_timeout): bounds the start, not the run")
async def _(sandbox):
    assert await out(sandbox, "sleep 1.5; echo done", request_timeout=1) == "done"


@case("Commands.run(background), CommandHandle.wait(on_stdout, on_stderr), CommandHandle.pid: "
      "a handle and its result")
async def _(sandbox):
    handle = await sandbox.commands.run("echo begun; sleep 0.2; echo ended >&2", background=True)
    assert handle.pid > 0
    heard = []
    if SYNC:
        result = handle.wait(on_stdout=heard.append, on_stderr=heard.append)
        assert heard == ["begun\n", "ended\n"], heard
    else:
        result = await handle.wait()
    assert (result.stdout, result.stderr, result.exit_code) == ("begun\n", "ended\n", 0)


@case("CommandHandle.exit_code, CommandHandle.error, CommandHandle.stdout, CommandHandle.stderr: "
      "known of a handle when it has ended")
async def _(sandbox):
    if SYNC:
        raise NotApplicable("handles of the synchronous SDK have results only")
    handle = await sandbox.commands.run("echo out; echo err >&2; exit 3", background=True)
    with raises(CommandExitException):
        await handle.wait()
    assert (handle.exit_code, handle.error, handle.stdout, handle.stderr) == \
        (3, "exit status 3", "out\n", "err\n")


@case("Commands.list(request_timeout): what runs, with its command line and directory")
async def _(sandbox):
    handle = await sandbox.commands.run("sleep 30", background=True, cwd="/tmp", envs={"MARK": "x"})
    found = next(each for each in await sandbox.commands.list(request_timeout=20)
                 if each.pid == handle.pid)
    assert (found.cmd, found.args, found.cwd) == ("/bin/bash", ["-l", "-c", "sleep 30"], "/tmp")
    assert found.envs["MARK"] == "x"
    await handle.kill()


@case("Commands.kill(request_timeout), CommandHandle.kill: true, then false")
async def _(sandbox):
    first = await sandbox.commands.run("sleep 30", background=True)
    second = await sandbox.commands.run("sleep 30", background=True)
    assert await sandbox.commands.kill(first.pid, request_timeout=20) is True
    assert await second.kill() is True
    for handle in (first, second):
        with raises(CommandExitException):
            await handle.wait()

        async def left(pid=handle.pid):
            return await gone(sandbox, pid)
        await until(left, "it left the list")
    assert await sandbox.commands.kill(first.pid) is False
    assert await second.kill() is False


@case("Commands.run(stdin), Commands.send_stdin(request_timeout), "
      "Commands.close_stdin(request_timeout): text, bytes, the end")
async def _(sandbox):
    handle = await sandbox.commands.run("cat; echo over", background=True, stdin=True)
    await sandbox.commands.send_stdin(handle.pid, "typed ä\n", request_timeout=20)
    if since("2.63.0"):
        await sandbox.commands.send_stdin(handle.pid, b"bytes\n")
    await sandbox.commands.close_stdin(handle.pid, request_timeout=20)
    assert (await handle.wait()).stdout == \
        ("typed ä\nbytes\nover\n" if since("2.63.0") else "typed ä\nover\n")


@case("CommandHandle.send_stdin(request_timeout), CommandHandle.close_stdin(request_timeout): "
      "through the handle")
async def _(sandbox):
    handle = await sandbox.commands.run("tr a-z A-Z", background=True, stdin=True)
    await handle.send_stdin("shout", request_timeout=20)
    await handle.close_stdin(request_timeout=20)
    assert (await handle.wait()).stdout == "SHOUT"


@case("Commands.stream_input(timeout), CommandInputHandle.send, CommandInputHandle.close: many "
      "pieces in one call, in their order")
async def _(sandbox):
    handle = await sandbox.commands.run("cat", background=True, stdin=True)
    pieces = [f"{number}\n" for number in range(200)]
    if SYNC:
        sandbox.commands.stream_input(handle.pid, pieces, timeout=30)
    else:
        stream = sandbox.commands.stream_input(handle.pid, timeout=30)
        for piece in pieces:
            await stream.send(piece)
        await stream.close()
    await sandbox.commands.close_stdin(handle.pid)
    assert (await handle.wait()).stdout == "".join(pieces)


@case("Commands.stream_input: to nobody")
async def _(sandbox):
    with raises(NotFoundException):
        if SYNC:
            sandbox.commands.stream_input(999_999, ["x"])
        else:
            stream = sandbox.commands.stream_input(999_999)
            await stream.send("x")
            await stream.close()


@case("Commands.run(stdin): without it there is none")
async def _(sandbox):
    assert await out(sandbox, "cat; echo end", timeout=20) == "end"


@case("Commands.send_stdin: to nobody")
async def _(sandbox):
    with raises((NotFoundException, SandboxException)):
        await sandbox.commands.send_stdin(999_999, "x")


@case("CommandHandle.disconnect, Commands.connect(timeout, request_timeout, on_stdout, on_stderr): "
      "it ran on")
async def _(sandbox):
    handle = await sandbox.commands.run("read line; echo $line; exit 4", background=True, stdin=True)
    await handle.disconnect()
    assert not await gone(sandbox, handle.pid)
    heard = []
    extra = {} if SYNC else {"on_stdout": heard.append, "on_stderr": heard.append}
    again = await sandbox.commands.connect(handle.pid, timeout=60, request_timeout=20, **extra)
    await sandbox.commands.send_stdin(handle.pid, "again\n")
    try:
        await again.wait()
    except CommandExitException as error:
        assert (error.exit_code, error.stdout) == (4, "again\n"), error
    assert SYNC or heard == ["again\n"], heard


@case("Commands.connect: an exit is remembered for a while; nobody is not")
async def _(sandbox):
    handle = await sandbox.commands.run("exit 5", background=True)
    with raises(CommandExitException):
        await handle.wait()
    late = await sandbox.commands.connect(handle.pid)
    with raises(CommandExitException):
        await late.wait()
    with raises(NotFoundException):
        await sandbox.commands.connect(999_999)


@case("Commands.run: bytes that are no text, and characters cut in two")
async def _(sandbox):
    result = await sandbox.commands.run(
        "for n in $(seq 2000); do printf 'ä€🙂'; done; printf '\\xff'")
    assert result.stdout == "ä€🙂" * 2000 + "\ufffd"


@case("Commands.run: four megabytes of output")
async def _(sandbox):
    result = await sandbox.commands.run("head -c 4194304 /dev/zero | tr '\\0' x", timeout=120)
    assert len(result.stdout) == 4 << 20


async def main():
    async with sandbox_of() as sandbox:
        await run_cases(sandbox)
