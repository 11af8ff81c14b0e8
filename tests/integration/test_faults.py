"""What a host does to a server when it has nothing left: room, processes, descriptors, a disk that
can be written, a database that can be read. Each gets a clear error; what was acknowledged stays,
nothing half-made stays, and when the trouble is over everything works again.

Clocks that are set are in src/control/sandboxes_clock_test.cpp: a clock can only be set for all.
"""
import errno
import os
import pathlib
import resource
import subprocess
import sys

import pytest

from harness import kernel
from harness.faults import FaultyServer
from harness.server import BIN_DIR, Server, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "crash"))
import witness  # noqa: E402

ALL = "/api/v1/sandboxes"


@pytest.fixture(scope="module")
def faulty():
    # A claim makes its cell itself, so that it meets what fails; test_prepared.py has the other way.
    with FaultyServer(extra=["--prepared-max", "0"]) as running:
        yield running


@pytest.fixture
def kept(faulty):
    """A sandbox from before the trouble, which must be as it was afterwards."""
    sandbox = faulty.client.create()
    sandbox.write("/home/user/promise", "kept")
    yield sandbox
    faulty.faults.forget_orders()
    assert sandbox.read("/home/user/promise") == b"kept"
    assert sandbox.out(["cat", "/home/user/promise"]) == "kept"
    sandbox.delete()
    witness.agree(faulty)


def refused(answer):
    assert answer.status in (500, 503, 507, 429), answer.body
    message = answer.error["message"]
    assert message and "server" not in message.lower().split()[:1], message
    return message


# A step that fails, with what the kernel says when there is no room, no memory, a broken disk -------
STEPS = {
    "claim": ("POST", "", {"template": "default"},
              ["node.record.put", "layers.upper.create", "store.commit.begun"]),
    "pause": ("POST", "/pause", None, ["layers.upper.sync", "store.commit.begun"]),
    "snapshot": ("POST", "/snapshots", {}, ["layers.snapshot.create", "store.commit.begun"]),
    "fork": ("POST", "/fork", {"start": True},
             ["layers.snapshot.create", "layers.take", "node.record.put", "store.commit.begun"]),
    "forks": ("POST", "/fork", {"start": True, "count": 2},
              ["layers.snapshot.create", "layers.copy.create"]),
    "delete": ("DELETE", "", None, ["store.commit.begun"]),
}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.ENOMEM], ids=errno.errorcode.get)
@pytest.mark.parametrize("what", STEPS)
def test_a_step_that_fails(faulty, kept, what, number):
    method, verb, body, points = STEPS[what]
    path = ALL if what == "claim" else kept.path + verb
    for point in points:
        before = kept.get()
        faulty.faults.order(point, "fail", error=number)
        answer = faulty.client.call(method, path, body)
        assert faulty.faults.acted() == 1, point
        message = refused(answer)
        assert os.strerror(number).lower() in message.lower(), message
        wait_until(lambda: kept.get()["status"] == before["status"], 20, "it is as it was")
        assert kept.read("/home/user/promise") == b"kept"
        witness.agree(faulty)


# No processes, no descriptors ----------------------------------------------------------------------
def test_out_of_descriptors(faulty, kept):
    """In the node: what it cannot do is refused whole."""
    node = faulty.daemons()["node"]
    limits = resource.prlimit(node, resource.RLIMIT_NOFILE)
    used = len(kernel.open_fds(node))
    try:
        resource.prlimit(node, resource.RLIMIT_NOFILE, (used + 2, limits[1]))
        message = refused(faulty.client.call("POST", ALL, {"template": "default"}))
        assert "open files" in message, message
        assert kept.read("/home/user/promise") == b"kept", "the data path needs no node"
    finally:
        resource.prlimit(node, resource.RLIMIT_NOFILE, limits)
    faulty.client.create().delete()


