"""`sandbox.commands`: run programs, in the foreground and in the background."""
from __future__ import annotations

import secrets
from typing import Dict, List, Mapping, Optional, Sequence, Union

from .._errors import AtollError, InvalidRequestError
from .._models import (
    CommandSpec,
    Context as ContextInfo,
    ContextCreate,
    ContextList,
    PtySize,
    StreamStarted,
)
from .._results import CommandResult
from .._wire import LINES, Request, Seconds, milliseconds, parse, parse_object, path, to_bytes, \
    whole_seconds
from ._platform import Pending, TextCallback, pending, settle
from .client import AsyncClient, AsyncReply
from .process import AsyncProcess

Command = Union[str, Sequence[str]]
# What fits into a request; more goes through a file, which the server does not have to hold.
_MAX_INLINE_INPUT_BYTES = 256 * 1024
# Takes the file as its input and forgets its name before the program runs.
_FROM_FILE = 'exec <"$0" && rm -f "$0" && exec "$@"'


class AsyncCommands:
    def __init__(self, client: AsyncClient, sandbox_id: str) -> None:
        self._client = client
        self._sandbox_id = sandbox_id
        self._path = path("sandboxes", sandbox_id, "contexts")

    async def run(self, command: Command, *, cwd: Optional[str] = None,
                  env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
                  timeout: Optional[Seconds] = None, stdin: Union[str, bytes, None] = None,
                  on_stdout: Optional[TextCallback] = None,
                  on_stderr: Optional[TextCallback] = None, check: bool = False,
                  capture: bool = True) -> CommandResult:
        """Runs a command to its end.

        A string is run by a shell (bash, or sh where there is none), a list as it stands. After
        `timeout` seconds it is killed and the outcome is "timed_out". `check=True` raises
        CommandError unless it exits with 0. An exception meanwhile, such as a cancelled task, ends
        the command.
        """
        process = await self._start(command, cwd, env, user, timeout, None, stdin, None)
        try:
            result = await process.wait(on_stdout=on_stdout, on_stderr=on_stderr, capture=capture)
        except BaseException:
            await settle(process._end)
            raise
        await settle(process.remove)
        return result.check() if check else result

    def start(self, command: Command, *, cwd: Optional[str] = None,
              env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
              timeout: Optional[Seconds] = None, idle_timeout: Optional[Seconds] = None,
              stdin: Union[str, bytes, bool, None] = None) -> Pending[AsyncProcess]:
        """Starts a command and returns while it runs. `stdin=True` keeps its input open for
        `send_stdin`."""
        return pending(self._start(command, cwd, env, user, timeout, idle_timeout, stdin, None))

    def connect(self, id: str, cursor: int = 0) -> Pending[AsyncProcess]:
        """Finds a command that was started before, here or elsewhere. Its output is read from
        `cursor` on, as far as the server still has it."""
        return pending(self._connect(id, cursor))

    async def list(self) -> List[ContextInfo]:
        """All commands and interpreters that the sandbox knows, also ended ones."""
        answer = await self._client.call(Request("GET", self._path))
        return parse(ContextList.from_json, answer).contexts

    async def kill(self, id: str) -> None:
        """Ends a command and lets the server forget it."""
        await self._client.call(Request("DELETE", f"{self._path}/{id}"))

    # --------------------------------------------------------------------------------------------
    async def _connect(self, id: str, cursor: int) -> AsyncProcess:
        answer = await self._client.call(Request("GET", f"{self._path}/{id}"))
        return AsyncProcess(self._client, self._sandbox_id, parse(ContextInfo.from_json, answer),
                            cursor)

    async def _start(self, command: Command, cwd: Optional[str], env: Optional[Mapping[str, str]],
                     user: Optional[str], timeout: Optional[Seconds],
                     idle_timeout: Optional[Seconds], stdin: Union[str, bytes, bool, None],
                     size: Optional[PtySize]) -> AsyncProcess:
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        if isinstance(stdin, bool):
            text, file = None, None
        else:
            text, file = await self._place_input(stdin, user)
        if file is not None:
            argv = ["sh", "-c", _FROM_FILE, file, *argv]
        body = ContextCreate(
            type="cmd", cmd=CommandSpec(command=argv), cwd=cwd, env_vars=_plain(env), user=user,
            pty_size=size, stdin=text, stdin_open=True if stdin is True else None,
            timeout_ms=milliseconds(timeout, "timeout"),
            idle_timeout_sec=whole_seconds(idle_timeout, "idle_timeout"))
        try:
            return await self._create(body)
        except InvalidRequestError as error:
            if not (isinstance(command, str) and error.reason == "command_not_found"):
                await self._forget_input(file)
                raise
            argv[argv.index("bash")] = "sh"
            return await self._create(body)
        except AtollError:
            await self._forget_input(file)
            raise

    async def _create(self, body: ContextCreate) -> AsyncProcess:
        request = Request("POST", self._path, json=body.to_json(), headers={"Accept": LINES},
                          lasting=True).idempotent()
        try:
            return await self._take(await self._client.open(request))
        except AtollError:
            raise
        except BaseException:
            await settle(lambda: self._withdraw(request))
            raise

    async def _take(self, reply: AsyncReply) -> AsyncProcess:
        if reply.is_lines:
            line = await reply.next_line()
            started = parse(StreamStarted.from_json, line)
            return AsyncProcess(self._client, self._sandbox_id, started.context, reply=reply)
        # A repetition: the command runs since the first time, its output is elsewhere.
        answer = parse_object(await reply.read())
        context = parse(lambda document: ContextInfo.from_json(document["data"]), answer)
        return AsyncProcess(self._client, self._sandbox_id, context)

    async def _withdraw(self, request: Request) -> None:
        """Ends a command that nobody waits for any longer: asking again tells which it is."""
        process = await self._take(await self._client.open(request))
        await process._end()

    async def _place_input(self, stdin: Union[str, bytes, None],
                           user: Optional[str]) -> "tuple[Optional[str], Optional[str]]":
        """Text to send along, or the name of a file that was written."""
        if stdin is None:
            return None, None
        content = to_bytes(stdin)
        if len(content) <= _MAX_INLINE_INPUT_BYTES:
            try:
                return content.decode(), None
            except UnicodeDecodeError:
                pass
        name = f"/tmp/.atoll-input-{secrets.token_hex(8)}"
        await self._client.call(Request(
            "POST", path("sandboxes", self._sandbox_id, "files"), content=content,
            query={"path": name, "user": user}, repeatable=True, lasting=True))
        return None, name

    async def _forget_input(self, file: Optional[str]) -> None:
        if file is not None:
            await self._client.call(Request(
                "DELETE", path("sandboxes", self._sandbox_id, "files"), query={"path": file}))


def _plain(env: Optional[Mapping[str, str]]) -> Optional[Dict[str, str]]:
    return None if env is None else {name: str(value) for name, value in env.items()}
