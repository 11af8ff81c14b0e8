"""kill -9 of the API process and of the node while volumes change: what was acknowledged is there,
what was deleted is gone, and nothing is left half done."""
import os
import random
import signal
import threading

import pytest

from harness.client import Volume
from harness.server import Server, wait_until

SEED = int(os.environ.get("ATOLL_CRASH_SEED", "20261115"))
ROUNDS = 2
THREADS = 3
OPERATIONS = 4


class Promises:
    """What the server has acknowledged about each volume."""

    def __init__(self):
        self.lock = threading.Lock()
        self.contents = {}  # volume -> content of its file; None: unknown, a write was under way
        self.snapshots = {}  # snapshot -> (volume, content)
        self.deleted = set()

    def work(self, client, generator):
        """One volume and what happens to it; whatever fails is not promised."""
        volume = client.create_volume(access_mode="RWX", size="32Mi")
        with self.lock:
            self.contents[volume.id] = None
        content = f"content {generator.random()}"
        volume.write("/file", content)
        with self.lock:
            self.contents[volume.id] = content
        moment = volume.snapshot("moment")["id"]
        with self.lock:
            self.snapshots[moment] = (volume.id, content)
            self.contents[volume.id] = None
        volume.write("/file", "changed")
        volume.restore(moment)
        with self.lock:
            self.contents[volume.id] = content
        fork = volume.fork()
        with self.lock:
            self.contents[fork.id] = content
        if generator.random() < 0.5:
            with self.lock:
                self.contents.pop(volume.id)
                self.snapshots.pop(moment)
            volume.delete()
            with self.lock:
                self.deleted.add(volume.id)


def alive_again(server):
    try:
        return server.client.call("GET", "/readyz").status == 200
    except OSError:
        return False


def round_of(server, promises, victim, generator):
    stop = threading.Event()

    def work(seed):
        mine = random.Random(seed)
        for _ in range(OPERATIONS):
            if stop.is_set():
                return
            try:
                promises.work(server.client, mine)
            except Exception:  # noqa: BLE001: the server dies under it; what counts is checked later
                pass
    threads = [threading.Thread(target=work, args=(generator.random(),)) for _ in range(THREADS)]
    before = len(promises.contents)
    target = before + generator.randrange(1, THREADS * 2)
    for thread in threads:
        thread.start()
    wait_until(lambda: len(promises.contents) >= target or not any(
        thread.is_alive() for thread in threads), 60, "volumes are made")
    os.kill(server.daemons()[victim], signal.SIGKILL)
    stop.set()
    for thread in threads:
        thread.join()
    wait_until(lambda: alive_again(server), 60, "the server is back")


def check(server, promises):
    client = server.client
    listed = {each["id"]: each for each in client.expect(200, "GET",
                                                         "/api/v1/sandboxvolumes").data}
    for volume, content in promises.contents.items():
        assert volume in listed, f"{volume} was promised"
        if content is not None:
            assert Volume(client, volume).read("/file").decode() == content
    assert not promises.deleted & set(listed), "what was deleted stays deleted"
    for snapshot, (volume, _) in promises.snapshots.items():
        client.expect(200, "GET", f"/api/v1/sandboxvolumes/{volume}/snapshots/{snapshot}")
    for volume in listed:  # also those that were made but never acknowledged: whole
        Volume(client, volume).list("/")


@pytest.mark.parametrize("victim", ["api", "node"])
def test_killed_while_volumes_change(victim):
    print(f"seed {SEED}")
    generator = random.Random(f"{SEED} {victim}")
    with Server() as server:
        promises = Promises()
        for _ in range(ROUNDS):
            round_of(server, promises, victim, generator)
            check(server, promises)
        for volume in [each["id"] for each in
                       server.client.expect(200, "GET", "/api/v1/sandboxvolumes").data]:
            Volume(server.client, volume).delete()
        assert server.client.expect(200, "GET", "/api/v1/sandboxvolumes").data == []
