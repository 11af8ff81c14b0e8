"""The command line through the shipped binary: exit codes, streams, copies, JSON, help."""
import hashlib
import json
import os
import subprocess

import pytest

from harness.server import BIN_DIR


@pytest.fixture(scope="module")
def atoll(server):
    environment = {**os.environ, "ATOLL_API_URL": server.url(),
                   "ATOLL_KEY_FILE": os.path.join(server.data_dir, "admin.key"), "NO_COLOR": "1"}

    def run(*words, stdin=None, check=0, env=None):
        done = subprocess.run([BIN_DIR / "atoll", *words], capture_output=True, timeout=120,
                              input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
                              env={**environment, **(env or {})})
        if check is not None:
            assert done.returncode == check, (words, done.returncode, done.stdout, done.stderr)
        return done
    return run


@pytest.fixture(scope="module")
def box(atoll):
    sandbox_id = atoll("create", "-q").stdout.decode().strip()
    yield sandbox_id
    atoll("rm", "-f", sandbox_id)


def test_run_rm(atoll, client):
    before = set(client.list_ids())
    done = atoll("run", "--rm", "--", "sh", "-c", "echo out; echo err >&2")
    assert done.stdout == b"out\n" and b"err\n" in done.stderr
    assert set(client.list_ids()) == before


