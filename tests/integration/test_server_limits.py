"""What the running server bounds, and how it ends: sizes, counts, drains."""
import json
import signal
import socket
import subprocess

import h2.events
import pytest

from harness.http2 import Http2
from harness.server import Server, wait_until


def curl(*words):
    done = subprocess.run(["curl", "-sS", "--max-time", "60", *map(str, words)],
                          capture_output=True, timeout=90)
    return done.stdout.decode(errors="replace")


VERSIONS = ["--http1.1", "--http2-prior-knowledge"]


# Sizes and counts ------------------------------------------------------------------------------
@pytest.mark.parametrize("option", VERSIONS)
def test_headers_that_are_too_large(server, tmp_path, option):
    (tmp_path / "headers").write_text("X-Large: " + "y" * 70_000 + "\n")
    done = subprocess.run(["curl", "-s", "--max-time", "30", option, "-o", "/dev/null", "-w",
                           "%{http_code}", "-H", f"@{tmp_path}/headers", f"{server.url()}/healthz"],
                          capture_output=True, timeout=60)
    # HTTP/2 may end the stream instead of answering.
    assert done.stdout == b"431" or (done.returncode != 0 and "2" in option), done
    server.client.expect(200, "GET", "/healthz")


@pytest.mark.parametrize("option", VERSIONS)
def test_too_many_headers(server, option):
    many = [word for number in range(150) for word in ("-H", f"X-{number}: 1")]
    told = curl(option, "-o", "/dev/null", "-w", "%{http_code}", *many, f"{server.url()}/healthz")
    assert told == "431"
    few = [word for number in range(60) for word in ("-H", f"X-{number}: 1")]
    told = curl(option, "-o", "/dev/null", "-w", "%{http_code}", *few, f"{server.url()}/healthz")
    assert told == "200"


@pytest.mark.parametrize("option", VERSIONS)
def test_json_that_is_too_large(server, option, tmp_path):
    (tmp_path / "body").write_text(json.dumps({"template": "x" * (2 << 20)}))
    told = curl(option, "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {server.key}",
                "-H", "Content-Type: application/json", "--data-binary", f"@{tmp_path}/body",
                f"{server.url()}/api/v1/sandboxes")
    body, _, status = told.rpartition("\n")
    assert status == "413" and json.loads(body)["error"]["code"] == "request_too_large"


def test_streams_of_one_connection_are_bounded(server, sandbox):
    """As many requests at once as the server says; a client that sends more is shown the door."""
    with Http2(server.host, server.port, server.key) as peer:
        settings = peer.wait_for(h2.events.RemoteSettingsChanged).changed_settings
        limit = settings[3].new_value  # SETTINGS_MAX_CONCURRENT_STREAMS
        assert 16 <= limit <= 1024
        waiting = [peer.request("POST", sandbox.file_path(f"/tmp/stream-{number}"), end=False)
                   for number in range(limit)]
        for stream in waiting:
            peer.send(stream, b"x", end=True)
        # A sandbox serves fewer file requests at once, and says so.
        assert {peer.answer(stream)[0] for stream in waiting} <= {200, 429}
        assert peer.answer(peer.request("GET", "/healthz"))[0] == 200
        # A client that does not keep to it.
        peer.h2.remote_settings[3] = limit + 100
        peer.h2.remote_settings.acknowledge()
        for number in range(limit + 1):
            peer.request("POST", sandbox.file_path(f"/tmp/stream-{number}"), end=False)
        assert peer.wait_for(h2.events.ConnectionTerminated).error_code != 0
    server.client.expect(200, "GET", "/healthz")


@pytest.mark.parametrize("option", VERSIONS)
def test_head_by_curl(server, option):
    for path in ("/healthz", "/openapi.json", "/docs"):
        told = curl(option, "-I", "-w", "%{http_code} %{size_download}", f"{server.url()}{path}")
        assert told.endswith("200 0"), told
        assert "content-length: " in told.lower()


# The end ---------------------------------------------------------------------------------------
def refuses(server):
    try:
        socket.create_connection((server.host, server.port), timeout=5).close()
        return False
    except ConnectionRefusedError:
        return True


def test_drain_finishes_what_is_under_way_and_takes_nothing_new():
    """Uploads whose second half is sent after SIGTERM. The 100 shows that they are under way."""
    half = b"x" * 100_000
    with Server() as own:
        sandbox = own.client.create()
        own.client.forget_connection()
        with socket.create_connection((own.host, own.port), timeout=30) as plain, \
                Http2(own.host, own.port, own.key) as peer, \
                Http2(own.host, own.port, own.key) as idle:
            plain.sendall(f"POST {sandbox.file_path('/tmp/one')} HTTP/1.1\r\nHost: a\r\n"
                          f"Authorization: Bearer {own.key}\r\nExpect: 100-continue\r\n"
                          f"Content-Length: {2 * len(half)}\r\n\r\n".encode())
            reader = plain.makefile("rb")
            assert reader.readline() == b"HTTP/1.1 100 Continue\r\n" and reader.readline()
            stream = peer.request("POST", sandbox.file_path("/tmp/two"), end=False,
                                  headers=[("expect", "100-continue")])
            peer.wait_for(h2.events.InformationalResponseReceived, stream)
            plain.sendall(half)
            peer.send(stream, half)
            idle.wait_for(h2.events.RemoteSettingsChanged)

            own.process.send_signal(signal.SIGTERM)
            for each in (idle, peer):
                assert each.wait_for(h2.events.ConnectionTerminated).error_code == 0
            wait_until(lambda: refuses(own), 10, "new connections are refused")

            plain.sendall(half)
            head, _, body = reader.read().partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ") and b"connection: close" in head.lower()
            assert json.loads(body)["data"]["size"] == 2 * len(half)
            peer.send(stream, half, end=True)
            status, body = peer.answer(stream)
            assert status == 200 and json.loads(body)["data"]["size"] == 2 * len(half)
            while peer.next_event() is not None:
                pass  # until the server closes
