"""Port 49983 of a sandbox, as E2B's protocol has it: what no SDK can show.

Behaviour that the SDKs do show is in tests/conformance/e2b. Here are bytes on the wire: the binary
codec, envelopes, errors of streams, connections that break off, signatures, clients that vanish.
"""
import base64
import gzip
import hashlib
import http.client
import json
import os
import struct
import threading
import time
import urllib.parse

import pytest

PROCESS = "/process.Process/"
FILESYSTEM = "/filesystem.Filesystem/"


class Agent:
    """One sandbox, reached by headers."""

    def __init__(self, client, answer):
        self.client = client
        self.id = answer["sandboxID"]
        self.token = answer["envdAccessToken"]

    def headers(self, extra=None, user=None, token=True):
        headers = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983"}
        if token:
            headers["X-Access-Token"] = self.token
        if user:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        headers.update(extra or {})
        return headers

    def request(self, method, path, body=None, headers=None, user=None, token=True):
        connection = http.client.HTTPConnection(self.client.host, self.client.port, timeout=60)
        try:
            connection.request(method, path, body, self.headers(headers, user, token))
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def unary(self, path, body=None, user=None, **headers):
        status, _, answer = self.request("POST", path, json.dumps(body or {}), {
            "Content-Type": "application/json", "Connect-Protocol-Version": "1", **headers}, user)
        return status, json.loads(answer)

    def stream(self, path, message, headers=None, user=None,
               content_type="application/connect+json"):
        """The answer of a streaming call, still open."""
        if not isinstance(message, bytes):
            message = json.dumps(message).encode()
        connection = http.client.HTTPConnection(self.client.host, self.client.port, timeout=60)
        connection.request("POST", path, envelope(message), self.headers({
            "Content-Type": content_type, "Connect-Protocol-Version": "1", **(headers or {})}, user))
        return Stream(connection)

    def command(self, script, **extra):
        headers = extra.pop("headers", None)
        user = extra.pop("user", None)
        config = {"cmd": "/bin/bash", "args": ["-l", "-c", script]}
        config.update(extra.pop("config", {}))
        return self.stream(PROCESS + "Start", {"process": config, **extra}, headers, user)

    def run(self, script, **extra):
        """The events of a command and how its stream ended."""
        with self.command(script, **extra) as stream:
            return stream.rest()

    def out(self, script, **extra):
        events, end = self.run(script, **extra)
        assert end == {}, end
        return b"".join(base64.b64decode(event["data"]["stdout"]) for event in events
                        if "stdout" in event.get("data", {})).decode()


class Stream:
    def __init__(self, connection):
        self.connection = connection
        self.response = connection.getresponse()
        self.status = self.response.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def next(self):
        """(flags, bytes); None when the connection ended cleanly."""
        head = self.response.read(5)
        if not head:
            return None
        flags, size = struct.unpack(">BI", head)
        return flags, self.response.read(size)

    def event(self):
        flags, message = self.next()
        assert flags == 0, message
        return json.loads(message)["event"]

    def rest(self):
        events = []
        while True:
            flags, message = self.next()
            if flags == 2:
                assert self.next() is None
                return events, json.loads(message)
            events.append(json.loads(message)["event"])


def envelope(message, flags=0):
    return struct.pack(">BI", flags, len(message)) + message


def control(client, method, path, body=None):
    connection = client.connection()
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"X-API-KEY": client.key, "Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def create_agent(client):
    made = []

    def make(**body):
        status, answer = control(client, "POST", "/sandboxes", {
            "templateID": "base", "timeout": 300, "secure": True, **body})
        assert status == 201, answer
        agent = Agent(client, json.loads(answer))
        made.append(agent)
        return agent

    yield make
    for agent in made:
        control(client, "DELETE", f"/sandboxes/{agent.id}")


@pytest.fixture(scope="module")
def agent(create_agent):
    return create_agent(envVars={"OF_SANDBOX": "1"})


# --- processes -------------------------------------------------------------------------------


