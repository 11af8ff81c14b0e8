"""WebSocket clients that break the rules: each is closed with the code the RFC has for it, and
neither the context nor anybody else notices."""
import base64
import os
import re
import socket
import struct

import pytest

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


def frame(payload=b"", opcode=TEXT, first=None, masked=True, length=None):
    """One frame, as wrong as asked for. `first` replaces FIN and opcode, `length` what is said."""
    size = len(payload) if length is None else length
    head = bytes([0x80 | opcode if first is None else first])
    bit = 0x80 if masked else 0
    if size < 126:
        head += bytes([bit | size])
    elif size < 1 << 16:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


class RawClient:
    """A handshake, then whatever a test wants to send."""

    def __init__(self, client, path, replace=None, method="GET", key=None):
        self.socket = socket.create_connection((client.host, client.port), timeout=60)
        fields = {"Host": f"{client.host}:{client.port}", "Authorization": f"Bearer {client.key}",
                  "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                  "Sec-WebSocket-Key": key or base64.b64encode(os.urandom(16)).decode()}
        fields.update(replace or {})
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in
                                                fields.items() if value is not None)]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was closed meanwhile; what it said is still to be read

    def frame(self):
        """(opcode, payload), or None when the connection is over."""
        try:
            head = self.file.read(2)
        except ConnectionResetError:
            return None
        if len(head) < 2:
            return None
        size = head[1] & 127
        if size == 126:
            (size,) = struct.unpack(">H", self.file.read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self.file.read(8))
        return head[0] & 15, self.file.read(size)

    def close_code(self):
        """What the server closes with; then nothing more comes."""
        while (got := self.frame()) is not None:
            if got[0] == CLOSE:
                assert self.frame() is None
                return struct.unpack(">H", got[1][:2])[0]
        raise AssertionError("the connection ended without a close frame")


@pytest.fixture(scope="module")
def cat(sandbox):
    """A process that gives back what it is sent; it must survive every client here."""
    context = sandbox.start(["cat"], stdin_open=True)
    yield f"{sandbox.path}/contexts/{context['id']}/ws"
    assert sandbox.context(context["id"])["running"] is True


@pytest.mark.parametrize("wrong, code", [
    (frame(b"hello", masked=False), 1002),
    (frame(b"x", first=0xC1), 1002),
    (frame(b"x", first=0xA1), 1002),
    (frame(b"x", opcode=3), 1002),
    (frame(b"x", opcode=15), 1002),
    (frame(b"x", opcode=0), 1002),
    (frame(b"x", first=TEXT) + frame(b"y", opcode=TEXT), 1002),
    (frame(b"x", first=PING), 1002),
    (frame(b"x" * 126, opcode=PING), 1002),
    (frame(b"\x00", opcode=CLOSE), 1002),
    (frame(struct.pack(">H", 1005), opcode=CLOSE), 1002),
    (frame(struct.pack(">H", 999), opcode=CLOSE), 1002),
    (frame(struct.pack(">H", 1000) + b"\xff", opcode=CLOSE), 1007),
    (frame(b"\xc3\x28"), 1007),
    (frame(b"\xc3", first=TEXT) + frame(b"(", first=0x80), 1007),
    (frame(length=(1 << 20) + 1), 1009),
    (frame(length=1 << 62), 1009),
    (frame(length=1 << 63), 1009),
    (frame(b"a" * 700_000, first=BINARY) + frame(b"b" * 700_000, first=0x80), 1009),
    (bytes([0x81, 0xFE, 0, 5]) + b"mask12345", 1002),
], ids=["unmasked", "reserved bit 1", "reserved bit 2", "opcode 3", "opcode 15", "no beginning",
        "amid another", "split ping", "long ping", "close of one byte", "close 1005", "close 999",
        "close reason", "no UTF-8", "no UTF-8 in two", "too long", "far too long", "negative",
        "too long together", "length not minimal"])
def test_broken_frames_close_with_their_code(client, cat, wrong, code):
    with RawClient(client, cat) as raw:
        assert raw.status == 101
        raw.send(wrong)
        assert raw.close_code() == code


@pytest.mark.parametrize("replace", [
    {"Sec-WebSocket-Version": "8"}, {"Sec-WebSocket-Version": None}, {"Sec-WebSocket-Key": None},
    {"Sec-WebSocket-Key": "short"}, {"Upgrade": "h2c"}, {"Upgrade": None}, {"Connection": "close"},
    {"Content-Length": "5"},
], ids=str)
def test_handshakes_that_are_none(client, cat, replace):
    with RawClient(client, cat, replace) as raw:
        assert raw.status in (400, 426)


def test_a_handshake_needs_the_key_and_the_method(client, cat):
    with RawClient(client, cat, {"Authorization": "Bearer s0_wrong"}) as raw:
        assert raw.status == 401
    with RawClient(client, cat, method="POST") as raw:
        assert raw.status == 405


@pytest.mark.parametrize("text", [
    b'{"type":"resize","rows":-1,"cols":80}', b'{"type":"resize","rows":1e9,"cols":[]}',
    b'{"type":"resize","rows":24,"cols":80,"more":1}', b'{"type":"signal","signal":"NOPE"}',
    b'{"type":"signal","signal":{}}', b'{"type":"signal"}',
], ids=[str(number) for number in range(6)])
def test_bad_requests_are_answered_and_the_socket_goes_on(client, cat, text):
    with RawClient(client, cat) as raw:
        raw.send(frame(text))
        while True:
            opcode, payload = raw.frame()
            if b'"error"' in payload:
                break
        raw.send(frame(b'{"type":"input","data":"still here\\n"}'))
        while b"still here" not in raw.frame()[1]:
            pass


def test_json_that_is_no_request_is_input(client, cat):
    for text in (b"[" * 10_000, b'{"type":["input"]}', b"null", b'{"type":"inpu', b"\x00\x01"):
        with RawClient(client, cat) as raw:
            raw.send(frame(text) + frame(b"\nEND\n"))
            heard = b""
            while b"END" not in heard:
                heard += raw.frame()[1]


def open_sockets(client):
    text = client.call("GET", "/metrics").body.decode()
    return int(re.search(r"^atoll_http_websockets_open(?:\{.*\})? (\d+)", text, re.M).group(1))


def test_who_leaves_in_the_middle_is_forgotten(client, cat, server):
    from harness.server import wait_until
    wait_until(lambda: open_sockets(client) == 0, 30, "the sockets of earlier tests are closed")
    daemons = server.daemons()
    for ending in (b"", frame(b"hello")[:-2], frame(length=1 << 19)[:9], frame(b"x", first=TEXT)):
        for _ in range(5):
            with RawClient(client, cat) as raw:
                raw.send(ending)
    wait_until(lambda: open_sockets(client) == 0, 30, "every socket is closed")
    assert server.daemons() == daemons


def test_a_million_empty_fragments_hold_nobody_up(client, cat):
    with RawClient(client, cat) as raw:
        raw.send(frame(b"", first=BINARY))
        piece = bytes([0x00, 0x80, 0, 0, 0, 0]) * 10_000
        for _ in range(100):
            raw.send(piece)
        assert client.call("GET", "/healthz").status == 200
        raw.send(frame(b"whole\n", first=0x80))
        heard = b""
        while b"whole" not in heard:
            got = raw.frame()
            assert got is not None
            heard += got[1]
