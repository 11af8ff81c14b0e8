"""A small world for tests of the network: this process moves into a network namespace, and behind a
cable is another one that owns every other address there is.

Whatever a server that is started here sends arrives there and is told, and nothing leaves the
machine. The namespaces have no names: they end with their processes. Only this thread moves, so the
tests must speak to the server from it.
"""
import contextlib
import ctypes
import json
import os
import queue
import subprocess
import sys
import threading

CLONE_NEWNET = 0x40000000
ADDRESS, ADDRESS6 = "5.5.1.1", "2a00:5500::1"
NAME_SERVER = "5.5.5.53"
NAME = "outside.example.com"
WEB, ECHO = 80, 7000

SERVER = r"""
import json, socket, struct, subprocess, sys, threading
ADDRESS, ADDRESS6, NAME_SERVER, NAME, WEB, ECHO = json.loads(sys.argv[1])
lock = threading.Lock()

def tell(**what):
    with lock:
        print(json.dumps(what), flush=True)

def plain(address):
    return address.removeprefix("::ffff:")

def web(client, own):
    head = b""
    while b"\r\n\r\n" not in head:
        piece = client.recv(65536)
        if not piece:
            return
        head += piece
    tell(kind="http", to=own, line=head.split(b"\r\n")[0].decode())
    body = f"you asked {own}\n".encode()
    client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: "
                   + str(len(body)).encode() + b"\r\n\r\n" + body)

def echo(client, own):
    while piece := client.recv(65536):
        tell(kind="echo", to=own, bytes=piece.decode())
        client.sendall(piece)

def serve(port, handle):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    def one(client):
        own = plain(client.getsockname()[0])
        tell(kind="connection", to=own, port=port)
        with client:
            try:
                handle(client, own)
            except OSError:
                pass
    while True:
        client, _ = listener.accept()
        threading.Thread(target=one, args=(client,), daemon=True).start()

def datagrams(address, port, answer):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND
    listener.bind((address, port))
    while True:
        question, peer = listener.recvfrom(65536)
        listener.sendto(answer(question, address), peer)

def shout(question, address):
    tell(kind="datagram", to=address, bytes=question.decode())
    return question.upper()

def resolve(question, _):
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode())
        at += question[at] + 1
    end = at + 5
    kind = struct.unpack(">H", question[at + 1:at + 3])[0]
    name = ".".join(labels).lower()
    tell(kind="question", name=name, type=kind)
    known = {1: socket.inet_pton(socket.AF_INET, ADDRESS),
             28: socket.inet_pton(socket.AF_INET6, ADDRESS6)}
    data = known.get(kind) if name == NAME else None
    head = question[:2] + struct.pack(">HHHHH", 0x8180 if name == NAME else 0x8183, 1,
                                      1 if data else 0, 0, 0)
    answer = b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(data)) + data if data else b""
    return head + question[12:end] + answer

sys.stdin.readline()  # the cable is there
for each in ((serve, WEB, web), (serve, ECHO, echo), (datagrams, ADDRESS, ECHO, shout),
             (datagrams, ADDRESS6, ECHO, shout), (datagrams, NAME_SERVER, 53, resolve)):
    threading.Thread(target=each[0], args=each[1:], daemon=True).start()
print(json.dumps({"kind": "ready"}), flush=True)
sys.stdin.read()
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


class Outside:
    def __enter__(self):
        self.ends = contextlib.ExitStack()
        self.arrived, self._news = [], queue.Queue()
        libc = ctypes.CDLL(None, use_errno=True)
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.ends.callback(os.close, before)
        with contextlib.ExitStack() as undo:
            undo.enter_context(self.ends)
            assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            self.ends.callback(libc.setns, before, CLONE_NEWNET)
            self._start_server()
            undo.pop_all()
        return self

    def _start_server(self):
        values = json.dumps([ADDRESS, ADDRESS6, NAME_SERVER, NAME, WEB, ECHO])
        self.process = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-c", SERVER, values],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ends.callback(self.process.wait)
        self.ends.callback(self.process.kill)
        self._wait_for_namespace()
        far = str(self.process.pid)
        ip("link", "set", "lo", "up")
        ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", far)
        ip("addr", "add", "172.30.7.1/24", "dev", "near")
        ip("-6", "addr", "add", "fd30:7::1/64", "dev", "near", "nodad")
        ip("link", "set", "near", "up")
        inside = ["nsenter", "--net", "--target", far, "ip"]
        for words in (["link", "set", "lo", "up"], ["addr", "add", "172.30.7.2/24", "dev", "far"],
                      ["-6", "addr", "add", "fd30:7::2/64", "dev", "far", "nodad"],
                      ["link", "set", "far", "up"],
                      ["route", "add", "local", "default", "dev", "lo"],
                      ["-6", "route", "add", "local", "default", "dev", "lo"],
                      ["route", "add", "172.30.7.1", "dev", "far", "table", "local"],
                      ["-6", "route", "add", "fd30:7::1", "dev", "far", "table", "local"]):
            subprocess.run([*inside, *words], check=True, capture_output=True, timeout=30)
        ip("route", "add", "default", "via", "172.30.7.2")
        ip("-6", "route", "add", "default", "via", "fd30:7::2")
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        threading.Thread(target=self._listen, daemon=True).start()
        assert self._news.get(timeout=30)["kind"] == "ready"

    def _wait_for_namespace(self):
        own = os.stat("/proc/thread-self/ns/net").st_ino
        for _ in range(1000):
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{self.process.pid}/ns/net").st_ino != own:
                    return
            threading.Event().wait(0.01)
        raise AssertionError("the other namespace does not come up")

    def _listen(self):
        for line in self.process.stdout:
            what = json.loads(line)
            self.arrived.append(what)
            self._news.put(what)

    def of(self, kind, **fields):
        """What has arrived so far, of this kind and with these fields."""
        return [each for each in list(self.arrived) if each["kind"] == kind
                and all(each.get(name) == value for name, value in fields.items())]

    def __exit__(self, *_):
        self.ends.close()

