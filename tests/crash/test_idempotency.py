"""kill -9 of the API process while keyed claims run: however often a client asks with a key, there
is at most one sandbox for it, and the one it is told about is there.

Several threads claim with keys, two threads with the same ones, and ask again when the connection
breaks, as a client would. Meanwhile the API process is killed at seeded moments. Every sandbox
carries its key as metadata, so they can be counted per key.
"""
import os
import random
import signal
import threading
import time

import pytest

from harness import kernel
from harness.server import Server, wait_until

SEED = int(os.environ.get("ATOLL_CRASH_SEED", "20240607"))
THREADS = 4
MOST_KEYS = 60   # per thread
KILLS = 3
ALL = "/api/v1/sandboxes"


@pytest.fixture
def server():
    """One per seed: the supervisor gives up on a process that dies six times in a minute."""
    running = Server()
    with running:
        yield running


def claim_until_answered(client, key):
    """The id that the server stands by."""
    body = {"template": "default", "config": {"metadata": {"key": key}}}
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            answer = client.call("POST", ALL, body, {"Idempotency-Key": key}, timeout=30)
        except Exception:   # the connection broke: whether it happened is what nobody knows
            client.forget_connection()
            time.sleep(0.01)
            continue
        if answer.status == 201:
            return answer.data["sandbox_id"]
        assert answer.status == 503, answer.body
    raise AssertionError(f"no answer for {key}")


class Promises:
    def __init__(self):
        self.changed = threading.Condition()
        self.ids = {}   # key -> ids it was answered with

    def add(self, key, sandbox_id):
        with self.changed:
            self.ids.setdefault(key, set()).add(sandbox_id)
            self.changed.notify_all()

    def wait_for_more(self, count):
        with self.changed:
            target = len(self.ids) + count
            assert self.changed.wait_for(lambda: len(self.ids) >= target, timeout=60)


def kill_api(server, promises, generator):
    # The random moment is the point: so many more answered, and then a little later.
    promises.wait_for_more(generator.randrange(1, 4))
    time.sleep(generator.uniform(0.0, 0.03))
    api = server.daemons()["api"]
    server.note_pids()
    os.kill(api, signal.SIGKILL)
    wait_until(lambda: not kernel.alive(api), 20, "the killed process is dead")
    wait_until(lambda: server.daemons().get("api", api) != api, 30, "there is a new API process")


def ready(server):
    try:
        return server.client.call("GET", "/readyz", timeout=5).status == 200
    except OSError:
        return False


@pytest.mark.parametrize("seed", [SEED, SEED + 1, SEED + 2])
def test_one_sandbox_per_key_whatever_dies(server, seed):
    generator = random.Random(seed)
    promises, failures, over = Promises(), [], threading.Event()

    def work(thread):
        for number in range(MOST_KEYS):
            if over.is_set():
                return
            key = f"seed-{seed}-{thread // 2}-{number}"
            try:
                promises.add(key, claim_until_answered(server.client, key))
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            kill_api(server, promises, generator)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    wait_until(lambda: ready(server), 30, "the server is ready again")
    assert not failures, failures
    promised = promises.ids
    server.client.forget_connection()
    found = {}
    for each in server.client.expect(200, "GET", f"{ALL}?limit=200").data["sandboxes"]:
        found.setdefault(each["metadata"]["key"], set()).add(each["id"])
    try:
        assert all(len(ids) == 1 for ids in promised.values()), promised
        assert found == promised
        rows = set().union(*found.values())

        def agree():
            cells = kernel.cells_in(kernel.cgroups_named(f"atoll-{server.instance()}"))
            return rows <= cells and len(cells - rows) == server.prepared_count()
        wait_until(agree, 20, "cells are those of rows, and those that wait for a claim")
    finally:
        for ids in found.values():
            for sandbox_id in ids:
                server.client.expect(202, "DELETE", f"{ALL}/{sandbox_id}")
