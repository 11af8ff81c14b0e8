"""The first minute of somebody who tries it: create, run, write, read, kill."""
import re

from e2b import AsyncSandbox
from support import case, run_cases


@case("Sandbox.create: without any option")
async def _(made):
    made.append(await AsyncSandbox.create())
    assert re.fullmatch("i[a-z0-9]{20}", made[0].sandbox_id), made[0].sandbox_id


@case("Commands.run: output and exit code")
async def _(made):
    result = await made[0].commands.run("echo out; echo err >&2")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "err\n"), result


@case("Filesystem.write, Filesystem.read: text there and back")
async def _(made):
    await made[0].files.write("/home/user/hello.txt", "hello, wörld")
    assert await made[0].files.read("/home/user/hello.txt") == "hello, wörld"
    assert (await made[0].commands.run("cat hello.txt")).stdout == "hello, wörld"


@case("Sandbox.kill, Sandbox.is_running: it is gone")
async def _(made):
    assert await made[0].is_running() is True
    assert await made[0].kill() is True
    assert await made[0].is_running() is False


async def main():
    await run_cases([])
