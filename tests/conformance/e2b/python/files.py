"""Files: every format both ways, information, directories, who owns what."""
import io
import time

from e2b import FileType, InvalidArgumentException, NotFoundException
from support import SYNC, case, raises, run_cases, sandbox_of, since

BYTES = bytes((number * 7919 + (number >> 8)) & 0xff for number in range(300_000))


async def out(sandbox, command, **options):
    return (await sandbox.commands.run(command, **options)).stdout.strip()


@case("Filesystem.write(request_timeout): a string, and what it answers")
async def _(sandbox):
    info = await sandbox.files.write("/home/user/text.txt", "wörds\n", request_timeout=20)
    assert (info.name, info.type, info.path) == ("text.txt", FileType.FILE, "/home/user/text.txt")
    assert await out(sandbox, "cat text.txt; stat -c '%U:%G %a' text.txt") == "wörds\nuser:user 644"


@case("Filesystem.write: bytes, and a file that is open")
async def _(sandbox):
    await sandbox.files.write("bytes", BYTES)
    assert bytes(await sandbox.files.read("bytes", format="bytes")) == BYTES
    await sandbox.files.write("io", io.BytesIO(BYTES))
    assert bytes(await sandbox.files.read("io", format="bytes")) == BYTES
    await sandbox.files.write("text-io", io.StringIO("zeichen ä"))
    assert await sandbox.files.read("text-io") == "zeichen ä"


@case("Filesystem.write(use_octet_stream): the bytes as they are", "2.45.0")
async def _(sandbox):
    await sandbox.files.write("octets", BYTES, use_octet_stream=True)
    assert bytes(await sandbox.files.read("octets", format="bytes")) == BYTES
    await sandbox.files.write("form", BYTES, use_octet_stream=False)
    assert bytes(await sandbox.files.read("form", format="bytes")) == BYTES


@case("Filesystem.write(gzip), Filesystem.read(gzip): compressed on the way, not at rest", "2.45.0")
async def _(sandbox):
    await sandbox.files.write("gzip", "a line\n" * 50_000, gzip=True)
    assert await out(sandbox, "stat -c %s gzip; tail -n 1 gzip") == "350000\na line"
    assert await sandbox.files.read("gzip", gzip=True) == "a line\n" * 50_000


@case("Filesystem.write: nothing at all, and over something longer")
async def _(sandbox):
    await sandbox.files.write("empty", "a long content")
    await sandbox.files.write("empty", "")
    assert await sandbox.files.read("empty") == ""
    assert bytes(await sandbox.files.read("empty", format="bytes")) == b""


@case("Filesystem.write: makes the directories on the way")
async def _(sandbox):
    await sandbox.files.write("/home/user/new/deep/file", "x")
    assert await out(sandbox, "stat -c '%U %a' new new/deep") == "user 755\nuser 755"


@case("Filesystem.write_files: several at once")
async def _(sandbox):
    infos = await sandbox.files.write_files([
        {"path": "many/a", "data": "A"}, {"path": "/home/user/many/b", "data": BYTES}])
    assert [each.path for each in infos] == ["/home/user/many/a", "/home/user/many/b"]
    assert bytes(await sandbox.files.read("many/b", format="bytes")) == BYTES
    assert await sandbox.files.write_files([]) == []


@case("Filesystem.write_files(user, request_timeout, gzip, use_octet_stream, metadata): "
      "all options", "2.45.0")
async def _(sandbox):
    await sandbox.files.write_files([{"path": "wf/1", "data": "1"}, {"path": "wf/2", "data": "2"}],
                                    user="root", request_timeout=20, gzip=True,
                                    use_octet_stream=True, metadata={"kind": "number"})
    assert await out(sandbox, "cat /root/wf/1 /root/wf/2; stat -c %U /root/wf/1",
                     user="root") == "12root"
    assert (await sandbox.files.get_info("/root/wf/1", user="root")).metadata == {"kind": "number"}


@case("Filesystem.write(user): whose home, and whose file")
async def _(sandbox):
    await sandbox.files.write("of-root", "r", user="root")
    assert await out(sandbox, "stat -c %U /root/of-root", user="root") == "root"
    with raises(Exception):
        await sandbox.files.write("x", "x", user="nobody-knows-me")


@case("Filesystem.write(metadata): kept with the file, replaced as a whole", "2.45.0")
async def _(sandbox):
    written = await sandbox.files.write("marked", "m", metadata={"Author": "me", "step": "1"})
    assert written.metadata == {"author": "me", "step": "1"}, written
    assert (await sandbox.files.get_info("marked")).metadata == {"author": "me", "step": "1"}
    await sandbox.files.write("marked", "m", metadata={"other": "2"})
    assert (await sandbox.files.get_info("marked")).metadata == {"other": "2"}
    with raises(InvalidArgumentException):
        await sandbox.files.write("marked", "m", metadata={"a b": "x"})


@case("Filesystem.read(format, stream_idle_timeout): text, bytes, a stream")
async def _(sandbox):
    await sandbox.files.write("formats", BYTES)
    assert bytes(await sandbox.files.read("formats", format="bytes")) == BYTES
    extra = {"stream_idle_timeout": 30} if since("2.63.0") else {}
    pieces = []
    async for piece in await sandbox.files.read("formats", format="stream", **extra):
        pieces.append(piece)
    assert b"".join(pieces) == BYTES
    await sandbox.files.write("formats", "text ä")
    assert await sandbox.files.read("formats", format="text") == "text ä"


