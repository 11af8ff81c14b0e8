"""The WebSocket of a context: output, input, replay, binary frames, slow readers."""
import base64
import json
import os
import socket
import struct

import pytest

from harness.contract import contract


class WebSocket:
    """Just enough of RFC 6455 for a test."""

    def __init__(self, client, path):
        self.socket = socket.create_connection((client.host, client.port), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n"
                             f"Authorization: Bearer {client.key}\r\nUpgrade: websocket\r\n"
                             f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                             f"Sec-WebSocket-Key: {key}\r\n\r\n").encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, message, opcode=1):
        payload = (json.dumps(message) if isinstance(message, dict) else message)
        payload = payload.encode() if isinstance(payload, str) else payload
        mask = os.urandom(4)
        size = len(payload)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        else:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)))

    def frame(self):
        """(opcode, payload) of the next frame."""
        first, second = self.file.read(2)
        size = second & 127
        if size == 126:
            (size,) = struct.unpack(">H", self.file.read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self.file.read(8))
        return first & 15, self.file.read(size)

    def json(self):
        while True:
            opcode, payload = self.frame()
            if opcode == 9:
                self.send(payload, 10)
                continue
            assert opcode == 1, (opcode, payload)
            frame = json.loads(payload)
            contract().judge_frame("connectContext", "server", frame)
            return frame

    def until_done(self):
        """Text per source, and the done frame; checks that a close 1000 follows."""
        text = {}
        while True:
            message = self.json()
            if message["type"] == "done" and "state" in message:
                opcode, payload = self.frame()
                assert opcode == 8 and struct.unpack(">H", payload[:2]) == (1000,)
                return text, message
            if message["type"] == "output":
                text[message["source"]] = text.get(message["source"], "") + message["data"]


@pytest.fixture
def connect(sandbox):
    def make(context_id, query=""):
        return WebSocket(sandbox.client, f"{sandbox.path}/contexts/{context_id}/ws{query}")
    return make


def test_output_then_done_then_close(sandbox, connect):
    context = sandbox.start("echo out; echo err >&2; exit 3")
    with connect(context["id"]) as ws:
        assert ws.status == 101
        text, done = ws.until_done()
    assert text == {"stdout": "out\n", "stderr": "err\n"}
    assert done["exit_code"] == 3 and done["state"] == "crashed"


def test_input_reaches_the_process(sandbox, connect):
    context = sandbox.start("read a; read b; echo got $a $b", stdin_open=True)
    with connect(context["id"]) as ws:
        ws.send({"type": "input", "data": "one\n"})
        ws.send("two\n")
        text, _ = ws.until_done()
    assert text["stdout"] == "got one two\n"


def test_signal_and_resize(sandbox, connect):
    context = sandbox.start(["bash", "-c", "trap 'stty size; exit 5' TERM; echo ready; while :; do "
                             "sleep 0.05; done"], pty_size={"rows": 24, "cols": 80})
    with connect(context["id"]) as ws:
        assert "ready" in ws.json()["data"]
        ws.send({"type": "resize", "rows": 33, "cols": 101})
        ws.send({"type": "signal", "signal": "SIGTERM"})
        text, done = ws.until_done()
    assert "33 101" in text["pty"] and done["exit_code"] == 5


def test_replay_from_an_offset(sandbox, connect):
    context = sandbox.run(["printf", "0123456789"])
    with connect(context["id"], "?after=4") as ws:
        assert ws.until_done()[0]["stdout"] == "456789"


def test_characters_are_not_cut(sandbox, connect):
    context = sandbox.start(["python3", "-c", "import os, time\nfor b in '€🏝'.encode():\n"
                             " os.write(1, bytes([b])); time.sleep(0.02)"])
    with connect(context["id"]) as ws:
        assert ws.until_done()[0]["stdout"] == "€🏝"


def test_half_a_character_at_the_end_is_told(sandbox, connect):
    context = sandbox.run(["printf", r"a\303"])
    with connect(context["id"]) as ws:
        assert ws.until_done()[0]["stdout"] == "a\ufffd"


def test_binary_frames_are_exact(sandbox, connect):
    context = sandbox.start(["python3", "-c", "import os; os.write(1, bytes(range(256)))"])
    content = b""
    with connect(context["id"], "?binary=true") as ws:
        while True:
            opcode, payload = ws.frame()
            if opcode != 2:
                break
            assert payload[0] == 1 and struct.unpack(">Q", payload[1:9]) == (len(content),)
            content += payload[9:]
    assert content == bytes(range(256)) and json.loads(payload)["type"] == "done"


def test_slow_reader_loses_nothing(sandbox, connect):
    import time
    size = 12 << 20
    context = sandbox.start(["sh", "-c", "until [ -e /tmp/socket ]; do sleep 0.05; done; "
                             f"head -c {size} /dev/zero | tr '\\0' x"])
    with connect(context["id"]) as ws:
        sandbox.write("/tmp/socket", b"")
        time.sleep(1.5)
        text, _ = ws.until_done()
    assert len(text["stdout"]) == size


def test_interpreter_over_the_socket(sandbox, connect):
    context = sandbox.client.expect(201, "POST", f"{sandbox.path}/contexts",
                                    {"type": "repl", "repl": {"alias": "python"}}).data
    with connect(context["id"]) as ws:
        ws.send({"type": "input", "data": "print('hi')\n6 * 7", "requestId": "r1"})
        seen = []
        while not seen or seen[-1]["type"] != "done":
            seen.append(ws.json())
    printed = "".join(each["data"] for each in seen if each["type"] == "output")
    assert printed == "hi\n"
    assert any(each["type"] == "result" and each["data"]["text/plain"] == "42" for each in seen)
    assert seen[-1]["request_id"] == "r1"
    sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{context['id']}")


def test_a_plain_request_is_told(sandbox):
    context = sandbox.run(["true"])
    answer = sandbox.client.call("GET", f"{sandbox.path}/contexts/{context['id']}/ws")
    assert answer.status == 400, answer.body


def test_unknown_context_is_not_found(sandbox, connect):
    with connect("ctx-00000000") as ws:
        assert ws.status == 404
