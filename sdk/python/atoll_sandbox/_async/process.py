"""A process in a sandbox and the stream of its output, which survives broken connections."""
from __future__ import annotations

import base64
from types import TracebackType
from typing import AsyncIterator, Optional, Type, Union

from .._errors import (
    AtollError,
    ConnectionFailedError,
    NotFoundError,
    ProcessEndedError,
    ProtocolError,
    TimeoutError,
    UnavailableError,
)
from .._models import (
    Context as ContextInfo,
    InputRequest,
    ResizeRequest,
    SignalRequest,
    StreamExit,
    StreamOutput,
)
from .._results import CommandResult, Output, OutputEvent
from .._wire import PIECE_BYTES, Request, TextDecoder, from_base64, parse, path, to_bytes
from ._platform import TextCallback, deliver, settle, sleep
from .client import AsyncClient, AsyncReply

# How often a broken stream is taken up again before the process counts as lost. Each attempt
# repeats by itself while the server cannot be reached.
_MAX_RECONNECTS = 5


class AsyncProcess:
    """A command that runs in the background.

    Iterate over it for its output as it comes; `wait()` for its end. Leaving its `async with` block
    ends it. Without a block it goes on by itself, also when this program ends:
    `sandbox.commands.connect(id, cursor)` finds it again.
    """

    def __init__(self, client: AsyncClient, sandbox_id: str, context: ContextInfo, cursor: int = 0,
                 reply: Optional[AsyncReply] = None) -> None:
        self._client = client
        self._path = path("sandboxes", sandbox_id, "contexts", context.id)
        self._reply = reply
        self._exit: Optional[StreamExit] = None
        self._decoder = TextDecoder()
        self._events: Optional[AsyncIterator[OutputEvent]] = None
        self.id = context.id
        self.pid = context.pid
        self.command = context.command
        #: Where the output continues: give it to `connect` to miss and repeat nothing.
        self.cursor = cursor
        #: Output was lost because nobody read it while it was kept.
        self.truncated = False

    # Output -------------------------------------------------------------------------------------
    def __aiter__(self) -> AsyncIterator[OutputEvent]:
        if self._events is None:
            self._events = self._follow()
        return self._events

    async def wait(self, *, on_stdout: Optional[TextCallback] = None,
                   on_stderr: Optional[TextCallback] = None, check: bool = False,
                   capture: bool = True) -> CommandResult:
        """Reads to the end. The result has the output since the last event that was read; with
        `capture=False` it has none, and nothing is kept in memory."""
        output = Output()
        async for event in self:
            if capture:
                output.add(event)
            await deliver(on_stderr if event.source == "stderr" else on_stdout, event.text)
        await deliver(on_stdout, self._decoder.rest("stdout"))
        await deliver(on_stderr, self._decoder.rest("stderr"))
        output.truncated = self.truncated
        result = output.result(self.id, self._exit)
        return result.check() if check else result

    @property
    def ended(self) -> bool:
        """Its end has been seen by iterating or waiting."""
        return self._exit is not None

    async def info(self) -> ContextInfo:
        """The process as the server sees it now, with the newest of its output."""
        return parse(ContextInfo.from_json, await self._client.call(Request("GET", self._path)))

    async def detach(self) -> None:
        """Stops following; the process goes on."""
        reply, self._reply = self._reply, None
        if reply is not None:
            await reply.close()

    async def _follow(self) -> AsyncIterator[OutputEvent]:
        failures = 0
        while self._exit is None:
            try:
                if self._reply is None:
                    self._reply = await self._reconnect()
                line = await self._reply.next_line()
                if line is None:
                    raise ConnectionFailedError("the stream ended before the process")
                event = self._take(line)
                if event is not None:
                    failures = 0
                    yield event
                elif self._exit is not None:
                    await self._reply.next_line()  # the end: the connection can be used again
            except NotFoundError:
                return  # the sandbox or the context is gone
            except (ConnectionFailedError, TimeoutError, UnavailableError) as error:
                if isinstance(error, ProtocolError):
                    raise
                failures += 1
                if failures > _MAX_RECONNECTS:
                    return
                await self.detach()
                await sleep(0.05 * 2 ** failures)
        await self.detach()

    async def _reconnect(self) -> AsyncReply:
        return await self._client.open(Request("GET", f"{self._path}/stream",
                                               query={"from": self.cursor}, lasting=True))

    def _take(self, line: "dict[str, object]") -> Optional[OutputEvent]:
        if line.get("type") == "exit":
            self._exit = parse(StreamExit.from_json, line)
            return None
        if line.get("type") != "output" or line.get("source") == "channel":
            return None
        output = parse(StreamOutput.from_json, line)
        data, offset = from_base64(output.data_base64), output.offset
        if offset < self.cursor:  # begun before the point where we continue
            data, offset = data[self.cursor - offset:], self.cursor
        self.truncated = self.truncated or offset > self.cursor
        self.cursor = offset + len(data)
        return OutputEvent(output.source, data, self._decoder.decode(output.source, data), offset)

    # Input and ending ---------------------------------------------------------------------------
    async def send_stdin(self, data: Union[str, bytes]) -> None:
        """Writes to its input, which must have been opened with `stdin=True`."""
        content = to_bytes(data)
        for begin in range(0, len(content), PIECE_BYTES):
            text = base64.b64encode(content[begin:begin + PIECE_BYTES]).decode()
            await self._post("input", InputRequest(data_base64=text).to_json())

    async def close_stdin(self) -> None:
        await self._post("input", InputRequest(eof=True).to_json())

    async def resize(self, rows: int, cols: int) -> None:
        """Of its terminal."""
        await self._post("resize", ResizeRequest(rows=rows, cols=cols).to_json())

    async def signal(self, signal: Union[str, int]) -> None:
        """Sends "TERM", "SIGUSR1" or a number to its process group."""
        await self._post("signal", SignalRequest(signal=str(signal)).to_json())

    async def terminate(self) -> None:
        await self._signal_if_running("TERM")

    async def kill(self) -> None:
        await self._signal_if_running("KILL")

    async def remove(self) -> None:
        """Ends it (TERM, KILL five seconds later) and lets the server forget it."""
        await self.detach()
        try:
            await self._client.call(Request("DELETE", self._path))
        except NotFoundError:
            pass

    async def _signal_if_running(self, name: str) -> None:
        try:
            await self.signal(name)
        except (NotFoundError, ProcessEndedError):
            pass

    async def _post(self, verb: str, body: "dict[str, object]") -> None:
        await self._client.call(Request("POST", f"{self._path}/{verb}", json=body))

    async def __aenter__(self) -> AsyncProcess:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        if error is not None:
            await settle(self._end)
        else:
            await self._end()

    async def _end(self) -> None:
        try:
            if self._exit is None:
                await self.kill()
            await self.remove()
        except AtollError:
            if self._exit is None:
                raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.command}>"