def test_events_of_a_command(agent):
    events, end = agent.run("echo out; sleep 0.2; echo err >&2; exit 3")
    assert end == {}
    assert list(events[0]) == ["start"] and events[0]["start"]["pid"] > 1
    assert events[1] == {"data": {"stdout": base64.b64encode(b"out\n").decode()}}
    assert events[2] == {"data": {"stderr": base64.b64encode(b"err\n").decode()}}
    assert events[3] == {"end": {"exitCode": 3, "exited": True, "status": "exit status 3",
                                 "error": "exit status 3"}}


def test_exit_texts(agent):
    assert agent.run("true")[0][-1]["end"] == {
        "exitCode": 0, "exited": True, "status": "exit status 0"}
    assert agent.run("kill -9 $$")[0][-1]["end"] == {
        "exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"}
    assert agent.run("kill -SEGV $$")[0][-1]["end"]["status"] == "signal: segmentation fault"


def test_environment_and_directory(agent):
    out = agent.out("echo $OF_SANDBOX $OWN $USER $HOME $PWD $E2B_SANDBOX $E2B_SANDBOX_ID",
                    config={"envs": {"OWN": "2"}})
    assert out == f"1 2 user /home/user /home/user true {agent.id}\n"
    assert agent.out("echo $USER $PWD $OF_SANDBOX", user="root", config={
        "envs": {"OF_SANDBOX": "mine"}}) == "root /root mine\n"
    assert agent.out("pwd", config={"cwd": "/tmp"}) == "/tmp\n"
    agent.out("mkdir -p below")
    assert agent.out("pwd", config={"cwd": "below"}) == "/home/user/below\n"
    assert agent.out("pwd", config={"cwd": "~/below"}) == "/home/user/below\n"


def test_marker_files(agent):
    assert agent.out("cat /run/e2b/.E2B_SANDBOX_ID") == agent.id
    assert agent.out("cat /run/e2b/.E2B_SANDBOX") == "true"


def test_errors_of_streams_are_in_the_last_envelope(agent):
    for request, code, text in (
            ({"process": {"cmd": "/bin/bash", "cwd": "/not/there"}}, "invalid_argument",
             "cwd '/not/there' does not exist"),
            ({"process": {}}, "invalid_argument", None),
            ({"process": {"cmd": 1}}, "invalid_argument", None)):
        with agent.stream(PROCESS + "Start", request) as stream:
            assert stream.status == 200
            events, end = stream.rest()
            assert events == [] and end["error"]["code"] == code
            assert text in (None, end["error"]["message"])
    with agent.stream(PROCESS + "Start", {"process": {"cmd": "true"}},
                      user="nobody-at-all") as stream:
        assert stream.rest() == ([], {"error": {"code": "unauthenticated",
                                                "message": "invalid username: 'nobody-at-all'"}})
    with agent.stream(PROCESS + "Connect", {"process": {"pid": 999999}}) as stream:
        assert stream.rest()[1]["error"]["code"] == "not_found"
    with agent.stream(PROCESS + "Start", {"process": {"cmd": "true"}},
                      headers={"X-Access-Token": "wrong"}) as stream:
        assert (stream.status, stream.rest()[1]["error"]["code"]) == (200, "unauthenticated")


