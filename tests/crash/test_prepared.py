"""kill -9 around cells that are prepared and claimed: none is lost, none is left, none has two owners.

As test_points.py, with a server that prepares cells. What is prepared happens by itself, so each
point is made to be passed: by claims that take what is ready and use up more than there is, by a
template that changes.
"""
import secrets
import threading

import pytest

import witness
from harness.client import Sandbox
from harness.faults import FaultyServer
from harness.server import wait_until
from operation import ALL
from test_points import ACTIONS, BROKEN, die

TEMPLATES = "/api/v1/templates"
POINTS = ["control.claim.prepared", "control.prepared.begun", "control.prepared.made",
          "control.prepared.destroyed"]


@pytest.fixture(scope="module")
def server():
    with FaultyServer() as running:
        source = running.client.create()
        running.client.expect(202, "POST", f"{TEMPLATES}/from-sandbox",
                              {"template_id": "pooled", "sandbox_id": source.id}, timeout=120)
        wait_until(lambda: running.client.expect(200, "GET", f"{TEMPLATES}/pooled").data["status"][
            "creation"]["state"] == "ready", 60, "the template is ready")
        source.delete()
        yield running
        running.faults.forget_orders()


def set_pool(server, count):
    server.client.expect(200, "PUT", f"{TEMPLATES}/pooled",
                         {"spec": {"pool": {"minIdle": count, "maxIdle": count}}}, timeout=30)


def wait_idle(server, count):
    wait_until(lambda: server.client.expect(200, "GET", f"{TEMPLATES}/pooled").data["status"][
        "idleCount"] == count, 30, f"{count} are ready")


def provoke(server, key, made):
    """Passes every point: one is claimed, others are made, and all go."""
    try:
        answer = server.client.expect(201, "POST", ALL, {"template": "pooled"},
                                      {"Idempotency-Key": key}, timeout=30)
        made.append(answer.data["sandbox_id"])
        set_pool(server, 4)
        wait_idle(server, 4)
        set_pool(server, 0)
    except BROKEN:
        pass
    server.client.forget_connection()


@pytest.mark.parametrize("way", ["self", "other", "all"])
@pytest.mark.parametrize("point", POINTS)
def test_dying_around_prepared_cells(server, point, way):
    witness.wait_ready(server)
    set_pool(server, 2)
    wait_idle(server, 2)
    witness.agree(server)
    key, made = secrets.token_hex(8), []
    server.faults.order(point, ACTIONS[way])
    asking = threading.Thread(target=provoke, args=(server, key, made))
    asking.start()
    wait_until(server.faults.acted, 30, f"{point} is passed")
    if way in ("other", "all"):
        die(server, way)
    if way == "all":
        asking.join()
        server.start()
    witness.wait_ready(server)
    asking.join()
    server.faults.forget_orders()
    server.client.forget_connection()
    witness.wait_ready(server)
    listed = set(server.client.list_ids())
    assert set(made) <= listed, "an acknowledged claim is lost"
    again = server.client.expect(201, "POST", ALL, {"template": "pooled"},
                                 {"Idempotency-Key": key}).data["sandbox_id"]
    assert not made or made == [again], "the key gives the same answer"
    sandbox = Sandbox(server.client, again)
    assert sandbox.out(["hostname"]).strip() == again
    witness.agree(server)
    for each in server.client.list_ids():
        Sandbox(server.client, each).delete()
    witness.agree(server)
