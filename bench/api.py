"""As little client as possible: what the benches measure is the server."""
import json
import re
import socket
import urllib.parse


SILENCE_SECONDS = 300  # a server that says nothing for so long hangs


class Refused(Exception):
    """The server answered, and not with success."""


class Api:
    """One kept-alive connection."""

    def __init__(self, url, key):
        parts = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port),
                                               timeout=SILENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n"

    def request(self, method, path, body=None):
        text = "" if body is None else json.dumps(body)
        return (f"{method} {path} HTTP/1.1\r\n{self.head}Content-Type: application/json\r\n"
                f"Content-Length: {len(text)}\r\n\r\n{text}").encode()

    def receive(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise ConnectionError("the server closed the connection in the middle of an answer")
        return piece

    def send(self, request):
        self.socket.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.receive()
        head, _, body = answer.partition(b"\r\n\r\n")
        size = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
        while len(body) < size:
            body += self.receive()
        if not 200 <= int(head.split()[1]) < 300:
            raise Refused(body.decode())
        return body

    def call(self, method, path, body=None):
        return json.loads(self.send(self.request(method, path, body)))["data"]
