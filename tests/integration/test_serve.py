"""The server as a program: keys, privileges, refusal to share, clean ends, restarts."""
import os
import re
import signal
import stat
import subprocess
import time

import pytest

from harness import kernel
from harness.server import Server, wait_until


def test_admin_key_is_private_and_well_formed(server):
    path = os.path.join(server.data_dir, "admin.key")
    status = os.stat(path)
    assert stat.S_IMODE(status.st_mode) == 0o600 and status.st_uid == 0
    assert re.fullmatch(r"atoll_[0-9a-f]{40}", server.key)


def test_first_start_says_how_to_use_the_key(server):
    text = server.output.decode() + server.log(1 << 20)
    assert "admin.key" in text
    assert server.key not in text


def test_api_process_has_no_privileges(server):
    api = server.daemons()["api"]
    assert all(uid != 0 for uid in kernel.uids(api))
    assert "0" not in kernel.status_field(api, "Gid").split()
    assert "0" not in kernel.status_field(api, "Groups").split()
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert int(kernel.status_field(api, name), 16) == 0, name
    assert kernel.status_field(api, "NoNewPrivs") == "1"


def test_node_process_listens_to_nobody_on_the_network(server):
    node = server.daemons()["node"]
    inodes = {fd[len("socket:["):-1] for fd in kernel.open_fds(node) if fd.startswith("socket:[")}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in kernel.read(f"/proc/net/{table}").splitlines()[1:]:
            assert line.split()[9] not in inodes, line


def test_data_is_closed_to_other_users(server):
    for name in ("admin.key", "pool", "cells", "db"):
        mode = os.stat(os.path.join(server.data_dir, name)).st_mode
        assert mode & 0o077 == 0, name


def test_pool_is_not_mounted_on_the_host(server):
    assert kernel.mounts_with(server.data_dir) == []


def test_second_server_on_the_same_data_is_refused(server):
    done = subprocess.run([server.bin_dir / "atoll", "serve", "--data-dir", server.data_dir,
                           "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "already runs" in done.stderr and str(server.process.pid) in done.stderr
    server.client.expect(200, "GET", "/healthz")


def test_taken_port_is_told(server):
    second = Server()
    try:
        done = subprocess.run([server.bin_dir / "atoll", "serve", "--data-dir", second.data_dir,
                               "--listen", f"127.0.0.1:{server.port}"], capture_output=True,
                              text=True, timeout=120)
        assert done.returncode != 0 and str(server.port) in done.stderr
        assert second.traces(second.instance()) == []
    finally:
        second.discard()


@pytest.mark.parametrize("words", [["--listen", "nonsense"], ["--listen", "127.0.0.1:99999"],
                                   ["--data-dri", "/tmp"], ["--data-dir", "/proc/nothing"]])
def test_bad_options_are_told(server, words):
    done = subprocess.run([server.bin_dir / "atoll", "serve", *words], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode != 0 and done.stderr.strip()


def test_foreign_directory_is_refused(server, tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    done = subprocess.run([server.bin_dir / "atoll", "serve", "--data-dir", str(tmp_path),
                           "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.fixture(scope="module")
def own():
    """A server of this file's own, for tests that stop it."""
    running = Server()
    try:
        yield running.start()
    finally:
        try:
            running.stop()
        finally:
            running.discard()


def test_ready_means_a_request_succeeds(own):
    """The first request after the ready line; nothing may need a second try."""
    sandbox = own.client.create()
    assert sandbox.out(["echo", "first"]) == "first\n"
    sandbox.delete()


def test_sigterm_leaves_nothing_and_a_restart_keeps_files(own):
    sandbox = own.client.create(env_vars={"KEPT": "yes"})
    other = own.client.create()
    sandbox.write("/home/user/kept.txt", "kept")
    sandbox.out("echo system > /etc/kept; chmod 4755 /etc/kept; rm /etc/issue", user="root")
    sandbox.start(["sleep", "1000"])
    change = {"config": {"resources": {"memory": "768Mi"}, "env_vars": {"KEPT": "changed"}}}
    own.client.expect(200, "PUT", sandbox.path, change)
    named = {"template": "default", "name": "kept", "get_or_create": True}
    named_id = own.client.expect(201, "POST", "/api/v1/sandboxes", named).data["sandbox_id"]
    generation = sandbox.get()["runtime_generation"]
    deleted = own.client.create()
    deleted.delete()
    key = own.key
    own.stop()   # asserts that nothing is left

    own.start()
    assert own.key == key
    sandbox.client = other.client = own.client
    assert set(own.client.list_ids()) == {sandbox.id, other.id, named_id}
    again = own.client.expect(200, "POST", "/api/v1/sandboxes", named).data
    assert again["sandbox_id"] == named_id
    own.client.expect(202, "DELETE", f"/api/v1/sandboxes/{named_id}")
    assert sandbox.read("/home/user/kept.txt") == b"kept"
    assert sandbox.out("cat /etc/kept; stat -c '%a %U' /etc/kept; ls /etc/issue 2>&1 | wc -l; "
                       "echo $KEPT") == "system\n4755 root\n1\nchanged\n"
    assert own.memory_limit(sandbox.id) == 768 << 20
    data = sandbox.get()
    assert data["status"] == "running" and data["runtime_generation"] == generation + 1
    assert other.out(["echo", "alive"]) == "alive\n"
    sandbox.delete()
    other.delete()


def test_stop_under_load_is_clean(own):
    """Requests under way end somehow; the host is clean afterwards."""
    import threading
    stop = threading.Event()

    def work():
        while not stop.is_set():
            try:
                sandbox = own.client.create()
                sandbox.run(["true"])
                sandbox.delete()
            except Exception:
                return

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    own.stop()
    stop.set()
    for thread in threads:
        thread.join()
    own.start()
    for sandbox_id in own.client.list_ids():
        own.client.expect(202, "DELETE", f"/api/v1/sandboxes/{sandbox_id}")


def test_sigint_stops_too(own):
    own.stop(signal.SIGINT)
    own.start()


def test_daemons_end_with_their_supervisor(own):
    daemons = own.daemons()
    os.kill(daemons["supervisor"], signal.SIGKILL)
    own.process.wait()
    wait_until(lambda: not kernel.alive(daemons["api"]) and not kernel.alive(daemons["node"]), 15,
               "the node and the API process end with the supervisor")
    own.process.stdout.close()
    own.start()
    own.client.create().delete()
