"""`atoll files`, `atoll logs`, `atoll cp` of trees, `atoll watch`."""
import json
import os
import select
import subprocess

import pytest

from harness.command import Command
from harness.server import BIN_DIR


@pytest.fixture(scope="module")
def atoll(server):
    return Command(server)


def test_files_ls_cat_mkdir_rm(atoll, sandbox):
    box = sandbox.id
    atoll("files", "mkdir", f"{box}:/tmp/files/deep/er")
    atoll("cp", "-", f"{box}:/tmp/files/a.txt", stdin="content\n")
    listed = atoll("files", "ls", f"{box}:/tmp/files").stdout
    assert "a.txt" in listed and "deep" in listed and listed.startswith("TYPE")
    assert atoll("files", "ls", "-q", f"{box}:/tmp/files").stdout == "a.txt\ndeep\n"
    names = json.loads(atoll("files", "ls", "-o", "json", f"{box}:/tmp/files").stdout)["entries"]
    assert {entry["name"] for entry in names} == {"a.txt", "deep"}
    assert atoll("files", "cat", f"{box}:/tmp/files/a.txt", f"{box}:/tmp/files/a.txt").stdout \
        == "content\n" * 2
    done = atoll("files", "rm", f"{box}:/tmp/files", check=None)
    assert done.returncode != 0 and "-r" in done.stderr
    atoll("files", "rm", "-r", f"{box}:/tmp/files")
    done = atoll("files", "cat", f"{box}:/tmp/files/a.txt", check=None)
    assert done.returncode != 0 and "/tmp/files/a.txt" in done.stderr
    assert "SANDBOX:/workspace" in atoll("files", "ls", "/tmp", check=None).stderr


def test_logs_of_one_and_of_all(atoll, create):
    box = create()
    first = box.start("echo one; echo err >&2", wait_until_done=True)
    second = box.start("printf 'two\\nlast'", wait_until_done=True)
    done = atoll("logs", box.id, first["id"])
    assert done.stdout == "one\n" and done.stderr == "err\n"
    done = atoll("logs", box.id)
    assert f"{first['id']} one\n" in done.stdout and f"{second['id']} last\n" in done.stdout
    records = [json.loads(line) for line in
               atoll("logs", "-o", "json", box.id, first["id"]).stdout.splitlines()]
    assert {record["source"] for record in records} == {"stdout", "stderr"}
    running = box.start("echo so-far; sleep 1000")
    assert atoll("logs", box.id, running["id"]).stdout in ("so-far\n", "")


def test_logs_follow(atoll, create):
    box = create()
    context = box.start("echo first; read x; echo second", stdin_open=True)
    process = subprocess.Popen([BIN_DIR / "atoll", "logs", "-f", box.id, context["id"]],
                               env=atoll.env, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"first\n"
        box.client.expect(200, "POST", f"{box.path}/contexts/{context['id']}/input",
                          {"data": "go\n"})
        assert process.stdout.readline() == b"second\n"
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_logs_follow_contexts_started_later(atoll, create):
    box = create()
    process = subprocess.Popen([BIN_DIR / "atoll", "logs", "-f", box.id], env=atoll.env,
                               stdout=subprocess.PIPE)
    try:
        context = box.start("echo a-late-one; sleep 1000")
        assert process.stdout.readline().decode() == f"{context['id']} a-late-one\n"
        process.terminate()
        assert process.wait(60) == 143
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_watch(atoll, create):
    box = create()
    box.run("mkdir -p /workspace/seen/deep")
    process = subprocess.Popen(
        [BIN_DIR / "atoll", "watch", "-r", "-o", "json", box.id, "/workspace/seen"], env=atoll.env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # Nothing says in JSON that the watch stands, so changes are made until one is seen.
        seen = []
        number = 0
        while not seen:
            number += 1
            box.run(f"touch /workspace/seen/deep/f{number}")
            if select.select([process.stdout], [], [], 1)[0]:
                seen.append(json.loads(process.stdout.readline()))
        assert seen[0]["event"] == "create" and seen[0]["path"].startswith("/workspace/seen/deep/f")
        process.terminate()
        assert process.wait(60) == 143
    finally:
        process.kill()
        process.communicate()


def test_watch_on_a_terminal(atoll, create):
    box = create()
    with atoll.terminal(f"watch {box.id} /workspace") as terminal:
        terminal.wait_for("watching /workspace")
        box.run("echo x > /workspace/new-file")
        terminal.wait_for(r"^create +/workspace/new-file$")
        terminal.key("C-c")
        assert terminal.status() == 130


def test_cp_of_a_tree_shows_progress_only_on_a_terminal(atoll, sandbox, tmp_path):
    tree = tmp_path / "tree"
    for number in range(300):
        path = tree / str(number % 7) / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(200_000))
    done = atoll("cp", str(tree), f"{sandbox.id}:/tmp/tree")
    assert done.stderr == "" and done.stdout == ""
    with atoll.terminal(f"cp {sandbox.id}:/tmp/tree {tmp_path}/back") as terminal:
        # What takes less than a second says nothing.
        terminal.status()
    names = sorted(path.relative_to(tree) for path in tree.rglob("*"))
    assert names == sorted(path.relative_to(tmp_path / "back")
                           for path in (tmp_path / "back").rglob("*"))
    assert all((tree / name).read_bytes() == (tmp_path / "back" / name).read_bytes()
               for name in names if (tree / name).is_file())


def test_cp_shows_how_far_it_is(atoll, sandbox, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with atoll.terminal(f"cp - {sandbox.id}:/tmp/slow < {pipe}") as terminal:
        with open(pipe, "wb") as writer:
            writer.write(b"x" * 102_400)
            writer.flush()
            terminal.wait_for(r"100\.0 KiB .*/s")
        assert terminal.status() == 0
        assert "KiB" not in terminal.screen()  # the line goes when the copy is done
    assert sandbox.out("wc -c < /tmp/slow").strip() == "102400"


def test_cp_names_the_file_that_fails(atoll, sandbox, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "the-one").write_text("x")
    sandbox.run("mkdir -p /tmp/closed/sub && chmod 555 /tmp/closed/sub")
    done = atoll("cp", f"{tree}/.", f"{sandbox.id}:/tmp/closed", check=None)
    assert done.returncode != 0 and "/tmp/closed/sub/the-one" in done.stderr


def test_glob_and_grep(atoll, sandbox):
    place = f"{sandbox.id}:/workspace/search"
    sandbox.run("mkdir -p /workspace/search/sub; cd /workspace/search; "
                "printf 'one\\nTODO: two\\nthree\\n' > sub/a.py; echo 'todo nothing' > b.txt")
    assert "sub/a.py" in atoll("files", "glob", "**/*.py", place).stdout
    done = atoll("files", "grep", "-i", "todo", place, "--include", "*.py").stdout
    assert "a.py:2:TODO: two" in done and "b.txt" not in done
    around = atoll("files", "grep", "-F", "TODO:", place, "-C", "1").stdout
    assert "a.py-1-one" in around and "a.py-3-three" in around
    document = json.loads(atoll("files", "grep", "-o", "json", "todo", place).stdout)
    assert [match["line"] for match in document["matches"]] == [1]
    atoll("files", "grep", "nowhere-to-be-found", place, check=1)
    assert "PATTERN SANDBOX:/path" in atoll("files", "grep", "x", check=None).stderr
