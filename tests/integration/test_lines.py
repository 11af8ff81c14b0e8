"""Answers line by line (Accept: application/x-ndjson): commands and code followed as they run."""
import base64
import json

import pytest

LINES = "application/x-ndjson"


def lines_of(client, path, body, headers=None, status=(200, 201)):
    """Yields the lines of one answer as they come."""
    connection = client.connection()
    try:
        connection.request("POST", path, json.dumps(body),
                           client.headers({"Accept": LINES, "Content-Type": "application/json",
                                           **(headers or {})}))
        response = connection.getresponse()
        assert response.status in status, response.read()
        assert response.headers["Content-Type"] == LINES
        for line in response:
            if line.strip():
                yield json.loads(line)
    finally:
        connection.close()


def text_of(events, source="stdout"):
    return b"".join(base64.b64decode(each["data_base64"]) for each in events
                    if each["type"] == "output" and each["source"] == source)


def command(text, **fields):
    return {"type": "cmd", "cmd": {"command": ["bash", "-c", text]}, **fields}


def test_a_command_is_followed_from_its_first_byte(client, sandbox):
    events = list(lines_of(client, f"{sandbox.path}/contexts",
                           command("cat; echo e >&2; exit 3", stdin="in\n")))
    assert events[0]["type"] == "started" and events[0]["context"]["id"].startswith("ctx-")
    assert text_of(events) == b"in\n" and text_of(events, "stderr") == b"e\n"
    assert events[-1]["type"] == "exit" and events[-1]["exit_code"] == 3


def test_much_output_of_a_command_is_complete(client, sandbox):
    # More than the journal keeps: only a reader that was there from the start sees all of it.
    events = lines_of(client, f"{sandbox.path}/contexts",
                      command("head -c 30000000 /dev/zero | tr '\\0' x"))
    size = expected = 0
    for event in events:
        if event["type"] == "output":
            assert event["offset"] == expected
            size += len(base64.b64decode(event["data_base64"]))
            expected = size
    assert size == 30_000_000


def test_a_command_that_cannot_start_is_an_ordinary_error(client, sandbox):
    answer = client.call("POST", f"{sandbox.path}/contexts",
                         {"type": "cmd", "cmd": {"command": ["no-such-program"]}},
                         {"Accept": LINES})
    assert answer.status == 400 and answer.error["details"]["reason"] == "command_not_found"


def test_a_repeated_request_gets_the_context_and_starts_nothing(client, sandbox):
    key = {"Idempotency-Key": "lines-1"}
    body = command("echo once >> /tmp/lines-once; cat /tmp/lines-once")
    first = list(lines_of(client, f"{sandbox.path}/contexts", body, key))
    again = client.expect(201, "POST", f"{sandbox.path}/contexts", body,
                          {**key, "Accept": LINES})
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.data["id"] == first[0]["context"]["id"]
    output, _ = sandbox.stream_bytes(again.data["id"])
    assert output == b"once\n"


@pytest.fixture
def python(client, sandbox):
    context = client.expect(201, "POST", f"{sandbox.path}/contexts",
                            {"type": "repl", "repl": {"alias": "python"}}).data
    yield f"{sandbox.path}/contexts/{context['id']}"
    client.call("DELETE", f"{sandbox.path}/contexts/{context['id']}")


def test_code_is_followed_while_it_runs(client, python):
    code = "import os\nprint('ready', flush=True)\nprint(os.path.exists('/tmp/go'))\n" \
           "import time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.02)\nprint('went')\n6*7"
    events = lines_of(client, f"{python}/exec", {"data": code})
    first = next(events)
    assert base64.b64decode(first["data_base64"]).startswith(b"ready")
    # It has printed and still runs: only now may it end.
    sandbox_path = python.rsplit("/contexts", 1)[0]
    client.expect(200, "POST", f"{sandbox_path}/files?path=/tmp/go", b"1")
    rest = [first, *events]
    assert text_of(rest) == b"ready\nFalse\nwent\n"
    done = rest[-1]
    assert done["type"] == "done" and done["outcome"] == "completed" and "stdout" not in done
    assert done["results"][0]["data"]["text/plain"] == "42"


