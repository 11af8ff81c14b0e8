"""Large downloads go from the file into the connection without passing through our memory: the
kernel sends what the sandbox opened (docs/api-files). Whatever the sandbox does to the file
meanwhile, the client gets the whole of it or an answer that visibly broke off, and a sandbox that is
deleted takes its files along."""
import hashlib
import http.client
import os
import socket
import threading

import pytest

from harness import kernel
from harness.server import wait_until

MIB = 1 << 20
SIZE = 24 * MIB
# How much the connection takes while nobody reads: less than a file, so that it is under way.
RECEIVE_BYTES = 64 * 1024


@pytest.fixture(scope="module")
def box(shared):
    """A sandbox with a large file, and what is in it."""
    sandbox = shared
    sandbox.content = os.urandom(SIZE)
    sandbox.write("/tmp/large", sandbox.content)
    return sandbox


@pytest.fixture(scope="module")
def shared(server):
    sandbox = server.client.create()
    yield sandbox
    sandbox.delete()


def held(server, name):
    """Descriptors of the API process for files of that name."""
    api = server.daemons()["api"]
    found = []
    for descriptor in os.listdir(f"/proc/{api}/fd"):
        try:
            target = os.readlink(f"/proc/{api}/fd/{descriptor}")
        except OSError:
            continue
        if target.removesuffix(" (deleted)").endswith(f"/{name}"):
            found.append(target)
    return found


class Slow:
    """A download that has begun and is not read."""

    def __init__(self, sandbox, path, headers=None):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        self.socket.settimeout(60)
        self.socket.connect((sandbox.client.host, sandbox.client.port))
        lines = [f"{name}: {value}" for name, value in
                 sandbox.client.headers({"Host": "x", **(headers or {})}).items()]
        self.socket.sendall("\r\n".join([f"GET {sandbox.file_path(path)} HTTP/1.1", *lines, "", ""])
                            .encode())
        self.text = b""
        while b"\r\n\r\n" not in self.text:
            self.text += self.socket.recv(1000)

    def rest(self):
        """What comes after the head until the server has nothing more; the length it announced."""
        head, _, body = self.text.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        pieces = [body]
        got = len(body)
        try:
            while got < length and (piece := self.socket.recv(MIB)):
                pieces.append(piece)
                got += len(piece)
        except ConnectionResetError:
            pass
        return b"".join(pieces), length

    def close(self):
        self.socket.close()


def test_whole_and_in_ranges(box, server):
    assert box.read("/tmp/large") == box.content
    for first, last in ((0, SIZE - 1), (4097, 4097 + 2 * MIB), (SIZE - MIB - 3, SIZE - 1), (5, 5)):
        answer = box.client.expect(206, "GET", box.file_path("/tmp/large"),
                                   headers={"Range": f"bytes={first}-{last}"})
        assert answer.body == box.content[first:last + 1], (first, last)
    etag = box.client.expect(200, "GET", box.file_path("/tmp/large")).headers["ETag"]
    answer = box.client.call("GET", box.file_path("/tmp/large"), headers={"If-None-Match": etag})
    assert (answer.status, answer.body) == (304, b"")
    answer = box.client.expect(200, "GET", box.file_path("/tmp/large"), headers={"If-Match": etag})
    assert answer.body == box.content
    assert not held(server, "large"), "it lets go when it is done"


def test_a_connection_carries_on_after_it(box):
    connection = http.client.HTTPConnection(box.client.host, box.client.port, timeout=60)
    for _ in range(3):
        connection.request("GET", box.file_path("/tmp/large"), headers=box.client.headers())
        assert connection.getresponse().read() == box.content
    connection.close()


def test_the_kernel_sends_it(box, server):
    """Not bytes but the file itself is with the API process, and only for as long as it is sent."""
    slow = Slow(box, "/tmp/large")
    assert held(server, "large")
    body, _ = slow.rest()
    assert body == box.content
    slow.close()
    wait_until(lambda: not held(server, "large"), 10, "the file is let go")


def test_a_client_that_goes_away_frees_it(box, server):
    slow = Slow(box, "/tmp/large")
    assert held(server, "large")
    slow.close()
    wait_until(lambda: not held(server, "large"), 10, "the file is let go")


def test_a_file_that_is_cut_while_it_is_sent_does_not_look_complete(box):
    box.write("/tmp/cut", box.content)
    slow = Slow(box, "/tmp/cut")
    box.out(f"truncate -s {12 * MIB} /tmp/cut")
    body, length = slow.rest()
    assert length == SIZE and len(body) <= 12 * MIB and box.content.startswith(body)
    slow.close()


