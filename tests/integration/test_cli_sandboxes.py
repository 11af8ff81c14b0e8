"""Names, labels, batches, updates and numbers from the command line."""
import json

import pytest

from harness.command import Command


@pytest.fixture(scope="module")
def atoll(server):
    return Command(server)


def test_names_work_wherever_ids_do(atoll):
    box = atoll("create", "--name", "named-box", "-q").stdout.strip()
    try:
        assert atoll("create", "--name", "named-box", "--get", "-q").stdout.strip() == box
        assert atoll("exec", "named-box", "--", "echo", "hi").stdout == "hi\n"
        assert json.loads(atoll("inspect", "named-box").stdout)["id"] == box
        atoll("cp", "-", "named-box:/tmp/x", stdin="content")
        assert atoll("files", "cat", "named-box:/tmp/x").stdout == "content"
        assert atoll("repl", "-q", "named-box", stdin="print(1)").stdout == "1\n"
        assert "named-box" in atoll("complete", "--", "exec", "named").stdout
        done = atoll("create", "--name", "named-box", check=None)
        assert done.returncode != 0 and "named-box" in done.stderr
    finally:
        atoll("rm", "named-box")
    assert box not in atoll("ls", "-q").stdout


def test_several_with_a_label(atoll):
    ids = atoll("create", "--count", "3", "--label", "job=cli-test", "-q").stdout.split()
    try:
        assert len(ids) == 3
        assert sorted(atoll("ls", "-q", "-l", "job=cli-test").stdout.split()) == sorted(ids)
        assert atoll("ls", "-q", "-l", "job=other").stdout == ""
    finally:
        atoll("rm", "-f", *ids)


def test_update_and_stats(atoll, create):
    box = create()
    atoll("update", box.id, "--memory", "768Mi", "--ttl", "1h", "-e", "ADDED=yes")
    document = json.loads(atoll("inspect", box.id).stdout)
    assert document["resources"]["memory"] == "768Mi" and document["expires_at"]
    assert atoll("exec", box.id, "--", "sh", "-c", "echo $ADDED").stdout == "yes\n"
    table = atoll("stats", box.id).stdout
    assert table.startswith("SANDBOX") and box.id in table
    document = json.loads(atoll("stats", box.id, "-o", "json").stdout)
    assert document["sandboxes"][0]["id"] == box.id
    with atoll.terminal(f"stats -w {box.id}") as terminal:
        terminal.wait_for(box.id)
        terminal.key("C-c")
        assert terminal.status() == 130
