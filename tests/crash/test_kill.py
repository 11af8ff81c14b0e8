"""kill -9 of the supervisor, the node or the API process while sandboxes are being created.

A round creates sandboxes from several threads, kills one process at a random (seeded) moment, lets
the rest of the round end as it may, brings the server back when it is gone, and then compares what
everybody believes: the client (what was acknowledged), the API (rows), the node (records, disks),
the kernel (cgroups, processes). The client must find everything it was promised; nobody may hold
anything the others do not know of.
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
CREATES = 100
ROUNDS = 9
THREADS = 4


class Promises:
    """What the server has acknowledged, by sandbox."""

    def __init__(self):
        self.lock = threading.Condition()
        self.contents = {}   # id -> content of its file, None when the write was not acknowledged

    def create(self, server, number):
        try:
            sandbox = server.client.create()
        except Exception:
            return
        with self.lock:
            self.contents[sandbox.id] = None
            self.lock.notify_all()
        try:
            content = f"content {number}"
            sandbox.write("/home/user/promise", content)
            with self.lock:
                self.contents[sandbox.id] = content
        except Exception:
            return


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not kernel.alive(pid), 20, "the killed process is dead")


def create_and_kill(server, promises, victim, count, generator):
    numbers = iter(range(count))
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            promises.create(server, number)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    pid = server.daemons()[victim]
    # The random moment is the point: so many acknowledged, and then a little later.
    target = len(promises.contents) + generator.randrange(count)
    pause = generator.uniform(0.0, 0.01)
    for thread in threads:
        thread.start()
    with promises.lock:
        promises.lock.wait_for(lambda: len(promises.contents) >= target, timeout=60)
    time.sleep(pause)
    kill(pid)
    for thread in threads:
        thread.join()


def bring_back(server, daemons_before):
    """In place by the supervisor, or by a new start when that was killed."""
    if server.process.poll() is not None or not kernel.alive(server.process.pid):
        server.process.wait()
        for pid in daemons_before.values():
            wait_until(lambda: not kernel.alive(pid), 20, "the daemons end with their supervisor")
        server.process.stdout.close()
        server.start()
        return

    def ready():
        try:
            return server.client.call("GET", "/readyz", timeout=5).status == 200
        except OSError:
            return False
    wait_until(ready, 30, "the server is ready again")
    wait_until(lambda: {"node", "api"} <= set(server.daemons()), 30, "both processes run")


def uppers(server):
    """Disks in the pool as the node sees them."""
    node = server.daemons()["node"]
    found = set()
    for place in ("pool/mnt/uppers", "pool/uppers"):
        try:
            found |= set(os.listdir(f"/proc/{node}/root{server.data_dir}/{place}"))
        except FileNotFoundError:
            pass
    return found


def records(server):
    return {name.split(".")[0] for name in os.listdir(os.path.join(server.data_dir, "cells"))}


def check_agreement(server, promises):
    """All four views hold the same sandboxes, and every promise is kept."""
    def views():
        rows = set(server.client.list_ids())
        cells = kernel.cells_in(kernel.cgroups_named(f"atoll-{server.instance()}"))
        return {"rows": rows, "cgroups": cells, "disks": uppers(server)}

    def agree():
        seen = views()
        # Cells that wait for a claim have no row: as many as the server knows of.
        waiting = seen["cgroups"] - seen["rows"]
        return (seen["rows"] <= seen["cgroups"] == seen["disks"]
                and len(waiting) == server.prepared_count())
    try:
        wait_until(agree, 30, "rows, cgroups and disks agree")
    except AssertionError:
        seen = views()
        every = set().union(*seen.values())
        raise AssertionError({name: sorted(every - view) for name, view in seen.items()},
                             "missing in each view", server.log()) from None
    rows = set(server.client.list_ids())
    lost = set(promises.contents) - rows
    assert not lost, f"acknowledged and lost: {lost}; log:\n{server.log()}"
    # A claim whose answer was lost on the way may exist, but then it is a whole sandbox.
    unknown = rows - set(promises.contents)
    assert len(unknown) <= THREADS * ROUNDS
    for sandbox_id in sorted(rows):
        check_works(server, sandbox_id, promises.contents.get(sandbox_id))
    return unknown


def check_works(server, sandbox_id, content):
    from harness.client import Sandbox
    sandbox = Sandbox(server.client, sandbox_id)
    assert sandbox.run(["true"])["exit_code"] == 0, sandbox_id
    if content is not None:
        assert sandbox.read("/home/user/promise").decode() == content


def delete_all(server):
    for sandbox_id in server.client.list_ids():
        server.client.expect(202, "DELETE", f"/api/v1/sandboxes/{sandbox_id}")


@pytest.fixture(scope="module")
def server():
    running = Server()
    with running:
        yield running


def test_killing_any_process_during_creates_loses_nothing(server):
    generator = random.Random(SEED)
    promises = Promises()
    victims = []
    while len(victims) < ROUNDS:
        group = ["supervisor", "node", "api"]
        generator.shuffle(group)
        victims += group
    per_round = -(-CREATES // ROUNDS)
    for victim in victims[:ROUNDS]:
        server.note_pids()
        daemons = server.daemons()
        create_and_kill(server, promises, victim, per_round, generator)
        bring_back(server, daemons)
        server.client.forget_connection()
    check_agreement(server, promises)
    assert len(promises.contents) >= CREATES // 5, "hardly anything was created"
    delete_all(server)
    promises.contents.clear()
    check_agreement(server, promises)


@pytest.mark.parametrize("victim", ["node", "api", "supervisor"])
def test_running_processes_survive_the_daemons(server, victim):
    """A command that runs in a sandbox goes on, and its output is still there afterwards."""
    sandbox = server.client.create()
    context = sandbox.start("echo before; sleep 2; echo after")
    for event in sandbox.stream(context["id"]):
        if event["type"] == "output":
            break
    daemons = server.daemons()
    generation = sandbox.get()["runtime_generation"]
    kill(daemons[victim])
    bring_back(server, daemons)
    sandbox.client = server.client
    output, ending = sandbox.stream_bytes(context["id"])
    assert output == b"before\nafter\n" and ending["exit_code"] == 0
    assert sandbox.get()["runtime_generation"] == generation
    sandbox.delete()


@pytest.mark.parametrize("victim", ["node", "api", "supervisor"])
def test_killing_during_deletes_finishes_them(server, victim):
    generator = random.Random(SEED + 1)
    sandboxes = [server.client.create() for _ in range(12)]
    daemons = server.daemons()
    deleted, lock = set(), threading.Lock()

    def work(part):
        for sandbox in part:
            try:
                if server.client.call("DELETE", sandbox.path).status == 202:
                    with lock:
                        deleted.add(sandbox.id)
            except OSError:
                pass
            except Exception:
                return

    threads = [threading.Thread(target=work, args=(sandboxes[index::3],)) for index in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(generator.uniform(0.005, 0.08))
    kill(daemons[victim])
    for thread in threads:
        thread.join()
    bring_back(server, daemons)
    rows = set(server.client.list_ids())
    assert not rows & deleted, "an acknowledged deletion came back"
    delete_all(server)
    check_agreement(server, Promises())


def test_dead_cell_is_started_again_with_its_files(server):
    sandbox = server.client.create()
    sandbox.write("/home/user/file", "kept")
    guest = min(server.cell_processes(sandbox.id))
    kill(guest)

    def again():
        answer = server.client.call("GET", sandbox.path)
        return answer.status == 200 and answer.data["runtime_generation"] == 2
    wait_until(again, 20, "the sandbox has a second generation")
    assert sandbox.read("/home/user/file") == b"kept"
    sandbox.delete()


def test_everything_killed_at_once_and_started_again(server):
    sandbox = server.client.create()
    sandbox.write("/home/user/file", "kept")
    server.kill_all()
    server.start()
    sandbox.client = server.client
    assert sandbox.read("/home/user/file") == b"kept"
    sandbox.delete()


def test_start_after_a_kill_says_what_it_did(server):
    sandbox = server.client.create()
    size = len(server.log(1 << 30))
    server.kill_all()
    server.start()
    new_lines = server.log(1 << 30)[size:]
    assert "adopt" in new_lines or "repaired" in new_lines or "recover" in new_lines, new_lines
    server.client.expect(202, "DELETE", f"/api/v1/sandboxes/{sandbox.id}")