def test_a_file_that_is_removed_or_replaced_while_it_is_sent_arrives_whole(box):
    for change in ("rm /tmp/moving", "echo other > /tmp/new && mv /tmp/new /tmp/moving"):
        box.write("/tmp/moving", box.content)
        slow = Slow(box, "/tmp/moving")
        box.out(change)
        assert slow.rest()[0] == box.content, change
        slow.close()


def test_a_sandbox_that_is_deleted_takes_its_files_along(create, server):
    """However slowly somebody reads."""
    sandbox = create()
    sandbox.write("/tmp/doomed", os.urandom(SIZE))
    slow = Slow(sandbox, "/tmp/doomed")
    assert held(server, "doomed")
    sandbox.delete()
    wait_until(lambda: not held(server, "doomed"), 30, "the file is let go")
    body, length = slow.rest()
    assert len(body) < length, "the client sees that it broke off"
    slow.close()


def test_a_sparse_file_of_a_tebibyte(box):
    box.out(f"truncate -s 1T /tmp/sparse && printf end | dd of=/tmp/sparse bs=1 seek={2**40 - 3} "
            "conv=notrunc status=none")
    answer = box.client.expect(206, "GET", box.file_path("/tmp/sparse"),
                               headers={"Range": f"bytes={2**40 - 2 * MIB}-"})
    assert answer.body == bytes(2 * MIB - 3) + b"end"
    slow = Slow(box, "/tmp/sparse")
    slow.close()
    box.out("rm /tmp/sparse")


def test_what_is_swapped_under_the_path_is_whole_or_refused(box):
    """A file, a symlink to what may not be read, a FIFO and a file of /proc take turns at one path: a
    reader gets the file, the file of /proc or a refusal, and never waits."""
    box.write("/tmp/swap-file", box.content)
    context = box.start(["sh", "-c", """
        mkfifo /tmp/swap-fifo; ln -sf /etc/shadow /tmp/swap-shadow; ln -sf /proc/version /tmp/swap-proc
        while [ ! -e /tmp/swap-stop ]; do
          for each in file shadow fifo proc; do
            ln -f /tmp/swap-$each /tmp/swap-next 2>/dev/null || cp -P /tmp/swap-$each /tmp/swap-next
            mv -f /tmp/swap-next /tmp/swap
          done
        done"""])["id"]
    wait_until(lambda: box.client.call("GET", box.file_path("/tmp/swap", "/stat")).status == 200, 30,
               "the swapping has begun")
    expected = hashlib.sha256(box.content).digest()
    seen, problems = set(), []

    def read():
        for _ in range(25):
            answer = box.client.call("GET", box.file_path("/tmp/swap"), timeout=30)
            if answer.status != 200:
                seen.add(answer.status)
            elif hashlib.sha256(answer.body).digest() == expected:
                seen.add("file")
            elif answer.body.startswith(b"Linux version"):
                seen.add("proc")
            else:
                problems.append((answer.status, len(answer.body)))
    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    box.write("/tmp/swap-stop", b"")
    box.client.call("DELETE", f"{box.path}/contexts/{context}")
    assert not problems, problems
    assert "file" in seen and seen <= {"file", "proc", 403, 404, 409}, seen


def test_rights_are_those_of_the_user(box):
    box.out(f"head -c {2 * MIB} /dev/zero > /root/large && chmod 600 /root/large", user="root")
    assert box.client.call("GET", box.file_path("/root/large")).status == 403
    assert box.read("/root/large", user="root") == bytes(2 * MIB)


def test_many_at_once_are_all_right(box, server):
    """More than the kernel sends by itself at a time: the others are copied."""
    expected = hashlib.sha256(box.content[:MIB]).digest()
    problems = []

    def read():
        answer = box.client.call("GET", box.file_path("/tmp/large"),
                                 headers={"Range": f"bytes=0-{MIB - 1}"}, timeout=60)
        if answer.status != 206 or hashlib.sha256(answer.body).digest() != expected:
            problems.append((answer.status, len(answer.body)))
    slow = [Slow(box, "/tmp/large") for _ in range(70)]
    assert len(held(server, "large")) <= 64
    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
    for each in slow[:3]:
        assert each.rest()[0] == box.content
    for each in slow:
        each.close()
    wait_until(lambda: not held(server, "large"), 10, "all are let go")


def test_a_large_file_of_a_volume(server, create):
    volume = server.client.create_volume()
    content = os.urandom(3 * MIB)
    try:
        volume.write("/large", content)
        assert volume.read("/large") == content
    finally:
        volume.delete()


def test_memory_of_the_server_does_not_grow(box, server):
    api = server.daemons()["api"]
    before = kernel.kibibytes(api, "VmHWM")
    for _ in range(3):
        box.read("/tmp/large")
    assert kernel.kibibytes(api, "VmHWM") - before < 4096
