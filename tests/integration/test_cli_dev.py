"""`atoll dev`, and what a start says."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from harness.command import Command
from harness.server import BIN_DIR, Server, wait_until


@pytest.fixture(scope="module")
def atoll(server):
    return Command(server)


def test_print_for_a_running_server(atoll, server):
    text = atoll("dev", "--print").stdout
    assert server.url() in text and server.key in text
    for word in ("curl", "from atoll_sandbox import Sandbox", "@atoll/sandbox", "from sandbox0 import Client", "E2B"):
        assert word in text
    document = json.loads(atoll("dev", "--print", "-o", "json").stdout)
    assert document["url"] == server.url() and document["api_key"] == server.key


def test_the_printed_snippets_work(atoll, client):
    snippets = json.loads(atoll("dev", "--print", "-o", "json").stdout)["snippets"]
    bare = {key: value for key, value in atoll.env.items() if not key.startswith("ATOLL_")}
    done = subprocess.run(["sh", "-c", snippets["curl"]], env=bare, capture_output=True, timeout=120)
    sandbox_id = json.loads(done.stdout)["data"]["sandbox_id"]
    client.call("DELETE", f"/api/v1/sandboxes/{sandbox_id}")
    done = subprocess.run(["sh", "-c", snippets["shell"]], env=bare, capture_output=True,
                          timeout=120)
    assert done.stdout == b"42\n", done.stderr
    ask = 'curl -s -o /dev/null -w "%{http_code}" -H "X-API-KEY: $E2B_API_KEY" $E2B_API_URL/v2/sandboxes'
    done = subprocess.run(["sh", "-c", snippets["e2b"] + ask], env=bare, capture_output=True,
                          timeout=120)
    assert done.stdout == b"200", done


def test_print_without_a_server_or_with_a_wrong_key(atoll):
    done = atoll("dev", "--print", "--api-url", "http://127.0.0.1:1", check=None)
    assert done.returncode != 0 and "atoll serve" in done.stderr
    done = atoll("dev", "--print", env={"ATOLL_API_KEY": "wrong"}, check=None)
    assert done.returncode != 0 and "refused" in done.stderr


class Dev(Server):
    """A server started by `atoll dev` instead."""
    def __init__(self, port):
        super().__init__()
        self.port = port

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [BIN_DIR / "atoll", "dev", "--data-dir", self.data_dir, "--listen",
                 f"127.0.0.1:{self.port}", "-o", "json"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        text = b""
        while not text.endswith(b"\n}\n"):
            line = self.process.stdout.readline()
            assert line, self.log()
            text += line
        self.document = json.loads(text)
        self.scheme, self.host = "http", "127.0.0.1"
        self.note_pids()
        return self


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_dev_starts_a_server_and_finds_it_again():
    with Dev(free_port()) as dev:
        assert dev.document["url"] == dev.url()
        environment = {**os.environ, "ATOLL_API_URL": dev.document["url"],
                       "ATOLL_API_KEY": dev.document["api_key"]}
        done = subprocess.run([BIN_DIR / "atoll", "run", "--rm", "--", "echo", "works"],
                              env=environment, capture_output=True, timeout=120)
        assert done.stdout == b"works\n", done.stderr
        again = subprocess.run(
            [BIN_DIR / "atoll", "dev", "--data-dir", dev.data_dir, "--listen",
             f"127.0.0.1:{dev.port}", "--output", "json"], capture_output=True, timeout=60)
        assert json.loads(again.stdout) == dev.document, again.stderr
        # Somebody else on the port is no server of ours, and is not shown the key.
        with socket.create_server(("127.0.0.1", 0)) as squatter:
            refused = subprocess.run(
                [BIN_DIR / "atoll", "dev", "--data-dir", dev.data_dir, "--listen",
                 f"127.0.0.1:{squatter.getsockname()[1]}"], capture_output=True, timeout=60)
            assert refused.returncode != 0 and b"already runs" in refused.stderr
            squatter.setblocking(False)
            with pytest.raises(BlockingIOError):
                squatter.accept()
        # A second `serve` says at once what is wrong.
        other = tempfile.mkdtemp(prefix="atoll-test-")
        try:
            busy = subprocess.run([BIN_DIR / "atoll", "serve", "--data-dir", other, "--listen",
                                   f"127.0.0.1:{dev.port}"], capture_output=True, timeout=60)
            assert busy.returncode != 0
            assert b"already in use" in busy.stderr and b"--listen" in busy.stderr
        finally:
            shutil.rmtree(other)


def test_dev_shows_the_key_to_nobody_else():
    """No server runs: neither who sits on the port nor another machine is taken for one."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="atoll-test-"))
    try:
        (directory / "lock").write_text("")
        (directory / "admin.key").write_text("atoll_" + "0" * 40 + "\n")
        (directory / "admin.key").chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as squatter:
            for address, word in ((f"127.0.0.1:{squatter.getsockname()[1]}", b"already in use"),
                                  ("192.0.2.1:7070", b"assign")):
                done = subprocess.run([BIN_DIR / "atoll", "dev", "--data-dir", directory, "--listen",
                                       address], capture_output=True, timeout=60)
                assert done.returncode != 0 and word in done.stderr, done.stderr
            squatter.setblocking(False)
            with pytest.raises(BlockingIOError):
                squatter.accept()
    finally:
        shutil.rmtree(directory)


def test_doctor_survives_an_unreadable_key_file(atoll, tmp_path):
    done = atoll("doctor", env={"ATOLL_KEY_FILE": str(tmp_path / "none")}, check=None)
    assert done.returncode in (0, 1)
    assert str(tmp_path / "none") in done.stdout and "CHECK" in done.stdout


def test_sigterm_with_open_streams():
    """Somebody follows a log and somebody has a shell open: the server stops all the same."""
    server = Server()
    with server:
        atoll = Command(server)
        sandbox = server.client.create()
        context = sandbox.start("echo begun; sleep 1000")
        process = subprocess.Popen([BIN_DIR / "atoll", "logs", "-f", sandbox.id, context["id"]],
                                   env=atoll.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        watch = subprocess.Popen(
            ["curl", "-sN", "-H", f"Authorization: Bearer {server.key}", "-H",
             "Accept: application/x-ndjson",
             server.url() + f"/api/v1/sandboxes/{sandbox.id}/files/watch?path=/tmp"],
            stdout=subprocess.PIPE)
        try:
            assert process.stdout.readline() == b"begun\n"
            assert b"subscribed" in watch.stdout.readline()
            with atoll.terminal(f"shell {sandbox.id}") as terminal:
                terminal.wait_for(r"[$#] ?$")
                server.stop()  # asserts a clean end without traces
                terminal.wait_for("connection broke")
                terminal.key("Enter")
                terminal.type("~.")
                terminal.status()
                assert terminal.modes_are_back()
            assert "not waiting for them" not in server.log(10**7)
        finally:
            for each in (process, watch):
                each.kill()
                each.communicate()


def test_help_has_examples_everywhere(atoll):
    overview = atoll("--help").stdout
    commands = [line.split()[0] for line in overview.split("Subcommands:")[1].split("\n\n")[0].split("\n")
                if line.startswith("  ")]
    assert len(commands) > 15
    for command in commands:
        text = atoll("help", command).stdout
        assert "Usage: atoll " + command in text, command
        assert command == "serve" or "Examples:\n  " in text, command
