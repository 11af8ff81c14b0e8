"""State from the command line, against a real server."""
import json
import tarfile

import pytest

from harness.command import Command


@pytest.fixture(scope="module")
def atoll(server):
    return Command(server)


@pytest.fixture
def box(atoll):
    """Makes sandboxes through the command line, and remembers what a test made of them."""
    made = []

    def make(*words):
        ids = atoll(*(words or ("create",)), "-q").stdout.split()
        made.extend(ids)
        return ids[0] if len(ids) == 1 else ids
    yield make
    if made:
        atoll("rm", "-f", *made)


def status(atoll, box):
    return json.loads(atoll("inspect", box).stdout)["status"]


def test_pause_and_resume(atoll, box):
    one, two = box("create", "--count", "2")
    assert atoll("pause", one, two).stdout.split() == [one, two]
    assert status(atoll, one) == status(atoll, two) == "paused"
    answer = json.loads(atoll("resume", "-o", "json", one).stdout)
    assert answer["resumed"][0]["restored"] == "memory" and not answer["failed"]
    assert status(atoll, one) == "running"
    atoll("pause", "--memory", "none", one)
    done = atoll("resume", one)
    assert done.stdout.strip() == one and "its processes began again" in done.stderr
    done = atoll("pause", one, "rs-nothing", check=None)
    assert done.returncode != 0 and one in done.stdout and "rs-nothing" in done.stderr


def test_snapshots(atoll, box):
    one = box()
    atoll("cp", "-", f"{one}:/workspace/notes", stdin="first")
    snapshot = atoll("snapshot", "create", one, "-n", "first", "--expires", "1h").stdout.strip()
    try:
        atoll("cp", "-", f"{one}:/workspace/notes", stdin="second")
        assert atoll("snapshot", "ls", "-q", one).stdout.split() == [snapshot]
        assert "first" in atoll("snapshot", "ls", one).stdout
        shown = json.loads(atoll("snapshot", "show", snapshot).stdout)
        assert shown["sandbox_id"] == one and shown["expires_at"]
        done = atoll("snapshot", "restore", one, "first", check=None)
        assert done.returncode != 0 and "force" in done.stderr
        atoll("snapshot", "restore", "--force", one, "first")
        assert atoll("files", "cat", f"{one}:/workspace/notes").stdout == "first"
        begun = box("create", "--snapshot", snapshot)
        assert atoll("files", "cat", f"{begun}:/workspace/notes").stdout == "first"
    finally:
        atoll("snapshot", "rm", snapshot)
    assert atoll("snapshot", "show", snapshot, check=None).returncode != 0
    atoll("snapshot", "rm", "-f", snapshot)


def test_forks(atoll, box):
    one = box()
    atoll("cp", "-", f"{one}:/workspace/notes", stdin="shared")
    children = box("fork", "-n", "2", one)
    assert [status(atoll, child) for child in children] == ["paused", "paused"]
    started = box("fork", "--start", one)
    assert status(atoll, started) == "running"
    for child in [*children, started]:
        assert atoll("exec", child, "--", "cat", "/workspace/notes").stdout == "shared"
    done = atoll("fork", "-n", "101", one, check=None)
    assert done.returncode != 0 and "at most 100" in done.stderr


def test_tree(atoll, box):
    one = box("create", "--name", "tree-root")
    child = box("fork", one)
    grandchild = box("fork", "--start", child)
    drawn = atoll("tree", one).stdout.split("\n")
    assert drawn[0].startswith(f"{one}  tree-root  running  from default")
    assert drawn[1].startswith(f"└─ {child}  paused  fork")
    assert drawn[2].startswith(f"   └─ {grandchild}  running  fork")
    assert atoll("tree", "-q", child, env={"LC_ALL": "C"}).stdout == (
        f"{one}\n`- {child}\n   `- {grandchild}\n")
    nodes = json.loads(atoll("tree", "-o", "json").stdout)["nodes"]
    assert {one, child, grandchild} <= {node["id"] for node in nodes}


