"""Memory of sandboxes that goes to disk and comes back: dumps, restores, forks with processes."""
import glob
import os
import signal
import threading
import time

import pytest

from harness.client import Sandbox
from harness.server import Server, wait_until

# Appends one number a turn: whoever reads the file sees every gap and every repetition.
COUNTER = """
import sys, time
out = open(sys.argv[1], "a")
n = 0
while True:
    n += 1
    out.write(f"{n}\\n"); out.flush()
    time.sleep(0.01)
"""
WEB = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    served = 0
    def do_GET(self):
        Handler.served += 1
        self.send_response(200); self.end_headers()
        self.wfile.write(str(Handler.served).encode())
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""
FETCH = """
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8000/").read().decode())
"""
FAMILY = """
import os, sys, time
for i in range(20):
    if os.fork() == 0:
        os.execvp("python3", ["python3", "/tmp/counter.py", f"/tmp/child-{i}"])
time.sleep(10000)
"""
CLOCKS = """
import time
out = open("/tmp/clocks", "a")
while True:
    out.write(f"{time.monotonic()} {time.time()}\\n"); out.flush()
    time.sleep(0.01)
"""
INOTIFY = """
import ctypes, time
libc = ctypes.CDLL(None)
fd = libc.inotify_init()
assert libc.inotify_add_watch(fd, b"/tmp", 2) > 0
open("/tmp/watching", "w").close()
time.sleep(10000)
"""

