"""`sandbox.files`: read, write and look at files. Relative paths start in the template's working
directory; `user` decides whose permissions count."""
from __future__ import annotations

import os
import pathlib
import tempfile
from typing import AsyncIterator, List, Optional, Sequence, Union

from .._archives import Unpacked, tar_pieces, unpack
from .._errors import ConflictError, FileExistsError, FileNotFoundError, InvalidRequestError
from .._models import (
    ArchiveUnpacked,
    FileInfo,
    FileList,
    FileMode,
    FileMove,
    FileWritten,
    GlobResult,
    GrepRequest,
    GrepResult,
)
from .._wire import LINES, QueryValue, Request, Seconds, milliseconds, parse
from ._platform import Content, Pending, body_of, in_thread, pending
from .client import AsyncClient
from .watches import AsyncWatch

LocalPath = Union[str, "os.PathLike[str]"]


class AsyncFiles:
    def __init__(self, client: AsyncClient, owner_path: str) -> None:
        self._client = client
        self._path = f"{owner_path}/files"

    # Contents -----------------------------------------------------------------------------------
    async def read(self, path: str, *, encoding: str = "utf-8", errors: str = "strict",
                   user: Optional[str] = None) -> str:
        """A whole file as text."""
        return (await self.read_bytes(path, user=user)).decode(encoding, errors)

    async def read_bytes(self, path: str, *, offset: int = 0, length: Optional[int] = None,
                         user: Optional[str] = None) -> bytes:
        """A whole file, or a part of it."""
        content = bytearray()
        async for piece in self.stream(path, offset=offset, length=length, user=user):
            content += piece
        return bytes(content)

    async def stream(self, path: str, *, offset: int = 0, length: Optional[int] = None,
                     user: Optional[str] = None) -> AsyncIterator[bytes]:
        """A file piece by piece, however large it is."""
        if offset < 0 or (length is not None and length < 0):
            raise InvalidRequestError("offset and length must not be negative")
        if length == 0:
            return
        headers = {}
        if offset or length is not None:
            end = "" if length is None else str(offset + length - 1)
            headers["Range"] = f"bytes={offset}-{end}"
        try:
            reply = await self._client.open(Request("GET", self._path, headers=headers,
                                                    query={"path": path, "user": user}))
        except InvalidRequestError as error:
            if error.status == 416:  # nothing is there that far behind
                return
            raise
        try:
            piece = await reply.next_piece()
            while piece:
                yield piece
                piece = await reply.next_piece()
        finally:
            await reply.close()

    async def write(self, path: str, data: Content, *, overwrite: bool = True,
                    user: Optional[str] = None) -> int:
        """Replaces a file at once, or not at all; makes missing parents. `data` is text, bytes, an
        open file or pieces of bytes, which are sent as they come. With `overwrite=False` a file
        that is there is a FileExistsError. Returns the size."""
        body = body_of(data)
        headers = {"Content-Type": "application/octet-stream"}
        if not overwrite:
            headers["If-None-Match"] = "*"
        try:
            answer = await self._client.call(Request(
                "POST", self._path, query={"path": path, "user": user}, content=body,
                headers=headers, repeatable=overwrite and isinstance(body, bytes), lasting=True))
        except ConflictError as error:
            if error.status == 412:
                raise FileExistsError(f"{path} is already there", status=412, code=error.code,
                                      reason=error.reason, request_id=error.request_id) from None
            raise
        return parse(FileWritten.from_json, answer).size

    async def upload(self, local: LocalPath, remote: str, *, user: Optional[str] = None) -> int:
        """Copies a file of this machine into the sandbox. Returns its size."""
        with pathlib.Path(local).open("rb") as file:
            return await self.write(remote, file, user=user)

    async def download(self, remote: str, local: LocalPath, *, user: Optional[str] = None) -> int:
        """Copies a file of the sandbox to this machine, whole or not at all. Returns its size."""
        target = pathlib.Path(local)
        if target.is_dir():
            target = target / pathlib.PurePosixPath(remote).name
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        size = 0
        try:
            with partial.open("wb") as file:
                async for piece in self.stream(remote, user=user):
                    size += await in_thread(file.write, piece)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return size

    # Trees --------------------------------------------------------------------------------------
    async def upload_tree(self, local: LocalPath, remote: str, *,
                          user: Optional[str] = None) -> ArchiveUnpacked:
        """Copies what is in a directory of this machine into one of the sandbox, which is made when
        it is missing. Modes, times and links are kept, owners are not."""
        root = pathlib.Path(local)
        if not root.is_dir():
            raise NotADirectoryError(f"{root} is not a directory; upload() takes files")
        return await self.unpack(remote, tar_pieces(root), user=user)

    async def download_tree(self, remote: str, local: LocalPath, *,
                            user: Optional[str] = None) -> Unpacked:
        """Copies what is in a directory of the sandbox into one of this machine. Nothing is written
        outside of it, whatever the sandbox says; links that point out of it are left out."""
        with tempfile.TemporaryFile() as archive:
            async for piece in self.archive(remote, user=user):
                await in_thread(archive.write, piece)
            archive.seek(0)
            return await in_thread(unpack, archive, pathlib.Path(local))

    async def archive(self, path: str, *, compressed: bool = False,
                      user: Optional[str] = None) -> AsyncIterator[bytes]:
        """A tree as a tar archive, piece by piece."""
        reply = await self._client.open(Request(
            "GET", f"{self._path}/archive", lasting=True,
            query={"path": path, "format": "tar.gz" if compressed else "tar", "user": user}))
        try:
            piece = await reply.next_piece()
            while piece:
                yield piece
                piece = await reply.next_piece()
        finally:
            await reply.close()

    async def unpack(self, path: str, archive: Content, *,
                     user: Optional[str] = None) -> ArchiveUnpacked:
        """Unpacks a tar archive (plain, gzip, zstd, xz, bzip2) into a directory while it is sent:
        bytes, an open file or pieces of bytes."""
        body = body_of(archive)
        return parse(ArchiveUnpacked.from_json, await self._client.call(Request(
            "PUT", f"{self._path}/archive", query={"path": path, "user": user}, content=body,
            headers={"Content-Type": "application/x-tar"}, repeatable=isinstance(body, bytes),
            lasting=True)))

    # Searching ----------------------------------------------------------------------------------
    async def glob(self, pattern: str, path: str = ".", *, exclude: Sequence[str] = (),
                   ignore_case: bool = False, max_results: Optional[int] = None,
                   timeout: Optional[Seconds] = None,
                   user: Optional[str] = None) -> GlobResult:
        """Files below `path` by name: `*`, `?` and `[..]` within a component, `**` for any number
        of them. `truncated` says that there may be more."""
        return parse(GlobResult.from_json, await self._client.call(Request(
            "GET", f"{self._path}/glob", query={
                "pattern": pattern, "path": path, "exclude": exclude, "ignore_case": ignore_case,
                "max_results": max_results, "timeout_ms": milliseconds(timeout, "timeout"),
                "user": user})))

    async def grep(self, pattern: str, path: str = ".", *, include: Sequence[str] = (),
                   exclude: Sequence[str] = (), fixed: bool = False, ignore_case: bool = False,
                   context: int = 0, max_results: Optional[int] = None,
                   timeout: Optional[Seconds] = None,
                   user: Optional[str] = None) -> GrepResult:
        """Lines of the files below `path` that match a regular expression (RE2), or with `fixed`
        contain a text. `include` and `exclude` are globs of file names."""
        body = GrepRequest(
            pattern=pattern, path=path, user=user, fixed=fixed or None,
            ignore_case=ignore_case or None, include=[*include] or None,
            exclude=[*exclude] or None, context=context or None, max_results=max_results,
            timeout_ms=milliseconds(timeout, "timeout"))
        return parse(GrepResult.from_json, await self._client.call(
            Request("POST", f"{self._path}/grep", json=body.to_json(), repeatable=True)))

    # Names --------------------------------------------------------------------------------------
    async def list(self, path: str = ".", *, user: Optional[str] = None) -> List[FileInfo]:
        """What a directory contains."""
        return parse(FileList.from_json, await self._get("list", path, user)).entries

    async def stat(self, path: str, *, user: Optional[str] = None) -> FileInfo:
        """About a file; of a link, about the link itself."""
        return parse(FileInfo.from_json, await self._get("stat", path, user))

    async def exists(self, path: str, *, user: Optional[str] = None) -> bool:
        try:
            await self.stat(path, user=user)
        except FileNotFoundError:
            return False
        return True

    async def mkdir(self, path: str, *, parents: bool = True, user: Optional[str] = None) -> None:
        """Makes a directory. With `parents`, missing ones above it too, and it may exist."""
        query: "dict[str, QueryValue]" = {"path": path, "mkdir": True, "recursive": parents,
                                          "user": user}
        await self._client.call(Request("POST", self._path, query=query, repeatable=parents))

    async def move(self, source: str, destination: str, *, user: Optional[str] = None) -> None:
        body = FileMove(source=source, destination=destination, user=user).to_json()
        await self._client.call(Request("POST", f"{self._path}/move", json=body))

    async def remove(self, path: str, *, user: Optional[str] = None) -> None:
        """Removes a file, or a directory with everything in it. Nothing there is no error."""
        await self._client.call(
            Request("DELETE", self._path, query={"path": path, "user": user}))

    async def chmod(self, path: str, mode: Union[int, str], *, user: Optional[str] = None) -> None:
        """`mode` is a number such as 0o755 or octal text such as "755"."""
        text = f"{mode:04o}" if isinstance(mode, int) else mode
        body = FileMode(path=path, mode=text, user=user).to_json()
        await self._client.call(Request("POST", f"{self._path}/chmod", json=body))

    def watch(self, path: str = ".", *, recursive: bool = True,
              user: Optional[str] = None) -> Pending[AsyncWatch]:
        """Watches a directory, or a file, from now on; iterate over it for changes. Directories
        that appear later are watched too, with `recursive`."""
        return pending(AsyncWatch.open(self._client, Request(
            "GET", f"{self._path}/watch", headers={"Accept": LINES}, lasting=True,
            query={"path": path, "recursive": recursive, "user": user})))

    async def _get(self, verb: str, path: str, user: Optional[str]) -> object:
        return await self._client.call(
            Request("GET", f"{self._path}/{verb}", query={"path": path, "user": user}))
