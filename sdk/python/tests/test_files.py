"""Files: contents of any size, names, errors that Python knows."""
import hashlib
import io
import resource

import pytest

import atoll_sandbox
from atoll_sandbox import ConflictError, InvalidRequestError, PermissionDeniedError


@pytest.fixture
def folder(sandbox, request):
    name = f"/tmp/{request.node.name[:60]}".replace("[", "-").replace("]", "")
    sandbox.files.mkdir(name)
    yield name
    sandbox.files.remove(name)


def test_write_and_read(sandbox, folder):
    assert sandbox.files.write(f"{folder}/a/b.txt", "grüße\n") == 8
    assert sandbox.files.read(f"{folder}/a/b.txt") == "grüße\n"
    assert sandbox.files.read_bytes(f"{folder}/a/b.txt", offset=4, length=2) == "ß".encode()
    assert sandbox.files.read_bytes(f"{folder}/a/b.txt", offset=100) == b""
    assert sandbox.files.write(f"{folder}/empty", b"") == 0
    assert sandbox.files.read_bytes(f"{folder}/empty") == b""


def test_sources_of_a_write(sandbox, folder):
    for source in (b"data", bytearray(b"data"), memoryview(b"data"), io.BytesIO(b"data"),
                   iter([b"da", b"ta"])):
        sandbox.files.write(f"{folder}/file", source)
        assert sandbox.files.read(f"{folder}/file") == "data"


def test_a_file_that_is_there_is_kept_when_asked(sandbox, folder):
    sandbox.files.write(f"{folder}/once", "1", overwrite=False)
    with pytest.raises(FileExistsError, match="once") as caught:
        sandbox.files.write(f"{folder}/once", "2", overwrite=False)
    assert isinstance(caught.value, ConflictError) and caught.value.request_id
    assert sandbox.files.read(f"{folder}/once") == "1"


def test_relative_paths_start_in_the_working_directory(sandbox):
    sandbox.files.write("relative.txt", "x")
    assert sandbox.commands.run("cat relative.txt").stdout == "x"
    sandbox.files.remove("relative.txt")


def test_names(sandbox, folder):
    sandbox.files.mkdir(f"{folder}/x/y")
    sandbox.files.write(f"{folder}/x/f", "12345")
    sandbox.files.chmod(f"{folder}/x/f", 0o750)
    assert {each.name: each.type for each in sandbox.files.list(f"{folder}/x")} == \
        {"y": "dir", "f": "file"}
    about = sandbox.files.stat(f"{folder}/x/f")
    assert about.size == 5 and about.mode == "0750" and about.mod_time.year >= 2024
    sandbox.files.move(f"{folder}/x/f", f"{folder}/x/g")
    assert not sandbox.files.exists(f"{folder}/x/f") and sandbox.files.exists(f"{folder}/x/g")
    sandbox.files.remove(f"{folder}/x")
    assert not sandbox.files.exists(f"{folder}/x/y")


def test_errors_are_pythons_too(sandbox, folder):
    with pytest.raises(FileNotFoundError, match="nothing") as caught:
        sandbox.files.read(f"{folder}/nothing")
    assert isinstance(caught.value, atoll_sandbox.NotFoundError) and caught.value.request_id
    sandbox.files.remove(f"{folder}/nothing")
    with pytest.raises(PermissionError) as refused:
        sandbox.files.read("/etc/shadow")
    assert isinstance(refused.value, PermissionDeniedError)
    with pytest.raises(FileExistsError):
        sandbox.files.mkdir(folder, parents=False)
    with pytest.raises(ConflictError):
        sandbox.files.read(folder)
    with pytest.raises(InvalidRequestError):
        sandbox.files.chmod(folder, "rwx")
    assert sandbox.files.read_bytes("/etc/shadow", user="root")


