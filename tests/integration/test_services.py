"""Services: what comes in to a sandbox, by real clients, to real servers inside."""
import asyncio
import concurrent.futures
import hashlib
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import time

import h2.events
import pytest
import websockets

from harness.command import Command
from harness.http2 import Http2
from harness.server import BIN_DIR, Server, wait_until

DOMAIN = "apps.test"
PROGRAM = pathlib.Path(__file__).with_name("service_server.py").read_text()


@pytest.fixture(scope="module")
def served():
    with Server(extra=["--domain", DOMAIN]) as running:
        yield running


@pytest.fixture
def make(served):
    made = []

    def create(**options):
        sandbox = served.client.create(**options)
        made.append(sandbox)
        return sandbox

    yield create
    for sandbox in made:
        served.client.call("DELETE", sandbox.path)


@pytest.fixture(scope="module")
def web(served):
    """One sandbox with the server on 127.0.0.1:8000, public."""
    yield from make_web(served)


@pytest.fixture(scope="module")
def plain():
    """A server without a domain: its services are below its path."""
    with Server() as running:
        yield running


@pytest.fixture(scope="module")
def plain_web(plain):
    yield from make_web(plain)


def make_web(served):
    sandbox = served.client.create()
    start_server(sandbox, 8000)
    put(sandbox, {"id": "web", "port": 8000, "ingress": {"public": True}})
    yield sandbox
    served.client.call("DELETE", sandbox.path)


def start_server(sandbox, port, address="127.0.0.1"):
    sandbox.write("/tmp/server.py", PROGRAM)
    context = sandbox.start(["python3", "/tmp/server.py", str(port), address])
    for event in sandbox.stream(context["id"]):
        assert event["type"] == "output", event
        return context


def put(sandbox, *services):
    return sandbox.client.expect(200, "PUT", f"{sandbox.path}/services",
                                 {"services": list(services)}).data


def service(port=8000, runtime=None, **route):
    body = {"id": "web", "port": port,
            "ingress": {"public": True, "routes": [{"id": "all", **route}]}}
    if runtime:
        body["runtime"] = runtime
    return body