SYSTEM_V = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
assert libc.shmat(libc.shmget(5, 4096, 0o1600), None, 0) is not None
open("/tmp/watching", "w").close()
time.sleep(10000)
"""


def call(sandbox, what, body=None, status=200):
    return sandbox.client.expect(status, "POST", f"{sandbox.path}/{what}", body).data


def capabilities(client):
    return client.expect(200, "GET", "/metadata").data["capabilities"]


@pytest.fixture(scope="module")
def dumps(client):
    """The set-up brings criu; where it could not, these tests have nothing to say."""
    found = capabilities(client)
    if not found["memory_dump"]:
        pytest.skip(found["memory_dump_reason"])


@pytest.fixture
def own_server(dumps):
    """A server that a test stops, starts and kills."""
    made = []

    def make(*extra):
        made.append(Server(extra=extra).start())
        return made[-1]
    yield make
    for server in made:
        try:
            for sandbox in server.client.expect(200, "GET", "/api/v1/sandboxes").data["sandboxes"]:
                server.client.call("DELETE", f"/api/v1/sandboxes/{sandbox['id']}")
        finally:
            server.stop()
            server.discard()


def start_counter(sandbox, path="/tmp/count"):
    sandbox.write("/tmp/counter.py", COUNTER)
    context = sandbox.start(["python3", "/tmp/counter.py", path])
    wait_until(lambda: numbers(sandbox, path), 20, "the counter counts")
    return context


def numbers(sandbox, path="/tmp/count"):
    answer = sandbox.client.call("GET", sandbox.file_path(path))
    return [int(n) for n in answer.body.split()] if answer.status == 200 else []


def assert_goes_on(sandbox, path="/tmp/count"):
    """It counts on, and every number is there once."""
    before = numbers(sandbox, path)
    wait_until(lambda: len(numbers(sandbox, path)) > len(before), 20, f"{path} goes on")
    after = numbers(sandbox, path)
    assert after == list(range(1, len(after) + 1))


def python(sandbox):
    return sandbox.client.expect(201, "POST", f"{sandbox.path}/contexts",
                                 {"type": "repl", "repl": {"alias": "python"}}).data["id"]


def run_code(sandbox, context, code):
    answer = sandbox.client.expect(200, "POST", f"{sandbox.path}/contexts/{context}/exec",
                                   {"data": code})
    return answer.data["output_raw"].strip()


def pids(sandbox):
    contexts = sandbox.client.expect(200, "GET", f"{sandbox.path}/contexts").data["contexts"]
    return {context["id"]: context["pid"] for context in contexts}


def dump_directories(server):
    """As the node sees them; its mounts are its own."""
    node = server.daemons()["node"]
    return [path for pattern in ("pool/dumps/*", "pool/*/dumps/*")
            for path in glob.glob(f"/proc/{node}/root{server.data_dir}/{pattern}")]


def fetch(sandbox):
    return int(sandbox.out(["python3", "-c", FETCH]))


def type_into(sandbox, shell, text):
    sandbox.client.expect(200, "POST", f"{sandbox.path}/contexts/{shell}/input", {"data": text})


def start_busy_family(sandbox):
    """A listening server, twenty processes that count, and a shell on a terminal: its id."""
    sandbox.write("/tmp/counter.py", COUNTER)
    sandbox.write("/tmp/web.py", WEB)
    sandbox.start(["python3", "/tmp/web.py"])
    sandbox.start(["python3", "-c", FAMILY])
    shell = sandbox.start(["bash", "--norc", "-i"], pty_size={"rows": 24, "cols": 80})["id"]
    type_into(sandbox, shell, "WORD=kept\n")
    wait_until(lambda: sandbox.run(["python3", "-c", FETCH])["exit_code"] == 0, 20, "it serves")
    wait_until(lambda: all(numbers(sandbox, f"/tmp/child-{i}") for i in range(20)), 30, "children")
    return shell


def assert_busy_family_goes_on(sandbox, shell, served):
    assert fetch(sandbox) == served + 1
    for i in range(20):
        assert_goes_on(sandbox, f"/tmp/child-{i}")
    type_into(sandbox, shell, "echo $WORD > /tmp/word\n")
    wait_until(lambda: sandbox.client.call("GET", sandbox.file_path("/tmp/word")).body == b"kept\n",
               20, "the shell knows its variable")


def test_everything_goes_on_from_disk(create, server, dumps):
    sandbox = create()
    repl = python(sandbox)
    run_code(sandbox, repl, "x = 41; f = open('/tmp/kept', 'w'); f.write('a'); f.flush()")
    run_code(sandbox, repl, "open('/dev/shm/segment', 'w').write('shared')")
    start_counter(sandbox)
    shell = start_busy_family(sandbox)
    served = fetch(sandbox)
    before = pids(sandbox)
    generation = sandbox.get()["runtime_generation"]

    paused = call(sandbox, "pause", {"memory": "disk"})
    assert paused["memory"] == "disk" and paused["status"] == "paused", paused
    assert not server.cell_processes(sandbox.id), "its memory is given back"
    assert dump_directories(server)
    assert call(sandbox, "pause", {"memory": "disk"})["memory"] == "disk"
    described = sandbox.get()
    assert described["paused"] is True and described["runtime_generation"] == generation

    resumed = call(sandbox, "resume")
    assert resumed["restored"] == "memory", resumed
    assert resumed["runtime_generation"] == generation + 1
    assert not dump_directories(server), "a dump is used once"
    after = pids(sandbox)
    assert {context: after.get(context) for context in before if context in after} \
        == {context: pid for context, pid in before.items() if context in after}
    assert repl in after and shell in after
    assert run_code(sandbox, repl, "x + 1").endswith("42")
    run_code(sandbox, repl, "f.write('b'); f.flush()")
    assert sandbox.read("/tmp/kept") == b"ab"
    assert sandbox.read("/dev/shm/segment") == b"shared"
    assert_goes_on(sandbox)
    assert_busy_family_goes_on(sandbox, shell, served)


def test_again_and_again(create, dumps):
    sandbox = create()
    start_counter(sandbox)
    for _ in range(3):
        assert call(sandbox, "pause", {"memory": "disk"})["memory"] == "disk"
        assert call(sandbox, "resume")["restored"] == "memory"
        assert_goes_on(sandbox)


def test_the_fences_are_there_after_a_restore(create, dumps):
    sandbox = create()
    show = "cat /proc/self/status | grep -E '^(Cap|Seccomp|NoNewPrivs)'; ls /dev /proc/fs"
    mounts = "awk '{print $5}' /proc/self/mountinfo | sort"
    before = [sandbox.run(what)["stdout"] for what in (show, mounts)]
    visible = sandbox.out("ls /proc | grep -c '^[0-9]'")
    call(sandbox, "pause", {"memory": "disk"})
    assert call(sandbox, "resume")["restored"] == "memory"
    assert [sandbox.run(what)["stdout"] for what in (show, mounts)] == before
    # Only its own processes; a request that has just ended may still be among them.
    assert int(sandbox.out("ls /proc | grep -c '^[0-9]'")) <= int(visible) + 2
    assert sandbox.run(["unshare", "--user", "true"], user="root")["exit_code"] != 0


def test_what_criu_reads_is_not_the_sandboxes(create, dumps):
    sandbox = create()
    sandbox.out("mkdir -p /etc/criu && printf 'action-script /tmp/evil\\n' > /etc/criu/default.conf"
                " && printf '#!/bin/sh\\ntouch /tmp/was-run\\n' > /tmp/evil && chmod 755 /tmp/evil",
                user="root")
    start_counter(sandbox)
    assert call(sandbox, "pause", {"memory": "disk"})["memory"] == "disk"
    assert call(sandbox, "resume")["restored"] == "memory"
    assert_goes_on(sandbox)
    assert sandbox.client.call("GET", sandbox.file_path("/tmp/was-run")).status == 404


def test_clocks_go_on(create, dumps):
    sandbox = create()
    sandbox.start(["python3", "-c", CLOCKS])
    read = lambda: [tuple(map(float, line.split())) for line in
                    sandbox.client.call("GET", sandbox.file_path("/tmp/clocks")).body.splitlines()
                    if len(line.split()) == 2]
    wait_until(read, 20, "it runs")
    call(sandbox, "pause", {"memory": "disk"})
    call(sandbox, "resume")
    count = len(read())
    wait_until(lambda: len(read()) > count + 5, 20, "it goes on")
    monotonic, wall = zip(*read())
    assert list(monotonic) == sorted(monotonic), "never backwards"
    assert abs(wall[-1] - time.time()) < 5


def test_monotonic_time_goes_on_after_a_restart_of_the_host(create, server, dumps):
    """The facts of a dump say in which boot it was made: here another one, with a clock ahead."""
    sandbox = create()
    repl = python(sandbox)
    before = float(run_code(sandbox, repl, "import time; time.monotonic()").splitlines()[-1])
    call(sandbox, "pause", {"memory": "disk"})
    facts = glob.glob(dump_directories(server)[0] + "/facts")[0]
    with open(facts) as file:
        words = file.read().split()
    words[1] = "another-boot"
    words[2:4] = [str(int(word) + 5000 * 10**9) for word in words[2:4]]
    with open(facts, "w") as file:
        file.write(" ".join(words) + "\n")
    assert call(sandbox, "resume")["restored"] == "memory"
    now = float(run_code(sandbox, repl, "time.monotonic()").splitlines()[-1])
    assert before + 5000 <= now < before + 5600
    assert abs(float(run_code(sandbox, repl, "time.time()").splitlines()[-1]) - time.time()) < 5
    # And such a one can be dumped again.
    assert call(sandbox, "pause", {"memory": "disk"})["memory"] == "disk"
    assert call(sandbox, "resume")["restored"] == "memory"
    again = float(run_code(sandbox, repl, "time.monotonic()").splitlines()[-1])
    assert now <= again < now + 600


@pytest.mark.parametrize("program,why", [(INOTIFY, "inotify"), (SYSTEM_V, "System V")])
def test_one_that_cannot_be_dumped_says_why(create, dumps, program, why):
    sandbox = create()
    start_counter(sandbox)
    sandbox.start(["python3", "-c", program])
    wait_until(lambda: sandbox.client.call("GET", sandbox.file_path("/tmp/watching")).status == 200,
               20, "it watches")
    paused = call(sandbox, "pause", {"memory": "disk"})
    assert paused["status"] == "paused" and paused["memory"] == "frozen"
    assert why in paused["reason"]
    assert call(sandbox, "resume")["restored"] == "memory"
    assert_goes_on(sandbox)


def test_a_disk_from_another_moment_takes_no_memory(create, client, dumps):
    sandbox = create()
    start_counter(sandbox)
    snapshot = call(sandbox, "snapshots", {"name": "earlier"}, 201)["id"]
    try:
        call(sandbox, "pause", {"memory": "disk"})
        call(sandbox, "rootfs/restore", {"snapshot_id": snapshot})
        resumed = call(sandbox, "resume")
        assert resumed["restored"] == "filesystem" and resumed["reason"]
    finally:
        client.call("DELETE", f"/api/v1/sandbox-rootfs-snapshots/{snapshot}")


def test_dumps_go_with_their_sandbox(create, server, dumps):
    sandbox = create()
    call(sandbox, "pause", {"memory": "disk"})
    assert dump_directories(server)
    sandbox.delete()
    wait_until(lambda: not dump_directories(server), 20, "the dump is gone")
    other = create()
    call(other, "pause", {"memory": "disk"})
    assert call(other, "pause", {"memory": False})["memory"] == "none"
    assert not dump_directories(server)
    assert call(other, "resume")["restored"] == "filesystem"


def test_memory_that_fails_to_come_back_is_kept(create, server, dumps):
    sandbox = create()
    start_counter(sandbox)
    call(sandbox, "pause", {"memory": "disk"})
    guest = dump_directories(server)[0] + "/guest"
    os.rename(guest, guest + "-away")
    refused = sandbox.client.call("POST", f"{sandbox.path}/resume")
    assert refused.status == 503, refused.body
    os.rename(guest + "-away", guest)
    # The server may have tried again by itself meanwhile.
    assert call(sandbox, "resume")["restored"] in ("memory", "nothing")
    assert_goes_on(sandbox)


def test_a_leftover_dump_goes_before_its_processes_move(create, server, dumps):
    """A node that is killed between a dump and the end of its cell leaves both."""
    sandbox, other = create(), create()
    call(other, "pause", {"memory": "disk"})
    place = os.path.dirname(dump_directories(server)[0])
    call(sandbox, "pause")
    os.mkdir(f"{place}/cell-{sandbox.id}")
    call(sandbox, "resume")
    assert [os.path.basename(path) for path in dump_directories(server)] == [f"cell-{other.id}"]


def test_what_is_empty_is_not_in_a_dump(create, server, dumps):
    """Each file in it is a visit to the cell when it comes back."""
    sandbox = create()
    assert call(sandbox, "pause", {"memory": "disk"})["memory"] == "disk"
    dump, = dump_directories(server)
    assert os.path.isdir(dump) and not os.path.exists(dump + "/shm")
    assert call(sandbox, "resume")["restored"] == "memory"
    assert sandbox.out("ls -A /dev/shm") == ""


def test_files_with_many_names_in_shared_memory(create, server, dumps):
    """A dump is as large as the memory, not as the sum of the names."""
    sandbox = create()
    sandbox.out("head -c 4000000 /dev/urandom > /dev/shm/a && "
                "for i in $(seq 500); do ln /dev/shm/a /dev/shm/$i; done")
    assert call(sandbox, "pause", {"memory": "disk"})["memory"] == "disk"
    assert os.path.getsize(dump_directories(server)[0] + "/shm") < 8_000_000
    assert call(sandbox, "resume")["restored"] == "memory"
    assert sandbox.out("stat -c %h /dev/shm/77").strip() == "501"


def test_the_first_dump_of_an_interpreter_works(create, dumps):
    """Also right after a request, whose connection may still be open."""
    for _ in range(4):
        sandbox = create()
        repl = python(sandbox)
        run_code(sandbox, repl, "x = 1")
        paused = call(sandbox, "pause", {"memory": "disk"})
        assert paused["memory"] == "disk", paused
        assert run_code(sandbox, repl, "x + 1").endswith("2")
        sandbox.delete()


def test_forks_have_the_processes_of_their_parent(create, client, server, dumps):
    parent = create()
    repl = python(parent)
    run_code(parent, repl, "x = 41")
    start_counter(parent)
    before = pids(parent)
    answer = client.expect(201, "POST", f"{parent.path}/fork",
                           {"memory": True, "count": 3, "start": True}).data
    children = [Sandbox(client, child["id"]) for child in answer["sandboxes"]]
    try:
        assert parent.get()["status"] == "running"
        assert_goes_on(parent)
        for child in children:
            assert pids(child) == before
            assert_goes_on(child)
            assert run_code(child, repl, "x += 1; x").endswith("42")
            assert child.out(["hostname"]).strip() == child.id
        run_code(parent, repl, "x = 7")
        assert run_code(children[0], repl, "x").endswith("42")
        assert not dump_directories(server)
        # Also from memory that is on disk.
        call(parent, "pause", {"memory": "disk"})
        late = client.expect(201, "POST", f"{parent.path}/fork", {"memory": True}).data["sandbox"]
        children.append(Sandbox(client, late["id"]))
        assert late["paused"] is True and parent.get()["paused"] is True
        assert run_code(children[-1], repl, "x").endswith("7")
        assert call(parent, "resume")["restored"] == "memory"
    finally:
        for child in children:
            client.call("DELETE", child.path)


def test_forks_with_memory_do_not_share_their_chance(create, client, dumps):
    parent = create()
    repl = python(parent)
    shell = client.expect(201, "POST", f"{parent.path}/contexts",
                          {"type": "repl", "repl": {"alias": "bash"}}).data["id"]
    run_code(parent, repl, "import os, random, ssl, tempfile, uuid; random.random()")
    run_code(parent, shell, "echo $RANDOM")
    answer = client.expect(201, "POST", f"{parent.path}/fork",
                           {"memory": True, "count": 2, "start": True}).data
    children = [Sandbox(client, child["id"]) for child in answer["sandboxes"]]
    draws = ("random.random()", "uuid.uuid4().hex", "os.urandom(16).hex()",
             "ssl.RAND_bytes(16).hex()", "next(tempfile._get_candidate_names())",
             "open('/etc/machine-id').read()", "open('/etc/hostname').read()",
             "open('/proc/sys/kernel/random/boot_id').read()")
    try:
        for draw in draws:
            drawn = [run_code(each, repl, draw) for each in (parent, *children)]
            assert len(set(drawn)) == 3, (draw, drawn)
        drawn = [run_code(each, shell, "echo $RANDOM $RANDOM $RANDOM")
                 for each in (parent, *children)]
        assert len(set(drawn)) == 3, drawn
        # But it is the same sandbox that comes back from its own dump.
        own = [run_code(parent, repl, draw) for draw in draws[-3:]]
        call(parent, "pause", {"memory": "disk"})
        assert [run_code(parent, repl, draw) for draw in draws[-3:]] == own
    finally:
        for child in children:
            client.call("DELETE", child.path)


def test_forks_of_a_busy_parent(create, client, dumps):
    parent = create()
    shell = start_busy_family(parent)
    served = fetch(parent)
    answer = client.expect(201, "POST", f"{parent.path}/fork",
                           {"memory": True, "count": 2, "start": True}).data
    children = [Sandbox(client, child["id"]) for child in answer["sandboxes"]]
    try:
        for sandbox in (parent, *children):  # each has the server, and counts for itself
            assert_busy_family_goes_on(sandbox, shell, served)
    finally:
        for child in children:
            client.call("DELETE", child.path)


def test_an_idle_pause_goes_to_disk(own_server):
    server = own_server("--dump-after", "1")
    sandbox = server.client.create()
    start_counter(sandbox)
    assert call(sandbox, "pause")["memory"] == "frozen"
    wait_until(lambda: not server.cell_processes(sandbox.id), 30, "its memory goes to disk")
    assert sandbox.get()["status"] == "paused"
    assert_goes_on(sandbox)  # and use wakes it up


def test_a_clean_stop_keeps_memory(own_server):
    server = own_server()
    running, paused = server.client.create(), server.client.create()
    for sandbox in (running, paused):
        start_counter(sandbox)
    call(paused, "pause")
    server.stop()
    server.start()
    for sandbox in (running, paused):
        sandbox.client = server.client
    assert_goes_on(running)
    assert call(paused, "resume")["restored"] == "memory"
    assert_goes_on(paused)


def test_a_dump_that_is_cut_short_ends_its_processes(own_server, tmp_path):
    """criu's code may be in them: they never move again, and the sandbox starts from its files."""
    real = "/opt/atoll/criu"
    for name in ("lib", "criu"):
        os.symlink(f"{real}/{name}", tmp_path / name)
    loader = tmp_path / "ld.so"
    loader.write_text("#!/bin/sh\ncase \" $* \" in *\" dump \"*) kill -KILL $$;; esac\n"
                      f"exec {real}/ld.so \"$@\"\n")
    loader.chmod(0o755)
    tmp_path.chmod(0o755)
    server = own_server("--criu-dir", str(tmp_path))
    if not capabilities(server.client)["memory_dump"]:
        pytest.skip(capabilities(server.client)["memory_dump_reason"])
    sandbox = server.client.create()
    sandbox.write("/workspace/file", "kept")
    start_counter(sandbox)
    sandbox.client.call("POST", f"{sandbox.path}/pause", {"memory": "disk"})
    wait_until(lambda: not server.cell_processes(sandbox.id), 20, "its processes end")
    answer = wait_until(lambda: resumed(sandbox), 60, "it resumes")
    assert answer["status"] == "running" and answer["restored"] != "memory"
    assert sandbox.read("/workspace/file") == b"kept"
    assert not numbers_grow(sandbox)


