"""Races against the file API: a path component flips between a directory and a link to the host.

All path handling happens inside the sandbox, so whatever wins a race, the answer can only come from
the sandbox's own tree. The loops run long enough for many flips; what is asserted is what came out.
"""
import pathlib
import threading

import pytest

SECONDS = 4

FLIP = """
import os, shutil, time
base, name = '/tmp/race', {name!r}
link, swap, real = base + '/link', base + '/swap', base + '/real'

def clear(path):
    while os.path.lexists(path):   # the API may make it again at any moment
        try:
            os.unlink(path)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)

def make_real():
    os.makedirs(real, exist_ok=True)
    open(real + '/' + name, 'w').write('inside')
    for path in (base, real, real + '/' + name):
        os.chmod(path, 0o777)

make_real()
end = time.monotonic() + {seconds}
count = 0
while time.monotonic() < end:
    for target in {targets!r}:
        try:
            os.symlink(target, link)
            os.rename(link, swap)
            os.unlink(swap)
            os.rename(real, swap)
            os.rename(swap, real)
            count += 1
        except OSError:   # the API made something of that name in the meantime
            clear(link)
            clear(swap)
            make_real()
print(count)
"""


def flip_while(attack, world, act):
    """Runs the flipping loop in the sandbox and `act` against the API until it ends."""
    directory = str(pathlib.Path(world.file).parent)
    program = FLIP.format(name=pathlib.Path(world.file).name, seconds=SECONDS, targets=[
        directory, "/proc/1/root" + directory, "../../../../../.." + directory])
    context = attack.sandbox.start(["python3", "-c", program], user="root",
                                   timeout_ms=SECONDS * 1000 + 20000)
    stop = threading.Event()
    failures = []

    def loop():
        while not stop.is_set():
            try:
                act()
            except AssertionError as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=loop) for _ in range(2)]
    for thread in threads:
        thread.start()
    output, ending = attack.sandbox.stream_bytes(context["id"])
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert ending["exit_code"] == 0, attack.sandbox.stream_bytes(context["id"], "stderr")
    assert int(output) > 100, "the race was hardly run"


@pytest.fixture
def racing_path(world):
    return "/tmp/race/swap/" + pathlib.Path(world.file).name


def test_racing_reads_never_see_the_host(fresh_attack, world, racing_path):
    attack = fresh_attack()
    answers = {}
    client, path = attack.sandbox.client, attack.sandbox.file_path(racing_path, user="root")

    def act():
        answer = client.call("GET", path)
        answers[answer.status] = answers.get(answer.status, 0) + 1
        assert world.secret.encode() not in answer.body
        assert answer.status in (200, 403, 404, 409), answer.body
        assert answer.status != 200 or answer.body == b"inside"

    flip_while(attack, world, act)
    assert sum(answers.values()) > 50


def test_racing_writes_never_change_the_host(fresh_attack, world, racing_path):
    attack = fresh_attack()
    client, path = attack.sandbox.client, attack.sandbox.file_path(racing_path, user="root")

    def act():
        answer = client.call("POST", path, b"inside")
        assert answer.status in (200, 403, 404, 409, 500), answer.body
        assert pathlib.Path(world.file).read_text() == world.secret

    flip_while(attack, world, act)
    world.check()


def test_racing_listings_and_removals_never_touch_the_host(fresh_attack, world):
    attack = fresh_attack()
    names = {path.name for path in pathlib.Path(world.file).parent.iterdir()} - {
        pathlib.Path(world.file).name}

    def act():
        client, sandbox = attack.sandbox.client, attack.sandbox
        listing = client.call("GET", sandbox.file_path("/tmp/race/swap", "/list", user="root"))
        assert listing.status in (200, 403, 404, 409), listing.body
        if listing.status == 200:
            assert not names & {entry["name"] for entry in listing.data["entries"]}
        client.call("DELETE", sandbox.file_path("/tmp/race/swap/socket", user="root"))
        client.call("POST", f"{sandbox.path}/files/chmod",
                    {"path": "/tmp/race/swap/socket", "mode": "0000", "user": "root"})

    flip_while(attack, world, act)
    world.check()
    assert pathlib.Path(world.socket_path).exists()
