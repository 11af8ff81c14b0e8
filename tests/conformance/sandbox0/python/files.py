"""Files: write, read, stat, list, move, delete, directories, binary content."""
import datetime

from sandbox0.apispec.models.file_info_type import FileInfoType

from support import check, finish, refused, sandbox_of

with sandbox_of() as sandbox:
    @check("text, bytes, nothing and JSON")
    def _():
        binary = bytes(range(256)) * 1000
        for content in (b"content", binary, b"", b'{"data":{"content":"x"}}'):
            assert sandbox.write_file("/workspace/a", content).success is True
            assert sandbox.read_file("/workspace/a") == content

    @check("names with everything in them")
    def _():
        path = "/workspace/ä b+c%20&d?e#f/🙂"
        sandbox.write_file(path, b"named")
        assert sandbox.read_file(path) == b"named"
        assert [each.name for each in sandbox.list_files("/workspace/ä b+c%20&d?e#f")] == ["🙂"]

    @check("relative paths are below /workspace")
    def _():
        sandbox.write_file("relative/file", b"here")
        assert sandbox.read_file("/workspace/relative/file") == b"here"

    @check("stat of a file")
    def _():
        sandbox.write_file("/workspace/a", b"12345")
        info = sandbox.stat_file("/workspace/a")
        assert (info.name, info.path) == ("a", "/workspace/a"), info
        assert (info.type_, info.size, info.mode) == (FileInfoType.FILE, 5, "0644"), info
        age = datetime.datetime.now(datetime.timezone.utc) - info.mod_time
        assert abs(age.total_seconds()) < 120

    @check("stat of a link")
    def _():
        sandbox.cmd("ln -s a /workspace/link")
        info = sandbox.stat_file("/workspace/link")
        assert (info.type_, info.is_link, info.link_target) == (FileInfoType.SYMLINK, True, "a")

    @check("directories")
    def _():
        assert sandbox.mkdir("/workspace/dir").success is True
        sandbox.mkdir("/workspace/deep/er/still", recursive=True)
        assert sandbox.stat_file("/workspace/deep/er/still").type_ == FileInfoType.DIR
        with refused(404):
            sandbox.mkdir("/workspace/no/parents")

    @check("list")
    def _():
        sandbox.write_file("/workspace/dir/x", b"1")
        sandbox.mkdir("/workspace/dir/y")
        entries = {each.name: each.type_ for each in sandbox.list_files("/workspace/dir")}
        assert entries == {"x": FileInfoType.FILE, "y": FileInfoType.DIR}
        assert sandbox.list_files("/workspace/dir/y") == []

    @check("move")
    def _():
        sandbox.move_file("/workspace/dir/x", "/workspace/new/place/x")
        assert sandbox.read_file("/workspace/new/place/x") == b"1"
        with refused(404):
            sandbox.stat_file("/workspace/dir/x")

    @check("delete, also of trees and of nothing")
    def _():
        assert sandbox.delete_file("/workspace/new").success is True
        with refused(404):
            sandbox.stat_file("/workspace/new")
        assert sandbox.delete_file("/workspace/new").success is True

    @check("eight megabytes both ways")
    def _():
        content = b"\x5a" * (8 << 20)
        sandbox.write_file("/workspace/large", content)
        assert sandbox.read_file("/workspace/large") == content

finish()
