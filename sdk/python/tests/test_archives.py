"""Archives of trees: what goes in comes out, and what a sandbox made up stays inside."""
import io
import os
import tarfile

from atoll_sandbox._archives import tar_pieces, unpack


def archive_of(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, value in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(value)
                tar.addfile(info, io.BytesIO(value))
            else:
                info.linkname = value
                tar.addfile(info)
    out.seek(0)
    return out


def test_there_and_back(tmp_path):
    source = tmp_path / "source"
    (source / "a" / "empty").mkdir(parents=True)
    (source / "a" / ("long" * 40)).write_bytes(b"1" * 700_001)
    (source / "run").write_text("x")
    (source / "run").chmod(0o755)
    (source / "ünï").write_text("")
    os.symlink("a/empty", source / "link")
    os.mkfifo(source / "fifo")
    done = unpack(io.BytesIO(b"".join(tar_pieces(source))), tmp_path / "target")
    assert (done.files, done.directories, done.links, done.skipped) == (3, 2, 1, [])
    target = tmp_path / "target"
    assert (target / "a" / ("long" * 40)).read_bytes() == b"1" * 700_001
    assert (target / "run").stat().st_mode & 0o777 == 0o755
    assert os.readlink(target / "link") == "a/empty" and (target / "ünï").exists()


def test_a_single_file(tmp_path):
    (tmp_path / "one").write_text("1")
    assert unpack(io.BytesIO(b"".join(tar_pieces(tmp_path / "one"))), tmp_path / "t").files == 1
    assert (tmp_path / "t" / "one").read_text() == "1"


def test_nothing_is_written_outside(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "victim").write_text("safe")
    target = tmp_path / "target"
    target.mkdir()
    (target / "mine").symlink_to(tmp_path / "outside")
    hostile = archive_of(
        ("../escaped", tarfile.REGTYPE, b"x"), ("/absolute", tarfile.REGTYPE, b"x"),
        ("mine/victim", tarfile.REGTYPE, b"x"), ("out", tarfile.SYMTYPE, "../outside"),
        ("abs", tarfile.SYMTYPE, "/etc"), ("d/up", tarfile.SYMTYPE, "../../outside"),
        ("hard", tarfile.LNKTYPE, "mine/victim"), ("hard2", tarfile.LNKTYPE, "../outside/victim"),
        ("device", tarfile.CHRTYPE, ""), ("ok", tarfile.REGTYPE, b"fine"),
        ("in", tarfile.SYMTYPE, "d/../ok"), ("in/x", tarfile.REGTYPE, b"through"),
        ("same", tarfile.LNKTYPE, "ok"))
    done = unpack(hostile, target)
    assert (tmp_path / "outside" / "victim").read_text() == "safe"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["outside", "target"]
    assert sorted(each.name for each in target.iterdir()) == ["d", "in", "mine", "ok", "same"]
    assert (target / "ok").read_bytes() == (target / "same").read_bytes() == b"fine"
    assert len(done.skipped) == 10


def test_an_existing_link_is_replaced_not_followed(tmp_path):
    (tmp_path / "victim").write_text("safe")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "f").symlink_to(tmp_path / "victim")
    unpack(archive_of(("f", tarfile.REGTYPE, b"new")), tmp_path / "t")
    assert (tmp_path / "victim").read_text() == "safe"
    assert (tmp_path / "t" / "f").read_text() == "new"
