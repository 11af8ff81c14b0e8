"""A sandbox: made, found, used, ended."""
from __future__ import annotations

from types import TracebackType
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Type, Union

from .._errors import AtollError, NotFoundError
from .._models import (
    NetworkPolicy,
    Resources,
    Sandbox as SandboxInfo,
    SandboxClaim,
    SandboxClaims,
    SandboxConfig,
    SandboxCreate,
    SandboxList,
    SandboxMetrics,
    SandboxRefresh,
    SandboxStatus,
    SandboxTimes,
    SandboxUpdate,
    Snapshot,
    VolumeMount,
)
from .._results import Execution
from .._wire import QueryValue, Request, Seconds, parse, path, seconds, whole_seconds
from ._platform import Pending, TextCallback, pending, settle
from .audit import AsyncFlows
from .client import AsyncClient
from .commands import AsyncCommands
from .contexts import AsyncContext, AsyncContexts
from .files import AsyncFiles
from .services import AsyncPreviews, AsyncServices
from .state import AsyncState
from .terminals import AsyncTerminals
from .volumes import AsyncVolume

_PAGE = 100
Mount = Union[str, AsyncVolume, VolumeMount]


class AsyncSandbox(AsyncState):
    """An isolated machine of its own.

    `AsyncSandbox.create()` in an `async with` block is deleted when the block is left, also by an
    exception. One that was found with `connect` or `get_or_create` stays.
    """

    def __init__(self, client: AsyncClient, id: str, *, owned: bool = False,
                 own_client: bool = False) -> None:
        self._client = client
        self._uses_client = own_client
        self._owned = owned
        self._path = path("sandboxes", id)
        self.id = id
        self.forked_interpreters = []
        if own_client:
            client._users += 1
        self.commands = AsyncCommands(client, id)
        self.files = AsyncFiles(client, self._path)
        self.pty = AsyncTerminals(self.commands)
        self.contexts = AsyncContexts(client, id)
        self.flows = AsyncFlows(client, id)
        self.services = AsyncServices(client, id)
        self.previews = AsyncPreviews(client, id)

    # Making and finding -------------------------------------------------------------------------
    @classmethod
    def create(cls, template: str = "default", *, name: Optional[str] = None,
               labels: Optional[Mapping[str, str]] = None, env: Optional[Mapping[str, str]] = None,
               ttl: Optional[Seconds] = None, hard_ttl: Optional[Seconds] = None,
               idle_ttl: Optional[Seconds] = None, memory: Union[str, int, None] = None,
               cpu: Union[str, float, None] = None, disk: Union[str, int, None] = None,
               snapshot: Union[str, Snapshot, None] = None,
               volumes: Optional[Mapping[str, Mount]] = None,
               network: Optional[Mapping[str, Any]] = None,
               timeout: Optional[Seconds] = None, client: Optional[AsyncClient] = None,
               url: Optional[str] = None, api_key: Optional[str] = None) -> Pending[AsyncSandbox]:
        """Makes a sandbox, which is running when this returns.

        `ttl` pauses it after that many seconds unless it is refreshed, `idle_ttl` when it was not
        used for so long (using it wakes it up); `hard_ttl` deletes it. `memory` and `disk` are like "2Gi" or
        bytes, `cpu` is in cores. No two sandboxes have the same `name`. A template that is still
        being made is waited for, up to `timeout` seconds. With `snapshot` it begins as that
        instead of a template. `volumes` are mounted: a volume, its id or a VolumeMount by the path
        that it shall have. `network` is the policy: what it may reach, and with which credentials.
        """
        config = _config(labels, env, ttl, hard_ttl, idle_ttl, memory, cpu, disk, network)
        body = SandboxCreate(
            template=None if snapshot is not None else template, config=config, name=name,
            snapshot_id=snapshot.id if isinstance(snapshot, Snapshot) else snapshot,
            mounts=_mounts(volumes))
        return pending(cls._create(body, timeout, *_client(client, url, api_key)))

    @classmethod
    def get_or_create(cls, name: str, template: str = "default", *,
                      labels: Optional[Mapping[str, str]] = None,
                      env: Optional[Mapping[str, str]] = None, ttl: Optional[Seconds] = None,
                      hard_ttl: Optional[Seconds] = None, idle_ttl: Optional[Seconds] = None,
                      memory: Union[str, int, None] = None, cpu: Union[str, float, None] = None,
                      disk: Union[str, int, None] = None, timeout: Optional[Seconds] = None,
                      client: Optional[AsyncClient] = None, url: Optional[str] = None,
                      api_key: Optional[str] = None) -> Pending[AsyncSandbox]:
        """The sandbox with this name, as it is; made as described when there is none. It stays
        when its block is left."""
        config = _config(labels, env, ttl, hard_ttl, idle_ttl, memory, cpu, disk)
        body = SandboxCreate(template=template, config=config, name=name, get_or_create=True)
        return pending(cls._create(body, timeout, *_client(client, url, api_key), owned=False))

    @classmethod
    async def create_many(cls, count: int, template: str = "default", *, partial: bool = False,
                          labels: Optional[Mapping[str, str]] = None,
                          env: Optional[Mapping[str, str]] = None, ttl: Optional[Seconds] = None,
                          hard_ttl: Optional[Seconds] = None, idle_ttl: Optional[Seconds] = None,
                          memory: Union[str, int, None] = None,
                          cpu: Union[str, float, None] = None, disk: Union[str, int, None] = None,
                          timeout: Optional[Seconds] = None, client: Optional[AsyncClient] = None,
                          url: Optional[str] = None,
                          api_key: Optional[str] = None) -> List[AsyncSandbox]:
        """Makes several at once: all, or with `partial=True` as many as there is room for. They
        share a connection; each is deleted by its own `kill()` or block."""
        config = _config(labels, env, ttl, hard_ttl, idle_ttl, memory, cpu, disk)
        connection, own = _client(client, url, api_key)
        body = SandboxCreate(template=template, config=config, count=count,
                             partial=partial or None)
        answer = await _claim(connection, body, timeout, own)
        claims = parse(SandboxClaims.from_json, answer).sandboxes
        return [cls(connection, each.sandbox_id, owned=True, own_client=own) for each in claims]

    @classmethod
    def connect(cls, id: str, *, client: Optional[AsyncClient] = None, url: Optional[str] = None,
                api_key: Optional[str] = None) -> Pending[AsyncSandbox]:
        """A sandbox that is already there."""
        return pending(cls._connect(id, *_client(client, url, api_key)))

    @classmethod
    async def list(cls, *, status: Optional[SandboxStatus] = None,
                   template: Optional[str] = None, name: Optional[str] = None,
                   name_prefix: Optional[str] = None, labels: Optional[Mapping[str, str]] = None,
                   client: Optional[AsyncClient] = None, url: Optional[str] = None,
                   api_key: Optional[str] = None) -> AsyncIterator[SandboxInfo]:
        """All sandboxes that match, newest first, fetched page by page as they are asked for."""
        connection, own = _client(client, url, api_key)
        query: Dict[str, QueryValue] = {
            "status": status, "template_id": template, "name": name, "name_prefix": name_prefix,
            "label": [f"{key}={value}" for key, value in (labels or {}).items()], "limit": _PAGE}
        try:
            while True:
                answer = await connection.call(Request("GET", path("sandboxes"), query=query))
                page = parse(SandboxList.from_json, answer)
                for each in page.sandboxes:
                    yield each
                if not page.has_more or not page.next_cursor:
                    return
                query["cursor"] = page.next_cursor
        finally:
            if own:
                await connection.close()

    @classmethod
    async def _create(cls, body: SandboxCreate, timeout: Optional[Seconds], client: AsyncClient,
                      own_client: bool, owned: bool = True) -> AsyncSandbox:
        answer = await _claim(client, body, timeout, own_client)
        claim = parse(SandboxClaim.from_json, answer)
        return cls(client, claim.sandbox_id, owned=owned, own_client=own_client)

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

    async def update(self, *, labels: Optional[Mapping[str, str]] = None,
                     env: Optional[Mapping[str, str]] = None, ttl: Optional[Seconds] = None,
                     hard_ttl: Optional[Seconds] = None, idle_ttl: Optional[Seconds] = None,
                     memory: Union[str, int, None] = None, cpu: Union[str, float, None] = None,
                     disk: Union[str, int, None] = None) -> SandboxInfo:
        """Changes what is given, at once and also for what runs. `labels` and `env` replace the old
        ones as a whole; `env` counts for what is started from now on. 0 takes a ttl away."""
        config = _config(labels, env, ttl, hard_ttl, idle_ttl, memory, cpu, disk)
        return parse(SandboxInfo.from_json, await self._client.call(Request(
            "PATCH", self._path, json=SandboxUpdate(config=config).to_json(), repeatable=True)))

    async def network(self) -> Dict[str, Any]:
        """The policy that it is under: what it may reach, and the floors below."""
        answer: Dict[str, Any] = await self._client.call(Request("GET", f"{self._path}/network"))
        return answer

    async def set_network(self, policy: Mapping[str, Any]) -> Dict[str, Any]:
        """Replaces the policy, at once and also for what is open. `credentialBindings` and `groups`
        that are left out stay as they were. Answers the policy in force."""
        answer: Dict[str, Any] = await self._client.call(Request(
            "PUT", f"{self._path}/network", json=dict(policy), repeatable=True))
        return answer

    async def refresh(self, ttl: Optional[Seconds] = None) -> SandboxTimes:
        """Starts its times again: it lives for another `ttl`, or for as long as given here."""
        body = SandboxRefresh(duration=whole_seconds(ttl, "ttl")).to_json()
        return parse(SandboxTimes.from_json, await self._client.call(
            Request("POST", f"{self._path}/refresh", json=body, repeatable=True)))

    async def metrics(self) -> SandboxMetrics:
        """What it uses: `current` for this moment, `series` for the last hour."""
        answer = await self._client.call(Request("GET", f"{self._path}/metrics"))
        return parse(SandboxMetrics.from_json, answer)

    def fork(self, *, memory: Union[bool, str] = False, start: bool = True,
             ttl: Optional[Seconds] = None,
             hard_ttl: Optional[Seconds] = None) -> Pending[AsyncSandbox]:
        """A new sandbox that begins as this one is now, with an identity of its own. With
        `memory="interpreters"` it has the variables of the interpreters (`forked_interpreters` says
        which), with `memory=True` all that runs. In an `async with` block it is deleted when the block is left."""
        return pending(self._fork_one(memory, start, ttl, hard_ttl))

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
        if not self._uses_client:
            return
        self._uses_client = False
        self._client._users -= 1
        if self._client._users == 0:
            await self._client.close()

    def _child(self, id: str) -> AsyncSandbox:
        return type(self)(self._client, id, owned=True, own_client=self._uses_client)

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


