"""What the attacker has at hand: uploaded into the sandbox, on the standard library (and hpack).

Every way out ends within its time limit and tells what came back as a dictionary; what matters is
what the witness saw.
"""
import json
import os
import socket
import ssl
import struct
import time

got = {}


def told(data=b"", error=None, **more):
    return {"data": data.decode("latin-1"), "error": error, **more}


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def connect(address, port, seconds=5):
    sock = socket.socket(family(address), socket.SOCK_STREAM)
    sock.settimeout(seconds)
    sock.connect((address, port))
    return sock


# Who has begun to answer is given up after so long a silence.
PAUSE_SECONDS = 0.4


def read(sock, seconds=3, most=1 << 20):
    """All that comes until the peer closes, or says nothing any more."""
    sock.settimeout(seconds)
    data, error = b"", None
    try:
        while len(data) < most and (piece := sock.recv(65536)):
            data += piece
            sock.settimeout(min(seconds, PAUSE_SECONDS))
    except OSError as problem:
        error = type(problem).__name__
    return told(data, error)


def tcp(address, port, data=b"", seconds=3):
    try:
        with connect(address, port, seconds) as sock:
            sock.sendall(data)
            return read(sock, seconds)
    except OSError as error:
        return told(error=type(error).__name__)


def udp(address, port, data, seconds=1):
    with socket.socket(family(address), socket.SOCK_DGRAM) as sock:
        sock.settimeout(seconds)
        try:
            sock.sendto(data, (address, port))
            return told(sock.recv(65536))
        except OSError as error:
            return told(error=type(error).__name__)


# Names ------------------------------------------------------------------------------------------
def question(name, kind=1, more=b""):
    labels = [each for each in (name if isinstance(name, bytes) else name.encode()).split(b".")
              if each]
    return (struct.pack("!HHHHHH", 0x1234, 0x0100, 1, 0, 0, 0) +
            b"".join(bytes([len(each)]) + each for each in labels) + b"\0" +
            struct.pack("!HH", kind, 1) + more)


def name_server():
    for line in open("/etc/resolv.conf"):
        if line.startswith("nameserver"):
            return line.split()[1]
    return "127.0.0.1"


def ask(name, kind=1, server=None, over_tcp=False, seconds=2):
    message, server = question(name, kind), server or name_server()
    if over_tcp:
        return tcp(server, 53, struct.pack("!H", len(message)) + message, seconds)
    return udp(server, 53, message, seconds)


def addresses(name):
    try:
        return sorted({each[4][0] for each in socket.getaddrinfo(name, None)})
    except OSError as error:
        return [f"error {error}"]


# TLS --------------------------------------------------------------------------------------------
def context(alpn=None):
    made = ssl.create_default_context()
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if alpn:
        made.set_alpn_protocols(alpn)
    return made


def tls(address, port, name, alpn=None, seconds=6, **options):
    return context(alpn).wrap_socket(connect(address, port, seconds), server_hostname=name,
                                     **options)


def https(address, name, request, port=443, seconds=3, alpn=("http/1.1",)):
    try:
        with tls(address, port, name, list(alpn)) as sock:
            sock.sendall(request)
            return read(sock, seconds)
    except (OSError, ValueError) as error:
        return told(error=f"{type(error).__name__}: {error}")


def to(name, request, seconds=3, port=443):
    """The same to a name, as its resolver finds it."""
    found = addresses(name)
    if found[0].startswith("error"):
        return told(error=found[0])
    v4 = [each for each in found if ":" not in each]
    return https((v4 or found)[0], name, request, port, seconds)


