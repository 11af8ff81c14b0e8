"""What differs between asyncio and plain threads; _sync/_platform.py is the other half.

The rest of this folder is written once: tools/generate_sync makes _sync from it.
"""
from __future__ import annotations

import asyncio
import inspect
from typing import (
    IO,
    Any,
    AsyncContextManager,
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Dict,
    Generator,
    Generic,
    Iterable,
    Optional,
    TypeVar,
    Union,
    cast,
)

import httpx

from .._wire import PIECE_BYTES, to_bytes

T = TypeVar("T")
M = TypeVar("M", bound="AsyncContextManager[Any]")
Content = Union[
    str, bytes, bytearray, memoryview, IO[bytes], Iterable[bytes], AsyncIterable[bytes]]
TextCallback = Callable[[str], Union[None, Awaitable[None]]]
# Long enough for a TERM that is ignored for five seconds.
_SETTLE_SECONDS = 15.0

Lock = asyncio.Lock
HttpClient = httpx.AsyncClient
sleep = asyncio.sleep
EXTENSIONS: Dict[str, Any] = {}  # of every request


class Pending(Generic[M]):
    """Something on its way: `await` it, or enter it with `async with` right away."""

    def __init__(self, coroutine: Coroutine[Any, Any, M]) -> None:
        self._coroutine = coroutine
        self._value: Optional[M] = None

    def __await__(self) -> Generator[Any, None, M]:
        return self._coroutine.__await__()

    async def __aenter__(self) -> M:
        self._value = await self._coroutine
        return cast(M, await self._value.__aenter__())

    async def __aexit__(self, *exception: Any) -> Optional[bool]:
        assert self._value is not None
        return await self._value.__aexit__(*exception)


def pending(coroutine: Coroutine[Any, Any, M]) -> Pending[M]:
    return Pending(coroutine)


async def deliver(callback: Optional[TextCallback], text: str) -> None:
    if callback is not None and text:
        returned = callback(text)
        if inspect.isawaitable(returned):
            await returned


async def settle(action: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Cleans up while an exception is on its way: done also when the task is cancelled, and its
    own failure must not hide the first one."""
    task = asyncio.ensure_future(action())
    try:
        await asyncio.wait_for(asyncio.shield(task), _SETTLE_SECONDS)
    except Exception:
        task.cancel()


async def close_iterator(iterator: AsyncIterator[Any]) -> None:
    try:
        await cast("AsyncGenerator[Any, None]", iterator).aclose()
    except RuntimeError:
        pass  # another task is reading; it sees the end by itself


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


async def pieces_of(file: IO[bytes]) -> AsyncIterator[bytes]:
    while True:
        piece = await in_thread(file.read, PIECE_BYTES)
        if not piece:
            return
        yield piece


async def _each_of(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    iterator = iter(pieces)
    while True:
        piece: bytes = await in_thread(lambda: next(iterator, b""))
        if not piece:
            return
        yield piece


def body_of(data: Content) -> Union[bytes, AsyncIterable[bytes]]:
    """As the HTTP client wants it; only bytes can be sent a second time."""
    if isinstance(data, (str, bytes, bytearray, memoryview)):
        return to_bytes(data)
    if hasattr(data, "read"):
        return pieces_of(cast("IO[bytes]", data))
    if hasattr(data, "__aiter__"):
        return cast("AsyncIterable[bytes]", data)
    return _each_of(data)
