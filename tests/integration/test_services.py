"""Services: where they are and what passes, by real clients, to real servers inside."""
import asyncio
import hashlib
import json
import os
import signal
import subprocess

import h2.events
import pytest
import websockets

from harness.command import Command
from harness.http2 import Http2
from harness.server import wait_until
from harness.services import (DOMAIN, PROGRAM, Visitor, make, plain, plain_web, put,
                              served, service, start_server, visitor, web)


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