def _mounts(volumes: Optional[Mapping[str, Mount]]) -> Optional[List[VolumeMount]]:
    if volumes is None:
        return None
    mounts = []
    for point, volume in volumes.items():
        if isinstance(volume, VolumeMount):
            mounts.append(volume)
        else:
            id = volume if isinstance(volume, str) else volume.id
            mounts.append(VolumeMount(sandboxvolume_id=id, mount_point=point))
    return mounts


async def _claim(client: AsyncClient, body: SandboxCreate, timeout: Optional[Seconds],
                 own_client: bool) -> Any:
    request = Request("POST", path("sandboxes"), json=body.to_json(),
                      timeout=None if timeout is None else seconds(timeout, "timeout"))
    request.idempotent()
    try:
        return await client.call(request)
    except AtollError:
        if own_client:
            await settle(client.close)
        raise
    except BaseException:
        # It may have been made all the same: asking again tells which one it is.
        await settle(lambda: _withdraw(client, request, own_client,
                                       keep=bool(body.get_or_create)))
        raise


async def _withdraw(client: AsyncClient, request: Request, own_client: bool, keep: bool) -> None:
    try:
        if not keep:
            answer = await client.call(request)
            for claim in answer.get("sandboxes", [answer]):
                await client.call(Request("DELETE", path("sandboxes", claim["sandbox_id"])))
    finally:
        if own_client:
            await client.close()