@pytest.mark.parametrize("role,delay", [("node", 0.02), ("node", 0.15), ("node", 0.3),
                                        ("api", 0.1)])
def test_a_crash_in_a_dump_loses_nothing_on_disk(own_server, role, delay):
    server = own_server()
    sandbox = server.client.create()
    sandbox.write("/workspace/file", "kept")
    start_counter(sandbox)
    pid = server.daemons()[role]

    def ask():
        try:
            sandbox.client.call("POST", f"{sandbox.path}/pause", {"memory": "disk"})
        except OSError:
            pass  # the API process may be the one that dies
    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    asking.join()
    wait_until(lambda: ready(server) and server.daemons().get(role) not in (None, pid), 60, "again")
    answer = wait_until(lambda: resumed(sandbox), 60, "it resumes")
    assert answer["status"] == "running"
    assert sandbox.read("/workspace/file") == b"kept"
    if answer["restored"] == "memory" or numbers_grow(sandbox):
        assert_goes_on(sandbox)


def ready(server):
    try:
        return server.client.call("GET", "/readyz").status == 200
    except OSError:
        return False


def resumed(sandbox):
    try:
        answer = sandbox.client.call("POST", f"{sandbox.path}/resume")
    except OSError:
        return None
    return answer.data if answer.status == 200 else None


def numbers_grow(sandbox):
    before = len(numbers(sandbox))
    time.sleep(0.2)
    return len(numbers(sandbox)) > before