def in_pieces(address, port, name, cut, seconds=10):
    """A handshake whose ClientHello goes out as `cut(bytes)` says, then a GET."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = context(["http/1.1"]).wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        with connect(address, port, seconds) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            first = True
            while True:
                try:
                    engine.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    data = outgoing.read()
                    for piece in (cut(data) if first else [data]):
                        sock.sendall(piece)
                        time.sleep(0.002 if first else 0)
                    first = False
                    more = sock.recv(65536)
                    if not more:
                        return told(error="closed")
                    incoming.write(more)
            engine.write(b"GET /hello HTTP/1.1\r\nHost: " + name.encode() +
                         b"\r\nConnection: close\r\n\r\n")
            sock.sendall(outgoing.read())
            data = b""
            while more := sock.recv(65536):
                incoming.write(more)
                try:
                    data += engine.read(65536)
                except ssl.SSLWantReadError:
                    continue
                except ssl.SSLError:
                    break
                if data.endswith(b"\n"):
                    break
            return told(data)
    except OSError as error:
        return told(error=f"{type(error).__name__}: {error}")


def extension(kind, content):
    return struct.pack("!HH", kind, len(content)) + content


def server_name(*names):
    entries = b"".join(b"\0" + struct.pack("!H", len(each)) + each for each in names)
    return extension(0, struct.pack("!H", len(entries)) + entries)


def hello(*extensions, records=1):
    """A ClientHello of one's own making."""
    ciphers = bytes.fromhex("130113021303c02bc02fc02cc030009c009d002f0035")
    usual = (extension(10, bytes.fromhex("0004001d0017")) + extension(11, b"\x01\0") +
             extension(13, bytes.fromhex("000c040308040401050308050501")) +
             extension(43, bytes.fromhex("0403040303")) +
             extension(51, b"\0\x24\0\x1d\0\x20" + os.urandom(32)))
    every = b"".join(extensions) + usual
    body = (b"\x03\x03" + os.urandom(32) + b"\x20" + os.urandom(32) +
            struct.pack("!H", len(ciphers)) + ciphers + b"\x01\0" +
            struct.pack("!H", len(every)) + every)
    message = b"\x01" + struct.pack("!I", len(body))[1:] + body
    size = -(-len(message) // records)
    return b"".join(b"\x16\x03\x01" + struct.pack("!H", len(piece)) + piece
                    for piece in (message[at:at + size] for at in range(0, len(message), size)))


# HTTP/2 -----------------------------------------------------------------------------------------
class H2:
    """Frames as one likes them."""

    def __init__(self, address, name, port=443, seconds=8):
        import hpack
        self.sock = tls(address, port, name, ["h2"], seconds)
        self.alpn = self.sock.selected_alpn_protocol()
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.frame(4, 0, 0, b"")

    def frame(self, kind, flags, stream, payload):
        self.sock.sendall(struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) +
                          struct.pack("!I", stream) + payload)

    def headers(self, stream, fields, end=True):
        self.frame(1, 4 | (1 if end else 0), stream, self.encoder.encode(fields, huffman=False))

    def get(self, stream, authority, path="/hello", method="GET", more=(), end=True):
        self.headers(stream, [(":method", method), (":scheme", "https"),
                              (":authority", authority), (":path", path), *more], end)

    def data(self, stream, content, end=True):
        self.frame(0, 1 if end else 0, stream, content)

    def collect(self, seconds=3, streams=1):
        """{stream: {"status", "body", "reset"}} until so many have ended, or time is up."""
        result, buffer, ended = {}, b"", 0
        self.sock.settimeout(seconds)
        try:
            while ended < streams and (piece := self.sock.recv(65536)):
                buffer += piece
                while len(buffer) >= 9:
                    size = int.from_bytes(buffer[:3], "big")
                    if len(buffer) < 9 + size:
                        break
                    kind, flags = buffer[3], buffer[4]
                    stream = int.from_bytes(buffer[5:9], "big")
                    payload, buffer = buffer[9:9 + size], buffer[9 + size:]
                    entry = result.setdefault(stream, {"status": None, "body": "", "reset": None,
                                                       "headers": []})
                    if kind == 1:
                        fields = [(str(n), str(v)) for n, v in self.decoder.decode(payload)]
                        entry["headers"] += fields
                        entry["status"] = dict(fields).get(":status", entry["status"])
                    elif kind == 0:
                        entry["body"] += payload.decode("latin-1")
                    elif kind == 3:
                        entry["reset"] = int.from_bytes(payload, "big")
                        ended += 1
                    elif kind == 7:
                        entry["reset"] = "goaway"
                        ended = streams
                    elif kind == 4 and not flags & 1:
                        self.frame(4, 1, 0, b"")
                    if kind in (0, 1) and flags & 1:
                        ended += 1
        except OSError as error:
            result[0] = {"error": type(error).__name__}
        return {str(stream): entry for stream, entry in result.items()}
