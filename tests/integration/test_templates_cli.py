"""`atoll template` through the shipped binary."""
import os
import signal
import socket
import subprocess
import time

import pytest

from harness.server import BIN_DIR


@pytest.fixture(scope="module")
def environment(server):
    return {**os.environ, "ATOLL_API_URL": server.url(), "NO_COLOR": "1",
            "ATOLL_KEY_FILE": os.path.join(server.data_dir, "admin.key")}


@pytest.fixture(scope="module")
def atoll(environment):
    def run(*words, stdin=b"", check=0):
        done = subprocess.run([BIN_DIR / "atoll", *words], capture_output=True, timeout=120,
                              input=stdin, env=environment)
        if check is not None:
            assert done.returncode == check, (words, done.returncode, done.stdout, done.stderr)
        return done
    return run


@pytest.fixture
def context(tmp_path):
    directory = tmp_path / "My-App"
    directory.mkdir()
    (directory / "greeting").write_text("hello\n")
    (directory / "Dockerfile").write_text(
        "FROM default\nARG WHO=world\nCOPY greeting /greeting\nRUN cat /greeting; echo $WHO\n")
    return directory


def test_build_list_run_remove(atoll, context):
    done = atoll("template", "build", "-f", str(context / "Dockerfile"), "--build-arg", "WHO=you",
                 str(context))
    # The commands' output and the name are on standard output, the rest is not.
    assert done.stdout.decode() == "hello\nyou\nmy-app\n"
    assert b"[4/4] RUN cat /greeting; echo $WHO" in done.stderr
    again = atoll("template", "build", "--build-arg", "WHO=you", str(context))
    assert again.stdout == b"my-app\n" and again.stderr.count(b"cached") == 2
    assert "my-app" in atoll("template", "ls").stdout.decode()
    assert "my-app" in atoll("template", "ls", "-q").stdout.decode().split()
    assert atoll("run", "--rm", "-t", "my-app", "--", "cat", "/greeting").stdout == b"hello\n"
    assert atoll("template", "rm", "my-app").stdout == b"my-app\n"
    assert "my-app" not in atoll("template", "ls", "-q").stdout.decode().split()
    assert b"my-app" in atoll("template", "rm", "my-app", check=None).stderr


def test_a_failing_build(atoll, context):
    (context / "Dockerfile").write_text("FROM default\n\nRUN echo before && exit 3\n")
    done = atoll("template", "build", "-n", "failing-cli", str(context), check=None)
    assert done.returncode != 0
    assert b"Dockerfile:3" in done.stderr and b"exit code 3" in done.stderr
    atoll("template", "rm", "failing-cli")


def test_records_as_json(atoll, context):
    done = atoll("-o", "json", "template", "build", "-n", "json-cli", str(context))
    lines = done.stdout.decode().splitlines()
    assert '"type":"step"' in lines[1] and '"type":"done"' in lines[-1]
    atoll("template", "rm", "json-cli")


@pytest.mark.parametrize("words, said", [
    (("template",), "ACTION"),
    (("template", "frobnicate"), "frobnicate"),
    (("template", "add", "x"), "NAME IMAGE"),
    (("template", "rm"), "which template"),
    (("template", "build", "/nonexistent"), "nonexistent"),
    (("template", "build", "-f", "/etc/hostname", "/tmp"), "not inside"),
    (("template", "add", "x", "--archive", "/nonexistent"), "nonexistent"),
    (("template", "pull", "nothing-like-it"), "no template"),
])
def test_mistakes(atoll, words, said):
    done = atoll(*words, check=None)
    assert done.returncode != 0
    assert said in done.stderr.decode()


def test_the_hosts_network_when_asked(atoll, context):
    (context / "Dockerfile").write_text(
        "FROM default\nRUN python3 -c 'import socket; print(len(socket.if_nameindex()), \"seen\")'\n")
    done = atoll("template", "build", "-n", "net-cli", "--build-network", "host", str(context))
    host = len(socket.if_nameindex())
    assert f"{host} seen".encode() in done.stdout
    done = atoll("template", "build", "-n", "net-cli", "--build-network", "bridge", str(context),
                 check=None)
    assert done.returncode != 0 and b"none or host" in done.stderr


def test_an_interrupted_build_ends_on_the_server(environment, client, context):
    (context / "Dockerfile").write_text("FROM default\nRUN echo begun; sleep 1000\n")
    process = subprocess.Popen([BIN_DIR / "atoll", "template", "build", "-n", "interrupted",
                                str(context)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env=environment)
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    process.stdout.close()
    deadline = time.monotonic() + 60
    while True:
        value = client.call("GET", "/api/v1/templates/interrupted").data
        if value["status"]["creation"]["state"] == "failed":
            break
        assert time.monotonic() < deadline, value
        time.sleep(0.1)
    assert "cancelled" in value["status"]["creation"]["message"]
    assert client.call("DELETE", "/api/v1/templates/interrupted").status == 200