@case("Filesystem.read(user, request_timeout): relative to whose home")
async def _(sandbox):
    await sandbox.files.write("/root/mine", "root's", user="root")
    assert await sandbox.files.read("mine", user="root", request_timeout=20) == "root's"


@case("Filesystem.read: ~, names with everything in them, files of the kernel")
async def _(sandbox):
    await sandbox.files.write("~/tilde", "home")
    assert await sandbox.files.read("/home/user/tilde") == "home"
    path = "/home/user/ä b+c%20&d?e#f='\"/🙂.txt"
    await sandbox.files.write(path, "named")
    assert await sandbox.files.read(path) == "named"
    assert (await sandbox.files.read("/proc/self/status")).startswith("Name:")


@case("Filesystem.read: what is not there, and a directory")
async def _(sandbox):
    with raises(NotFoundException):
        await sandbox.files.read("/no/such/file")
    with raises(Exception):
        await sandbox.files.read("/home/user")


@case("Filesystem.get_info(user, request_timeout): of a file, a directory, a link")
async def _(sandbox):
    await sandbox.files.write("info", "12345")
    await sandbox.commands.run("chmod 640 info; ln -sfn info link")
    info = await sandbox.files.get_info("info", request_timeout=20)
    assert (info.name, info.path, info.type, info.size, info.mode, info.permissions, info.owner,
            info.group) == ("info", "/home/user/info", FileType.FILE, 5, 0o640, "-rw-r-----",
                            "user", "user"), info
    assert abs(info.modified_time.timestamp() - time.time()) < 120
    assert info.symlink_target is None
    assert (await sandbox.files.get_info("/home/user")).type == FileType.DIR
    link = await sandbox.files.get_info("link")
    # Clients that know the mark of a link tell it as one, others by what it leads to.
    assert link.type in (FileType.FILE, getattr(FileType, "SYMLINK", None)), link
    assert link.symlink_target == "/home/user/info", link
    with raises(NotFoundException):
        await sandbox.files.get_info("/none", user="root")


@case("Filesystem.exists(user, request_timeout): yes and no")
async def _(sandbox):
    assert await sandbox.files.exists("info", request_timeout=20) is True
    assert await sandbox.files.exists("none") is False
    assert await sandbox.files.exists("mine", user="root") is True


@case("Filesystem.make_dir(user, request_timeout): true, then false")
async def _(sandbox):
    assert await sandbox.files.make_dir("made/on/the/way", request_timeout=20) is True
    assert await sandbox.files.make_dir("made/on/the/way") is False
    assert await out(sandbox, "stat -c '%F %U %a' made/on/the/way") == "directory user 755"
    assert await sandbox.files.make_dir("by-root", user="root") is True
    with raises(Exception):
        await sandbox.files.make_dir("info")


@case("Filesystem.list(depth, user, request_timeout): what is in it, and deeper")
async def _(sandbox):
    await sandbox.commands.run("mkdir -p l/a/b/c && echo 1 >l/f && echo 2 >l/a/g && echo 3 >l/a/b/h")
    entries = sorted(await sandbox.files.list("l", request_timeout=20), key=lambda each: each.name)
    assert [(each.name, each.type, each.path) for each in entries] == [
        ("a", FileType.DIR, "/home/user/l/a"), ("f", FileType.FILE, "/home/user/l/f")]
    assert entries[1].size == 2
    assert len(await sandbox.files.list("l", depth=2)) == 4
    assert len(await sandbox.files.list("l", depth=10)) == 6
    assert any(each.name == "mine" for each in await sandbox.files.list("/root", user="root"))
    with raises(InvalidArgumentException):
        await sandbox.files.list("l", depth=0)
    with raises(NotFoundException):
        await sandbox.files.list("/none")
    with raises(InvalidArgumentException):
        await sandbox.files.list("info")


@case("Filesystem.rename(user, request_timeout): files and directories, parents made")
async def _(sandbox):
    await sandbox.files.write("from", "moved")
    info = await sandbox.files.rename("from", "to/new/place", request_timeout=20)
    assert (info.name, info.path, info.type) == ("place", "/home/user/to/new/place", FileType.FILE)
    await sandbox.files.rename("to", "to2")
    assert await sandbox.files.read("to2/new/place") == "moved"
    with raises(NotFoundException):
        await sandbox.files.rename("none", "x", user="user")


@case("Filesystem.remove(user, request_timeout): files, trees, and nothing")
async def _(sandbox):
    await sandbox.files.remove("to2", request_timeout=20)
    assert await sandbox.files.exists("to2") is False
    await sandbox.files.remove("/root/mine", user="root")
    await sandbox.files.remove("to2")


@case("Filesystem.write, Filesystem.read: sixteen megabytes both ways")
async def _(sandbox):
    content = BYTES * 55
    await sandbox.files.write("large", content)
    assert bytes(await sandbox.files.read("large", format="bytes")) == content


@case("Filesystem.write: pieces as they come", "2.63.0")
async def _(sandbox):
    if SYNC:
        def pieces():
            for start in range(0, len(BYTES), 70_000):
                yield BYTES[start:start + 70_000]
        sandbox.files.write("pieces", pieces())
    else:
        await sandbox.files.write("pieces", io.BytesIO(BYTES))
    assert bytes(await sandbox.files.read("pieces", format="bytes")) == BYTES


async def main():
    async with sandbox_of() as sandbox:
        await run_cases(sandbox)
