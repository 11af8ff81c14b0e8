"""A sandbox: made, found, used, ended."""
from __future__ import annotations

from types import TracebackType
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Type, Union

from .._errors import AtollError, NotFoundError
from .._models import Resources, Sandbox as SandboxInfo, SandboxClaim, SandboxConfig, \
    SandboxCreate, SandboxList, SandboxStatus
from .._results import Execution
from .._wire import Request, Seconds, parse, path, seconds, whole_seconds
from ._platform import Pending, TextCallback, pending, settle
from .client import AsyncClient
from .commands import AsyncCommands
from .contexts import AsyncContext, AsyncContexts
from .files import AsyncFiles
from .terminals import AsyncTerminals

_PAGE = 100


class AsyncSandbox:
    """An isolated machine of its own.

    `AsyncSandbox.create()` in an `async with` block is deleted when the block is left, also by an
    exception. One that was found with `connect` or `get_or_create` stays.
    """

    def __init__(self, client: AsyncClient, id: str, *, owned: bool = False,
                 own_client: bool = False) -> None:
        self._client = client
        self._own_client = own_client
        self._owned = owned
        self._path = path("sandboxes", id)
        self.id = id
        self.commands = AsyncCommands(client, id)
        self.files = AsyncFiles(client, id)
        self.pty = AsyncTerminals(self.commands)
        self.contexts = AsyncContexts(client, id)

    # Making and finding -------------------------------------------------------------------------
    @classmethod
    def create(cls, template: str = "default", *, labels: Optional[Mapping[str, str]] = None,
               env: Optional[Mapping[str, str]] = None, ttl: Optional[Seconds] = None,
               hard_ttl: Optional[Seconds] = None, memory: Union[str, int, None] = None,
               cpu: Union[str, float, None] = None, disk: Union[str, int, None] = None,
               timeout: Optional[Seconds] = None, client: Optional[AsyncClient] = None,
               url: Optional[str] = None, api_key: Optional[str] = None) -> Pending[AsyncSandbox]:
        """Makes a sandbox, which is running when this returns.

        `ttl` deletes it after that many seconds. `memory` and `disk` are like "2Gi" or bytes, `cpu`
        is in cores. A template that is still being made is waited for, up to `timeout` seconds.
        """
        config = SandboxConfig(
            env_vars=_plain(env), metadata=_plain(labels), ttl=whole_seconds(ttl, "ttl"),
            hard_ttl=whole_seconds(hard_ttl, "hard_ttl"), resources=_resources(memory, cpu, disk))
        return pending(cls._create(SandboxCreate(template, config), timeout,
                                   *_client(client, url, api_key)))

    @classmethod
    def connect(cls, id: str, *, client: Optional[AsyncClient] = None, url: Optional[str] = None,
                api_key: Optional[str] = None) -> Pending[AsyncSandbox]:
        """A sandbox that is already there."""
        return pending(cls._connect(id, *_client(client, url, api_key)))

    @classmethod
    async def list(cls, *, status: Optional[SandboxStatus] = None,
                   template: Optional[str] = None, client: Optional[AsyncClient] = None,
                   url: Optional[str] = None,
                   api_key: Optional[str] = None) -> AsyncIterator[SandboxInfo]:
        """All sandboxes, newest first, fetched page by page as they are asked for."""
        connection, own = _client(client, url, api_key)
        seen = 0
        try:
            while True:
                answer = await connection.call(Request(
                    "GET", path("sandboxes"), query={"status": status, "template_id": template,
                                                     "limit": _PAGE, "offset": seen}))
                page = parse(SandboxList.from_json, answer)
                for each in page.sandboxes:
                    yield each
                seen += len(page.sandboxes)
                if not page.has_more or not page.sandboxes:
                    return
        finally:
            if own:
                await connection.close()

    @classmethod
    async def _create(cls, body: SandboxCreate, timeout: Optional[Seconds], client: AsyncClient,
                      own_client: bool) -> AsyncSandbox:
        request = Request("POST", path("sandboxes"), json=body.to_json(),
                          timeout=None if timeout is None else seconds(timeout, "timeout"))
        request.idempotent()
        try:
            claim = parse(SandboxClaim.from_json, await client.call(request))
        except AtollError:
            if own_client:
                await settle(client.close)
            raise
        except BaseException:
            # It may have been made all the same: asking again tells which one it is.
            await settle(lambda: _withdraw(client, request, own_client))
            raise
        return cls(client, claim.sandbox_id, owned=True, own_client=own_client)

    @classmethod
    async def _connect(cls, id: str, client: AsyncClient, own_client: bool) -> AsyncSandbox:
        sandbox = cls(client, id, own_client=own_client)
        try:
            await sandbox.info()
        except BaseException:
            await settle(sandbox.close)
            raise
        return sandbox

    # Using --------------------------------------------------------------------------------------
    async def run_code(self, code: str, *, language: str = "python",
                       context: Optional[AsyncContext] = None, timeout: Optional[Seconds] = None,
                       on_stdout: Optional[TextCallback] = None,
                       on_stderr: Optional[TextCallback] = None,
                       check: bool = False) -> Execution:
        """Runs code and waits for its end. Variables stay: all code of a language runs in the same
        interpreter, unless `context` names another. Errors of the code are in the result;
        `check=True` raises them as CodeError."""
        if context is not None:
            return await context.run(code, timeout=timeout, on_stdout=on_stdout,
                                     on_stderr=on_stderr, check=check)
        return await self.contexts.run_default(code, language, timeout, on_stdout, on_stderr, check)

    def create_context(self, language: str = "python", *, cwd: Optional[str] = None,
                       env: Optional[Mapping[str, str]] = None, user: Optional[str] = None,
                       ttl: Optional[Seconds] = None, idle_timeout: Optional[Seconds] = None,
                       repl_config: Optional[Mapping[str, Any]] = None) -> Pending[AsyncContext]:
        """Starts an interpreter of its own; the same as `contexts.create`."""
        return self.contexts.create(language, cwd=cwd, env=env, user=user, ttl=ttl,
                                    idle_timeout=idle_timeout, repl_config=repl_config)

    async def info(self) -> SandboxInfo:
        """What the server knows of it."""
        return parse(SandboxInfo.from_json, await self._client.call(Request("GET", self._path)))

    async def is_running(self) -> bool:
        try:
            return (await self.info()).status == "running"
        except NotFoundError:
            return False

    # Ending -------------------------------------------------------------------------------------
    async def kill(self) -> bool:
        """Deletes it with everything in it. False: it was gone before."""
        try:
            await self._client.call(Request("DELETE", self._path))
            return True
        except NotFoundError:
            return False

    async def close(self) -> None:
        """Closes the connections of this object; the sandbox stays."""
        if self._own_client:
            await self._client.close()

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        try:
            if self._owned and error is not None:
                await settle(self.kill)
            elif self._owned:
                await self.kill()
        finally:
            await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


def _client(client: Optional[AsyncClient], url: Optional[str],
            api_key: Optional[str]) -> "tuple[AsyncClient, bool]":
    if client is not None:
        if url is not None or api_key is not None:
            raise ValueError("give either client= or url= and api_key=")
        return client, False
    return AsyncClient(url, api_key), True


async def _withdraw(client: AsyncClient, request: Request, own_client: bool) -> None:
    try:
        claim = parse(SandboxClaim.from_json, await client.call(request))
        await client.call(Request("DELETE", path("sandboxes", claim.sandbox_id)))
    finally:
        if own_client:
            await client.close()


def _plain(values: Optional[Mapping[str, str]]) -> Optional[Dict[str, str]]:
    return None if values is None else {name: str(value) for name, value in values.items()}


def _resources(memory: Union[str, int, None], cpu: Union[str, float, None],
               disk: Union[str, int, None]) -> Optional[Resources]:
    if memory is None and cpu is None and disk is None:
        return None
    memory, cpu, disk = (None if each is None else str(each) for each in (memory, cpu, disk))
    return Resources(memory, cpu, disk)
