"""Changes of files as they happen."""
from __future__ import annotations

from types import TracebackType
from typing import AsyncIterator, Optional, Type

from .._errors import AtollError, ConnectionFailedError, ProtocolError
from .._models import FileEvent
from .._wire import Request, parse
from ._platform import settle
from .client import AsyncClient, AsyncReply


class AsyncWatch:
    """Iterate over it for changes. It watches from its making on; leaving its `async with` block,
    or `close()`, ends it. An event "overflow" means that changes were missed: look again."""

    def __init__(self, reply: AsyncReply) -> None:
        self._reply = reply
        self._closed = False

    @classmethod
    async def open(cls, client: AsyncClient, request: Request) -> AsyncWatch:
        reply = await client.open(request)
        try:
            line = await reply.next_line()
        except BaseException:
            await settle(reply.close)
            raise
        if line is None or line.get("type") != "subscribed":
            await reply.close()
            raise ProtocolError("the server did not say that it watches")
        return cls(reply)

    async def __aiter__(self) -> AsyncIterator[FileEvent]:
        while not self._closed:
            try:
                line = await self._reply.next_line()
            except AtollError:
                if self._closed:
                    return
                raise
            if line is None:
                if self._closed:
                    return
                raise ConnectionFailedError("the watch ended: changes from here on are not seen")
            if line.get("type") == "event":
                yield parse(FileEvent.from_json, line)

    async def close(self) -> None:
        self._closed = True
        await self._reply.close()

    async def __aenter__(self) -> AsyncWatch:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        await settle(self.close)
