"""The connection to a server: sends requests, repeats the safe ones, turns refusals into errors."""
from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Deque, Dict, Optional, Type

import httpx

from .._config import Config, resolve_config
from .._errors import AtollError, ConnectionFailedError, TimeoutError, error_from_answer
from .._version import VERSION
from .._wire import CONNECT_SECONDS, LINES, Lines, Request, Retries, parse, parse_object
from ._platform import EXTENSIONS, HttpClient, close_iterator, sleep

if TYPE_CHECKING:
    from .state import AsyncSnapshots
    from .templates import AsyncTemplates
    from .credentials import AsyncCredentials
    from .volumes import AsyncVolumes
    from .audit import AsyncApprovals, AsyncFlows

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# What an error says is short; whatever else comes is not read for it.
_MAX_ERROR_BYTES = 1 << 20
_MAX_CONNECTIONS = 1000
_KEPT_CONNECTIONS = 20


class AsyncReply:
    """An answer whose body has not been read yet. Close it, or read it to its end."""

    def __init__(self, response: httpx.Response, url: str) -> None:
        self._response = response
        self._url = url
        self._pieces: Optional[AsyncIterator[bytes]] = None
        self._lines = Lines()
        self._waiting: Deque[Dict[str, Any]] = deque()
        self.status = response.status_code
        self.headers = response.headers

    @property
    def is_lines(self) -> bool:
        return bool(self.headers.get("content-type", "").startswith(LINES))

    async def next_piece(self) -> bytes:
        """Empty at the end."""
        if self._pieces is None:
            self._pieces = self._response.aiter_bytes()
        try:
            async for piece in self._pieces:
                if piece:
                    return piece
        except httpx.HTTPError as error:
            raise _transport_error(error, self._url) from error
        await self.close()
        return b""

    async def next_line(self) -> Optional[Dict[str, Any]]:
        """The next JSON object; None at the end."""
        while not self._waiting:
            piece = await self.next_piece()
            if not piece:
                return None
            self._waiting.extend(self._lines.feed(piece))
        return self._waiting.popleft()

    async def read(self, limit: Optional[int] = None) -> bytes:
        body = bytearray()
        piece = await self.next_piece()
        while piece and (limit is None or len(body) < limit):
            body += piece
            piece = await self.next_piece()
        await self.close()
        return bytes(body)

    async def close(self) -> None:
        pieces, self._pieces = self._pieces, None
        if pieces is not None:
            await close_iterator(pieces)
        await self._response.aclose()


class AsyncClient:
    """A server and a key. Sandboxes make one themselves unless they are given one to share.

    `timeout` bounds each call with all its repetitions, in seconds. It is no limit for commands,
    code and transfers, which have their own.
    """

    def __init__(self, url: Optional[str] = None, api_key: Optional[str] = None, *,
                 ca_file: Optional[str] = None, timeout: Optional[float] = None) -> None:
        self._config: Config = resolve_config(url, api_key, ca_file, timeout)
        self._http: Optional[HttpClient] = None
        self._trust = self._config.trust()
        self._opening = threading.Lock()  # nothing waits while it is held
        self._users = 0  # sandboxes that it was made for

    @property
    def url(self) -> str:
        return self._config.url

    @property
    def templates(self) -> AsyncTemplates:
        from .templates import AsyncTemplates
        return AsyncTemplates(self)

    @property
    def snapshots(self) -> AsyncSnapshots:
        from .state import AsyncSnapshots
        return AsyncSnapshots(self)

    @property
    def credentials(self) -> AsyncCredentials:
        from .credentials import AsyncCredentials
        return AsyncCredentials(self)

    @property
    def volumes(self) -> AsyncVolumes:
        from .volumes import AsyncVolumes
        return AsyncVolumes(self)

    @property
    def flows(self) -> AsyncFlows:
        from .audit import AsyncFlows
        return AsyncFlows(self)

    @property
    def approvals(self) -> AsyncApprovals:
        from .audit import AsyncApprovals
        return AsyncApprovals(self)

    async def close(self) -> None:
        """Closes idle connections. The client can still be used: it connects again."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient(url={self._config.url!r})"

    # For the rest of this package ---------------------------------------------------------------
    async def call(self, request: Request) -> Any:
        """The `data` of the answer."""
        reply = await self.open(request)
        body = parse_object(await reply.read())
        return parse(_data_of, body)

    async def open(self, request: Request) -> AsyncReply:
        """The answer of a request that succeeded, its body still to be read."""
        retries = Retries(request, self._config.timeout)
        while True:
            sent, retry_after = True, None
            try:
                response = await self._send(request, retries.remaining())
                if response.status_code < 300:
                    return AsyncReply(response, self._config.url)
                retry_after = _retry_after(response)
                error = await self._refusal(response)
            except httpx.HTTPError as failure:
                sent = not isinstance(failure, _UNSENT)
                error = _transport_error(failure, self._config.url)
                error.__cause__ = failure
            delay = retries.delay_after(error, sent, retry_after)
            if delay is None:
                raise error
            await sleep(delay)

    async def _send(self, request: Request, remaining: float) -> httpx.Response:
        http = self._open_http()
        timeout = httpx.Timeout(
            connect=min(CONNECT_SECONDS, remaining), pool=remaining,
            read=None if request.lasting else remaining,
            write=None if request.lasting else remaining)
        message = http.build_request(
            request.method, self._config.url + request.path, params=request.parameters() or None,
            json=request.json, content=request.content, headers=request.headers, timeout=timeout,
            extensions=dict(EXTENSIONS))
        return await http.send(message, stream=True)

    def _open_http(self) -> HttpClient:
        with self._opening:
            if self._http is None:
                self._http = HttpClient(
                    headers={"Authorization": f"Bearer {self._config.api_key}",
                             "User-Agent": f"atoll-sandbox-python/{VERSION}"},
                    verify=self._trust,
                    # A proxy of the environment is no way to this machine itself.
                    trust_env=not self._config.is_local,
                    limits=httpx.Limits(max_connections=_MAX_CONNECTIONS,
                                        max_keepalive_connections=_KEPT_CONNECTIONS))
            return self._http

    async def _refusal(self, response: httpx.Response) -> AtollError:
        body = await AsyncReply(response, self._config.url).read(_MAX_ERROR_BYTES)
        try:
            document: Any = parse_object(body)
        except AtollError:
            document = None
        return error_from_answer(response.status_code, document,
                                 response.headers.get("x-request-id"))


def _data_of(answer: Dict[str, Any]) -> Any:
    return answer["data"]


def _retry_after(response: httpx.Response) -> Optional[float]:
    try:
        return float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return None


def _transport_error(error: httpx.HTTPError, url: str) -> AtollError:
    if isinstance(error, httpx.ConnectTimeout) or isinstance(error, httpx.ConnectError):
        return ConnectionFailedError(
            f"{url} cannot be reached ({error}): is `atoll serve` running there? Choose another "
            "server with url= or ATOLL_API_URL")
    if isinstance(error, httpx.TimeoutException):
        return TimeoutError(f"{url} did not answer in time; give it longer with timeout=")
    if isinstance(error, httpx.WriteError):
        # The reason may have come, but not every version of httpx reads it after that.
        return ConnectionFailedError(
            f"{url} ended the connection while it was sent something large: it may have refused it "
            "(no space, no permission); a small file to the same place tells why")
    return ConnectionFailedError(f"the connection to {url} broke: {error or type(error).__name__}")
