"""What differs between asyncio and plain threads; _async/_platform.py is the other half."""
from __future__ import annotations

import socket
import threading
import time
from typing import (
    IO,
    Any,
    Callable,
    Dict,
    Generator,
    Iterable,
    Iterator,
    Optional,
    TypeVar,
    Union,
    cast,
)

import httpcore
import httpx

from .._wire import PIECE_BYTES, to_bytes

T = TypeVar("T")
Content = Union[str, bytes, bytearray, memoryview, IO[bytes], Iterable[bytes]]
TextCallback = Callable[[str], None]

Lock = threading.Lock
HttpClient = httpx.Client
sleep = time.sleep


def _send_at_once(event: str, info: Dict[str, Any]) -> None:
    if event == "connection.connect_tcp.complete":
        connected = info["return_value"].get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


# Before 0.18 httpcore left Nagle's algorithm on: every request with a body took 40 ms longer.
EXTENSIONS: Dict[str, Any] = {}
if tuple(int(part) for part in httpcore.__version__.split(".")[:2]) < (0, 18):
    EXTENSIONS["trace"] = _send_at_once


def pending(value: T) -> T:
    return value


def deliver(callback: Optional[TextCallback], text: str) -> None:
    if callback is not None and text:
        callback(text)


def settle(action: Callable[[], Any]) -> None:
    """Cleans up while an exception is on its way: its own failure must not hide the first one."""
    try:
        action()
    except Exception:
        pass


def close_iterator(iterator: Iterator[Any]) -> None:
    try:
        cast("Generator[Any, None, None]", iterator).close()
    except (RuntimeError, ValueError):
        pass  # another thread is reading; it sees the end by itself


def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    return function(*arguments)


def pieces_of(file: IO[bytes]) -> Iterator[bytes]:
    while True:
        piece = file.read(PIECE_BYTES)
        if not piece:
            return
        yield piece


def body_of(data: Content) -> Union[bytes, Iterable[bytes]]:
    """As the HTTP client wants it; only bytes can be sent a second time."""
    if isinstance(data, (str, bytes, bytearray, memoryview)):
        return to_bytes(data)
    if hasattr(data, "read"):
        return pieces_of(cast("IO[bytes]", data))
    return data
