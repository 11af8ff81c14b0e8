"""Interpreters and streams under load: nothing lost, nothing that grows, nobody taken along."""
import base64
import json
import threading
import zlib

import pytest

from test_interpreters import Interpreter
from test_lines import LINES
from test_websocket import WebSocket

GIGABYTE = 1 << 30
PATTERN = b"0123456789abcdef\n"
# What a process may need beyond its usual self for any of this.
MAX_GROWTH_KIB = 96 * 1024


def pattern_checksum(size):
    block = PATTERN * 61680  # 1 MiB and a bit, a whole number of patterns
    checksum, left = 0, size
    while left > 0:
        checksum = zlib.crc32(block[:left], checksum)
        left -= min(left, len(block))
    return checksum


class Memory:
    """The peak of a process between start and growth()."""

    def __init__(self, pid):
        self.pid = pid
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")
        self.before = self.peak()

    def peak(self):
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

    def growth(self):
        return self.peak() - self.before


@pytest.fixture
def memories(server, create):
    sandbox = create()
    guest = min(server.cell_processes(sandbox.id))
    yield sandbox, [Memory(server.daemons()["api"]), Memory(guest)]


def check(memories):
    for memory in memories:
        assert memory.growth() < MAX_GROWTH_KIB


def writing(size):
    return (f"import sys\nblock = {PATTERN!r} * 61680\nleft = {size}\nwhile left > 0:\n"
            "  sys.stdout.buffer.write(block[:left])\n  left -= min(left, len(block))\n'end'")


def test_a_gigabyte_of_an_interpreter_is_exact(client, memories):
    sandbox, watched = memories
    python = Interpreter(sandbox, "python")
    size, checksum, offset = 0, 0, None
    with WebSocket(client, f"{python.path}/ws?binary=true") as socket:
        socket.send({"type": "input", "data": writing(GIGABYTE), "request_id": "much"})
        while True:
            opcode, payload = socket.frame()
            if opcode == 9:
                socket.send(payload, 10)
            elif opcode == 2:
                begin = int.from_bytes(payload[1:9], "big")
                assert payload[0] == 1 and offset in (None, begin)
                offset = begin + len(payload) - 9
                checksum = zlib.crc32(memoryview(payload)[9:], checksum)
                size += len(payload) - 9
            elif json.loads(payload)["type"] == "done":
                break
    assert json.loads(payload)["request_id"] == "much"
    assert size == GIGABYTE and checksum == pattern_checksum(GIGABYTE)
    assert python.exec("left")["output_raw"] == "0\n"
    check(watched)


def test_much_output_line_by_line_is_exact(client, memories):
    sandbox, watched = memories
    python = Interpreter(sandbox, "python")
    expected = 96 << 20
    connection = client.connection(120)
    connection.request("POST", f"{python.path}/exec", json.dumps({"data": writing(expected)}),
                       client.headers({"Accept": LINES, "Content-Type": "application/json"}))
    size = checksum = 0
    for line in connection.getresponse():
        event = json.loads(line)
        if event["type"] == "done":
            break
        piece = base64.b64decode(event["data_base64"])
        checksum = zlib.crc32(piece, checksum)
        size += len(piece)
    connection.close()
    assert event["outcome"] == "completed" and event["results"][0]["data"]["text/plain"] == "'end'"
    assert size == expected and checksum == pattern_checksum(expected)
    check(watched)


def test_output_before_the_first_reader_is_not_lost(sandbox):
    size = 9 << 20
    context = sandbox.start(["bash", "-c", f"yes 0123456789abcdef | head -c {size}; echo end >&2"])
    sandbox.run(["sleep", "1"])  # enough for it to run away, if it could
    listed = sandbox.client.expect(200, "GET", f"{sandbox.path}/contexts").data["contexts"]
    assert next(each for each in listed if each["id"] == context["id"])["running"]
    output, ending = sandbox.stream_bytes(context["id"])
    assert len(output) == size and zlib.crc32(output) == pattern_checksum(size)
    assert ending["exit_code"] == 0


def test_timeout_loses_no_output(sandbox):
    python = Interpreter(sandbox, "python")
    done = python.exec("for i in range(300000): print(i)\nwhile True: pass", timeout_ms=8000)
    assert done["outcome"] == "timed_out" and "truncated" not in done
    assert done["stdout"] == "".join(f"{i}\n" for i in range(300000))
    python.delete()


