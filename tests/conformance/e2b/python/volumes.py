"""Volumes: made, listed, destroyed; their content through the API and in sandboxes."""
import io
import os
import time

import e2b
from support import SYNC, case, raises, run_cases, sandbox_of

NAME = f"conformance-{os.getpid()}-{time.time_ns()}"
BYTES = bytes((number * 7919) & 0xff for number in range(100_000))
Volume = getattr(e2b, "Volume" if SYNC else "AsyncVolume", None)


@case("Volume.create, Volume.volume_id, Volume.name, Volume.token: a name, and no second of it")
async def _(made):
    made.append(await Volume.create(NAME))
    assert made[0].name == NAME and made[0].volume_id and made[0].token
    with raises(Exception):
        await Volume.create(NAME)


@case("Volume.connect, Volume.get_info, Volume.list: by id, and it is there")
async def _(made):
    assert (await Volume.connect(made[0].volume_id)).name == NAME
    assert (await Volume.get_info(made[0].volume_id)).name == NAME
    assert any(each.volume_id == made[0].volume_id for each in await Volume.list())
    with raises(Exception):
        await Volume.get_info("no-such-volume")


@case("Volume.write_file(uid, gid, mode, force), Volume.read_file(format, stream_idle_timeout): "
      "all kinds both ways")
async def _(made):
    volume = made[0]
    written = await volume.write_file("/text", "wörds", uid=1000, gid=1000, mode=0o640)
    assert (written.name, written.size, written.uid, written.mode & 0o777) == \
        ("text", 6, 1000, 0o640), written
    assert await volume.read_file("/text") == "wörds"
    await volume.write_file("/bytes", BYTES)
    assert bytes(await volume.read_file("/bytes", format="bytes")) == BYTES
    await volume.write_file("/io", io.BytesIO(BYTES))
    pieces = []
    async for piece in await volume.read_file("/io", format="stream"):
        pieces.append(piece)
    assert b"".join(pieces) == BYTES
    await volume.write_file("/text", "new", force=True)
    assert await volume.read_file("/text") == "new"
    with raises(Exception):
        await volume.read_file("/none")


@case("Volume.make_dir(uid, gid, mode, force), Volume.list, Volume.exists, Volume.get_info: "
      "directories")
async def _(made):
    volume = made[0]
    await volume.make_dir("/dir", uid=1000, gid=1000, mode=0o750)
    await volume.make_dir("/a/b/c", force=True)
    await volume.write_file("/dir/file", "1")
    assert sorted(each.name for each in await volume.list("/")) == \
        ["a", "bytes", "dir", "io", "text"]
    assert any(each.path == "/dir/file" for each in await volume.list("/", depth=2))
    assert await volume.exists("/dir/file") is True and await volume.exists("/none") is False
    info = await volume.get_info("/dir/file")
    assert (info.name, info.size, info.path) == ("file", 1, "/dir/file")


@case("Volume.update_metadata(uid, gid, mode): of a path")
async def _(made):
    changed = await made[0].update_metadata("/dir/file", uid=1000, gid=100, mode=0o600)
    assert (changed.uid, changed.gid, changed.mode & 0o777) == (1000, 100, 0o600), changed


@case("Sandbox.create(volume_mounts): the same files there")
async def _(made):
    async with sandbox_of(volume_mounts={"/data": made[0]}) as sandbox:
        result = await sandbox.commands.run("cat /data/dir/file; echo inside >/data/from-sandbox",
                                            user="root")
        assert result.stdout == "1"
    assert await made[0].read_file("/from-sandbox") == "inside\n"


@case("Volume.remove: files and trees")
async def _(made):
    await made[0].remove("/a")
    assert await made[0].exists("/a") is False


@case("Volume.destroy: true, then false")
async def _(made):
    assert await Volume.destroy(made[0].volume_id) is True
    assert await Volume.destroy(made[0].volume_id) is False


async def main():
    await run_cases([])
