"""Runs inside a sandbox: a server on loopback that does what services do, and what they should not.

Only the standard library: python3 service_server.py PORT [ADDRESS]
"""
import base64
import hashlib
import http.server
import json
import socket
import sys
import threading
import time

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" in self.headers.get("transfer-encoding", ""):
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def answer(self, body, status=200, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def raw(self, text):
        self.wfile.write(text)
        self.wfile.flush()
        self.close_connection = True

    def do(self):
        path = self.path.split("?")[0]
        special = getattr(self, "at_" + path.strip("/").replace("-", "_"), None)
        if special:
            return special()
        body = self.body()
        seen = {"method": self.command, "path": self.path, "headers": self.headers.items(),
                "peer": self.client_address[0], "connection": id(self.connection),
                "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        self.answer(json.dumps(seen).encode(), 200, [("content-type", "application/json")])

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = do

    def at_big(self):
        count = int(self.path.split("=")[1])
        self.send_response(200)
        self.send_header("content-length", str(count << 20))
        self.end_headers()
        for number in range(count):
            self.wfile.write(bytes([number % 256]) * (1 << 20))

    def at_events(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for number in range(3):
            self.raw(b"data: %d\n\n" % number)
            SIGNAL.wait()
            SIGNAL.clear()

    def at_next(self):
        SIGNAL.set()
        self.answer(b"ok")

    def at_fields(self):
        self.answer(b"", 302, [("location", "/there"), ("set-cookie", "a=b; Path=/; HttpOnly"),
                               ("set-cookie", "c=d; Domain=test"), ("x-frame-options", "DENY"),
                               ("service-worker-allowed", "/"),
                               ("content-security-policy", "default-src 'self'; frame-ancestors 'none'")])

    def at_garbage(self):
        self.raw(b"this is not HTTP\r\n\r\n")

    def at_split(self):
        self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!")

    def at_both(self):
        self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"5\r\nhello\r\n0\r\n\r\n")

    def at_half(self):
        self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly half")

    def at_headers(self):
        self.raw(b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * (1 << 20) + b"\r\n\r\n")

    def at_hang(self):
        SIGNAL.wait(60)
        self.answer(b"late")

    def at_close(self):
        self.close_connection = True

    def at_socket(self):
        key = self.headers["sec-websocket-key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        chosen = self.headers.get("sec-websocket-protocol", "").split(",")[0].strip()
        lines = f"sec-websocket-protocol: {chosen}\r\n" if chosen else ""
        self.wfile.write((f"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"
                          f"connection: Upgrade\r\nsec-websocket-accept: {accept}\r\n{lines}\r\n").encode())
        while True:
            first, second = self.rfile.read(2)
            size = second & 127
            if size == 126:
                size = int.from_bytes(self.rfile.read(2), "big")
            elif size == 127:
                size = int.from_bytes(self.rfile.read(8), "big")
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
            head = bytes([first])
            if size < 126:
                head += bytes([size])
            elif size < 65536:
                head += b"\x7e" + size.to_bytes(2, "big")
            else:
                head += b"\x7f" + size.to_bytes(8, "big")
            self.wfile.write(head + data)
            if first & 15 == 8:
                self.close_connection = True
                return


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


SIGNAL = threading.Event()
if __name__ == "__main__":
    address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    if ":" in address:
        Server.address_family = socket.AF_INET6
    server = Server((address, int(sys.argv[1])), Handler)
    print("ready", flush=True)
    server.serve_forever()
