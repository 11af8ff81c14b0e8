"""Pausing, snapshots and forks from the command line, against a real server."""
import json

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
