"""The server behind TLS, as strangers see it: curl, openssl, a WebSocket client, our own CLI."""
import asyncio
import hashlib
import json
import os
import socket
import ssl
import subprocess

import h2.events
import pytest
import websockets

from harness.http2 import Http2
from harness.server import BIN_DIR, Server

ORIGIN = "https://app.example"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    subprocess.run([BIN_DIR / "atoll", "cert", "dev", "--dir", directory, "--name",
                    "localhost,*.atoll.test,127.0.0.1"], check=True, capture_output=True,
                   timeout=60)
    return directory


@pytest.fixture(scope="module")
def secure(certificates):
    names = {os.path.splitext(name)[0] for name in os.listdir(certificates)} - {"ca"}
    (name,) = names
    with Server(extra=["--tls-cert", certificates / f"{name}.crt",
                       "--tls-key", certificates / f"{name}.key", "--cors-origin", ORIGIN],
                authority=certificates / "ca.crt") as running:
        yield running


@pytest.fixture(scope="module")
def box(secure):
    sandbox = secure.client.create()
    yield sandbox
    secure.client.call("DELETE", sandbox.path)


def curl(*words, **options):
    return subprocess.run(["curl", "-sS", "--max-time", "60", *map(str, words)],
                          capture_output=True, timeout=90, **options)


@pytest.fixture
def trusted(secure, certificates):
    """curl that trusts the authority and has the key."""
    def run(*words, **options):
        return curl("--cacert", certificates / "ca.crt", "-H",
                    f"Authorization: Bearer {secure.key}", *words, **options)
    return run


def test_it_says_https_and_nothing_else(secure):
    assert secure.scheme == "https"
    with socket.create_connection((secure.host, secure.port), timeout=20) as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        try:
            answer = peer.recv(4096)
        except ConnectionError:
            answer = b""
    assert b"200" not in answer
    secure.client.expect(200, "GET", "/healthz")


@pytest.mark.parametrize("option,version", [("--http1.1", "1.1"), ("--http2", "2")])
def test_both_versions_of_http(secure, trusted, option, version):
    done = trusted(option, "-w", "\n%{http_code} %{http_version} %{ssl_verify_result}",
                   f"{secure.url()}/api/v1/sandboxes")
    body, _, told = done.stdout.decode().rpartition("\n")
    assert told == f"200 {version} 0" and json.loads(body)["success"] is True


def test_a_stranger_does_not_trust_it(secure):
    assert curl(f"{secure.url()}/healthz").returncode == 60


def test_wildcard_covers_one_label(secure, trusted):
    def code(name):
        return trusted("--resolve", f"{name}:{secure.port}:127.0.0.1",
                       f"https://{name}:{secure.port}/healthz").returncode
    assert code("a.atoll.test") == 0 and code("b-2.atoll.test") == 0
    assert code("a.b.atoll.test") == 60 and code("atoll.test") == 60
    assert code("a.atoll.example") == 60


def s_client(secure, *words):
    return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{secure.port}", *words],
                          input=b"", capture_output=True, timeout=60)


@pytest.mark.parametrize("offered,chosen", [("h2,http/1.1", "h2"), ("http/1.1", "http/1.1"),
                                            ("http/1.1,h2", "h2")])
def test_alpn(secure, offered, chosen):
    assert f"ALPN protocol: {chosen}\n".encode() in s_client(secure, "-alpn", offered).stdout


def test_without_alpn_it_is_http1(secure, certificates):
    assert b"No ALPN negotiated" in s_client(secure).stdout
    context = ssl.create_default_context(cafile=certificates / "ca.crt")
    with socket.create_connection(("127.0.0.1", secure.port), timeout=20) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as peer:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert peer.recv(4096).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("version,works", [("-tls1", False), ("-tls1_1", False), ("-tls1_2", True),
                                           ("-tls1_3", True)])
def test_old_tls_is_refused(secure, version, works):
    # At level 0 the client itself would speak anything.
    done = s_client(secure, version, "-cipher", "ALL@SECLEVEL=0")
    if works:
        assert done.returncode == 0 and b"Verify return code" in done.stdout
    else:
        assert done.returncode != 0
        assert b"alert protocol version" in done.stderr, done.stderr[-500:]