def test_unary_errors_have_a_status(agent):
    assert agent.unary(PROCESS + "SendSignal", {"process": {"pid": 999999}, "signal": 9}) == (
        404, {"code": "not_found", "message": "process with pid 999999 not found"})
    assert agent.unary(PROCESS + "Nothing")[0] == 501
    status, _, body = agent.request(
        "POST", FILESYSTEM + "Stat", gzip.compress(b'{"path":"/etc"}'),
        {"Content-Type": "application/json", "Content-Encoding": "gzip"})
    assert status == 200, body
    assert agent.unary(FILESYSTEM + "Stat", {"path": 1})[0] == 400
    assert agent.unary(FILESYSTEM + "Stat", {"path": "/x"}, user="nobody-at-all") == (
        401, {"code": "unauthenticated", "message": "invalid username: 'nobody-at-all'"})
    assert agent.unary(PROCESS + "List", **{"X-Access-Token": "wrong"})[0] == 401
    status, _, _ = agent.request("POST", PROCESS + "List", "{}", {"Content-Type": "text/plain"})
    assert status == 415


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def test_binary_codec(agent):
    request = field(1, field(1, b"/bin/echo") + field(2, b"binary") + field(3, field(1, b"A") +
                                                                            field(2, b"b")))
    with agent.stream(PROCESS + "Start", request,
                      content_type="application/connect+proto") as stream:
        assert stream.response.headers["Content-Type"] == "application/connect+proto"
        flags, start = stream.next()
        assert flags == 0 and start[:2] == b"\x0a" + bytes([len(start) - 2])
        flags, data = stream.next()
        assert (flags, data) == (0, field(1, field(2, field(1, b"binary\n"))))
        flags, end = stream.next()
        assert (flags, end) == (0, field(1, field(3, b"\x08\x00\x10\x01" +
                                                  field(3, b"exit status 0"))))
        assert stream.next() == (2, b"{}")
    status, headers, body = agent.request("POST", FILESYSTEM + "Stat", field(1, b"/etc"),
                                          {"Content-Type": "application/proto"})
    assert (status, headers["Content-Type"]) == (200, "application/proto")
    assert field(1, b"etc") in body and field(6, b"drwxr-xr-x") in body
    status, headers, body = agent.request("POST", FILESYSTEM + "Stat", field(1, b"/not/there"),
                                          {"Content-Type": "application/proto"})
    assert status == 404 and json.loads(body)["code"] == "not_found"


def test_stream_input(agent):
    with agent.command("cat") as stream:
        pid = stream.event()["start"]["pid"]
        messages = [{"start": {"process": {"pid": pid}}},
                    {"data": {"input": {"stdin": base64.b64encode(b"one ").decode()}}},
                    {"keepalive": {}},
                    {"data": {"input": {"stdin": base64.b64encode(b"two").decode()}}}]
        body = b"".join(envelope(json.dumps(message).encode()) for message in messages)
        status, _, answer = agent.request("POST", PROCESS + "StreamInput", body,
                                          {"Content-Type": "application/connect+json"})
        assert (status, answer) == (200, envelope(b"{}") + envelope(b"{}", 2))
        assert agent.unary(PROCESS + "CloseStdin", {"process": {"pid": pid}}) == (200, {})
        events, _ = stream.rest()
        assert b"".join(base64.b64decode(event["data"]["stdout"])
                        for event in events[:-1]) == b"one two"


def test_keepalives_come_when_nothing_else_does(agent):
    events, _ = agent.run("sleep 2.5", headers={"Keepalive-Ping-Interval": "1"})
    assert events.count({"keepalive": {}}) in (1, 2)


