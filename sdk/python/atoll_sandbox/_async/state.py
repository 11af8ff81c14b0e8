"""What a sandbox is beyond the moment: pausing, snapshots, forks."""
from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, AsyncIterator, Dict, List, Optional, TypeVar, Union

from .._models import (
    CarriedInterpreter,
    DiffEntry,
    ForkAnswer,
    PauseAnswer,
    RestoreAnswer,
    ResumeAnswer,
    SandboxTree,
    Snapshot,
    SnapshotCreate,
    SnapshotList,
)
from .._wire import Request, Seconds, parse, path, seconds, whole_seconds
from ._platform import Content, body_of
from .client import AsyncClient

# A dump writes all memory, a hundred forks make a hundred sandboxes.
_STATE_SECONDS = 600.0

Self = TypeVar("Self", bound="AsyncState")


class AsyncState:
    """Part of every sandbox."""

    #: Of a fork with `memory="interpreters"`: what became of each interpreter of the parent.
    forked_interpreters: List[CarriedInterpreter]
    _client: AsyncClient
    _path: str

    async def pause(self, *, memory: Union[bool, str] = True) -> PauseAnswer:
        """Stops every process where it is; the files are on disk when this returns. `memory="disk"`
        writes the processes to disk and gives their memory back, `memory=False` ends them. Using
        the sandbox wakes it up."""
        return parse(PauseAnswer.from_json, await self._change("pause", {"memory": memory}))

    async def resume(self) -> ResumeAnswer:
        """Lets a paused sandbox go on. `restored` says from what: "memory", or "filesystem" when
        its processes could not be kept (`reason` says why)."""
        return parse(ResumeAnswer.from_json, await self._change("resume", {}))

    async def snapshot(self, name: Optional[str] = None, *, description: Optional[str] = None,
                       expires_in: Optional[Seconds] = None) -> Snapshot:
        """Keeps the files as they are now. It outlives the sandbox: `create(snapshot=...)` begins
        there, `restore()` goes back there."""
        expires_at = None
        if expires_in is not None:
            now = datetime.now(timezone.utc).timestamp()
            expires_at = datetime.fromtimestamp(now + seconds(expires_in, "expires_in"),
                                                timezone.utc)
        body = SnapshotCreate(name=name, description=description, expires_at=expires_at)
        return parse(Snapshot.from_json, await self._client.call(Request(
            "POST", f"{self._path}/snapshots", json=body.to_json(), timeout=_STATE_SECONDS)))

    async def snapshots(self) -> List[Snapshot]:
        """Those of this sandbox, oldest first."""
        answer = await self._client.call(Request("GET", f"{self._path}/snapshots"))
        return parse(SnapshotList.from_json, answer).snapshots

    async def restore(self, snapshot: Union[str, Snapshot], *, force: bool = False) -> RestoreAnswer:
        """Gives the sandbox the files of a snapshot. It must be paused; with `force` one that runs
        is stopped and started again."""
        # Not repeatable: once more would take away what was written since.
        return parse(RestoreAnswer.from_json, await self._client.call(Request(
            "POST", f"{self._path}/rootfs/restore", timeout=_STATE_SECONDS,
            json={"snapshot_id": _snapshot_id(snapshot), "force": force})))

    async def fork_many(self: Self, count: int, *, memory: Union[bool, str] = False,
                        start: bool = True, ttl: Optional[Seconds] = None,
                        hard_ttl: Optional[Seconds] = None) -> List[Self]:
        """Up to 100 at once, all of the same moment. Each is deleted by its own `kill()` or
        block. `forked_interpreters` of each says which interpreters came along."""
        config = {name: value for name, value in (
            ("ttl", whole_seconds(ttl, "ttl")),
            ("hard_ttl", whole_seconds(hard_ttl, "hard_ttl"))) if value is not None}
        body: Dict[str, Any] = {"count": count, "start": start}
        if memory:
            body["memory"] = memory
        if config:
            body["config"] = config
        request = Request("POST", f"{self._path}/fork", json=body, timeout=_STATE_SECONDS)
        answer = parse(ForkAnswer.from_json, await self._client.call(request.idempotent()))
        children = [self._child(each.id) for each in answer.sandboxes]
        for child in children:
            child.forked_interpreters = list(answer.interpreters or [])
        return children

    async def diff(self, since: Union[str, Snapshot, None] = None) -> AsyncIterator[DiffEntry]:
        """Paths that are not as they were in a snapshot or another sandbox (by its id), or without
        `since` in the template. They come as they are found."""
        async for change in _diff(self._client, self._path, since):
            yield change

    async def diff_archive(self, since: Union[str, Snapshot, None] = None) -> AsyncIterator[bytes]:
        """The files of `diff` as a tar, piece by piece."""
        async for piece in _pieces(self._client, Request(
                "GET", f"{self._path}/diff", lasting=True,
                query={"from": _optional_id(since), "format": "tar"})):
            yield piece

    async def export(self, *, layer_only: bool = False,
                     compression: Optional[str] = None) -> AsyncIterator[bytes]:
        """The files as an OCI image archive, piece by piece: skopeo, umoci and podman read it."""
        async for piece in _export(self._client, self._path, layer_only, compression):
            yield piece

    async def tree(self) -> SandboxTree:
        """Which sandbox or snapshot came from which, in the tree that this one is in."""
        return parse(SandboxTree.from_json,
                     await self._client.call(Request("GET", f"{self._path}/tree")))

    def _child(self: Self, id: str) -> Self:
        raise NotImplementedError

    async def _fork_one(self: Self, memory: Union[bool, str], start: bool,
                        ttl: Optional[Seconds], hard_ttl: Optional[Seconds]) -> Self:
        children = await self.fork_many(1, memory=memory, start=start, ttl=ttl, hard_ttl=hard_ttl)
        return children[0]

    # Once more does what once does: it stands still, or runs.
    async def _change(self, verb: str, body: Dict[str, Any]) -> object:
        return await self._client.call(Request("POST", f"{self._path}/{verb}", json=body,
                                               repeatable=True, timeout=_STATE_SECONDS))


