"""Forks that take interpreters along: state, files, entropy, refusals, many children."""
import concurrent.futures
import threading

import pytest


class Python:
    """One Python context, by its sandbox and its id; the same id in a parent and in its children."""

    def __init__(self, client, sandbox_id, context_id):
        self.client, self.sandbox_id, self.id = client, sandbox_id, context_id
        self.path = f"/api/v1/sandboxes/{sandbox_id}/contexts/{context_id}"

    @classmethod
    def create(cls, sandbox, **fields):
        made = sandbox.client.expect(201, "POST", f"{sandbox.path}/contexts",
                                     {"type": "repl", "repl": {"alias": "python"}, **fields}).data
        return cls(sandbox.client, sandbox.path.rsplit("/", 1)[1], made["id"])

    def exec(self, code):
        return self.client.expect(200, "POST", f"{self.path}/exec", {"data": code}).data

    def out(self, code):
        done = self.exec(code)
        assert done["status"] == "ok", done
        return done["output_raw"]

    def in_sandbox(self, sandbox_id):
        return Python(self.client, sandbox_id, self.id)


@pytest.fixture
def parent(create, client):
    if not client.expect(200, "GET", "/metadata").data["capabilities"]["interpreter_fork"]:
        pytest.skip("this machine cannot clone processes")
    return create()


@pytest.fixture
def fork(client):
    """Forks with interpreters; the children live as long as the test."""
    made = []

    def make(sandbox, count=1, start=True, **fields):
        answer = client.expect(201, "POST", f"{sandbox.path}/fork",
                               {"memory": "interpreters", "count": count, "start": start, **fields},
                               timeout=120).data
        made.extend(child["id"] for child in answer["sandboxes"])
        return answer

    yield make
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: client.call("DELETE", f"/api/v1/sandboxes/{each}"), made))


def child_of(python, answer, number=0):
    (carried,) = [each for each in answer["interpreters"] if each["context_id"] == python.id]
    assert carried["carried"] is True, carried
    return python.in_sandbox(answer["sandboxes"][number]["id"])


def refusal(python, answer):
    (carried,) = [each for each in answer["interpreters"] if each["context_id"] == python.id]
    assert carried["carried"] is False, carried
    return carried["reason"]


def test_everything_python_knows_comes_along(parent, fork):
    python = Python.create(parent)
    python.exec("import json, re, decimal, os, sys\n"
                "open('/tmp/lines', 'w').write('first\\nsecond\\nthird\\n')\n"
                "lines = open('/tmp/lines'); lines.readline()\n"
                "log = open('/tmp/log', 'a'); log.write('buffered ')\n"
                "squares = (n * n for n in range(100)); next(squares); next(squares)\n"
                "class Account:\n    balance = 40\n"
                "account = Account(); os.chdir('/usr'); os.environ['MARK'] = 'set'")
    child = child_of(python, fork(parent))
    assert child.out("account.balance += 2; print(account.balance, next(squares), "
                     "lines.readline().strip(), os.getcwd(), os.environ['MARK'], "
                     "json.dumps(re.findall('o', 'foo')), decimal.Decimal(1) / 8)") == \
        '42 4 second /usr set ["o", "o"] 0.125\n'
    child.exec("log.write('child'); log.close()")
    assert child.out("print(open('/tmp/log').read())") == "buffered child\n"
    # The parent went on by itself, and nothing of the child's is there.
    assert python.out("print(account.balance, next(squares), lines.readline().strip())") == \
        "40 4 second\n"
    python.exec("log.write('parent'); log.close()")
    assert python.out("print(open('/tmp/log').read())") == "buffered parent\n"


def test_a_child_is_an_ordinary_context(parent, fork, client):
    python = Python.create(parent, env_vars={"GIVEN": "once"})
    python.exec("x = 1")
    answer = fork(parent)
    child = child_of(python, answer)
    shown = client.expect(200, "GET", child.path).data
    assert shown["alias"] == "python" and shown["running"] is True
    failed = child.exec("1 / 0")
    assert failed["status"] == "error" and failed["error"]["name"] == "ZeroDivisionError"
    assert child.exec("x")["output_raw"] == "1\n"
    assert child.out("import subprocess\nprint(subprocess.run(['echo', 'sub'], "
                     "capture_output=True, text=True).stdout.strip())") == "sub\n"
    assert child.out("import threading\nt = threading.Thread(target=lambda: print('thread'))\n"
                     "t.start(); t.join()") == "thread\n"
    assert "async" in child.out("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n"
                                "    return 'async'\nprint(await f())")
    client.expect(200, "POST", f"{child.path}/restart")
    assert child.exec("x")["error"]["name"] == "NameError"
    assert child.out("import os; print(os.environ['GIVEN'])") == "once\n"
    client.expect(200, "DELETE", child.path)
    assert python.out("print(x)") == "1\n"


