"""`client.volumes`: directories that outlive sandboxes and are mounted into them."""
from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import Any, List, Mapping, Optional, Type, Union

from .._models import (
    Volume as VolumeInfo,
    VolumeAccessMode,
    VolumeFork,
    VolumeSnapshot,
    VolumeSnapshotCreate,
)
from .._wire import Request, Seconds, parse, path, seconds
from ._platform import Pending, pending, settle
from .client import AsyncClient
from .files import AsyncFiles

_STATE_SECONDS = 600.0


class AsyncVolume:
    """One volume. `files` reads and writes it without any sandbox; `user` has no meaning there, and
    paths begin at the volume's own root.

    In an `async with` block one that was made by `create` or `fork` is deleted when it is left.
    """

    def __init__(self, client: AsyncClient, id: str, *, owned: bool = False) -> None:
        self._client = client
        self._owned = owned
        self._path = path("sandboxvolumes", id)
        self.id = id
        self.files = AsyncFiles(client, self._path)

    async def info(self) -> VolumeInfo:
        """What the server knows of it: size, what it holds, who has it mounted."""
        return parse(VolumeInfo.from_json, await self._client.call(Request("GET", self._path)))

    def fork(self, *, access_mode: Optional[VolumeAccessMode] = None, uid: Optional[int] = None,
             gid: Optional[int] = None) -> Pending[AsyncVolume]:
        """A new volume that begins with the files of this one."""
        body = VolumeFork(access_mode=access_mode, default_posix_uid=uid, default_posix_gid=gid)
        return pending(_made(self._client, Request(
            "POST", f"{self._path}/fork", json=body.to_json(), timeout=_STATE_SECONDS)))

    async def snapshot(self, name: str, *, description: Optional[str] = None,
                       expires_in: Optional[Seconds] = None) -> VolumeSnapshot:
        """Keeps the files as they are now."""
        expires_at = None if expires_in is None else datetime.now(timezone.utc) + timedelta(
            seconds=seconds(expires_in, "expires_in"))
        body = VolumeSnapshotCreate(name=name, description=description, expires_at=expires_at)
        return parse(VolumeSnapshot.from_json, await self._client.call(Request(
            "POST", f"{self._path}/snapshots", json=body.to_json(), timeout=_STATE_SECONDS)))

    async def snapshots(self) -> List[VolumeSnapshot]:
        answer = await self._client.call(Request("GET", f"{self._path}/snapshots"))
        return parse(_snapshots_of, answer)

    async def restore(self, snapshot: Union[str, VolumeSnapshot], *, force: bool = False) -> None:
        """Gives the volume the files of one of its snapshots; `force` also while it is mounted."""
        # Not repeatable: once more would take away what was written since.
        await self._client.call(Request("POST", f"{self._snapshot_path(snapshot)}/restore",
                                        json={"force": force}, timeout=_STATE_SECONDS))

    async def delete_snapshot(self, snapshot: Union[str, VolumeSnapshot]) -> None:
        await self._client.call(Request("DELETE", self._snapshot_path(snapshot)))

    async def delete(self, *, force: bool = False) -> None:
        """Deletes it with everything in it; while a sandbox has it mounted only with `force`. One
        that is gone is no error."""
        await self._client.call(Request("DELETE", self._path, query={"force": force}))

    async def __aenter__(self) -> AsyncVolume:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        if self._owned and error is not None:
            await settle(lambda: self.delete(force=True))
        elif self._owned:
            await self.delete(force=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def _snapshot_path(self, snapshot: Union[str, VolumeSnapshot]) -> str:
        id = snapshot if isinstance(snapshot, str) else snapshot.id
        return path("sandboxvolumes", self.id, "snapshots", id)


class AsyncVolumes:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def create(self, *, access_mode: VolumeAccessMode = "RWO", size: Union[str, int, None] = None,
               uid: Optional[int] = None, gid: Optional[int] = None,
               snapshot: Union[str, VolumeSnapshot, None] = None,
               s3: Optional[Mapping[str, Any]] = None) -> Pending[AsyncVolume]:
        """Makes a volume. "RWO" is for one sandbox, "ROX" for many that read, "RWX" for many that
        write. `snapshot` gives it the files of a volume's snapshot; `s3` keeps its files in a
        bucket (`bucket`, `access_key`, `secret_key`, `endpoint_url`, `region`, `prefix`)."""
        body = {name: value for name, value in (
            ("access_mode", access_mode), ("size", None if size is None else str(size)),
            ("default_posix_uid", uid), ("default_posix_gid", gid),
            ("snapshot_id", snapshot.id if isinstance(snapshot, VolumeSnapshot) else snapshot),
            ("backend", None if s3 is None else "s3"),
            ("s3", None if s3 is None else dict(s3))) if value is not None}
        return pending(_made(self._client, Request("POST", path("sandboxvolumes"), json=body)))

    def connect(self, id: str) -> Pending[AsyncVolume]:
        """A volume that is already there."""
        return pending(self._connect(id))

    async def list(self) -> List[VolumeInfo]:
        answer = await self._client.call(Request("GET", path("sandboxvolumes")))
        return parse(_volumes_of, answer)

    async def delete(self, id: str, *, force: bool = False) -> None:
        """One that is gone is no error."""
        await AsyncVolume(self._client, id).delete(force=force)

    async def _connect(self, id: str) -> AsyncVolume:
        volume = AsyncVolume(self._client, id)
        await volume.info()
        return volume


async def _made(client: AsyncClient, request: Request) -> AsyncVolume:
    info = parse(VolumeInfo.from_json, await client.call(request))
    return AsyncVolume(client, info.id, owned=True)


def _volumes_of(answer: Any) -> List[VolumeInfo]:
    return [VolumeInfo.from_json(each) for each in answer]


def _snapshots_of(answer: Any) -> List[VolumeSnapshot]:
    return [VolumeSnapshot.from_json(each) for each in answer]
