"""Ten thousand connections at once: all are served, idle ones cost little, storms are taken."""
import re
import resource
import select
import socket
import time

import pytest

from harness.server import wait_until

WANTED = 10_000
# What our side needs besides.
SPARE = 500
# A slow machine may take this long for a round; nothing depends on how long it is.
PATIENCE = 120


def connect(server, count):
    """All at once, without waiting for any."""
    sockets = []
    try:
        for _ in range(count):
            peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            peer.setblocking(False)
            sockets.append(peer)
            peer.connect_ex((server.host, server.port))
    except OSError:
        close(sockets)
        raise
    return sockets


def close(sockets):
    for peer in sockets:
        peer.close()


def ask_all(sockets, request):
    """Sends the request on each and reads one answer from each; gives the number of 200s."""
    poll = select.epoll()
    unsent, waiting, good = {}, {}, 0
    for peer in sockets:
        unsent[peer.fileno()] = peer
        poll.register(peer.fileno(), select.EPOLLOUT)
    deadline = time.monotonic() + PATIENCE
    while (unsent or waiting) and time.monotonic() < deadline:
        for fd, _ in poll.poll(1, 1000):
            if fd in unsent:
                peer = unsent.pop(fd)
                peer.send(request)
                waiting[fd] = (peer, b"")
                poll.modify(fd, select.EPOLLIN)
                continue
            peer, before = waiting[fd]
            got = before + peer.recv(65536)
            if got == before:
                return good  # closed on us
            waiting[fd] = (peer, got)
            head, separator, body = got.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if separator and length and len(body) >= int(length.group(1)):
                good += head.startswith(b"HTTP/1.1 200")
                del waiting[fd]
                poll.unregister(fd)
    poll.close()
    return good


def metric(server, name):
    text = server.client.expect(200, "GET", "/metrics").body.decode()
    return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE).group(1))


@pytest.fixture
def many():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < WANTED + SPARE:
        pytest.skip(f"this process may have {hard} descriptors, {WANTED + SPARE} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, WANTED + SPARE), hard))
    yield WANTED
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_thousand_connections(server, many):
    allowed = metric(server, "atoll_http_connections_max")
    if allowed < many + SPARE:
        pytest.skip(f"the server may have {allowed:.0f} connections")
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    sockets = connect(server, many)
    try:
        assert ask_all(sockets, request) == many
        assert metric(server, "atoll_http_connections_open") >= many
        # They are kept, and the API is there for others meanwhile.
        server.client.expect(200, "GET", "/api/v1/sandboxes")
        assert ask_all(sockets, request) == many
    finally:
        close(sockets)
    wait_until(lambda: metric(server, "atoll_http_connections_open") < 100, PATIENCE,
               "connections of clients that are gone are closed")


def test_pipelined_requests_are_answered_in_order(server):
    """Over the shipped server: routes of different speed, one connection, all sent at once."""
    paths = ["/healthz", "/api/v1/sandboxes", "/metadata", "/api/v1/nothing"] * 25
    statuses = [200, 200, 200, 404] * 25
    lines = [f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: n{number}\r\n"
             f"Authorization: Bearer {server.key}\r\n"
             + ("Connection: close\r\n\r\n" if number + 1 == len(paths) else "\r\n")
             for number, path in enumerate(paths)]
    with socket.create_connection((server.host, server.port), timeout=60) as peer:
        peer.sendall("".join(lines).encode())
        got = b""
        while piece := peer.recv(65536):
            got += piece
    answers = re.findall(rb"HTTP/1\.1 (\d+) [^\r]*\r\n(?:[^\r]+\r\n)*?x-request-id: n(\d+)\r\n", got)
    assert [(int(status), int(number)) for status, number in answers] == \
        list(zip(statuses, range(len(paths))))