@pytest.mark.parametrize("option", ["--http1.1", "--http2"])
def test_files_go_both_ways_unchanged(secure, box, trusted, option, tmp_path):
    content = os.urandom(8 << 20)
    (tmp_path / "up").write_bytes(content)
    url = secure.url() + box.file_path("/tmp/big.bin")
    up = trusted(option, "-X", "POST", "--data-binary", f"@{tmp_path}/up", url)
    assert json.loads(up.stdout)["data"]["size"] == len(content)
    down = trusted(option, url)
    assert hashlib.sha256(down.stdout).digest() == hashlib.sha256(content).digest()


@pytest.mark.parametrize("option", ["--http1.1", "--http2"])
def test_server_sent_events(secure, box, trusted, option):
    context = box.start("echo one; echo two; exit 4")
    url = f"{secure.url()}{box.path}/contexts/{context['id']}/stream"

    def events(*words):
        done = trusted(option, "-N", "-D", "/dev/stderr", "-H", "Accept: text/event-stream", *words,
                       url)
        assert b"text/event-stream" in done.stderr
        for block in done.stdout.decode().strip().split("\n\n"):
            yield dict(line.split(": ", 1) for line in block.splitlines()
                       if not line.startswith(":"))

    first = list(events())
    assert [each["event"] for each in first][-1] == "exit"
    assert json.loads(first[-1]["data"])["exit_code"] == 4
    outputs = [each for each in first if each["event"] == "output"]
    assert outputs[-1]["id"] == "8"
    # As a browser goes on after a broken connection.
    (rest, ending) = events("-H", "Last-Event-ID: 4")
    assert json.loads(rest["data"])["data_base64"] == "dHdvCg==" and ending["event"] == "exit"


def test_websocket_over_tls(secure, box):
    context = box.start("read line; echo got $line; exit 5", stdin_open=True)
    url = f"wss://{secure.host}:{secure.port}{box.path}/contexts/{context['id']}/ws"

    async def talk():
        frames = []
        async with websockets.connect(
                url, ssl=secure.tls,
                extra_headers={"Authorization": f"Bearer {secure.key}"}) as socket_:
            await socket_.send(json.dumps({"type": "input", "data": "hello\n"}))
            async for frame in socket_:
                frames.append(json.loads(frame))
        return frames

    frames = asyncio.run(asyncio.wait_for(talk(), 60))
    assert "".join(each["data"] for each in frames if each["type"] == "output") == "got hello\n"
    assert frames[-1]["type"] == "done" and frames[-1]["exit_code"] == 5


def test_websocket_over_http2(secure, box, certificates):
    context = box.start("echo over two; exit 6")
    tls = ssl.create_default_context(cafile=certificates / "ca.crt")
    with Http2(secure.host, secure.port, secure.key, tls) as peer:
        settings = peer.wait_for(h2.events.RemoteSettingsChanged).changed_settings
        assert settings[8].new_value == 1  # SETTINGS_ENABLE_CONNECT_PROTOCOL
        stream = peer.request("CONNECT", f"{box.path}/contexts/{context['id']}/ws", end=False,
                              headers=[(":protocol", "websocket"), ("sec-websocket-version", "13")])
        received = b""
        while b'"done"' not in received:
            received += peer.wait_for(h2.events.DataReceived, stream).data
    assert b"over two" in received and b'"exit_code":6' in received


def test_our_cli_over_tls(secure, certificates):
    environment = {**os.environ, "ATOLL_API_URL": secure.url(), "ATOLL_API_KEY": secure.key}
    command = [BIN_DIR / "atoll", "run", "--rm", "--", "echo", "over tls"]
    refused = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert refused.returncode != 0 and b"certificate" in refused.stderr
    command[1:1] = ["--ca-file", certificates / "ca.crt"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stdout == b"over tls\n", done.stderr


def test_only_named_origins_are_let_in(secure, trusted):
    def headers(origin, *words):
        done = trusted("-o", "/dev/null", "-D", "-", "-H", f"Origin: {origin}", *words,
                       f"{secure.url()}/api/v1/sandboxes")
        return done.stdout.decode().lower()

    preflight = ("-X", "OPTIONS", "-H", "Access-Control-Request-Method: POST", "-H",
                 "Access-Control-Request-Headers: authorization,content-type")
    let_in = headers(ORIGIN, *preflight)
    assert " 204" in let_in.splitlines()[0]
    assert f"access-control-allow-origin: {ORIGIN}" in let_in
    assert f"access-control-allow-origin: {ORIGIN}" in headers(ORIGIN)
    for stranger in ("https://evil.example", ORIGIN + ".evil.example", "http://app.example",
                     "null"):
        assert "access-control-allow-origin" not in headers(stranger)
        assert "access-control-allow-origin" not in headers(stranger, *preflight)
