"""What both clients share without doing any I/O: requests, retries, lines.

Retrying is safe or it is not done. A request that never left may always be sent again. One that may
have arrived is sent again only when a second arrival does no harm: it reads, it deletes, it
replaces, or it carries an Idempotency-Key.
"""
from __future__ import annotations

import base64
import codecs
import json
import random
import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, TypeVar, Union
from urllib.parse import quote

from ._errors import (
    AtollError,
    ConfigurationError,
    ConnectionFailedError,
    ProtocolError,
    TemplateNotReadyError,
    TimeoutError,
    UnavailableError,
)

T = TypeVar("T")
Seconds = Union[int, float, timedelta]
QueryValue = Union[str, int, bool, Sequence[str], None]

LINES = "application/x-ndjson"
# One line carries at most a few megabytes of results; more is not our server.
MAX_LINE_BYTES = 96 << 20
PIECE_BYTES = 256 * 1024
CONNECT_SECONDS = 10.0
# For how long a server that cannot be reached is tried again: a restart takes about a second.
RECONNECT_SECONDS = 3.0


@dataclass
class Request:
    method: str
    path: str
    query: Mapping[str, QueryValue] = field(default_factory=dict)
    json: Optional[Mapping[str, Any]] = None
    content: Any = None  # bytes, or an iterable of bytes
    headers: Dict[str, str] = field(default_factory=dict)
    repeatable: bool = False
    timeout: Optional[float] = None  # for everything, with repetitions; None: the client's
    lasting: bool = False  # the answer may take as long as it likes

    def __post_init__(self) -> None:
        if self.method in ("GET", "DELETE"):
            self.repeatable = True

    def idempotent(self) -> Request:
        self.headers["Idempotency-Key"] = uuid.uuid4().hex
        self.repeatable = True
        return self

    def parameters(self) -> List[Any]:
        pairs: List[Any] = []
        for name, value in self.query.items():
            if value is None or value is False:
                continue
            if value is True:
                pairs.append((name, "true"))
            elif isinstance(value, (str, int)):
                pairs.append((name, str(value)))
            else:
                pairs.extend((name, each) for each in value)
        return pairs


def path(*parts: str) -> str:
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


class Retries:
    """Decides, after each failure of one request, whether and when to try again."""

    def __init__(self, request: Request, timeout: float) -> None:
        self._repeatable = request.repeatable
        self._begin = time.monotonic()
        self._deadline = self._begin + (request.timeout or timeout)
        self._attempts = 0

    def remaining(self) -> float:
        return max(0.001, self._deadline - time.monotonic())

    def delay_after(self, error: AtollError, sent: bool,
                    retry_after: Optional[float] = None) -> Optional[float]:
        """Seconds to wait before the next attempt; None: this error is the answer."""
        now = time.monotonic()
        deadline = self._deadline
        if isinstance(error, (ConnectionFailedError, TimeoutError)) and error.status is None:
            if sent and not self._repeatable:
                return None
            deadline = min(deadline, self._begin + RECONNECT_SECONDS)
        elif isinstance(error, UnavailableError):
            if not self._repeatable:
                return None
        elif not isinstance(error, TemplateNotReadyError):
            return None
        self._attempts += 1
        delay = min(2.0, 0.1 * 2.0 ** (self._attempts - 1)) * random.uniform(0.7, 1.3)
        delay = max(delay, min(retry_after or 0.0, 10.0))
        return delay if now + delay < deadline else None


class Lines:
    """Cuts a stream of bytes into JSON objects, one a line."""

    def __init__(self) -> None:
        self._pending: List[bytes] = []  # joined once, when the line is whole
        self._pending_bytes = 0

    def feed(self, piece: bytes) -> Iterator[Dict[str, Any]]:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            if self._pending:
                line = b"".join([*self._pending, line])
                self._pending, self._pending_bytes = [], 0
            if line.strip():
                yield parse_object(line)
        self._pending.append(rest)
        self._pending_bytes += len(rest)
        if self._pending_bytes > MAX_LINE_BYTES:
            raise ProtocolError("a line of the server's answer is too long")


class TextDecoder:
    """Bytes that come in pieces as text, a character never cut in two."""

    def __init__(self) -> None:
        self._decoders: Dict[str, codecs.IncrementalDecoder] = {}

    def decode(self, source: str, data: bytes) -> str:
        if source not in self._decoders:
            self._decoders[source] = codecs.getincrementaldecoder("utf-8")(errors="replace")
        return self._decoders[source].decode(data)

    def rest(self, source: str) -> str:
        decoder = self._decoders.get(source)
        return "" if decoder is None else decoder.decode(b"", final=True)


def parse_object(text: bytes) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        raise ProtocolError("the server's answer is not valid JSON") from None
    if not isinstance(value, dict):
        raise ProtocolError("the server's answer is not a JSON object")
    return value


def parse(read: Callable[[Any], T], data: Any) -> T:
    """`read(data)`, where what is missing or of the wrong kind is the server's fault."""
    try:
        return read(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError("the server's answer is not what the contract promises "
                            f"({type(error).__name__}: {error}); do client and server fit "
                            "together?") from error


def seconds(value: Seconds, name: str) -> float:
    number = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if number < 0:
        raise ConfigurationError(f"{name} must not be negative")
    return number


def milliseconds(value: Optional[Seconds], name: str) -> Optional[int]:
    """None stays None; anything else is at least 1, because 0 means no limit to the server."""
    return None if value is None else max(1, round(seconds(value, name) * 1000))


def whole_seconds(value: Optional[Seconds], name: str) -> Optional[int]:
    """Rounded up: a limit may be a little late, never early."""
    if value is None:
        return None
    number = seconds(value, name)
    return int(number) + (number != int(number))


def to_bytes(data: Union[str, bytes, bytearray, memoryview]) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ProtocolError("the server sent base64 that is none") from None