def test_deadline_kills_even_when_the_client_vanished(agent):
    with agent.command("sleep 300", tag="vanished",
                       headers={"Connect-Timeout-Ms": "1500"}) as stream:
        pid = stream.event()["start"]["pid"]
    # The connection is gone and the process lives on, until its time is up.
    assert [each["pid"] for each in agent.unary(PROCESS + "List")[1]["processes"]
            if each.get("tag") == "vanished"] == [pid]
    deadline = time.monotonic() + 30
    while agent.unary(PROCESS + "List")[1].get("processes"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    events, end = agent.run("sleep 300", headers={"Connect-Timeout-Ms": "300"})
    assert [*events[0]] == ["start"] and end["error"]["code"] == "deadline_exceeded"


def test_subscribers_get_the_same_and_nothing_twice(agent):
    with agent.command("echo early; read line; echo $line; exit 4") as first:
        pid = first.event()["start"]["pid"]
        assert first.event()["data"]
        with agent.stream(PROCESS + "Connect", {"process": {"pid": pid}}) as second:
            assert second.event() == {"start": {"pid": pid}}
            agent.unary(PROCESS + "SendInput", {
                "process": {"pid": pid}, "input": {"stdin": base64.b64encode(b"late\n").decode()}})
            late = {"data": {"stdout": base64.b64encode(b"late\n").decode()}}
            for stream in (first, second):
                events, end = stream.rest()
                assert events[0] == late and events[1]["end"]["exitCode"] == 4 and end == {}
    # The end is remembered for those who come late.
    with agent.stream(PROCESS + "Connect", {"process": {"pid": pid}}) as third:
        events, end = third.rest()
        assert [[*event] for event in events] == [["start"], ["end"]]
        assert events[1]["end"]["exitCode"] == 4
    assert agent.unary(PROCESS + "SendSignal", {"process": {"pid": pid}, "signal": 9})[0] == 404


def test_a_sandbox_that_dies_breaks_the_connection(create_agent, client):
    agent = create_agent()
    with agent.command("sleep 300") as stream:
        stream.event()
        killer = threading.Thread(target=control,
                                  args=(client, "DELETE", f"/sandboxes/{agent.id}"))
        killer.start()
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            while stream.next() is not None:
                pass
        killer.join()
    assert agent.request("GET", "/health")[0] == 502
    assert agent.request("POST", PROCESS + "List", "{}",
                         {"Content-Type": "application/json"})[0] == 502


# --- files over HTTP -------------------------------------------------------------------------


def file_url(path=None, **query):
    if path is not None:
        query["path"] = path
    return "/files?" + urllib.parse.urlencode(query)


def put(agent, path, content, headers=None, **query):
    return agent.request("POST", file_url(path, **query), content,
                         {"Content-Type": "application/octet-stream", **(headers or {})})


def test_contents_both_ways(agent):
    content = os.urandom(300_000)
    status, _, body = put(agent, "deep/new/file.bin", content, {"X-Metadata-Author": "me"})
    assert status == 200, body
    assert json.loads(body) == [{"path": "/home/user/deep/new/file.bin", "name": "file.bin",
                                 "type": "file", "metadata": {"author": "me"}}]
    status, headers, body = agent.request("GET", file_url("~/deep/new/file.bin"))
    assert (status, body) == (200, content)
    assert headers["Content-Disposition"] == "inline; filename=file.bin"
    status, headers, body = agent.request("GET", file_url("deep/new/file.bin"),
                                          headers={"Range": "bytes=10-19"})
    assert (status, body) == (206, content[10:20])
    status, _, body = agent.request("GET", file_url("deep/new/file.bin"),
                                    headers={"If-None-Match": headers["ETag"]})
    assert (status, body) == (304, b"")
    assert agent.out("stat -c '%U:%G %a' deep/new/file.bin deep") == (
        "user:user 644\nuser:user 755\n")
    assert agent.out("python3 -c 'import os; print(os.getxattr(\"deep/new/file.bin\", "
                     "\"user.e2b.author\"))'") == "b'me'\n"


def test_gzip_both_ways(agent):
    content = b"again and again " * 50_000
    assert put(agent, "/tmp/z", gzip.compress(content), {"Content-Encoding": "gzip"})[0] == 200
    status, headers, body = agent.request("GET", file_url("/tmp/z"),
                                          headers={"Accept-Encoding": "gzip"})
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert len(body) < len(content) / 10 and gzip.decompress(body) == content
    status, headers, body = agent.request("GET", file_url("/tmp/z"),
                                          headers={"Accept-Encoding": "gzip, deflate"})
    assert body == content
    assert put(agent, "/tmp/z", b"no gzip", {"Content-Encoding": "gzip"})[0] == 400
    assert agent.request("GET", file_url("/tmp/z"))[2] == content


def multipart(*files):
    parts = b"".join(
        f'--xyz\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n"
        for name, content in files)
    return parts + b"--xyz--\r\n", {"Content-Type": "multipart/form-data; boundary=xyz"}


def test_multipart_with_several_files(agent):
    body, headers = multipart(("/tmp/one", b"1"), ("two", b"\r\n--xy\r\n"))
    status, _, answer = agent.request("POST", "/files", body, headers)
    assert status == 200, answer
    assert [each["path"] for each in json.loads(answer)] == ["/tmp/one", "/home/user/two"]
    assert agent.request("GET", file_url("two"))[2] == b"\r\n--xy\r\n"
    body, headers = multipart(("a", b"1"), ("a", b"2"))
    assert agent.request("POST", "/files", body, headers)[0] == 400
    body, headers = multipart(("a", b"1"), ("b", b"2"))
    assert agent.request("POST", file_url("/tmp/same"), body, headers)[0] == 400
    body, headers = multipart(("a", b"cut short"))
    assert agent.request("POST", file_url("/tmp/cut"), body[:-10], headers)[0] == 400
    assert agent.request("GET", file_url("/tmp/cut"))[0] == 404


def test_errors_of_files(agent):
    for path, status, text in (("/not/there", 404, "path '/not/there' does not exist"),
                               ("/etc", 400, "path '/etc' is a directory")):
        answer = agent.request("GET", file_url(path))
        assert answer[0] == status
        assert json.loads(answer[2]) == {"code": status, "message": text}
    answer = agent.request("GET", file_url("/etc/passwd", username="nobody-at-all"))
    assert answer[0] == 401 and "nobody-at-all" in json.loads(answer[2])["message"]
    assert put(agent, "/etc", b"")[0] == 400
    status, _, body = agent.request("GET", file_url("/proc/self/status"))
    assert status == 200 and body.startswith(b"Name:")


def test_only_the_agents_own_routes(agent):
    assert agent.request("GET", "/health", token=False)[0] == 204
    for path in ("/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"):
        assert agent.request("POST", path)[0] == 404
        assert agent.request("POST", path, token=False)[0] in (401, 404)
    assert agent.request("GET", "/envs", token=False)[0] == 401
    assert json.loads(agent.request("GET", "/envs")[2])["OF_SANDBOX"] == "1"
    metrics = json.loads(agent.request("GET", "/metrics")[2])
    assert metrics["cpu_count"] >= 1 and metrics["mem_total"] > 0


def test_compose(agent):
    assert put(agent, "/tmp/part1", b"one ")[0] == put(agent, "/tmp/part2", b"two")[0] == 200
    status, _, body = agent.request("POST", "/files/compose", json.dumps(
        {"source_paths": ["/tmp/part1", "/tmp/part2"], "destination": "whole"}),
        {"Content-Type": "application/json"})
    assert status == 200, body
    assert agent.request("GET", file_url("whole"))[2] == b"one two"
    assert agent.request("GET", file_url("/tmp/part1"))[0] == 404


def sign(agent, path, operation, user="", expiration=None):
    text = f"{path}:{operation}:{user}:{agent.token}"
    if expiration is not None:
        text += f":{expiration}"
    digest = hashlib.sha256(text.encode()).digest()
    return "v1_" + base64.b64encode(digest).decode().rstrip("=")


def test_signatures(agent):
    assert agent.request("GET", file_url("/etc/hostname"), token=False)[0] == 401
    good = sign(agent, "/tmp/signed", "write")
    assert agent.request("POST", file_url("/tmp/signed", signature=good), b"x",
                         {"Content-Type": "application/octet-stream"}, token=False)[0] == 200
    # Another operation, path or user is not what was signed.
    for query in ({"path": "/tmp/signed", "signature": good},
                  {"path": "/etc/passwd", "signature": sign(agent, "/tmp/signed", "read")},
                  {"path": "/tmp/signed", "username": "root",
                   "signature": sign(agent, "/tmp/signed", "read")}):
        assert agent.request("GET", file_url(**query), token=False)[0] == 401
    # Who has a link does not choose for whom it is.
    link = file_url("of-whom", signature=sign(agent, "of-whom", "write"))
    root = {"Authorization": "Basic " + base64.b64encode(b"root:").decode()}
    status, _, body = agent.request("POST", link, b"x", root | {
        "Content-Type": "application/octet-stream"}, token=False)
    assert (status, json.loads(body)[0]["path"]) == (200, "/home/user/of-whom")
    later, earlier = int(time.time()) + 60, int(time.time()) - 60
    for expiration, status in ((later, 200), (earlier, 401)):
        answer = agent.request("GET", file_url(
            "/tmp/signed", signature=sign(agent, "/tmp/signed", "read", expiration=expiration),
            signature_expiration=expiration), token=False)
        assert answer[0] == status
    assert json.loads(answer[2])["message"] == "signature is already expired"


# --- names of files --------------------------------------------------------------------------


def test_entries(agent):
    put(agent, "/tmp/entries/file", b"12345", {"X-Metadata-A": "b"})
    agent.out("cd /tmp/entries && mkdir -p sub/below && ln -s sub link && chmod 1750 sub")
    status, answer = agent.unary(FILESYSTEM + "Stat", {"path": "/tmp/entries/file"})
    entry = answer["entry"]
    assert status == 200 and entry.pop("modifiedTime").endswith("Z")
    assert entry == {"name": "file", "type": "FILE_TYPE_FILE", "path": "/tmp/entries/file",
                     "size": "5", "mode": 0o644, "permissions": "-rw-r--r--", "owner": "user",
                     "group": "user", "metadata": {"a": "b"}}
    link = agent.unary(FILESYSTEM + "Stat", {"path": "/tmp/entries/link"})[1]["entry"]
    assert (link["type"], link["symlinkTarget"], link["permissions"]) == (
        "FILE_TYPE_DIRECTORY", "/tmp/entries/sub", "Lrwxrwxrwx")

    def paths(**request):
        status, answer = agent.unary(FILESYSTEM + "ListDir", request)
        assert status == 200, answer
        return sorted(entry["path"] for entry in answer["entries"])

    top = [f"/tmp/entries/{name}" for name in ("file", "link", "sub")]
    assert paths(path="/tmp/entries") == paths(path="/tmp/entries", depth=0) == top
    assert paths(path="/tmp/entries", depth=2) == top + ["/tmp/entries/sub/below"]
    assert paths(path="/tmp/entries/link") == ["/tmp/entries/link/below"]
    assert agent.unary(FILESYSTEM + "ListDir", {"path": "/tmp/entries/sub/below"}) == (
        200, {"entries": []})
    assert agent.unary(FILESYSTEM + "ListDir", {"path": "/tmp/entries/file"})[0] == 400
    assert agent.unary(FILESYSTEM + "ListDir", {"path": "/not/there"})[0] == 404


def test_directories_moves_and_removals(agent):
    status, answer = agent.unary(FILESYSTEM + "MakeDir", {"path": "made/deep"})
    assert (status, answer["entry"]["path"]) == (200, "/home/user/made/deep")
    assert agent.unary(FILESYSTEM + "MakeDir", {"path": "made/deep"})[1]["code"] == "already_exists"
    assert agent.unary(FILESYSTEM + "MakeDir", {"path": "/etc/passwd"})[0] == 400
    status, answer = agent.unary(FILESYSTEM + "Move", {"source": "made", "destination": "x/moved"})
    assert (status, answer["entry"]["path"]) == (200, "/home/user/x/moved")
    assert agent.unary(FILESYSTEM + "Move", {"source": "made", "destination": "y"})[0] == 404
    for _ in range(2):
        assert agent.unary(FILESYSTEM + "Remove", {"path": "x"}) == (200, {})
    assert agent.unary(FILESYSTEM + "Stat", {"path": "x"})[0] == 404


def test_watches_that_are_polled(agent, create_agent):
    agent.out("mkdir -p /tmp/polled")
    status, answer = agent.unary(FILESYSTEM + "CreateWatcher", {
        "path": "/tmp/polled", "recursive": True, "includeEntry": True})
    assert status == 200, answer
    watcher = {"watcherId": answer["watcherId"]}
    put(agent, "/tmp/polled/sub/file", b"123")
    seen = {}
    deadline = time.monotonic() + 30
    while "sub/file" not in seen:
        assert time.monotonic() < deadline, seen
        for event in agent.unary(FILESYSTEM + "GetWatcherEvents", watcher)[1].get("events", []):
            seen[event["name"]] = event
    assert seen["sub/file"]["entry"]["size"] == "3"
    # It is this sandbox's own.
    other = create_agent()
    assert other.unary(FILESYSTEM + "GetWatcherEvents", watcher)[0] == 404
    assert agent.unary(FILESYSTEM + "RemoveWatcher", watcher) == (200, {})
    assert agent.unary(FILESYSTEM + "GetWatcherEvents", watcher)[0] == 404
    assert agent.unary(FILESYSTEM + "CreateWatcher", {"path": "/etc/passwd"})[0] == 400