@pytest.mark.parametrize("script,status", [("exit 0", 0), ("exit 3", 3), ("exit 255", 255),
                                           ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_exit_status_is_the_commands(atoll, box, script, status):
    atoll("exec", box, "--", "sh", "-c", script, check=status)


def test_run_exit_status(atoll):
    atoll("run", "--rm", "--", "sh", "-c", "exit 42", check=42)


def test_missing_program_is_127(atoll, box):
    done = atoll("exec", box, "--", "no-such-program", check=127)
    assert b"no-such-program" in done.stderr


def test_stdin_pipe(atoll, box):
    data = os.urandom(300_000)
    assert atoll("exec", box, "--", "cat", stdin=data).stdout == data
    assert atoll("run", "--rm", "--", "wc", "-c", stdin=b"12345").stdout.strip() == b"5"


def test_a_large_pipe_arrives_whole_and_in_order(atoll, box):
    data = os.urandom(1 << 20) * 32
    done = atoll("exec", box, "--", "sha256sum", stdin=data)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("command,status", [("/etc/passwd", 126), ("/nonexistent", 127)])
def test_what_cannot_run_has_a_shells_exit_status(atoll, box, command, status):
    atoll("exec", box, "--", command, check=status)


def test_user_directory_and_environment(atoll, box):
    done = atoll("exec", "-u", "root", "-w", "/usr", "-e", "A=b c", box, "--", "sh", "-c",
                 "id -un; pwd; echo $A")
    assert done.stdout == b"root\n/usr\nb c\n"


def test_timeout_is_124(atoll, box):
    atoll("exec", "--timeout", "1", box, "--", "sleep", "60", check=124)


def test_ls_and_inspect(atoll, box):
    assert box in atoll("ls").stdout.decode()
    assert box in atoll("ls", "-q").stdout.decode().split()
    listed = json.loads(atoll("ls", "-o", "json").stdout)
    assert box in json.dumps(listed)
    document = json.loads(atoll("inspect", box).stdout)
    document = document[0] if isinstance(document, list) else document
    assert document["id"] == box and document["status"] == "running"


def test_create_json(atoll):
    document = json.loads(atoll("create", "-o", "json").stdout)
    sandbox_id = document.get("sandbox_id") or document.get("id")
    atoll("rm", "-q", sandbox_id)


def test_rm_removes(atoll):
    sandbox_id = atoll("create", "-q").stdout.decode().strip()
    atoll("rm", sandbox_id)
    assert sandbox_id not in atoll("ls", "-q").stdout.decode().split()
    done = atoll("rm", sandbox_id, check=None)
    assert done.returncode != 0 and sandbox_id in done.stderr.decode()
    atoll("rm", "-f", sandbox_id)


def test_cp_file_both_ways(atoll, box, tmp_path):
    content = os.urandom(2_000_000)
    source = tmp_path / "file.bin"
    source.write_bytes(content)
    atoll("cp", str(source), f"{box}:/home/user/copied.bin")
    atoll("cp", f"{box}:/home/user/copied.bin", str(tmp_path / "back.bin"))
    assert (tmp_path / "back.bin").read_bytes() == content


def test_cp_directory_both_ways(atoll, box, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub" / "leer").mkdir(parents=True)
    (tree / "a.txt").write_text("a")
    (tree / "sub" / "ü.txt").write_text("b")
    (tree / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "run.sh").chmod(0o755)
    (tree / "link").symlink_to("a.txt")
    atoll("cp", str(tree), f"{box}:/home/user/tree")
    assert atoll("exec", box, "--", "/home/user/tree/run.sh").stdout == b"ran\n"
    atoll("cp", f"{box}:/home/user/tree", str(tmp_path / "back"))
    back = tmp_path / "back"
    found = {str(path.relative_to(back)) for path in back.rglob("*")}
    assert found == {"a.txt", "sub", "sub/leer", "sub/ü.txt", "run.sh", "link"}
    assert (back / "sub" / "ü.txt").read_text() == "b"
    assert os.readlink(back / "link") == "a.txt" and os.access(back / "run.sh", os.X_OK)


def test_cp_standard_streams(atoll, box):
    data = os.urandom(100_000)
    atoll("cp", "-", f"{box}:/tmp/stream", stdin=data)
    assert atoll("cp", f"{box}:/tmp/stream", "-").stdout == data


def test_cp_into_a_directory(atoll, box, tmp_path):
    source = tmp_path / "into.txt"
    source.write_text("into")
    atoll("cp", str(source), f"{box}:/tmp")
    assert atoll("exec", box, "--", "cat", "/tmp/into.txt").stdout == b"into"


def test_cp_from_a_hostile_sandbox_stays_in_the_destination(atoll, box, tmp_path):
    """Links that point out of the tree are copied as links, never written through."""
    outside = tmp_path / "outside"
    outside.mkdir()
    atoll("exec", box, "--", "sh", "-c", f"mkdir -p /tmp/evil && ln -sfn {outside} "
          f"/tmp/evil/dir && ln -sfn {outside}/file /tmp/evil/file")
    atoll("cp", f"{box}:/tmp/evil", str(tmp_path / "got"), check=None)
    assert list(outside.iterdir()) == []


def test_cp_errors_are_clear(atoll, box, tmp_path):
    done = atoll("cp", f"{box}:/no/such/file", str(tmp_path / "x"), check=None)
    assert done.returncode != 0 and b"/no/such/file" in done.stderr
    done = atoll("cp", str(tmp_path / "missing"), f"{box}:/tmp/x", check=None)
    assert done.returncode != 0 and b"missing" in done.stderr


def test_doctor(atoll):
    done = atoll("doctor", "-o", "json", check=None)
    assert done.returncode in (0, 1)
    assert json.loads(done.stdout)
    text = atoll("doctor", check=None).stdout.decode()
    assert "user namespaces" in text and "btrfs" in text.lower() and "cgroup" in text


def test_version(atoll):
    assert atoll("version").stdout.strip()
    assert json.loads(atoll("version", "-o", "json").stdout)["version"]
    assert atoll("--version").stdout.strip()


@pytest.mark.parametrize("command", ["run", "create", "exec", "ls", "inspect", "rm", "cp", "doctor",
                                     "version", "serve"])
def test_every_command_has_help(atoll, command):
    text = atoll(command, "--help").stdout.decode()
    assert "atoll " + command in text


def test_unknown_command_suggests(atoll):
    done = atoll("lss", check=None)
    assert done.returncode != 0 and b"ls" in done.stderr


def test_unknown_option_is_named(atoll):
    done = atoll("create", "--memroy", "1Gi", check=None)
    assert done.returncode != 0 and b"memroy" in done.stderr


def test_server_that_is_down_is_told_with_its_address(atoll):
    done = atoll("ls", check=None, env={"ATOLL_API_URL": "http://127.0.0.1:9"})
    assert done.returncode not in (0, 127) and b"127.0.0.1:9" in done.stderr
    assert b"serve" in done.stderr


def test_wrong_key_is_told(atoll, tmp_path):
    key = tmp_path / "key"
    key.write_text("atoll_" + "0" * 40)
    done = atoll("ls", check=None, env={"ATOLL_KEY_FILE": str(key)})
    assert done.returncode != 0 and b"key" in done.stderr.lower()


def test_unknown_sandbox_is_told(atoll):
    done = atoll("exec", "no-such-sandbox", "--", "true", check=None)
    assert done.returncode == 125 and b"no-such-sandbox" in done.stderr


def test_quiet_run_prints_only_the_output(atoll):
    done = atoll("run", "--rm", "-q", "--", "echo", "only")
    assert (done.stdout, done.stderr) == (b"only\n", b"")


def test_large_output_through_a_pipe(atoll, box):
    done = atoll("exec", box, "--", "sh", "-c", "head -c 20000000 /dev/zero")
    assert len(done.stdout) == 20_000_000
