"""300 times create, run, delete: afterwards the kernel holds what it held before."""
import os

import pytest

from harness import kernel
from harness.server import Server, wait_until
from test_kill import uppers

CYCLES = int(os.environ.get("ATOLL_LEAK_CYCLES", "300"))
WARM_UP = 10
# Memory of the daemons may settle, not grow by the cycle.
MOST_GROWTH_KIB = 24 * 1024


@pytest.fixture(scope="module")
def server():
    # Cells that are ready for the next claim come and go: test_pool.py counts those.
    with Server(extra=["--prepared-max", "0"]) as running:
        yield running


def measure(server):
    """Counts of everything a sandbox is made of. Namespaces and mounts of this server's processes
    only, because other programs of the machine come and go."""
    server.client.forget_connection()   # a kept-alive connection is a descriptor, too
    daemons = server.daemons()
    tree = [server.process.pid, *kernel.descendants(server.process.pid)]
    counts = {
        "processes": len([pid for pid in tree if kernel.alive(pid)]),
        "zombies": len([pid for pid in tree if kernel.state_of(pid) == "Z"]),
        "namespaces": len({kernel.namespace(pid, kind) for pid in tree
                           for kind in kernel.NAMESPACES}),
        "mounts": len(kernel.read("/proc/self/mountinfo").splitlines()),
        "loops": len(kernel.loops_with(server.data_dir)),
        "cgroups": len(kernel.cells_in(kernel.cgroups_named(f"atoll-{server.instance()}"))),
        "disks": len(uppers(server)),
        "records": len(os.listdir(os.path.join(server.data_dir, "cells"))),
        "sockets": len(os.listdir(f"/run/atoll/{server.instance()}/guest")),
    }
    for role, pid in daemons.items():
        counts[f"descriptors of {role}"] = len(kernel.open_fds(pid))
        counts[f"mounts of {role}"] = len(kernel.read(f"/proc/{pid}/mountinfo").splitlines())
        counts[f"threads of {role}"] = len(os.listdir(f"/proc/{pid}/task"))
    return counts


def memory(server):
    return {role: kernel.kibibytes(pid, "VmRSS") for role, pid in server.daemons().items()}


def cycle(server, number):
    sandbox = server.client.create()
    assert sandbox.out(["echo", str(number)]) == f"{number}\n"
    if number % 10 == 0:
        sandbox.write("/tmp/file", b"x" * 100_000)
        sandbox.start(["sleep", "1000"], user="root")
    sandbox.delete()


def test_cycles_leave_nothing(server):
    for number in range(WARM_UP):
        cycle(server, number)
    wait_until(lambda: measure(server)["disks"] == 0, 10, "the warm-up is swept away")
    before, memory_before = measure(server), memory(server)
    daemons = server.daemons()
    for number in range(CYCLES):
        cycle(server, number)
    wait_until(lambda: measure(server) == before, 20, DifferenceFrom(server, before))
    assert server.daemons() == daemons, "a daemon was restarted on the way"
    grown = {role: size - memory_before[role] for role, size in memory(server).items()}
    assert all(growth < MOST_GROWTH_KIB for growth in grown.values()), grown


class DifferenceFrom:
    """The message of a failed wait, worked out only when it is needed."""

    def __init__(self, server, before):
        self.server, self.before = server, before

    def __str__(self):
        now = measure(self.server)
        return str({name: f"{self.before[name]} -> {count}" for name, count in now.items()
                    if count != self.before[name]})


def test_failed_creates_leave_nothing(server):
    before = measure(server)
    for _ in range(30):
        server.client.expect(404, "POST", "/api/v1/sandboxes", {"template": "none"})
        server.client.expect(400, "POST", "/api/v1/sandboxes",
                             {"template": "default", "config": {"resources": {"memory": "1"}}})
    wait_until(lambda: measure(server) == before, 10, DifferenceFrom(server, before))


def test_clients_that_hang_up_leave_nothing(server):
    """Connections cut in the middle of a stream, an upload and a waiting command."""
    sandbox = server.client.create()
    sandbox.run(["true"])
    before = measure(server)
    for _ in range(20):
        context = sandbox.start(["sleep", "1000"])
        stream = server.client.connection()
        stream.request("GET", f"{sandbox.path}/contexts/{context['id']}/stream",
                       headers=server.client.headers())
        stream.getresponse()
        upload = server.client.connection()
        upload.putrequest("POST", sandbox.file_path("/tmp/half"))
        for name, value in server.client.headers({"Content-Length": "1000000"}).items():
            upload.putheader(name, value)
        upload.endheaders()
        upload.send(b"x" * 1000)
        stream.close()
        upload.close()
        server.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{context['id']}")
    wait_until(lambda: measure(server) == before, 20, DifferenceFrom(server, before))
    sandbox.delete()