def test_no_two_draw_the_same(parent, fork):
    python = Python.create(parent)
    python.exec("import random, uuid, secrets, tempfile, ssl\n"
                "random.seed(7); ssl.RAND_bytes(8); tempfile.gettempdir()\n"
                "next(tempfile._get_candidate_names())")
    numpy = python.exec("import numpy")["status"] == "ok"
    if numpy:
        python.exec("numpy.random.seed(7); numpy.random.rand()")
    answer = fork(parent, count=3)
    draw = ("print(random.random(), uuid.uuid4(), uuid.uuid1(), secrets.token_hex(8), "
            "ssl.RAND_bytes(8).hex(), next(tempfile._get_candidate_names()), "
            + ("numpy.random.rand()" if numpy else "secrets.token_hex(4)") + ")")
    drawn = [child_of(python, answer, number).out(draw).split() for number in range(3)]
    drawn.append(python.out(draw).split())
    for column in zip(*drawn):
        assert len(set(column)) == 4, column
    # Who seeded by hand keeps the stream in the parent.
    assert python.out("random.seed(7); a = random.random(); random.seed(7); "
                      "print(a == random.random())") == "True\n"


def test_memory_is_shared_until_it_is_written(parent, fork):
    python = Python.create(parent)
    python.exec("heap = bytearray(200 << 20)\n"
                "for at in range(0, len(heap), 4096): heap[at] = at // 4096 % 251")
    answer = fork(parent, count=3)
    assert answer["interpreters"][0]["memory_bytes"] >= 200 << 20
    for number in range(3):
        child = child_of(python, answer, number)
        assert child.out("print(sum(heap[::4096]), len(heap))") == \
            python.out("print(sum(heap[::4096]), len(heap))")
        child.exec(f"heap[0] = {number + 100}")
        own = child.out("print([int(l.split()[1]) for l in open('/proc/self/smaps_rollup') "
                        "if l.startswith('Anonymous')][0])")
        assert int(own) < 16 << 10  # KiB; the rest is the image's
    assert python.out("print(heap[0])") == "0\n"


def test_an_image_fits_into_its_sandbox(create, fork):
    """It is made of the parent's memory, and never at the cost of what runs there."""
    small = create(memory="256Mi")
    python = Python.create(small)
    python.exec("import os\nheap = os.urandom(150 << 20)\ndigest = hash(heap)")
    assert "memory of its own" in refusal(python, fork(small))
    assert python.out("print(hash(heap) == digest)") == "True\n"
    python.exec("del heap")
    assert child_of(python, fork(small)).out("print('heap' in globals())") == "False\n"


def test_children_of_children(parent, fork, client):
    python = Python.create(parent)
    python.exec("generation = [0]")
    sandbox = parent
    for generation in range(1, 4):
        answer = fork(sandbox)
        python = child_of(python, answer)
        python.exec(f"generation.append({generation})")
        sandbox = type(parent)(client, answer["sandboxes"][0]["id"])
    assert python.out("print(generation)") == "[0, 1, 2, 3]\n"
    assert "atoll-plan" not in python.out("print(open('/proc/self/maps').read())")


def test_paused_children_wake_up_warm(parent, fork, client):
    python = Python.create(parent)
    python.exec("kept = 'warm'")
    answer = fork(parent, count=2, start=False)
    assert {child["status"] for child in answer["sandboxes"]} == {"paused"}
    assert child_of(python, answer, 1).out("print(kept)") == "warm\n"


def test_a_child_that_shares_memory_goes_to_disk(parent, fork, client):
    """Its agent gives it memory of its own before: criu could not bring back what is shared."""
    python = Python.create(parent)
    python.exec("kept = 'warm'")
    answer = fork(parent, count=2)
    child = child_of(python, answer)
    sandbox = type(parent)(client, answer["sandboxes"][0]["id"])
    assert child.out("print('atoll-image' in open('/proc/self/maps').read())") == "True\n"
    paused = client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": "disk"}).data
    if client.expect(200, "GET", "/metadata").data["capabilities"]["memory_dump"]:
        assert paused["memory"] == "disk", paused
    resumed = client.expect(200, "POST", f"{sandbox.path}/resume").data
    assert resumed["restored"] == "memory", resumed
    assert child.out("print(kept)") == "warm\n"
    assert child_of(python, answer, 1).out("print(kept)") == "warm\n"


