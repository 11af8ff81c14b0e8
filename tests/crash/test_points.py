"""kill -9 at every named point of every operation (src/base/fault_point.h).

Each operation runs once undisturbed, which shows the points it passes. Then it runs once per point
and way to die: the process that is there dies there (`self`); it waits there while the other one
dies (`other`); everything dies there and the server is started again (`all`). Where a step can fail,
it also fails, for want of room (`full`). Afterwards everybody must agree (witness.py), what was
acknowledged must be there, what was not must be whole or not there at all, and everything can be
done again (operation.py).

`make test` runs a sample in which every point is used; ATOLL_CRASH_CASES=all (`make crash-test`)
runs them all. A point that nothing passes is a failure, too.
"""
import errno
import http.client
import os
import random
import signal
import threading
import time

import pytest

import witness
from harness import kernel
from harness.client import Volume
from harness.faults import FaultyServer
from harness.server import wait_until
from operations import NOT_ACKNOWLEDGED, OPERATIONS

SEED = int(os.environ.get("ATOLL_CRASH_SEED", "20240607"))
WHOLE = os.environ.get("ATOLL_CRASH_CASES") == "all"
ONLY = os.environ.get("ATOLL_CRASH_POINT", "")   # of a name: to look at one point
ACTIONS = {"self": "kill", "other": "stop", "all": "stop", "full": "fail"}
# ATOLL_FAULT_CHECK, not only ATOLL_FAULT_POINT. Without node.record.remove: a file that cannot be
# removed leaves a dead cell, which is settled in the background, so that use meanwhile gets 503.
# And without store.log.sync: after a failure nothing is durable until a restart (log_test.cpp).
CAN_FAIL = {"node.record.put", "layers.upper.create", "layers.upper.sync", "layers.snapshot.create",
            "layers.copy.create", "layers.take", "layers.sync", "store.commit.begun"}
BROKEN = (*NOT_ACKNOWLEDGED, http.client.HTTPException)


class Ledger:
    """What the run has seen, for the last test and for the person who reads."""

    def __init__(self):
        self.points, self.operations, self.counts, self.acknowledged = set(), set(), {}, 0

    def __str__(self):
        ways = ", ".join(f"{count} {way}" for way, count in sorted(self.counts.items()))
        return (f"crash cases: {sum(self.counts.values())} run and passed ({ways}) at "
                f"{len(self.points)} points of {len(self.operations)} operations; "
                f"{self.acknowledged} of them were acknowledged all the same")


LEDGER = Ledger()


@pytest.fixture(scope="module")
def server():
    # Which points an operation passes is its own doing only when nothing is prepared meanwhile;
    # test_prepared.py dies at those.
    with FaultyServer(extra=["--prepared-max", "0"]) as running:
        yield running
        running.faults.forget_orders()


@pytest.fixture(scope="module", autouse=True)
def tell(request, server):
    yield
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line(f"\n{LEDGER}")


def reset(server):
    server.faults.forget_orders()
    witness.wait_ready(server)
    for each in server.client.list_ids():
        server.client.expect(202, "DELETE", f"/api/v1/sandboxes/{each}")
    for each in server.client.expect(200, "GET", "/api/v1/sandboxvolumes").data:
        Volume(server.client, each["id"]).delete()


def points_of(server, operation):
    """Those it passes, in a world that was prepared before."""
    case = operation(server)
    case.prepare()
    server.faults.start_counting()
    answer = case.run()
    if case.background:
        wait_until(case.happened, 30, f"{operation.__name__} happens")
    passed = server.faults.passed()
    case.check(answer)
    witness.agree(server)
    return passed


def stopped(server):
    return [role for role, pid in server.daemons().items() if kernel.state_of(pid) == "T"]


def die(server, way):
    """The process that passed the point stands still; now somebody dies."""
    roles = wait_until(lambda: stopped(server), 20, "a process stands at the point")
    daemons = server.daemons()
    if way == "all":
        server.kill_all()
        return
    other = daemons["api" if roles[0] == "node" else "node"]
    os.kill(other, signal.SIGKILL)
    wait_until(lambda: not kernel.alive(other), 20, "the other process is dead")
    os.kill(daemons[roles[0]], signal.SIGCONT)


def start_failed_again(client):
    """A start for which there was no room fails, and says: resume it. Once there is room, that works."""
    for each in client.list_ids():
        path = f"/api/v1/sandboxes/{each}"
        if client.expect(200, "GET", path).data["status"] == "failed":
            client.expect(200, "POST", f"{path}/resume")


def run_case(server, operation, point, skip, way):
    case = operation(server)
    case.prepare()
    server.faults.order(point, ACTIONS[way], skip=skip, error=errno.ENOSPC)
    answers = []

    def ask():
        try:
            answers.append(case.run())
        except BROKEN:
            pass
    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(server.faults.acted, 20, f"{point} is passed")
    if way in ("other", "all"):
        die(server, way)
    if way == "all":
        asking.join()
        server.start()
        case.client = server.client
    witness.wait_ready(server)
    asking.join()
    server.faults.forget_orders()
    server.client.forget_connection()
    witness.wait_ready(server)
    case.client = server.client
    if way == "full":
        start_failed_again(server.client)
    answer = answers[0] if answers else None
    case.check(answer)
    witness.agree(server)
    LEDGER.counts[way] = LEDGER.counts.get(way, 0) + 1
    LEDGER.acknowledged += answer is not None


def cases_of(operation, passed, generator):
    """(point, skip, way)"""
    for point in sorted(passed):
        if ONLY not in point:
            continue
        if not WHOLE:
            if point not in LEDGER.points:
                yield point, 0, generator.choice(["self", "self", "self", "other"])
            continue
        yield point, 0, "self"
        yield point, 0, "other"
        if point in CAN_FAIL:
            yield point, 0, "full"
        if passed[point] > 1 and not operation.background:   # how often differs there
            yield point, passed[point] - 1, "self"
        if generator.random() < 0.15:
            yield point, 0, "all"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_dying_at_every_point(server, operation):
    generator = random.Random(f"{SEED} {operation.__name__}")
    reset(server)
    passed = points_of(server, operation)
    failures = []
    for point, skip, way in cases_of(operation, passed, generator):
        LEDGER.points.add(point)
        begin = time.monotonic()
        try:
            run_case(server, operation, point, skip, way)
        except Exception as error:
            failures.append(f"{point} skip {skip} {way}: {type(error).__name__}: {error}")
            server.faults.forget_orders()
            server.kill_all()
            server.start()
            reset(server)
        print(f"{operation.__name__} {point} {skip} {way}: {time.monotonic() - begin:.2f} s")
    LEDGER.operations.add(operation.__name__)
    LEDGER.points |= set(passed)
    assert not failures, "\n".join(failures)


def test_every_point_is_passed_by_some_operation(server):
    if len(LEDGER.operations) < len(OPERATIONS):
        pytest.skip("only a part of the operations was run")
    left = {point for point in server.faults.names if "prepared" not in point} - LEDGER.points
    if not server.client.expect(200, "GET", "/metadata").data["capabilities"]["memory_dump"]:
        left = {point for point in left if not point.startswith("node.dump.")}
    assert not left
