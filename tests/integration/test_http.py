"""What every route shares: health, authentication, the envelope, request ids, unknown routes."""
import json
import socket

import pytest

from harness.client import Client


def test_health_needs_no_key(server):
    anonymous = Client(server.host, server.port, None)
    for path in ("/healthz", "/readyz"):
        answer = anonymous.expect(200, "GET", path)
        document = answer.json
        body = document.get("data", document)
        assert body["status"] and isinstance(body["timestamp"], int)


def test_metadata_names_the_service(server):
    answer = Client(server.host, server.port, None).expect(200, "GET", "/metadata")
    document = answer.json
    body = document.get("data", document)
    assert body["gateway_mode"] == "direct" and body["service"]


def test_metrics_are_prometheus_text(server):
    answer = Client(server.host, server.port, None).call("GET", "/metrics")
    if answer.status == 401:
        answer = server.client.expect(200, "GET", "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    lines = [line for line in answer.body.decode().splitlines() if line and line[0] != "#"]
    assert lines and all(line.startswith("atoll_") for line in lines)
    for line in lines:
        float(line.rsplit(" ", 1)[1])


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic YTpi",
                                    "Bearer atoll_" + "0" * 40, "bearer  x y"])
def test_wrong_key_is_unauthorized(server, header):
    anonymous = Client(server.host, server.port, None)
    answer = anonymous.call("GET", "/api/v1/sandboxes",
                            headers={"Authorization": header} if header is not None else {})
    assert answer.status == 401
    assert answer.error["code"] == "unauthorized" and answer.error["message"]


def test_prefix_of_the_key_is_unauthorized(server):
    for key in (server.key[:-1], server.key + "0", server.key.upper()):
        assert Client(server.host, server.port, key).call(
            "GET", "/api/v1/sandboxes").status == 401


def test_wrong_key_is_refused_before_anything_is_looked_up(server, create):
    sandbox = create()
    anonymous = Client(server.host, server.port, "wrong")
    for method, path in (("GET", sandbox.path), ("DELETE", sandbox.path),
                         ("POST", sandbox.path + "/contexts"),
                         ("GET", sandbox.file_path("/etc/passwd"))):
        assert anonymous.call(method, path).status == 401
    assert sandbox.get()["status"] == "running"


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1/sandboxes/x/nothing", "/api/v1"])
def test_unknown_route_has_the_envelope(client, path):
    answer = client.expect(404, "GET", path)
    assert answer.error["code"] == "not_found"


def test_wrong_method_is_told(client):
    answer = client.call("PATCH", "/api/v1/sandboxes")
    assert answer.status in (404, 405) and answer.error["message"]


def test_every_answer_has_its_own_request_id(client):
    ids = {client.call("GET", path).headers["x-request-id"] for path in
           ("/healthz", "/api/v1/sandboxes", "/api/v1/sandboxes/none", "/api/v1/nothing")}
    assert len(ids) == 4 and all(ids)


def test_request_id_is_in_the_log(server):
    answer = server.client.call("GET", "/api/v1/sandboxes/none")
    request_id = answer.headers["x-request-id"]
    from harness.server import wait_until
    wait_until(lambda: request_id in server.log(200000), 5, "the request's id in the log")


def test_key_is_not_in_the_log(server):
    server.client.call("GET", "/api/v1/sandboxes")
    assert server.key not in server.log(1 << 30)


def test_log_lines_are_json(server):
    for line in server.log(20000).splitlines()[1:]:
        if line.startswith("{"):
            json.loads(line)


HOSTILE = [
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n",
    b"GET " + b"/" * 100000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 200000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
]


@pytest.mark.parametrize("request_bytes", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_request_is_refused_and_the_server_goes_on(server, request_bytes):
    with socket.create_connection((server.host, server.port), timeout=20) as peer:
        try:
            peer.sendall(request_bytes)
            peer.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := peer.recv(65536):
                answer += piece
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 505")), answer[:100]
    server.client.expect(200, "GET", "/healthz")


def test_slow_client_does_not_block_others(server):
    with socket.create_connection((server.host, server.port), timeout=20) as peer:
        peer.sendall(b"POST /api/v1/sandboxes HTTP/1.1\r\nHost: a\r\nContent-")
        server.client.expect(200, "GET", "/healthz", timeout=5)


def test_many_idle_connections_do_not_block_others(server):
    peers = [socket.create_connection((server.host, server.port), timeout=20) for _ in range(200)]
    try:
        server.client.expect(200, "GET", "/healthz", timeout=5)
    finally:
        for peer in peers:
            peer.close()