def test_what_stays_behind_is_said(parent, fork):
    threads = Python.create(parent)
    threads.exec("import threading\nstop = threading.Event()\n"
                 "threading.Thread(target=stop.wait, daemon=True).start()\nx = 5")
    sockets = Python.create(parent)
    sockets.exec("import socket\npair = socket.socketpair()")
    shared = Python.create(parent)
    shared.exec("import mmap\nm = mmap.mmap(-1, 4096)")
    memory = Python.create(parent)
    memory.exec("import os\nf = os.memfd_create('x')")
    node = parent.client.expect(201, "POST", f"{parent.path}/contexts",
                                {"type": "repl", "repl": {"alias": "bash"}}).data
    answer = fork(parent)
    assert child_of(threads, answer).out("print(x, threading.active_count())") == "5 1\n"
    (note,) = [each["note"] for each in answer["interpreters"]
               if each["context_id"] == threads.id]
    assert "1 thread was left behind" in note
    assert "is a socket" in refusal(sockets, answer)
    assert "shares memory" in refusal(shared, answer)
    assert "without a name" in refusal(memory, answer)
    assert "only Python" in refusal(Python(None, "", node["id"]), answer)
    # What was refused goes on where it is.
    assert sockets.out("pair[0].send(b'x'); print(pair[1].recv(1))") == "b'x'\n"
    assert threads.out("print(threading.active_count())") == "2\n"


def test_a_busy_interpreter_is_waited_for_and_then_left(parent, fork):
    python = Python.create(parent)
    idle = Python.create(parent)
    idle.exec("y = 2")
    python.exec("import os, time")
    running = threading.Thread(target=python.exec, args=(
        "os.mkdir('/tmp/begun')\nwhile not os.path.exists('/tmp/end'): time.sleep(0.05)\nz = 3",))
    running.start()
    while parent.run(["test", "-d", "/tmp/begun"])["exit_code"] != 0:
        pass
    answer = fork(parent)
    assert "running" in refusal(python, answer)
    assert child_of(idle, answer).out("print(y)") == "2\n"
    parent.mkdir("/tmp/end")
    running.join()
    assert python.out("print(z)") == "3\n"


def test_copies_do_not_answer_for_their_parent(parent, fork):
    python = Python.create(parent)
    python.exec("n = 0")
    for _ in range(3):
        fork(parent)
        assert python.out("n += 1; print(n)").strip().isdigit()
    assert python.out("print(n)") == "3\n"
    assert python.out("import os\ntry:\n    os.waitpid(-1, os.WNOHANG)\n"
                      "except ChildProcessError: print('no children')") == "no children\n"


def test_a_hundred_children(parent, fork):
    python = Python.create(parent)
    python.exec("import json, random\nvalue = {'answer': 42}")
    answer = fork(parent, count=100)
    assert len(answer["sandboxes"]) == 100
    assert [each["carried"] for each in answer["interpreters"]] == [True]
    children = [child_of(python, answer, number) for number in range(100)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda each: each.out("print(value['answer'], random.random())"),
                             children))
    assert {line.split()[0] for line in said} == {"42"} and len(set(said)) == 100


def test_refusals_of_the_request(parent, client):
    client.expect(400, "POST", f"{parent.path}/fork", {"memory": "everything"})
    client.expect(200, "POST", f"{parent.path}/pause")
    answer = client.expect(409, "POST", f"{parent.path}/fork", {"memory": "interpreters"})
    assert "takes" in answer.error["message"] or "taken" in answer.error["message"]


def test_a_key_makes_it_once(parent, client):
    python = Python.create(parent)
    python.exec("x = 1")
    key = {"Idempotency-Key": f"warm-{parent.path[-8:]}"}
    body = {"memory": "interpreters", "start": True}
    first = client.expect(201, "POST", f"{parent.path}/fork", body, headers=key).data
    again = client.expect(201, "POST", f"{parent.path}/fork", body, headers=key).data
    try:
        assert [each["id"] for each in first["sandboxes"]] == \
            [each["id"] for each in again["sandboxes"]]
        assert child_of(python, first).out("print(x)") == "1\n"
    finally:
        for child in first["sandboxes"]:
            client.call("DELETE", f"/api/v1/sandboxes/{child['id']}")