class Visitor:
    """A client of a service, at its own host or below the path of the server."""

    def __init__(self, served, sandbox, port=8000, form="{id}--p{port}"):
        self.served = served
        self.by_path = form is None
        self.host = "x" if form is None else (
            form.format(id=sandbox.id, port=port) + f".{DOMAIN}:{served.port}")
        self.prefix = f"/s/{sandbox.id}/{port}" if form is None else ""

    def connection(self):
        return http.client.HTTPConnection(self.served.host, self.served.port, timeout=60)

    def call(self, method="GET", path="/", body=None, headers=None):
        connection = self.connection()
        headers = dict(headers or {})
        if not self.by_path:
            headers.setdefault("Host", self.host)
        try:
            connection.request(method, self.prefix + path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused while we were still sending: the answer is waiting
        answer = connection.getresponse()
        answer.content = answer.read()
        connection.close()
        return answer

    def see(self, *arguments, **options):
        answer = self.call(*arguments, **options)
        assert answer.status == 200, (answer.status, answer.content)
        return json.loads(answer.content)

    def raw(self, text):
        """Sends bytes as they are; everything that comes until the end."""
        with socket.create_connection((self.served.host, self.served.port), timeout=60) as peer:
            peer.sendall(text.replace(b"HOST", self.host.encode()))
            peer.shutdown(socket.SHUT_WR)
            received = b""
            while piece := peer.recv(65536):
                received += piece
            return received


@pytest.fixture(params=["{id}--p{port}", "{port}-{id}", None], ids=["label", "e2b", "path"])
def visitor(request):
    names = ("served", "web") if request.param else ("plain", "plain_web")
    return Visitor(*map(request.getfixturevalue, names), form=request.param)


# Where services are ------------------------------------------------------------------------------
def test_reaches_loopback_only_servers_under_every_name(visitor):
    seen = visitor.see("GET", "/a/b?q=1&r=%20")
    assert (seen["method"], seen["path"], seen["peer"]) == ("GET", "/a/b?q=1&r=%20", "127.0.0.1")
    fields = {name.lower(): value for name, value in seen["headers"]}
    assert fields["x-forwarded-for"] == "127.0.0.1"
    assert fields["x-forwarded-proto"] == "http"
    assert fields.get("x-forwarded-prefix") == (visitor.prefix or None)
    assert "connection" not in fields


def test_reaches_servers_on_ipv6_loopback(served, make):
    sandbox = make()
    start_server(sandbox, 8001, "::1")
    put(sandbox, service(8001))
    assert Visitor(served, sandbox, 8001).see()["peer"] == "::1"


def test_only_what_is_public_exists(served, make, web):
    other = make()
    start_server(other, 8000)
    nothing = Visitor(served, web, 9).call()
    answers = [Visitor(served, other).call(), Visitor(served, web, 8001).call(), nothing]
    put(other, {"id": "web", "port": 8000, "ingress": {"public": False}})
    answers.append(Visitor(served, other).call())
    assert {(a.status, a.content) for a in answers} == {(404, nothing.content)}
    for host in (f"rs-none--p80.{DOMAIN}", f"{web.id}.{DOMAIN}", f"{web.id}--p08000.{DOMAIN}",
                 f"{web.id}--p99999.{DOMAIN}", f"a.{web.id}--p8000.{DOMAIN}", f"www.{DOMAIN}"):
        answer = Visitor(served, web).call(headers={"Host": host})
        assert (answer.status, answer.content) == (404, nothing.content), host
    # The API is still itself, also under the name of the domain.
    assert Visitor(served, web).call("GET", "/healthz", headers={"Host": DOMAIN}).status == 200


def test_path_form_leads_to_the_slash_and_puts_its_prefix_back(plain, plain_web, served, web):
    visitor = Visitor(plain, plain_web, form=None)
    answer = visitor.call("GET", "?x=1")
    assert (answer.status, answer.headers["location"]) == (308, f"{visitor.prefix}/?x=1")
    answer = visitor.call("GET", "/fields")
    assert answer.headers["location"] == f"{visitor.prefix}/there"
    assert answer.headers.get_all("set-cookie") == [
        f"a=b; HttpOnly; Path={visitor.prefix}", f"c=d; Path={visitor.prefix}"]
    assert answer.headers["service-worker-allowed"] is None
    answer = Visitor(served, web).call("GET", "/fields")
    assert answer.headers["location"] == "/there"
    assert answer.headers["x-frame-options"] == "DENY"
    # With hosts of their own no service is in the origin of the API.
    assert Visitor(served, web, form=None).call().status == 404


# What passes -------------------------------------------------------------------------------------
def test_bodies_are_streamed_both_ways(served, web):
    visitor = Visitor(served, web)
    body = bytes(range(256)) * 4096 * 24  # 24 MiB
    digest = hashlib.sha256(body).hexdigest()
    assert visitor.see("POST", "/up", body)["sha256"] == digest
    pieces = (body[at:at + 70_000] for at in range(0, len(body), 70_000))
    seen = visitor.see("PUT", "/up", pieces)
    assert (seen["sha256"], seen["bytes"]) == (digest, len(body))
    answer = visitor.call("GET", "/big?n=64")
    assert len(answer.content) == 64 << 20 and answer.content[-1] == 63
    head = visitor.call("HEAD", "/big?n=3")
    assert (head.headers["content-length"], head.content) == (str(3 << 20), b"")


def test_events_arrive_one_by_one(served, web):
    visitor = Visitor(served, web)
    connection = visitor.connection()
    connection.request("GET", "/events", headers={"Host": visitor.host})
    answer = connection.getresponse()
    for number in range(3):
        # The next one is only sent when this one was seen.
        assert answer.readline() == b"data: %d\n" % number
        assert answer.readline() == b"\n"
        visitor.call("GET", "/next")
    assert answer.read() == b""
    connection.close()


def test_connections_to_the_service_are_used_again(served, web):
    visitor = Visitor(served, web)
    assert len({visitor.see()["connection"] for _ in range(5)}) == 1
    # A service that closes them is asked again on another.
    assert visitor.call("GET", "/close").status == 502
    assert visitor.see()["method"] == "GET"


def test_http2_clients_reach_services(served, web):
    host = f"{web.id}--p8000.{DOMAIN}"
    for method, data in (("GET", []), ("POST", ["--data-binary", "hello"])):
        done = subprocess.run(
            ["curl", "-sS", "--http2-prior-knowledge", "-w", "\n%{http_version} %{http_code}",
             "--resolve", f"{host}:{served.port}:{served.host}", "-X", method, *data,
             f"http://{host}:{served.port}/h2"], capture_output=True, text=True, timeout=60)
        body, status = done.stdout.rsplit("\n", 1)
        assert status == "2 200", done
        assert json.loads(body)["method"] == method


@pytest.mark.parametrize("subprotocols", [None, ["chat", "other"]])
def test_websockets_pass(served, web, subprotocols):
    host = f"{web.id}--p8000.{DOMAIN}"

    async def talk():
        async with websockets.connect(f"ws://{host}:{served.port}/socket", host=served.host,
                                      port=served.port, max_size=None,
                                      subprotocols=subprotocols) as peer:
            for message in ("hello", b"\0\1\2", "x" * 100_000, b"y" * 1_000_000, ""):
                await peer.send(message)
                assert await peer.recv() == message
            assert peer.subprotocol == (subprotocols[0] if subprotocols else None)
        assert peer.close_code == 1000

    asyncio.run(asyncio.wait_for(talk(), 60))


def test_a_websocket_message_beyond_the_limit_ends_it(served, web):
    async def talk():
        async with websockets.connect(f"ws://{web.id}--p8000.{DOMAIN}:{served.port}/socket",
                                      host=served.host, port=served.port) as peer:
            await peer.send(b"y" * ((1 << 20) + 1))
            with pytest.raises(websockets.ConnectionClosed):
                await peer.recv()
        assert peer.close_code == 1009

    asyncio.run(asyncio.wait_for(talk(), 60))


def test_websockets_of_http2_clients_pass(served, web):
    with Http2(served.host, served.port, "none") as peer:
        peer.authority = f"{web.id}--p8000.{DOMAIN}"
        stream = peer.request("CONNECT", "/socket", end=False, headers=[
            (":protocol", "websocket"), ("sec-websocket-version", "13")])
        peer.send(stream, b"\x81\x85\0\0\0\0hello")  # masked with zeros
        received = b""
        while b"hello" not in received:
            received += peer.wait_for(h2.events.DataReceived, stream).data
        assert received == b"\x81\x05hello"


def test_a_service_that_wants_no_websocket_says_so(served, web):
    answer = Visitor(served, web).call("GET", "/plain", headers={
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert answer.status == 200 and json.loads(answer.content)["path"] == "/plain"


# Rules of routes ---------------------------------------------------------------------------------
def test_longest_prefix_methods_and_rewriting(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    routes = [{"id": "api", "path_prefix": "/api", "methods": ["GET"]},
              {"id": "deep", "path_prefix": "/api/v2/", "rewrite_prefix": "/new"},
              {"id": "root", "path_prefix": "/site", "rewrite_prefix": "/"}]
    put(sandbox, {"id": "web", "port": 8000, "ingress": {"public": True, "routes": routes}})
    visitor = Visitor(served, sandbox)
    assert visitor.see("GET", "/api/x")["path"] == "/api/x"
    assert visitor.see("POST", "/api/v2/y?z=1")["path"] == "/new/y?z=1"
    assert visitor.see("GET", "/site/page")["path"] == "/page"
    assert visitor.see("GET", "/site")["path"] == "/"
    refused = visitor.call("POST", "/api/x")
    assert (refused.status, refused.headers["allow"]) == (405, "GET")
    for path in ("/", "/apix", "/other"):
        assert visitor.call("GET", path).status == 404, path
    # What a server might read as another route's path is refused.
    for path in ("/site/../api/x", "/site/%2e%2e/api/v2/y", "/api%2fv2", "//api/x"):
        assert visitor.call("GET", path).status == 400, path


def test_credentials_are_asked_for_and_stay_with_us(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    digest = hashlib.sha256(b"s3cret").hexdigest()
    visitor = Visitor(served, sandbox)
    put(sandbox, service(auth={"mode": "bearer", "bearer_token_sha256": digest}))
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"},
                    {"Authorization": f"Bearer {digest}"}):
        answer = visitor.call(headers=headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    seen = visitor.see(headers={"Authorization": "Bearer s3cret"})
    assert "s3cret" not in json.dumps(seen)
    put(sandbox, service(auth={"mode": "header", "header_name": "X-Key",
                               "header_value_sha256": digest}))
    assert visitor.call(headers={"Authorization": "Bearer s3cret"}).status == 401
    assert "s3cret" not in json.dumps(visitor.see(headers={"X-Key": "s3cret"}))
    assert "s3cret" not in served.log(1 << 20)


def test_cross_origin_rules(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    digest = hashlib.sha256(b"s3cret").hexdigest()
    put(sandbox, service(methods=["POST"], auth={"mode": "bearer", "bearer_token_sha256": digest},
                         cors={"allowed_origins": ["https://app.example"],
                               "allowed_methods": ["POST"], "allowed_headers": ["authorization"],
                               "expose_headers": ["x-a"], "allow_credentials": True,
                               "max_age_seconds": 60}))
    visitor = Visitor(served, sandbox)
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    answer = visitor.call("OPTIONS", "/", headers=asked)
    assert answer.status == 204
    fields = {name.lower(): value for name, value in answer.headers.items()}
    assert fields["access-control-allow-origin"] == "https://app.example"
    assert fields["access-control-allow-credentials"] == "true"
    assert fields["access-control-max-age"] == "60"
    assert visitor.call("OPTIONS", "/", headers={**asked, "Origin": "https://evil"}).status == 403
    answer = visitor.call("POST", "/", b"", {"Origin": "https://app.example",
                                             "Authorization": "Bearer s3cret"})
    assert answer.headers["access-control-expose-headers"] == "x-a"
    # Also a refusal can be read by the page.
    answer = visitor.call("POST", "/", b"", {"Origin": "https://app.example"})
    assert answer.status == 401
    assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_rate_limits_say_when_to_come_again(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    put(sandbox, service(rate_limit={"rps": 1, "burst": 3}))
    answers = [Visitor(served, sandbox).call() for _ in range(5)]
    assert [a.status for a in answers[:3]] == [200] * 3
    assert answers[-1].status == 429 and int(answers[-1].headers["retry-after"]) >= 1


def test_timeouts_end_in_504(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    put(sandbox, service(timeout_seconds=1))
    visitor = Visitor(served, sandbox)
    assert visitor.call("GET", "/hang").status == 504
    assert visitor.see()["method"] == "GET"


def test_a_paused_sandbox_is_resumed_once_for_all(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    put(sandbox, service(resume=False))
    pause = f"{sandbox.path}/pause"
    served.client.expect(200, "POST", pause)
    assert Visitor(served, sandbox).call().status == 503
    assert sandbox.get()["status"] == "paused"
    put(sandbox, service(resume=True))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: Visitor(served, sandbox).call(), range(16)))
    assert {a.status for a in answers} == {200}
    assert sandbox.get()["status"] == "running"


def test_each_request_is_in_the_audit_without_its_query(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    put(sandbox, service(auth={"mode": "header", "header_name": "x-key", "header_value_sha256":
                               hashlib.sha256(b"k").hexdigest()}))
    visitor = Visitor(served, sandbox)
    assert visitor.call("POST", "/in?secret=1", b"12345", {"X-Key": "k"}).status == 200
    assert visitor.call("GET", "/out").status == 401

    def flows():
        page = served.client.expect(200, "GET", f"{sandbox.path}/network/flows?kind=ingress").data
        return {each["operations"][0]: each for each in page["flows"]}

    found = wait_until(lambda: len(flows()) == 2 and flows(), 30, "both requests are recorded")
    allowed, denied = found["POST /in 200"], found["GET /out 401"]
    assert (allowed["outcome"], denied["outcome"]) == ("allowed", "denied")
    assert allowed["rule"] == "web/all" and allowed["bytes_in"] == 5
    assert "secret" not in json.dumps(found)


def test_an_upload_that_breaks_off_ends_the_request(served, web):
    visitor = Visitor(served, web)
    # Not chunked as it says: refused, although the service still waits for the rest.
    answer = visitor.raw(b"POST /up HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nnot")
    assert answer.startswith(b"HTTP/1.1 4"), answer
    answer = visitor.raw(b"POST /up HTTP/1.1\r\nHost: HOST\r\nContent-Length: 10\r\n\r\nhalf")
    assert b" 200 " not in answer


# What is hostile ---------------------------------------------------------------------------------
def test_services_that_answer_wrongly_are_502(served, web):
    visitor = Visitor(served, web)
    for path in ("/garbage", "/split", "/both", "/headers", "/close"):
        answer = visitor.call("GET", path)
        assert answer.status == 502, (path, answer.status, answer.content)
    with pytest.raises(http.client.IncompleteRead):
        visitor.call("GET", "/half")
    assert visitor.see()["method"] == "GET"


def test_nothing_listening_is_502(served, make):
    sandbox = make()
    put(sandbox, service(9999))
    assert Visitor(served, sandbox, 9999).call().status == 502


def test_requests_that_can_be_read_in_two_ways_never_reach_a_service(served, web):
    visitor = Visitor(served, web)
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n"
    for request in (
            b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
            b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
            b"POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
            b"GET / HTTP/1.1\r\nHost: HOST\r\nHost: other\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: HOST\r\n X: folded\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: HOST@x\r\n\r\n",
            b"GET http://HOST/ HTTP/1.1\r\nHost: other\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: HOST\r\nX: " + b"y" * 200_000 + b"\r\n\r\n"):
        answer = visitor.raw(request)
        assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")), (request[:80], answer[:200])
        assert b"smuggled" not in answer
    # Fields that belong to the connection, or that only we may say, do not pass.
    seen = visitor.see(headers={"Connection": "close, X-Hop", "X-Hop": "1", "TE": "trailers",
                                "Proxy-Authorization": "x", "X-Atoll-Route": "x", "Keep-Alive": "1"})
    names = {name.lower() for name, _ in seen["headers"]}
    assert not names & {"x-hop", "te", "proxy-authorization", "x-atoll-route", "keep-alive",
                        "connection"}


# Services that we start --------------------------------------------------------------------------
def test_commands_are_started_restarted_and_stopped(served, make):
    sandbox = make()
    sandbox.write("/home/user/server.py", PROGRAM)
    runtime = {"type": "cmd", "cwd": "/home/user", "env_vars": {"A": "1"},
               "command": ["python3", "server.py", "8000"]}
    body = service(runtime=runtime, resume=True)
    body["health_check"] = {"path": "/healthy"}
    view = put(sandbox, body)["services"][0]
    assert view["publishable"] is True and view["publish_blockers"] == []
    visitor = Visitor(served, sandbox)
    assert visitor.see()["method"] == "GET"
    context = f"{sandbox.path}/contexts/sandbox-service-web"
    env = sandbox.out("tr '\\0' '\\n' < /proc/$(pgrep -f '^python3 server.py')/environ")
    for line in ("A=1", "SANDBOX0_SERVICE_ID=web", "SANDBOX0_SERVICE_PORT=8000",
                 "SANDBOX0_SERVICE_RUNTIME=cmd", "ATOLL_SERVICE_ID=web"):
        assert line in env.splitlines()
    # Its files stay when its processes go; the first request starts it again.
    served.client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": False})
    assert visitor.see()["method"] == "GET"
    # A failure is not the end.
    sandbox.run("pkill -9 -f '^python3 server.py'")
    deadline = time.monotonic() + 60
    while (answer := visitor.call()).status != 200:
        assert answer.status in (502, 503) and time.monotonic() < deadline, answer.content
        time.sleep(0.1)
    put(sandbox)
    assert visitor.call().status == 404
    deadline = time.monotonic() + 30
    while served.client.call("GET", context).status != 404:
        assert time.monotonic() < deadline
        time.sleep(0.1)


FUNCTION = '''
import os, time
count = 0
def handler(request, ws=None):
    global count
    if ws is not None:
        return talk(ws)
    count += 1
    if request["path"].endswith("/events"):
        return {"headers": {"content-type": "text/event-stream"},
                "body": ("data: %d\\n\\n" % number for number in range(3))}
    if request["path"].endswith("/slow"):
        time.sleep(1000)
    if request["path"].endswith("/wait"):
        time.sleep(1)
    if request["path"].endswith("/fail"):
        raise ValueError("inside")
    return {"status": 201, "headers": {"x-pid": str(os.getpid())},
            "body": {"count": count, **request}}
async def talk(ws):
    async for message in ws:
        await ws.send("echo:" + message)
'''
SCRIPT = '''
let count = 0;
exports.handler = async (request, ws) => {
  if (ws) { for await (const message of ws) await ws.send("echo:" + message); return; }
  count++;
  if (request.path.endsWith("/events"))
    return {headers: {"content-type": "text/event-stream"},
            body: (function*() { for (let n = 0; n < 3; n++) yield `data: ${n}\\n\\n`; })()};
  if (request.path.endsWith("/slow")) await new Promise(() => {});
  if (request.path.endsWith("/wait")) await new Promise((done) => setTimeout(done, 1000));
  if (request.path.endsWith("/fail")) throw new Error("inside");
  return {status: 201, headers: {"x-pid": String(process.pid)}, body: {count, ...request}};
};
'''


def function(language, code, **options):
    return {"id": "hello",
            "runtime": {"type": "function", "function": {
                "runtime": language, "source": {"type": "inline", "code": code}, **options}},
            "ingress": {"public": True, "routes": [
                {"id": "hook", "path_prefix": "/hook", "timeout_seconds": 2, "resume": True}]}}


@pytest.mark.parametrize("language,code", [("python", FUNCTION), ("javascript", SCRIPT)])
def test_functions_answer_from_warm_workers(served, make, language, code):
    sandbox = make()
    if sandbox.run(f"command -v {'python3' if language == 'python' else 'node'}")["exit_code"]:
        pytest.skip("the template has no such interpreter")
    view = put(sandbox, function(language, code, max_concurrency=2))["services"][0]
    assert view["port"] == 49983 and view["publishable"] is True
    visitor = Visitor(served, sandbox, 49983)
    answer = visitor.call("POST", "/hook/x?a=1", b"\0body", {"X-A": "b"})
    assert answer.status == 201, answer.content
    seen = json.loads(answer.content)
    assert (seen["service_id"], seen["route_id"], seen["method"], seen["path"], seen["raw_query"],
            seen["body_base64"]) == ("hello", "hook", "POST", "/hook/x", "a=1", "AGJvZHk=")
    assert seen["headers"]["x-a"] == "b"
    again = visitor.call("GET", "/hook")
    assert again.headers["x-pid"] == answer.headers["x-pid"]  # the same interpreter
    assert json.loads(again.content)["count"] == 2
    assert visitor.call("GET", "/hook/events").content == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
    failed = visitor.call("GET", "/hook/fail")
    assert failed.status == 500 and b"inside" not in failed.content
    assert visitor.call("GET", "/hook/slow").status == 504
    assert visitor.call("POST", "/hook", b"x" * (8 << 20) + b"y").status == 413
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        statuses = [a.status for a in pool.map(lambda _: visitor.call("GET", "/hook/wait"), range(6))]
    assert 429 in statuses and 201 in statuses

    async def talk():
        host = f"{sandbox.id}--p49983.{DOMAIN}"
        async with websockets.connect(f"ws://{host}:{served.port}/hook", host=served.host,
                                      port=served.port) as peer:
            await peer.send("hello")
            assert await peer.recv() == "echo:hello"

    asyncio.run(asyncio.wait_for(talk(), 60))


def test_a_function_goes_on_after_its_memory_was_on_disk(served, make):
    sandbox = make()
    put(sandbox, function("python", FUNCTION))
    visitor = Visitor(served, sandbox, 49983)
    before = visitor.call("GET", "/hook")
    paused = served.client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": "disk"}).data
    if paused["memory"] != "disk":
        pytest.skip(f"this host cannot: {paused.get('reason')}")
    after = visitor.call("GET", "/hook")
    assert after.status == 201, after.content
    assert after.headers["x-pid"] == before.headers["x-pid"]
    assert json.loads(after.content)["count"] == 2


# Previews ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("form", ["{id}--p{port}", None], ids=["host", "path"])
def test_previews_open_one_port_for_whoever_has_the_link(request, served, make, form):
    if form is None:
        plain = request.getfixturevalue("plain")
        check_preview(plain, plain.client.create(), form)
    else:
        check_preview(served, make(), form)


def check_preview(served, sandbox, form):
    start_server(sandbox, 3000)
    client = served.client
    made = client.expect(201, "POST", f"{sandbox.path}/previews",
                         {"port": 3000, "path": "/page?x=1", "ttl_seconds": 60}).data
    assert made["runtime_generation"] == sandbox.get()["runtime_generation"]
    visitor = Visitor(served, sandbox, 3000, form)
    assert visitor.call().status == 404  # nobody else gets in
    link = made["url"].split(str(served.port), 1)[1].removeprefix(visitor.prefix)
    opened = visitor.call("GET", link)
    assert opened.status == 303 and opened.headers["location"] == f"{visitor.prefix}/page?x=1"
    assert opened.headers["cache-control"] == "no-store"
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie and f"Path={visitor.prefix or '/'};" in cookie
    assert visitor.call("GET", link).status == 401  # good once
    pair = {"Cookie": "other=1; " + cookie.split(";")[0]}
    seen = visitor.see("GET", "/page", headers=pair)
    assert dict(seen["headers"])["cookie"] == "other=1"  # the key stays with us
    fields = visitor.call("GET", "/fields", headers=pair).headers
    assert fields["x-frame-options"] is None
    assert fields["content-security-policy"] == "default-src 'self'"
    token = {"X-Sandbox0-Preview": made["access_token"]}
    assert visitor.see(headers=token)["method"] == "GET"
    # Not for another port, not after it was taken back.
    assert Visitor(served, sandbox, 3001, form).call(headers=pair).status == 404
    renewed = client.expect(200, "PUT", f"{sandbox.path}/previews/{made['id']}",
                            {"ttl_seconds": 3600}).data
    assert renewed["expires_at"] > made["expires_at"]
    client.expect(200, "DELETE", f"{sandbox.path}/previews/{made['id']}")
    assert visitor.call(headers=pair).status == 404
    assert visitor.call(headers=token).status == 404
    client.expect(404, "DELETE", f"{sandbox.path}/previews/{made['id']}")


def test_previews_of_ports_that_speak_tls(served, make, tmp_path):
    subprocess.run([BIN_DIR / "atoll", "cert", "dev", "--dir", tmp_path, "--name", "own.test"],
                   check=True, capture_output=True, timeout=60)
    (key,) = [path for path in tmp_path.glob("*.key") if path.stem != "ca"]
    sandbox = make()
    sandbox.write("/tmp/server.pem", key.with_suffix(".crt").read_bytes() + key.read_bytes())
    context = sandbox.start(["python3", "-u", "-c", """
import http.server, ssl
server = http.server.HTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/server.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready")
server.serve_forever()"""])
    next(sandbox.stream(context["id"]))
    made = served.client.expect(201, "POST", f"{sandbox.path}/previews",
                                {"port": 8443, "protocol": "https"}).data
    token = {"X-Sandbox0-Preview": made["access_token"]}
    assert Visitor(served, sandbox, 8443).call(headers=token).status == 200


def test_a_preview_ends_with_the_processes_it_was_for(served, make):
    sandbox = make()
    start_server(sandbox, 3000)
    made = served.client.expect(201, "POST", f"{sandbox.path}/previews", {"port": 3000}).data
    token = {"X-Sandbox0-Preview": made["access_token"]}
    visitor = Visitor(served, sandbox, 3000)
    assert visitor.call(headers=token).status == 200
    served.client.expect(200, "POST", f"{sandbox.path}/pause")
    assert [visitor.call(headers=token).status for _ in range(2)] == [200, 200]  # the same ones
    served.client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": False})
    served.client.expect(200, "POST", f"{sandbox.path}/resume")
    assert visitor.call(headers=token).status == 404


def test_a_wildcard_certificate_serves_api_services_and_previews(tmp_path):
    subprocess.run([BIN_DIR / "atoll", "cert", "dev", "--dir", tmp_path, "--name",
                    f"*.{DOMAIN},127.0.0.1"], check=True, capture_output=True, timeout=60)
    (key,) = [path for path in tmp_path.glob("*.key") if path.stem != "ca"]
    with Server(extra=["--tls-cert", key.with_suffix(".crt"), "--tls-key", key, "--domain", DOMAIN],
                authority=tmp_path / "ca.crt") as secure:
        sandbox = secure.client.create()
        start_server(sandbox, 8000)
        (view,) = put(sandbox, service())["services"]
        host = f"{sandbox.id}--p8000.{DOMAIN}"
        assert view["public_url"] == f"https://{host}:{secure.port}"

        def curl(url, *words):
            done = subprocess.run(
                ["curl", "-sS", "--cacert", tmp_path / "ca.crt", "--resolve",
                 f"{host}:{secure.port}:{secure.host}", "-D", "-", *words, url],
                capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done
            return done.stdout

        answer = curl(view["public_url"] + "/x")
        assert answer.startswith("HTTP/2 200") and '"x-forwarded-proto", "https"' in answer
        assert curl(view["public_url"] + "/x", "--http1.1").startswith("HTTP/1.1 200")
        made = secure.client.expect(201, "POST", f"{sandbox.path}/previews", {"port": 8000}).data
        opened = curl(made["url"])
        (cookie,) = [line for line in opened.splitlines() if line.startswith("set-cookie: ")]
        assert cookie.startswith("set-cookie: __Host-sandbox0-preview=pv-")
        assert cookie.endswith("; Path=/; Secure; HttpOnly; SameSite=None; Partitioned")

        async def talk():
            context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
            async with websockets.connect(f"wss://{host}:{secure.port}/socket", host=secure.host,
                                          port=secure.port, ssl=context) as peer:
                await peer.send("hello")
                assert await peer.recv() == "hello"

        asyncio.run(asyncio.wait_for(talk(), 60))


# The API -----------------------------------------------------------------------------------------
def test_services_are_declared_at_the_claim_and_kept(served, make):
    declared = service(3000, resume=True, methods=["get"], rate_limit={"rps": 5, "burst": 10})
    sandbox = make(services=[declared])
    listed = served.client.expect(200, "GET", f"{sandbox.path}/services").data
    assert listed["exposure_domain"] == DOMAIN
    (view,) = listed["services"]
    assert view["public_url"] == f"http://{sandbox.id}--p3000.{DOMAIN}:{served.port}"
    assert view["publishable"] is False and view["publish_blockers"] == ["missing_runtime"]
    assert view["ingress"]["routes"][0]["methods"] == ["GET"]
    assert sandbox.get()["services"] == [view]
    child = served.client.expect(201, "POST", f"{sandbox.path}/fork").data["sandbox"]
    try:
        inherited = served.client.expect(200, "GET", f"/api/v1/sandboxes/{child['id']}/services").data
        assert [each["id"] for each in inherited["services"]] == ["web"]
    finally:
        served.client.call("DELETE", f"/api/v1/sandboxes/{child['id']}")
    changed = served.client.expect(200, "PUT", sandbox.path, {"config": {"services": []}}).data
    assert changed["services"] == []


@pytest.mark.parametrize("body,field", [
    ({"id": "UP", "port": 1, "ingress": {}}, "services.id"),
    ({"id": "a", "ingress": {}}, "services.port"),
    ({"id": "a", "port": 49983, "ingress": {}}, "services.port"),
    ({"id": "a", "port": 1}, "services.ingress"),
    ({"id": "a", "port": 1, "ingress": {"routes": [{"id": "r", "path_prefix": "x"}]}}, "path_prefix"),
    ({"id": "a", "port": 1, "ingress": {"routes": [{"id": "r", "auth": {"mode": "bearer"}}]}},
     "bearer_token_sha256"),
    ({"id": "a", "port": 1, "ingress": {"routes": [{"id": "r", "rate_limit": {"rps": 0}}]}}, "rps"),
    ({"id": "a", "port": 1, "runtime": {"type": "other"}, "ingress": {}}, "runtime.type"),
    ({"id": "a", "port": 5, "runtime": {"type": "function", "function": {
        "runtime": "python", "source": {"type": "inline", "code": "x"}}}, "ingress": {}}, "port"),
])
def test_wrong_services_are_refused_by_field(served, web, body, field):
    answer = served.client.call("PUT", f"{web.path}/services", {"services": [body]})
    assert answer.status == 400 and field in answer.error["message"], answer.body
    assert len(served.client.expect(200, "GET", f"{web.path}/services").data["services"]) == 1


def test_the_command_line(served, make):
    atoll = Command(served)
    sandbox = make()
    start_server(sandbox, 8000)
    url = atoll("expose", sandbox.id, "8000", "--token", "s3cret").stdout.strip()
    assert url == f"http://{sandbox.id}--p8000.{DOMAIN}:{served.port}"
    host = f"{sandbox.id}--p8000.{DOMAIN}:{served.port}:{served.host}"
    seen = subprocess.run(["curl", "-sSf", "--resolve", host, "-H", "Authorization: Bearer s3cret",
                           f"{url}/x"], capture_output=True, timeout=60, check=True).stdout
    assert json.loads(seen)["path"] == "/x"
    assert atoll("service", "url", sandbox.id, "8000").stdout.strip() == url
    assert url in atoll("service", "ls", sandbox.id).stdout
    atoll("service", "set", sandbox.id, "-", stdin="[]")
    assert json.loads(atoll("service", "ls", sandbox.id, "-o", "json").stdout)["services"] == []
    made = json.loads(atoll("preview", "create", sandbox.id, "8000", "-o", "json").stdout)
    token = {"X-Sandbox0-Preview": made["access_token"]}
    assert Visitor(served, sandbox).call(headers=token).status == 200
    atoll("preview", "rm", sandbox.id, made["id"])
    assert Visitor(served, sandbox).call(headers=token).status == 404


def test_services_outlive_the_api_process(make, served):
    sandbox = make()
    sandbox.write("/home/user/server.py", PROGRAM)
    put(sandbox, service(runtime={"type": "cmd", "cwd": "/home/user",
                                  "command": ["python3", "server.py", "8000"]}))
    assert Visitor(served, sandbox).call().status == 200
    pid = sandbox.out("pgrep -f '^python3 server.py'")
    api = served.daemons()["api"]
    os.kill(api, signal.SIGKILL)

    def answers():
        try:
            return Visitor(served, sandbox).call().status == 200
        except OSError:
            return False

    wait_until(answers, 60, "the next API process serves it")
    assert sandbox.out("pgrep -f '^python3 server.py'") == pid  # it was found, not started again