class Pattern:
    """A large file that is never in memory."""

    def __init__(self, size):
        self.left, self.hash = size, hashlib.sha256()

    def read(self, size):
        piece = (b"%016d" % self.left * (size // 16 + 1))[:min(size, self.left)]
        self.left -= len(piece)
        self.hash.update(piece)
        return piece


def test_large_files_do_not_pass_through_memory(sandbox, folder, tmp_path):
    size = 200 * 1000 * 1000
    source = Pattern(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sandbox.files.write(f"{folder}/large", source) == size
    received, seen = hashlib.sha256(), 0
    for piece in sandbox.files.stream(f"{folder}/large"):
        received.update(piece)
        seen += len(piece)
    assert seen == size and received.digest() == source.hash.digest()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 40 * 1024, f"{grown} KiB more"


def test_upload_and_download(sandbox, folder, tmp_path):
    (tmp_path / "here.bin").write_bytes(bytes(range(256)) * 1000)
    assert sandbox.files.upload(tmp_path / "here.bin", f"{folder}/there.bin") == 256_000
    (tmp_path / "back").mkdir()
    assert sandbox.files.download(f"{folder}/there.bin", tmp_path / "back") == 256_000
    assert (tmp_path / "back" / "there.bin").read_bytes() == bytes(range(256)) * 1000
    with pytest.raises(FileNotFoundError):
        sandbox.files.download(f"{folder}/nothing", tmp_path / "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["back", "here.bin"]


def test_trees_go_both_ways(sandbox, folder, tmp_path):
    source = tmp_path / "source"
    (source / "src" / "empty").mkdir(parents=True)
    (source / "src" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "src" / "run.sh").chmod(0o755)
    (source / "link").symlink_to("src/run.sh")
    (source / "large").write_bytes(b"x" * 3_000_000)
    sent = sandbox.files.upload_tree(source, f"{folder}/tree")
    assert (sent.files, sent.directories, sent.symlinks) == (2, 2, 1)
    assert sandbox.commands.run(f"{folder}/tree/link").stdout == "ran\n"
    sandbox.commands.run(f"ln -s /etc/passwd {folder}/tree/out; mkfifo {folder}/tree/fifo")
    got = sandbox.files.download_tree(f"{folder}/tree", tmp_path / "back")
    assert (got.files, got.links, got.skipped) == (2, 1, ["out"])
    assert (tmp_path / "back" / "large").stat().st_size == 3_000_000
    assert (tmp_path / "back" / "src" / "run.sh").stat().st_mode & 0o777 == 0o755
    with pytest.raises(NotADirectoryError):
        sandbox.files.upload_tree(source / "large", folder)
    with pytest.raises(FileNotFoundError):
        sandbox.files.download_tree(f"{folder}/nothing", tmp_path / "none")


def test_archives_pass_through(sandbox, folder):
    sandbox.files.write(f"{folder}/a/x", "1")
    packed = b"".join(sandbox.files.archive(f"{folder}/a", compressed=True))
    assert packed[:2] == b"\x1f\x8b"
    assert sandbox.files.unpack(f"{folder}/b", packed).files == 1
    assert sandbox.files.read(f"{folder}/b/x") == "1"
    with pytest.raises(InvalidRequestError):
        sandbox.files.unpack(f"{folder}/c", b"no archive at all" * 100)


def test_search(sandbox, folder):
    sandbox.files.write(f"{folder}/src/a.py", "import os\ndef main():\n  pass\n")
    sandbox.files.write(f"{folder}/src/b.txt", "def other\n")
    sandbox.files.write(f"{folder}/skip/c.py", "def hidden\n")
    found = sandbox.files.glob("**/*.py", folder, exclude=["skip"])
    assert [each.path for each in found.entries] == [f"{folder}/src/a.py"] and not found.truncated
    lines = sandbox.files.grep(r"^def \w+", folder, include=["*.py"])
    assert {(each.path, each.line, each.text) for each in lines.matches} == {
        (f"{folder}/src/a.py", 2, "def main():"), (f"{folder}/skip/c.py", 1, "def hidden")}
    assert sandbox.files.grep("main(", folder, fixed=True).matches[0].line == 2
    assert sandbox.files.glob("*", "/usr/bin", max_results=3).truncated
    with pytest.raises(InvalidRequestError):
        sandbox.files.grep("(", folder)
