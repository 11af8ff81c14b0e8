"""Bombs: each must hurt its own sandbox only, and that one must come back."""
import os
import shutil
import time

import pytest

from harness import kernel
from security_values import refused

MEBIBYTE = 1 << 20


def test_fork_bomb_is_bounded_and_the_sandbox_comes_back(create, neighbour, server):
    sandbox = create()
    bomb = sandbox.start(":(){ :|:& };:; sleep 60", user="root", timeout_ms=4000)
    deadline = time.monotonic() + 3
    most = 0
    while time.monotonic() < deadline:
        most = max(most, len(server.cell_processes(sandbox.id)))
        assert neighbour.run(["true"])["exit_code"] == 0
    assert 10 < most <= 8192
    for _ in sandbox.stream(bomb["id"]):
        pass
    sandbox.client.call("DELETE", f"{sandbox.path}/contexts/{bomb['id']}")
    recovered(sandbox)


def recovered(sandbox):
    """A process can be started again; what the kernel still tears down takes its moment."""
    deadline = time.monotonic() + 60
    while True:
        answer = sandbox.client.call("POST", f"{sandbox.path}/contexts", {
            "type": "cmd", "cmd": {"command": ["true"]}, "wait_until_done": True, "user": "root"})
        if answer.status == 201 and answer.data["exit_code"] == 0:
            return
        assert time.monotonic() < deadline, answer.body
        time.sleep(0.2)


def test_pid_exhaustion_stays_inside(fresh_attack, neighbour):
    attack = fresh_attack()
    got = attack("""
        children = []
        for _ in range(40000):
            try:
                pid = os.fork()
            except OSError as error:
                got['error'] = name_of(error.errno)
                break
            if pid == 0:
                signal.pause()
            children.append(pid)
        got['count'] = len(children)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)
    """, seconds=60)
    assert got["error"] == "!EAGAIN" and got["count"] < 40000
    assert neighbour.run(["true"])["exit_code"] == 0
    recovered(attack.sandbox)


def test_thread_exhaustion_stays_inside(fresh_attack, neighbour):
    attack = fresh_attack()
    got = attack("""
        import threading
        threading.stack_size(32768)
        stop = threading.Event()
        count = 0
        try:
            for count in range(40000):
                threading.Thread(target=stop.wait, daemon=True).start()
        except RuntimeError:
            pass
        got['count'] = count
        stop.set()
    """, seconds=60)
    assert got["count"] < 39999
    assert neighbour.run(["true"])["exit_code"] == 0
    recovered(attack.sandbox)


@pytest.mark.parametrize("how", ["heap", "shared memory", "memfd", "many processes"])
def test_memory_bomb_is_ended_inside(create, neighbour, server, how):
    programs = {
        "heap": "x = bytearray(b'x') * (8 << 30)",
        "shared memory": "f = open('/dev/shm/bomb', 'wb')\nwhile True: f.write(b'x' * (1 << 20))",
        "memfd": "import os\nf = os.memfd_create('m')\nwhile True: os.write(f, b'x' * (1 << 20))",
        "many processes": "import os, time\nfor i in range(7): os.fork()\n"
                          "x = bytearray(b'x') * (64 << 20)\ntime.sleep(5)",
    }
    sandbox = create(memory="192Mi")
    first = min(server.cell_processes(sandbox.id))
    available = memory_available()
    done = sandbox.run(["python3", "-c", programs[how]], user="root", timeout_ms=15000)
    assert done["exit_code"] != 0, done
    assert memory_available() > available - 3000 * MEBIBYTE
    assert neighbour.run(["true"])["exit_code"] == 0
    recovered(sandbox)
    sandbox.run("rm -f /dev/shm/bomb", user="root")
    assert first in server.cell_processes(sandbox.id), "the agent itself was ended"


def memory_available():
    for line in kernel.read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no MemAvailable")


def test_disk_bomb_fills_the_own_share_only(create, neighbour, server):
    sandbox = create(disk="128Mi")
    done = sandbox.run("dd if=/dev/zero of=/root/bomb bs=1M; stat -c %s /root/bomb; sync; "
                       "df -B1 --output=avail / | tail -1", user="root", timeout_ms=60000)
    assert "No space left" in done["stderr"] or "quota" in done["stderr"].lower(), done
    size = int(done["stdout"].split()[0])
    assert 32 * MEBIBYTE < size <= 136 * MEBIBYTE
    # The others, and the host, still write.
    neighbour.out("dd if=/dev/zero of=/tmp/fine bs=1M count=64 2>&1 && rm /tmp/fine", user="root")
    probe = os.path.join(server.data_dir, "probe")
    with open(probe, "wb") as file:
        file.write(bytes(MEBIBYTE))
    os.unlink(probe)
    # What it still may: run programs, delete, and then write again.
    sandbox.out("rm /root/bomb && sync && dd if=/dev/zero of=/root/again bs=1M count=16 2>&1",
                user="root")


def test_disk_bomb_through_the_file_api_is_refused(create):
    sandbox = create(disk="64Mi")
    sandbox.client.forget_connection()
    answer = sandbox.client.call("POST", sandbox.file_path("/tmp/big", user="root"),
                                 bytes(160 * MEBIBYTE))
    assert answer.status in (413, 429, 500, 507), answer.body
    assert "space" in answer.error["message"] or "quota" in answer.error["message"].lower()
    assert sandbox.client.call("GET", sandbox.file_path("/tmp/big", "/stat")).status == 404
    recovered(sandbox)