def test_out_of_descriptors_for_clients(faulty, kept):
    """In the API process: some have to wait or come again, nobody is lost."""
    api = faulty.daemons()["api"]
    connections = []
    try:
        limits = resource.prlimit(api, resource.RLIMIT_NOFILE)
        resource.prlimit(api, resource.RLIMIT_NOFILE, (len(kernel.open_fds(api)) + 6, limits[1]))
        for _ in range(20):
            connection = faulty.client.connection(timeout=5)
            connection.connect()
            connections.append(connection)
        resource.prlimit(api, resource.RLIMIT_NOFILE, limits)
    except PermissionError:
        pytest.skip("we may not limit processes of others here")
    finally:
        for connection in connections:
            connection.close()
    faulty.client.forget_connection()
    wait_until(lambda: witness.ready(faulty), 20, "it answers again")
    assert faulty.daemons()["api"] == api, "it did not have to be started again"


def pids_group(server, most):
    """Puts the node where it may have `most` tasks; None where there is no such controller."""
    for root in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        group = f"{root}/atoll-test-{server.instance()}"
        try:
            os.mkdir(group)
            pathlib.Path(group, "pids.max").write_text(str(most))
            pathlib.Path(group, "cgroup.procs").write_text(str(server.daemons()["node"]))
            return group
        except OSError:
            try:
                os.rmdir(group)
            except OSError:
                pass
    return None


def test_out_of_processes(faulty, kept):
    node = faulty.daemons()["node"]
    place = [line.split(":", 2)[2] for line in kernel.read(f"/proc/{node}/cgroup").splitlines()
             if ":pids:" in line]
    group = pids_group(faulty, len(os.listdir(f"/proc/{node}/task")))
    if group is None or not place:
        pytest.skip("no way to limit processes here")
    try:
        refused(faulty.client.call("POST", ALL, {"template": "default"}))
        assert kept.read("/home/user/promise") == b"kept"
    finally:
        home = pathlib.Path(os.path.dirname(group) + place[0])
        for pid in kernel.read(f"{group}/cgroup.procs").split():
            (home / "cgroup.procs").write_text(pid)
        os.rmdir(group)
    faulty.client.create().delete()


def test_a_sandbox_without_processes_left_can_be_saved(faulty, kept):
    """Its own limit: it cannot start anything, but it can be snapshotted, paused, gone on with."""
    bomb = faulty.client.create()
    bomb.write("/home/user/promise", "kept")
    bomb.start("while :; do sleep 1000 & done")

    def full():
        answer = faulty.client.call("POST", f"{bomb.path}/contexts",
                                    {"type": "cmd", "cmd": {"command": ["true"]},
                                     "wait_until_done": True, "timeout_ms": 20000})
        return answer.status != 201 or answer.data["exit_code"] != 0
    wait_until(full, 60, "it has no process left")
    moment = faulty.client.expect(201, "POST", f"{bomb.path}/snapshots", {}).data["id"]
    faulty.client.expect(200, "POST", f"{bomb.path}/pause", {"memory": False})
    faulty.client.expect(200, "POST", f"{bomb.path}/resume")
    assert bomb.out(["cat", "/home/user/promise"]) == "kept"
    bomb.delete()
    faulty.client.expect(200, "DELETE", f"/api/v1/sandbox-rootfs-snapshots/{moment}")


# A pool that cannot be written, a pool that is full -------------------------------------------------
def pool_mount(server):
    node = server.daemons()["node"]
    root = os.path.realpath(server.data_dir)
    for line in kernel.mounts_with(f"{root}/pool/mnt", node):
        return node, line.split()[4]
    return node, None


def remount(node, place, how):
    subprocess.run(["nsenter", "-t", str(node), "-m", "mount", "-o", f"remount,{how}", place],
                   check=True, capture_output=True)


def test_a_pool_that_cannot_be_written(faulty, kept):
    node, place = pool_mount(faulty)
    if place is None:
        pytest.skip("the pool is no mount of ours")
    remount(node, place, "ro")
    try:
        for method, path, body in (("POST", ALL, {"template": "default"}),
                                   ("POST", f"{kept.path}/snapshots", {}),
                                   ("POST", f"{kept.path}/fork", {"start": True})):
            message = refused(faulty.client.call(method, path, body))
            assert "read-only" in message.lower(), message
        assert kept.read("/home/user/promise") == b"kept"
    finally:
        remount(node, place, "rw")
    witness.agree(faulty)


