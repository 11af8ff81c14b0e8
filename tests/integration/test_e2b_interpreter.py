"""Port 49999 of a sandbox, as E2B's protocol has it: what no SDK can show.

Behaviour that the SDKs do show is in tests/conformance/e2b. Here are the lines on the wire, errors,
clients that vanish, and that new sandboxes go on with an interpreter that was started beforehand.
"""
import http.client
import json
import socket
import time

import pytest

# Any image with Python will do; this one starts fastest.
TEMPLATE = "base"
SECONDS = 60


class Interpreter:
    def __init__(self, client, answer):
        self.client = client
        self.id = answer["sandboxID"]
        self.token = answer["envdAccessToken"]

    def headers(self, token=True):
        headers = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49999",
                   "Content-Type": "application/json"}
        return {**headers, "X-Access-Token": self.token} if token else headers

    def request(self, method, path, body=None, token=True):
        connection = http.client.HTTPConnection(self.client.host, self.client.port, timeout=SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               self.headers(token))
            response = connection.getresponse()
            return response.status, response.getheader("Content-Type"), response.read().decode()
        finally:
            connection.close()

    def lines(self, code, **fields):
        status, kind, text = self.request("POST", "/execute", {"code": code, **fields})
        assert status == 200 and kind == "application/x-ndjson", (status, text)
        assert text.endswith("\n")
        return [json.loads(line) for line in text.splitlines()]

    def text(self, code, **fields):
        lines = self.lines(code, **fields)
        results = [line for line in lines if line["type"] == "result"]
        assert len(results) == 1, lines
        return results[0]["text"]


@pytest.fixture
def interpreter(client):
    made = []

    def make(**body):
        connection = http.client.HTTPConnection(client.host, client.port, timeout=SECONDS)
        connection.request("POST", "/sandboxes", json.dumps(
            {"templateID": TEMPLATE, "timeout": 300, "secure": True, **body}),
            {"X-API-KEY": client.key, "Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status == 201, text
        made.append(json.loads(text))
        return Interpreter(client, made[-1])
    yield make
    for each in made:
        client.call("DELETE", f"/api/v1/sandboxes/{each['sandboxID']}")


def test_lines_of_an_execution(interpreter):
    python = interpreter()
    assert python.request("GET", "/health")[0] == 200
    lines = python.lines("print('ü'); 1 + 1")
    kinds = [line["type"] for line in lines]
    assert sorted(kinds) == ["end_of_execution", "number_of_executions", "result", "stdout"]
    assert kinds[-1] == "end_of_execution"
    (out,) = (line for line in lines if line["type"] == "stdout")
    assert out["text"] == "ü\n" and abs(out["timestamp"] / 1e9 - time.time()) < 60
    assert {"type": "number_of_executions", "execution_count": 1} in lines
    assert {"type": "result", "text": "2", "is_main_result": True} in lines


def test_errors_are_text(interpreter):
    python = interpreter()
    for expected, method, path, body in (
            (400, "POST", "/execute", {"code": "1", "context_id": "a", "language": "python"}),
            (400, "POST", "/execute", {"code": "1", "language": "no such"}),
            (400, "POST", "/execute", {"language": "python"}),
            (400, "POST", "/execute", {"code": "1", "env_vars": {"A=B": "c"}}),
            (404, "POST", "/execute", {"code": "1", "context_id": "nobody"}),
            (500, "POST", "/execute", {"code": "1", "language": "r"}),
            (404, "DELETE", "/contexts/nobody", None),
            (404, "POST", "/contexts/nobody/restart", None),
            (404, "GET", "/nothing", None)):
        status, kind, text = python.request(method, path, body)
        assert status == expected and kind.startswith("text/plain") and text, (path, status, text)
    assert "r-base-core" in python.request("POST", "/execute", {"code": "1", "language": "r"})[2]
    assert python.request("POST", "/execute", {"code": "1"}, token=False)[0] == 401


def test_commands_are_no_contexts(interpreter):
    """A context of another kind is neither listed nor ended by its id."""
    python = interpreter()
    command = python.client.call("POST", f"/api/v1/sandboxes/{python.id}/contexts", {
        "type": "cmd", "cmd": {"command": ["sleep", "1000"]}})
    assert command.status == 201, command.body
    name = command.data["id"]
    listed = json.loads(python.request("GET", "/contexts")[2])
    assert name not in [each["id"] for each in listed]
    assert [each["id"] for each in listed] == ["default-python", "default-javascript"]
    assert python.request("DELETE", f"/contexts/{name}")[0] == 404


def test_silence_is_broken_by_signs_of_life(interpreter):
    lines = interpreter().lines("import time; time.sleep(6)")
    assert "keepalive" in [line["type"] for line in lines]


def test_a_client_that_vanishes_interrupts(interpreter):
    python = interpreter()
    python.lines("kept = 1")
    body = json.dumps({"code": "open('/tmp/began', 'w').close()\nwhile True: pass"})
    head = "".join(f"{name}: {value}\r\n" for name, value in python.headers().items())
    with socket.create_connection((python.client.host, python.client.port)) as connection:
        connection.sendall(f"POST /execute HTTP/1.1\r\nHost: localhost\r\n{head}"
                           f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        while python.lines("test -e /tmp/began", language="bash")[-2]["type"] == "error":
            time.sleep(0.05)
    assert python.text("kept + 1") == "2", "the state stays"


def test_new_sandboxes_go_on_with_one_that_was_started(interpreter):
    """Interpreters that start by themselves draw their own seed for hashes; copies have the same."""
    seen = []
    deadline = time.monotonic() + SECONDS
    while len(seen) == len(set(seen)):
        assert time.monotonic() < deadline, seen
        seen.append(interpreter().text("hash('seed')"))
    python = interpreter(envVars={"OF_SANDBOX": "yes"})
    assert python.text("hash('seed')") == seen[-1]
    assert python.text("import os; os.environ['OF_SANDBOX'] + os.getcwd()") == "yes/home/user"
    assert python.lines("1")[-2] == {"type": "number_of_executions", "execution_count": 3}
    other = interpreter()
    draw = "import random, uuid; f'{random.random()} {uuid.uuid4()}'"
    assert other.text(draw) != python.text(draw), "what is drawn is each one's own"
    # One that is asked to be otherwise, or whose programs have been replaced, starts by itself.
    assert interpreter(envVars={"PYTHONHASHSEED": "1"}).text("hash('seed')") != seen[-1]
    changed = interpreter()
    changed.lines("sudo touch $(readlink -f $(which python3))", language="bash")
    assert changed.text("hash('seed')") != seen[-1]


def test_it_comes_back_from_memory_on_disk(interpreter):
    """Also one that was started beforehand, which later sandboxes of this file are given."""
    python = interpreter()
    python.lines("kept = 5")
    if not python.client.call("GET", "/metadata").data["capabilities"].get("memory_dump"):
        pytest.skip("this machine keeps no memory on disk")
    path = f"/api/v1/sandboxes/{python.id}"
    paused = python.client.call("POST", f"{path}/pause", {"memory": "disk"}, timeout=SECONDS)
    assert paused.data["memory"] == "disk", paused.body
    assert python.client.call("POST", f"{path}/resume", timeout=SECONDS).status == 200
    assert python.text("kept + 1") == "6"