@pytest.mark.parametrize("alias,code,expected", [
    ("python", "import os; os._exit(3)", {"exit_code": 3, "state": "crashed"}),
    ("python", "import ctypes; ctypes.string_at(0)", {"outcome": "killed", "signal": 11}),
    ("python", "import os; os.closerange(3, 4096)", {"running": False}),
    ("bash", "kill -9 $$", {"outcome": "killed", "signal": 9}),
    ("node", "process.abort()", {"outcome": "killed", "signal": 6}),
    ("node", "process.exit(4)", {"exit_code": 4})])
def test_an_interpreter_that_dies_says_how_and_comes_back(sandbox, alias, code, expected):
    context = Interpreter(sandbox, alias)
    done = context.exec(code, timeout_ms=20000)
    assert {key: done[key] for key in expected} == expected, done
    assert done["running"] is False
    again = context.exec({"python": "print('back')", "bash": "echo back",
                          "node": "console.log('back')"}[alias])
    assert again["stdout"] == "back\n" and again["restarted"] is True
    context.delete()


@pytest.mark.parametrize("alias,code,after", [
    ("python", "import os; os.close(3)", "print('fine')"),
    ("python", "import os, sys; os.close(1); os.close(2); os.close(0)", "print('fine')"),
    ("python", "import os; os.mkdir('/tmp/gone'); os.chdir('/tmp/gone'); os.rmdir('/tmp/gone')",
     "import subprocess; print(subprocess.run(['echo', 'fine'], capture_output=True, cwd='/')"
     ".stdout.decode(), end='')"),
    ("bash", "exec 3>&- 4>&-", "echo fine"), ("bash", "exec 0<&-", "echo fine"),
    ("bash", "mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone", "echo fine"),
    ("node", "require('fs').closeSync(0)", "console.log('fine')")])
def test_code_that_saws_at_its_branch(sandbox, alias, code, after):
    context = Interpreter(sandbox, alias)
    context.exec(code)
    done = context.exec(after)
    assert done["stdout"] == "fine\n" and "restarted" not in done, done
    context.delete()


def test_bash_that_closes_its_output_is_heard_after_a_restart(sandbox, client):
    bash = Interpreter(sandbox, "bash")
    bash.exec("exec >&- 2>&-")
    assert bash.exec("true")["exit_code"] == 0
    client.expect(200, "POST", f"{bash.path}/restart")
    assert bash.exec("echo fine")["stdout"] == "fine\n"
    bash.delete()


def test_a_fork_bomb_stays_in_its_sandbox(create):
    sandbox = create()
    witness = Interpreter(sandbox, "python")
    bomb = Interpreter(sandbox, "bash")
    started = bomb.exec("n=0; while n=$((n + 1)) && [ $n -lt 20000 ]; do sleep 1000 & done "
                        "2>/dev/null", timeout_ms=4000)
    assert started["outcome"] in ("completed", "timed_out", "killed")
    assert witness.exec("6 * 7")["output_raw"] == "42\n"
    assert len(sandbox.client.expect(200, "GET", f"{sandbox.path}/contexts").data["contexts"]) == 2
    sandbox.client.expect(200, "POST", f"{bomb.path}/restart")
    assert bomb.exec("echo alive")["stdout"] == "alive\n"
    assert sandbox.out(["echo", "room again"]) == "room again\n"


def test_a_thousand_contexts(server, create):
    sandbox = create()
    client = sandbox.client
    watched = [Memory(server.daemons()["api"]), Memory(min(server.cell_processes(sandbox.id)))]
    made, failures = [], []

    def make(count):
        try:
            for _ in range(count):
                made.append(sandbox.start(["cat"], stdin_open=True)["id"])
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=make, args=(250,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(set(made)) == 1000
    listed = client.expect(200, "GET", f"{sandbox.path}/contexts").data["contexts"]
    assert {each["id"] for each in listed} == set(made) and all(each["running"] for each in listed)
    for each in made[::40]:
        path = f"{sandbox.path}/contexts/{each}"
        client.expect(200, "POST", f"{path}/input", {"data": each, "eof": True})
        output, ending = sandbox.stream_bytes(each)
        assert output.decode() == each and ending["exit_code"] == 0

    def remove(ids):
        for each in ids:
            client.expect(200, "DELETE", f"{sandbox.path}/contexts/{each}")

    threads = [threading.Thread(target=remove, args=(made[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.expect(200, "GET", f"{sandbox.path}/contexts").data["contexts"] == []
    check(watched)


def test_pid_1_has_a_name(server, create):
    sandbox = create()
    with open(f"/proc/{min(server.cell_processes(sandbox.id))}/comm") as file:
        # Behind the dot: how often it was ready for a dump.
        assert file.read() == "atoll-guest.0\n"