def test_a_full_pool():
    """A small pool that one sandbox fills: nobody else is hurt, and room makes it work again."""
    with Server(extra=["--pool-size", "1536Mi", "--prepared-max", "0"]) as server:
        client = server.client
        kept = client.create(disk="1Gi")
        kept.write("/home/user/promise", "kept")
        greedy = client.create(disk="1Gi")
        greedy.run("head -c 2G /dev/urandom > /home/user/fill; sync", timeout_ms=120_000)
        answer = client.call("POST", ALL, {"template": "default"})
        message = refused(answer)
        assert answer.error.get("reason", "disk_full") and "full" in message, message
        # What exists can be read, stopped and deleted; to start it needs a little room.
        assert kept.read("/home/user/promise") == b"kept"
        client.expect(200, "POST", f"{kept.path}/pause", {"memory": False})
        if (answer := client.call("POST", f"{kept.path}/resume")).status != 200:
            assert "full" in refused(answer)
        greedy.delete()

        def room():
            made = client.call("POST", ALL, {"template": "default"})
            if made.status == 201:
                client.expect(202, "DELETE", f"{ALL}/{made.data['sandbox_id']}")
            return made.status == 201
        wait_until(room, 60, "there is room again")
        client.expect(200, "POST", f"{kept.path}/resume")
        assert kept.out(["cat", "/home/user/promise"]) == "kept"
        kept.delete()
        witness.agree(server)


# A database that cannot be read --------------------------------------------------------------------
def start_refused(server):
    with pytest.raises(AssertionError) as refusal:
        server.start()
    return str(refusal.value)


def test_a_database_that_is_damaged_or_gone():
    server = Server(extra=["--prepared-max", "0"])
    try:
        with_sandbox = server.start().client.create()
        with_sandbox.write("/home/user/promise", "kept")
        server.stop()
        path = pathlib.Path(server.data_dir, "db", "atoll.db")
        good = path.read_bytes()

        damaged = bytearray(good)
        middle = len(good) // 2 & ~4095
        damaged[middle:middle + 4096] = b"\x5a" * 4096
        path.write_bytes(damaged)
        said = start_refused(server)
        assert "damaged" in said and "Put back a copy" in said and str(path.parent) in said, said
        assert path.read_bytes() == bytes(damaged), "nothing was changed"

        for content in (b"this is no database" * 300, b"", None):
            path.unlink()
            if content is not None:
                path.write_bytes(content)
            said = start_refused(server)
            assert "database" in said and "copy" in said, said
        path.write_bytes(good)
        os.chmod(path, 0o600)
        server.start()
        with_sandbox.client = server.client
        assert with_sandbox.read("/home/user/promise") == b"kept", "nothing was lost meanwhile"
        with_sandbox.delete()
        server.stop()
    finally:
        server.stop()
        server.discard()


def test_permissions_that_are_wrong_are_put_right():
    """Whoever looked at the files with chmod has not lost them."""
    server = Server()
    try:
        sandbox = server.start().client.create()
        sandbox.write("/home/user/promise", "kept")
        server.stop()
        for name, mode in (("db", 0o000), ("cells", 0o777), ("pool", 0o755)):
            os.chmod(os.path.join(server.data_dir, name), mode)
        os.chown(os.path.join(server.data_dir, "db", "atoll.db"), 0, 0)
        server.start()
        sandbox.client = server.client
        assert sandbox.read("/home/user/promise") == b"kept"
        sandbox.delete()
        for name in ("db", "cells", "pool"):
            assert os.stat(os.path.join(server.data_dir, name)).st_mode & 0o077 == 0, name
    finally:
        server.stop()
        server.discard()


def test_a_data_directory_that_is_none(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    ran = subprocess.run([BIN_DIR / "atoll", "serve", "--data-dir", file, "--listen", "127.0.0.1:0"],
                         capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0 and str(file) in ran.stderr, ran.stderr
    assert file.read_text() == "x"