def test_followed_code_times_out_and_keeps_its_state(client, python):
    events = list(lines_of(client, f"{python}/exec",
                           {"data": "x = 5\nprint('begun')\nwhile True: pass", "timeout_ms": 500}))
    assert text_of(events) == b"begun\n" and events[-1]["outcome"] == "timed_out"
    events = list(lines_of(client, f"{python}/exec", {"data": "x"}))
    assert events[-1]["results"][0]["data"]["text/plain"] == "5"


def test_errors_before_the_first_line_are_ordinary(client, sandbox):
    answer = client.call("POST", f"{sandbox.path}/contexts/ctx-00000000/exec", {"data": "1"},
                         {"Accept": LINES})
    assert answer.status == 404 and answer.error["code"] == "context_not_found"


def test_a_connection_lost_under_a_key_loses_nothing(client, python):
    key = {"Idempotency-Key": "lines-lost"}
    sandbox_path = python.rsplit("/contexts", 1)[0]
    body = {"data": "import os, time\nn = globals().get('n', 0) + 1\nprint('ready', n, flush=True)\n"
                    "while not os.path.exists('/tmp/go-on'): time.sleep(0.02)\nprint('went')\nn"}
    events = lines_of(client, f"{python}/exec", body, key)
    assert next(events)["type"] == "output"
    events.close()
    client.expect(200, "POST", f"{sandbox_path}/files?path=/tmp/go-on", b"1")
    for _ in range(2):
        again = list(lines_of(client, f"{python}/exec", body, key))
        assert text_of(again) == b"ready 1\nwent\n"
        assert again[-1]["type"] == "done" and again[-1]["outcome"] == "completed"
        assert again[-1]["results"][0]["data"]["text/plain"] == "1"


def watch_lines(client, sandbox, query):
    """An open watch: the connection, and its lines as they come."""
    connection = client.connection()
    connection.request("GET", f"{sandbox.path}/files/watch?{query}",
                       headers=client.headers({"Accept": LINES}))
    response = connection.getresponse()
    assert response.status == 200, response.read()
    return connection, (json.loads(line) for line in response if line.strip())


def test_a_watch_without_a_websocket(client, sandbox):
    sandbox.mkdir("/tmp/watched", recursive=True)
    connection, lines = watch_lines(client, sandbox, "path=/tmp/watched&recursive=true")
    try:
        assert next(lines) == {"type": "subscribed", "path": "/tmp/watched"}
        sandbox.mkdir("/tmp/watched/new")
        sandbox.write("/tmp/watched/new/file", "x")
        seen = set()
        while ("create", "/tmp/watched/new/file") not in seen:
            event = next(lines)
            assert event["type"] == "event"
            seen.add((event["event"], event["path"]))
        assert ("create", "/tmp/watched/new") in seen
    finally:
        connection.close()


def test_a_watch_of_nothing_is_an_ordinary_error(client, sandbox):
    answer = client.call("GET", f"{sandbox.path}/files/watch?path=/no/such/place",
                         headers={"Accept": LINES})
    assert answer.status == 404 and answer.error["code"] == "file_not_found"
    answer = client.call("GET", f"{sandbox.path}/files/watch", headers={"Accept": LINES})
    assert answer.status == 400 and "path" in answer.error["message"]


def test_a_watch_ends_with_its_client(client, create):
    sandbox = create()
    for _ in range(40):  # more than one guest would serve at once
        connection, lines = watch_lines(client, sandbox, "path=/tmp")
        assert next(lines)["type"] == "subscribed"
        connection.close()
    assert sandbox.out("echo still here") == "still here\n"


def test_silent_answers_keep_their_connections_alive(client, sandbox):
    """Clients and proxies give up on an answer in which nothing comes for some minutes."""
    context = client.expect(201, "POST", f"{sandbox.path}/contexts", {"type": "repl"}).data
    watching, running = client.connection(), client.connection()
    try:
        watching.request("GET", f"{sandbox.path}/files/watch?path=/usr",
                         headers=client.headers({"Accept": LINES}))
        changes = watching.getresponse()
        assert b"subscribed" in changes.readline()
        running.request("POST", f"{sandbox.path}/contexts/{context['id']}/exec",
                        json.dumps({"data": "import time; time.sleep(7); 5"}),
                        client.headers({"Accept": LINES}))
        lines = list(running.getresponse())
        assert lines[0] == b"\n"
        assert json.loads(lines[-1])["results"][0]["data"]["text/plain"] == "5"
        assert changes.readline() == b"\n"
    finally:
        watching.close()
        running.close()
