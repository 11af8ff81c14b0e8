"""Terminals: what is typed, what is seen, how large it is, how it ends."""
import re

from e2b import CommandExitException, NotFoundException, PtySize
from support import SYNC, case, raises, run_cases, sandbox_of, until


class Terminal:
    """Either way of it, as one: output is collected until a pattern is seen."""

    def __init__(self, sandbox):
        self.pty, self.screen, self.handle = sandbox.pty, b"", None

    def hear(self, data):
        self.screen += data

    async def open(self, rows=24, cols=80, **options):
        extra = {} if SYNC else {"on_data": self.hear}
        self.handle = await self.pty.create(PtySize(rows=rows, cols=cols), timeout=60, **extra,
                                            **options)
        return self

    async def connect(self, pid):
        extra = {} if SYNC else {"on_data": self.hear}
        self.handle = await self.pty.connect(pid, timeout=60, request_timeout=20, **extra)
        return self

    async def type(self, text):
        await self.pty.send_stdin(self.handle.pid, text.encode(), request_timeout=20)

    async def sees(self, pattern):
        def found():
            return re.search(pattern, self.screen.decode(errors="replace"))
        if SYNC:
            if found():  # it came together with what was looked for before
                return
            for _, _, data in self.handle:
                self.screen += data or b""
                if found():
                    return
            raise AssertionError(f"it ended before {pattern}: {self.screen}")

        async def seen():
            return found()
        await until(seen, f"{pattern} on {self.screen}")


@case("Pty.create(size, on_data), CommandHandle.wait(on_pty): a shell on a terminal of that size")
async def _(sandbox):
    terminal = await Terminal(sandbox).open(rows=31, cols=91)
    await terminal.type('stty size; echo "<$TERM-$(id -un)-$PWD>"; shopt login_shell\n')
    await terminal.sees("31 91")
    await terminal.sees("<xterm-256color-user-/home/user>")
    await terminal.sees(r"login_shell\s+on")
    await terminal.type("exit 6\n")
    try:
        if SYNC:
            terminal.handle.wait(on_pty=terminal.hear)
        else:
            await terminal.handle.wait()
    except CommandExitException as error:
        assert error.exit_code == 6, error
    else:
        raise AssertionError("it succeeded")


@case("Pty.create(user, cwd, envs, request_timeout): who, where, with what")
async def _(sandbox):
    terminal = await Terminal(sandbox).open(user="root", cwd="/tmp", envs={"MARK": "märk"},
                                            request_timeout=20)
    await terminal.type('echo "<$MARK|$(id -un)|$PWD>"\n')
    await terminal.sees(r"<märk\|root\|/tmp>")
    await terminal.handle.kill()


@case("Pty.resize(size, request_timeout), Pty.send_stdin(request_timeout): the program is told")
async def _(sandbox):
    terminal = await Terminal(sandbox).open()
    await sandbox.pty.resize(terminal.handle.pid, PtySize(rows=50, cols=132), request_timeout=20)
    await terminal.type("stty size\n")
    await terminal.sees("50 132")
    await terminal.handle.kill()


@case("Pty.stream_input(timeout): typed in one call")
async def _(sandbox):
    terminal = await Terminal(sandbox).open()
    if SYNC:
        sandbox.pty.stream_input(terminal.handle.pid, ["echo str", "eamed-$((6*7))\n"], timeout=30)
    else:
        stream = sandbox.pty.stream_input(terminal.handle.pid, timeout=30)
        await stream.send("echo str")
        await stream.send("eamed-$((6*7))\n")
        await stream.close()
    await terminal.sees("streamed-42")
    await terminal.handle.kill()


@case("Pty.connect(on_data, timeout, request_timeout): the same terminal again")
async def _(sandbox):
    first = await Terminal(sandbox).open()
    await first.type("export REMEMBERED=yes\n")
    await first.handle.disconnect()
    second = await Terminal(sandbox).connect(first.handle.pid)
    await second.type("echo remembered-$REMEMBERED\n")
    await second.sees("remembered-yes")
    await second.handle.kill()


@case("Pty.create(timeout): ends by itself")
async def _(sandbox):
    extra = {} if SYNC else {"on_data": lambda data: None}
    handle = await sandbox.pty.create(PtySize(rows=24, cols=80), timeout=1.5, **extra)
    with raises(Exception):
        await handle.wait()


@case("Pty.kill(request_timeout): true, then false")
async def _(sandbox):
    terminal = await Terminal(sandbox).open()
    pid = terminal.handle.pid
    assert await sandbox.pty.kill(pid, request_timeout=20) is True
    with raises(CommandExitException):
        await terminal.handle.wait()

    async def gone():
        return all(each.pid != pid for each in await sandbox.commands.list())
    await until(gone, "it left the list")
    assert await sandbox.pty.kill(pid) is False


@case("Pty.send_stdin, Pty.resize: of a terminal that is not there")
async def _(sandbox):
    with raises(NotFoundException):
        await sandbox.pty.send_stdin(999_999, b"x")
    with raises(NotFoundException):
        await sandbox.pty.resize(999_999, PtySize(rows=1, cols=1))


async def main():
    async with sandbox_of() as sandbox:
        await run_cases(sandbox)