class AsyncSnapshots:
    """`client.snapshots`: moments of sandboxes, by their id."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def get(self, id: str) -> Snapshot:
        return parse(Snapshot.from_json, await self._client.call(
            Request("GET", path("sandbox-rootfs-snapshots", id))))

    async def delete(self, snapshot: Union[str, Snapshot]) -> None:
        """What was made from it is not touched."""
        await self._client.call(Request("DELETE", _path_of(snapshot)))

    async def diff(self, snapshot: Union[str, Snapshot],
                   since: Union[str, Snapshot, None] = None) -> AsyncIterator[DiffEntry]:
        """As `sandbox.diff`."""
        async for change in _diff(self._client, _path_of(snapshot), since):
            yield change

    async def export(self, snapshot: Union[str, Snapshot], *, layer_only: bool = False,
                     compression: Optional[str] = None) -> AsyncIterator[bytes]:
        """As `sandbox.export`."""
        async for piece in _export(self._client, _path_of(snapshot), layer_only, compression):
            yield piece

    async def import_archive(self, archive: Content, *, name: Optional[str] = None,
                             description: Optional[str] = None,
                             template: Optional[str] = None) -> Snapshot:
        """Makes a snapshot of an image archive, such as `export` or `docker save` give: bytes, an
        open file or pieces of bytes."""
        return parse(Snapshot.from_json, await self._client.call(Request(
            "POST", path("sandbox-rootfs-snapshots", "import"), content=body_of(archive),
            query={"name": name, "description": description, "template_id": template},
            headers={"Content-Type": "application/x-tar"}, lasting=True)))

    async def trees(self) -> SandboxTree:
        """Which sandbox or snapshot came from which, of all there are."""
        return parse(SandboxTree.from_json,
                     await self._client.call(Request("GET", path("sandbox-trees"))))


async def _diff(client: AsyncClient, owner_path: str,
                since: Union[str, Snapshot, None]) -> AsyncIterator[DiffEntry]:
    reply = await client.open(Request("GET", f"{owner_path}/diff", lasting=True,
                                      query={"from": _optional_id(since), "format": "ndjson"}))
    try:
        line = await reply.next_line()
        while line is not None:
            yield parse(DiffEntry.from_json, line)
            line = await reply.next_line()
    finally:
        await reply.close()


async def _export(client: AsyncClient, owner_path: str, layer_only: bool,
                  compression: Optional[str]) -> AsyncIterator[bytes]:
    async for piece in _pieces(client, Request(
            "GET", f"{owner_path}/export", lasting=True,
            query={"layer_only": layer_only, "compression": compression})):
        yield piece


async def _pieces(client: AsyncClient, request: Request) -> AsyncIterator[bytes]:
    reply = await client.open(request)
    try:
        piece = await reply.next_piece()
        while piece:
            yield piece
            piece = await reply.next_piece()
    finally:
        await reply.close()


def _path_of(snapshot: Union[str, Snapshot]) -> str:
    return path("sandbox-rootfs-snapshots", _snapshot_id(snapshot))


def _optional_id(snapshot: Union[str, Snapshot, None]) -> Optional[str]:
    return None if snapshot is None else _snapshot_id(snapshot)


def _snapshot_id(snapshot: Union[str, Snapshot]) -> str:
    return snapshot if isinstance(snapshot, str) else snapshot.id
