"""Trees as tar archives: made piece by piece, unpacked without trust.

What comes out of a sandbox was written by a program nobody has read. So nothing is unpacked outside
the destination, through a link, or as a device, and links that point out of the tree are left out.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import stat
import tarfile
from dataclasses import dataclass, field
from typing import IO, Iterator, List, Tuple

from ._wire import PIECE_BYTES

_BLOCK_BYTES = 512


@dataclass
class Unpacked:
    """What `download_tree` made here. `skipped` are links out of the tree, devices and the like."""

    files: int = 0
    directories: int = 0
    links: int = 0
    bytes: int = 0
    skipped: List[str] = field(default_factory=list)


def tar_pieces(root: pathlib.Path) -> Iterator[bytes]:
    """The content of a directory as an archive, in pieces; a file alone under its name."""
    if not root.is_dir():
        yield from _entry_pieces(root, root.name)
    for top, directories, files in os.walk(root):
        directories.sort()
        for name in sorted(directories + files):
            path = pathlib.Path(top, name)
            yield from _entry_pieces(path, path.relative_to(root).as_posix())
    yield bytes(2 * _BLOCK_BYTES)


def _entry_pieces(path: pathlib.Path, name: str) -> Iterator[bytes]:
    about = path.lstat()
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(about.st_mode), int(about.st_mtime)
    if stat.S_ISDIR(about.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(about.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
    elif stat.S_ISREG(about.st_mode):
        with path.open("rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            yield info.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")
            yield from _exactly(file, info.size, path)
        return
    else:
        return  # sockets, FIFOs and devices mean nothing elsewhere
    yield info.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")


def _exactly(file: IO[bytes], size: int, path: pathlib.Path) -> Iterator[bytes]:
    left = size
    while left > 0:
        piece = file.read(min(PIECE_BYTES, left))
        if not piece:
            raise OSError(f"{path} became shorter while it was read")
        left -= len(piece)
        yield piece
    if size % _BLOCK_BYTES:
        yield bytes(_BLOCK_BYTES - size % _BLOCK_BYTES)


def unpack(archive: IO[bytes], target: pathlib.Path) -> Unpacked:
    done = Unpacked()
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=archive, mode="r|*") as tar:
        for member in tar:
            parts = tuple(part for part in member.name.split("/") if part not in ("", "."))
            if not parts:
                continue
            if member.name.startswith("/") or ".." in parts or not _make_parents(target, parts):
                done.skipped.append(member.name)
                continue
            _unpack_member(tar, member, target, parts, done)
    return done


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: pathlib.Path,
                   parts: Tuple[str, ...], done: Unpacked) -> None:
    path = target.joinpath(*parts)
    if member.isdir():
        if path.is_symlink() or not path.is_dir():
            _clear(path)
            path.mkdir()
        path.chmod(0o700 | (member.mode & 0o777))
        done.directories += 1
    elif member.isreg():
        source = tar.extractfile(member)
        assert source is not None
        _clear(path)
        with path.open("xb") as file:
            shutil.copyfileobj(source, file, PIECE_BYTES)
        path.chmod(0o600 | (member.mode & 0o777))
        os.utime(path, (member.mtime, member.mtime))
        done.files += 1
        done.bytes += member.size
    elif member.issym() and _stays_inside(parts, member.linkname):
        _clear(path)
        path.symlink_to(member.linkname)
        done.links += 1
    elif member.islnk():
        _link(target, path, member, done)
    else:
        done.skipped.append(member.name)


def _link(target: pathlib.Path, path: pathlib.Path, member: tarfile.TarInfo,
          done: Unpacked) -> None:
    """A second name of a file that came before."""
    parts = tuple(part for part in member.linkname.split("/") if part not in ("", "."))
    first = target.joinpath(*parts)
    if ".." in parts or not _make_parents(target, parts) or first.is_symlink() \
            or not first.is_file() or first == path:
        done.skipped.append(member.name)
        return
    _clear(path)
    shutil.copy2(first, path)  # a copy: a change of one must not change the other behind its back
    done.files += 1


def _make_parents(target: pathlib.Path, parts: Tuple[str, ...]) -> bool:
    """The directories above an entry; False where one of them is a link or no directory."""
    current = target
    for part in parts[:-1]:
        current = current / part
        if current.is_symlink() or (current.exists() and not current.is_dir()):
            return False
        current.mkdir(exist_ok=True)
    return True


def _clear(path: pathlib.Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()


def _stays_inside(parts: Tuple[str, ...], link: str) -> bool:
    if link.startswith("/"):
        return False
    depth = len(parts) - 1
    for part in link.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return False
    return True