def test_diff_export_import(atoll, box, tmp_path):
    one = box()
    atoll("cp", "-", f"{one}:/workspace/notes", stdin="first")
    snapshot = atoll("snapshot", "create", one).stdout.strip()
    imported = None
    try:
        atoll("exec", one, "--", "sh", "-c", "rm /workspace/notes; echo new > /workspace/more")
        done = atoll("diff", one, "--from", snapshot)
        assert "A /workspace/more  4 B\n" in done.stdout and "D /workspace/notes\n" in done.stdout
        assert "added" in done.stderr and "removed" in done.stderr
        assert "/workspace/more" in atoll("diff", "-q", one).stdout.split("\n")
        records = [json.loads(line) for line in
                   atoll("diff", "-o", "json", one, "--from", snapshot).stdout.splitlines()]
        assert {"added", "removed"} <= {record["change"] for record in records}
        changes = tmp_path / "changes.tar"
        atoll("diff", one, "--from", snapshot, "--tar", str(changes))
        assert "workspace/more" in tarfile.open(changes).getnames()
        archive = tmp_path / "image.tar"
        written = json.loads(atoll("export", "-o", "json", snapshot, str(archive),
                                   "--compression", "none").stdout)
        assert written["bytes"] == archive.stat().st_size
        assert "oci-layout" in tarfile.open(archive).getnames()
        imported = atoll("import", str(archive), "-n", "imported").stdout.strip()
        begun = box("create", "--snapshot", imported)
        assert atoll("files", "cat", f"{begun}:/workspace/notes").stdout == "first"
        layer = atoll("export", "--layer", "--compression", "none", one, "-", text=False).stdout
        (tmp_path / "layer.tar").write_bytes(layer)
        assert "workspace/more" in tarfile.open(tmp_path / "layer.tar").getnames()
        done = atoll("import", "-", stdin="no archive", check=None)
        assert done.returncode != 0 and done.stderr.startswith("atoll: ")
    finally:
        atoll("snapshot", "rm", "-f", snapshot, *([imported] if imported else []))


def test_volumes(atoll, box, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "run").write_text("#!/bin/sh\necho ran\n")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("run")
    made = [atoll("volume", "create", "--mode", "RWX", "--size", "1Gi").stdout.strip()]
    volume = made[0]
    try:
        atoll("volume", "cp", str(tree), f"{volume}:/")
        atoll("volume", "cp", "-", f"{volume}:/notes", stdin="first")
        assert atoll("volume", "cp", f"{volume}:/notes", "-").stdout == "first"
        back = tmp_path / "back"
        atoll("volume", "cp", f"{volume}:/tree", str(back))
        assert (back / "link").readlink().name == "run" and (back / "run").stat().st_mode & 0o100
        assert volume in atoll("volume", "ls", "-q").stdout.split()
        assert volume in atoll("complete", "--", "volume", "show", volume[:4]).stdout
        snapshot = atoll("volume", "snapshot", volume, "-n", "before").stdout.strip()
        one = box("create", "-v", f"{volume}:/workspace/data")
        assert atoll("exec", one, "--", "/workspace/data/tree/link").stdout == "ran\n"
        assert json.loads(atoll("volume", "show", volume).stdout)["mounted_in"] == [one]
        done = atoll("volume", "rm", volume, check=None)
        assert done.returncode != 0 and volume in done.stderr
        atoll("rm", one)
        atoll("volume", "cp", "-", f"{volume}:/notes", stdin="second")
        assert "before" in atoll("volume", "snapshots", volume).stdout
        made.append(atoll("volume", "fork", volume).stdout.strip())
        atoll("volume", "restore", volume, snapshot)
        assert atoll("volume", "cp", f"{volume}:/notes", "-").stdout == "first"
        assert atoll("volume", "cp", f"{made[1]}:/notes", "-").stdout == "second"
        atoll("volume", "forget", volume, snapshot)
        assert atoll("volume", "snapshots", "-q", volume).stdout == ""
    finally:
        atoll("volume", "rm", "-f", *made)
