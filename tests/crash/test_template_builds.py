"""Builds that are cut short: no template stays in the making, no layer, disk or cell is left."""
import io
import json
import os
import signal
import tarfile
import threading

import pytest

from harness import kernel
from harness.server import Server, wait_until


def context_of(dockerfile):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(dockerfile)
        tar.addfile(info, io.BytesIO(dockerfile.encode()))
    return out.getvalue()


SLOW = "FROM default\nRUN echo first > /first\nRUN echo begun; sleep 1000\n"


def begin_build(server, name):
    """Returns when the long step of the build runs. The connection is kept open by a thread."""
    begun = threading.Event()

    def read():
        connection = server.client.connection(timeout=300)
        try:
            connection.request("POST", f"/api/v1/templates/{name}/build", body=context_of(SLOW),
                               headers=server.client.headers())
            for line in connection.getresponse():
                if line.strip() and json.loads(line).get("text") == "begun\n":
                    begun.set()
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    thread = threading.Thread(target=read)
    thread.start()
    assert begun.wait(120), server.log()
    return thread


def in_pool(server, folder):
    """Names in the pool, which is mounted in the node's own namespace only."""
    root = f"/proc/{server.daemons()['node']}/root{os.path.realpath(server.data_dir)}/pool"
    for candidate in (f"{root}/mnt/{folder}", f"{root}/{folder}"):
        if os.path.isdir(candidate):
            return {name for name in os.listdir(candidate) if not name.startswith(".")}
    raise AssertionError(f"no {folder} in {root}")


def build_cells(server):
    return [name for group in kernel.cgroups_named(f"atoll-{server.instance()}")
            for name in os.listdir(group) if name.startswith("cell-build-")]


def state(server, name):
    answer = server.client.call("GET", f"/api/v1/templates/{name}")
    return answer.data["status"]["creation"]["state"] if answer.status == 200 else answer.status


def assert_nothing_left(server):
    wait_until(lambda: not build_cells(server), 30, "no cell of a build")
    wait_until(lambda: not [name for name in in_pool(server, "uppers")
                            if name.startswith("build-")], 30, "no disk of a build")
    assert not [name for name in in_pool(server, "layers") if name.startswith("bld-")]


def ready(server):
    try:
        return server.client.call("GET", "/readyz").status == 200
    except OSError:
        return False


@pytest.fixture
def server():
    with Server() as running:
        yield running


def test_the_api_is_killed(server):
    thread = begin_build(server, "cut")
    api = server.daemons()["api"]
    os.kill(api, signal.SIGKILL)
    thread.join()
    wait_until(lambda: server.daemons().get("api", api) != api and ready(server), 60, "a new API")
    assert state(server, "cut") == "failed"
    assert_nothing_left(server)
    # And it can be made again.
    answer = server.client.call("POST", "/api/v1/templates/cut/build",
                                body=context_of("FROM default\nRUN echo ok > /ok\n"), timeout=120)
    assert json.loads(answer.body.splitlines()[-1])["type"] == "done", answer.body
    assert state(server, "cut") == "ready"


def test_the_server_is_stopped_and_started(server):
    thread = begin_build(server, "stopped")
    server.stop()
    thread.join()
    server.start()
    assert state(server, "stopped") == "failed"
    assert_nothing_left(server)


def test_everything_is_killed(server):
    thread = begin_build(server, "dead")
    server.kill_all()
    thread.join()
    server.start()
    assert state(server, "dead") == "failed"
    assert_nothing_left(server)