def _config(labels: Optional[Mapping[str, str]], env: Optional[Mapping[str, str]],
            ttl: Optional[Seconds], hard_ttl: Optional[Seconds], idle_ttl: Optional[Seconds],
            memory: Union[str, int, None], cpu: Union[str, float, None],
            disk: Union[str, int, None],
            network: Optional[Mapping[str, Any]] = None) -> SandboxConfig:
    return SandboxConfig(
        network=None if network is None else NetworkPolicy.from_json(network),
        env_vars=_plain(env), metadata=_plain(labels), ttl=whole_seconds(ttl, "ttl"),
        hard_ttl=whole_seconds(hard_ttl, "hard_ttl"), idle_ttl=whole_seconds(idle_ttl, "idle_ttl"),
        resources=_resources(memory, cpu, disk))


def _plain(values: Optional[Mapping[str, str]]) -> Optional[Dict[str, str]]:
    return None if values is None else {name: str(value) for name, value in values.items()}


def _resources(memory: Union[str, int, None], cpu: Union[str, float, None],
               disk: Union[str, int, None]) -> Optional[Resources]:
    if memory is None and cpu is None and disk is None:
        return None
    memory, cpu, disk = (None if each is None else str(each) for each in (memory, cpu, disk))
    return Resources(memory=memory, cpu=cpu, disk=disk)