def test_sparse_and_reflink_tricks_do_not_lift_the_disk_limit(create):
    sandbox = create(disk="64Mi")
    done = sandbox.run("fallocate -l 1G /root/a; truncate -s 1T /root/b; "
                       "for i in $(seq 64); do dd if=/dev/urandom of=/root/b bs=4M count=1 seek=$i "
                       "conv=notrunc 2>/dev/null || break; done; sync; du -sB1 /root | cut -f1",
                       user="root", timeout_ms=60000)
    assert int(done["stdout"].split()[-1]) <= 72 * MEBIBYTE, done


def test_inode_bomb_is_bounded(create, neighbour):
    sandbox = create(disk="64Mi")
    done = sandbox.run(["python3", "-c", """
import os
os.makedirs('/root/inodes')
count = 0
try:
    for count in range(400000):
        os.close(os.open(f'/root/inodes/{count:0200d}', os.O_CREAT | os.O_WRONLY, 0o600))
except OSError as error:
    print(count, error.errno)
"""], user="root", timeout_ms=50000)
    assert neighbour.out("touch /tmp/inode && rm /tmp/inode") == ""
    assert done["stdout"].strip(), "400,000 files of 200-byte names fit into 64 MiB: not counted"
    assert int(done["stdout"].split()[1]) in (28, 122)


def test_descriptor_exhaustion_stays_inside(fresh_attack, neighbour):
    before = int(kernel.read("/proc/sys/fs/file-nr").split()[0])
    attack = fresh_attack()
    got = attack("""
        def exhaust():
            count = 0
            try:
                while count < 3000000:
                    os.open('/dev/null', os.O_RDONLY)
                    count += 1
            except OSError as error:
                return [count, name_of(error.errno)]
            return [count, '']
        got['count'], got['error'] = in_child(exhaust)
    """)
    assert got["error"] == "!EMFILE" and got["count"] < 1100000
    assert neighbour.run(["true"])["exit_code"] == 0
    assert int(kernel.read("/proc/sys/fs/file-nr").split()[0]) < before + 10000


def test_descriptor_exhaustion_of_the_agent_is_survived(create, neighbour):
    """Many processes at once, each with pipes the agent holds: refused at a limit, never fatal."""
    sandbox = create()
    refusals = 0
    for _ in range(1100):
        answer = sandbox.client.call("POST", f"{sandbox.path}/contexts", {
            "type": "cmd", "cmd": {"command": ["sleep", "100"]}, "user": "root"})
        if answer.status != 201:
            assert answer.status in (429, 503), answer.body
            refusals += 1
            break
    assert refusals == 1, "no limit on the number of processes the agent keeps"
    assert neighbour.run(["true"])["exit_code"] == 0
    contexts = sandbox.client.expect(200, "GET", f"{sandbox.path}/contexts").data["contexts"]
    sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{contexts[0]['id']}")
    recovered(sandbox)


def test_cpu_hog_leaves_time_for_others(create, neighbour):
    sandbox = create()
    hog = sandbox.start("for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait",
                        user="root")
    begin = time.monotonic()
    for _ in range(5):
        assert neighbour.run(["true"])["exit_code"] == 0
    assert time.monotonic() - begin < 30
    sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{hog['id']}")


def test_endless_output_costs_the_host_nothing(create, server):
    """Output nobody reads is held back in the sandbox, not collected in the API process."""
    sandbox = create()
    api = server.daemons()["api"]
    before = kernel.kibibytes(api, "VmRSS")
    context = sandbox.start(["yes"], user="root", timeout_ms=4000)
    for event in sandbox.stream(context["id"]):
        if "data_base64" in event:
            break   # and hang up
    waited = sandbox.run(["sh", "-c", "sleep 3"])
    assert waited["exit_code"] == 0
    assert kernel.kibibytes(api, "VmRSS") < before + 64 * 1024


def test_inotify_instances_are_counted_per_sandbox(fresh_attack):
    """The kernel counts them per user: two sandboxes must not be the same user to it."""
    first, second = fresh_attack(), fresh_attack()
    holder = first.sandbox.start(["python3", "-c", """if True:
        import ctypes, time
        libc = ctypes.CDLL(None)
        while libc.inotify_init1(0) >= 0: pass
        print('full', flush=True)
        time.sleep(600)
    """], user="root")
    for event in first.sandbox.stream(holder["id"]):
        if "data_base64" in event:
            break
    assert second("got['instance'] = call('inotify_init1', 0)")["instance"] >= 0
    assert refused(first("got['instance'] = call('inotify_init1', 0)")["instance"])


def test_terminals_are_bounded(attack):
    got = attack("""
        masters = []
        while len(masters) < 1000 and not failed(one := attempt(os.open, '/dev/ptmx', os.O_RDWR)):
            masters.append(one)
        got['count'] = len(masters)
        for one in masters:
            os.close(one)
    """)
    assert 16 < got["count"] <= 256


def test_limits_cannot_be_raised_from_inside(attack):
    got = attack("""
        import resource
        def raise_limit(which, value):
            resource.setrlimit(which, (value, value))
            return 'raised'
        got['files'] = in_child(lambda: raise_limit(resource.RLIMIT_NOFILE, 1 << 30))
        got['core'] = in_child(lambda: raise_limit(resource.RLIMIT_CORE, 1 << 20))
        got['oom'] = write('/proc/self/oom_score_adj', '-1000')
    """)
    assert all(refused(value) for value in got.values()), got


def test_host_disk_is_still_free():
    """The last word of this file: the bombs left room."""
    assert shutil.disk_usage("/").free > 1 << 30
