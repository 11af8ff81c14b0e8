"""The rest of the internet, as the boundary tests have it: one process in a network namespace of its
own that answers at every address and every port, and writes down whatever arrives.

Run as a program inside that namespace. Takes one line of JSON for each order on standard input and
answers with one line. Three eyes: the wire itself (every packet, so that even a lone SYN or an ICMP
echo counts), the TCP and UDP servers behind it (TLS opened, HTTP/1 and HTTP/2 taken apart), and the
name server.
"""
import base64
import json
import pathlib
import socket
import ssl
import struct
import sys
import threading
import time

import h2.config
import h2.connection
import h2.events

PORT = 1
MAX_KEPT = 1 << 20
IP_TRANSPARENT, IPV6_TRANSPARENT = 19, 75
IP_RECVORIGDSTADDR, IPV6_RECVORIGDSTADDR = 20, 74
METHODS = (b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH", b"CONNECT")


class Notes:
    """Everything that was seen, in order."""

    def __init__(self):
        self.lock = threading.Lock()
        self.packets, self.connections, self.datagrams, self.questions = [], [], [], []

    def clear(self):
        with self.lock:
            for each in (self.packets, self.connections, self.datagrams, self.questions):
                each.clear()

    def seen(self):
        with self.lock:
            return {"packets": list(self.packets), "datagrams": list(self.datagrams),
                    "questions": list(self.questions),
                    "connections": [each.told() for each in self.connections]}


class Seen:
    """One TCP connection."""

    def __init__(self, address, port, source):
        self.address, self.port, self.source = address, port, source
        self.tls, self.sni, self.alpn, self.error = False, None, None, None
        self.client_certificate = None
        self.raw, self.requests, self.closed = b"", [], False

    def told(self):
        return {"address": self.address, "port": self.port, "tls": self.tls, "sni": self.sni,
                "alpn": self.alpn, "error": self.error, "closed": self.closed,
                "client_certificate": self.client_certificate,
                "raw": base64.b64encode(self.raw).decode(), "requests": list(self.requests)}


def plain(address):
    return address.removeprefix("::ffff:")


class Wire(threading.Thread):
    """Every packet that reaches this namespace."""

    def __init__(self, notes, interface):
        super().__init__(daemon=True)
        self.notes = notes
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.socket.bind((interface, 3))

    def run(self):
        while True:
            data, (_, kind, direction, *_rest) = self.socket.recvfrom(65536)
            if direction == socket.PACKET_OUTGOING:
                continue
            seen = None
            if kind == 0x0800 and len(data) >= 20:
                start = (data[0] & 15) * 4
                seen = (data[9], socket.inet_ntop(socket.AF_INET, data[16:20]), data[start:])
            elif kind == 0x86DD and len(data) >= 40:
                seen = (data[6], socket.inet_ntop(socket.AF_INET6, data[24:40]), data[40:])
            if seen is None:
                continue
            protocol, address, rest = seen
            if protocol == 58 and rest[:1] in (b"\x85", b"\x86", b"\x87", b"\x88", b"\x8f"):
                continue  # neighbours getting to know each other
            if address.startswith("ff02:"):
                continue
            port = struct.unpack("!H", rest[2:4])[0] if protocol in (6, 17) and len(rest) > 3 else 0
            with self.notes.lock:
                if len(self.notes.packets) < 100000:
                    self.notes.packets.append([protocol, address, port])


class Behaviour:
    """How an address answers, when not as usual."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.at = {}        # address -> name of the certificate, or "hang", "close", "banner:..."
        self.answers = {}   # path -> bytes sent instead of an answer
        self.contexts = {}

    def context(self, name):
        if name not in self.contexts:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.directory / f"{name}.crt", self.directory / f"{name}.key")
            context.set_alpn_protocols(["http/1.1"] if name == "old" else ["h2", "http/1.1"])
            if name == "asks":
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(self.directory / "ca.crt")
            self.contexts[name] = context
        return self.contexts[name]


class Server:
    """Answers at every address and port."""

    def __init__(self, notes, behaviour):
        self.notes, self.behaviour = notes, behaviour
        self.listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.listener.setsockopt(socket.SOL_IP, IP_TRANSPARENT, 1)
        self.listener.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("::", PORT))
        self.listener.listen(4096)
        self.datagrams = {}
        for family, level, transparent, original, any_address in (
                (socket.AF_INET, socket.SOL_IP, IP_TRANSPARENT, IP_RECVORIGDSTADDR, "0.0.0.0"),
                (socket.AF_INET6, socket.IPPROTO_IPV6, IPV6_TRANSPARENT, IPV6_RECVORIGDSTADDR,
                 "::")):
            each = socket.socket(family, socket.SOCK_DGRAM)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.setsockopt(level, transparent, 1)
            each.setsockopt(level, original, 1)
            each.bind((any_address, PORT))
            threading.Thread(target=self.receive, args=(each,), daemon=True).start()
        threading.Thread(target=self.accept, daemon=True).start()

    def receive(self, sock):
        while True:
            data, extra, _, source = sock.recvmsg(65536, 256)
            for level, kind, value in extra:
                if level == socket.SOL_IP and kind == IP_RECVORIGDSTADDR:
                    to = (socket.inet_ntop(socket.AF_INET, value[4:8]),
                          struct.unpack("!H", value[2:4])[0])
                elif level == socket.IPPROTO_IPV6 and kind == IPV6_RECVORIGDSTADDR:
                    to = (socket.inet_ntop(socket.AF_INET6, value[8:24]),
                          struct.unpack("!H", value[2:4])[0])
                else:
                    continue
                with self.notes.lock:
                    self.notes.datagrams.append(
                        {"address": to[0], "port": to[1],
                         "data": base64.b64encode(data).decode()})
                answer = socket.socket(sock.family, socket.SOCK_DGRAM)
                answer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    answer.bind(to)
                    answer.sendto(b"witness:" + data, source)
                except OSError:
                    pass
                answer.close()

    def accept(self):
        while True:
            peer, source = self.listener.accept()
            threading.Thread(target=self.serve, args=(peer, source), daemon=True).start()

    def serve(self, peer, source):
        to = peer.getsockname()
        seen = Seen(plain(to[0]), to[1], f"{plain(source[0])}:{source[1]}")
        with self.notes.lock:
            self.notes.connections.append(seen)
        peer.settimeout(60)
        try:
            self.talk(peer, seen)
        except (OSError, ValueError, h2.exceptions.ProtocolError) as error:
            seen.error = f"{type(error).__name__}: {error}"
        finally:
            seen.closed = True
            peer.close()

    def talk(self, peer, seen):
        how = self.behaviour.at.get(seen.address, "good")
        if how == "close":
            return
        if how.startswith("banner:"):
            peer.sendall(how.removeprefix("banner:").encode())
        first = peer.recv(1, socket.MSG_PEEK)
        if how == "hang":
            while data := peer.recv(65536):
                self.keep(seen, data)
            return
        if first == b"\x16":
            peer = self.open_tls(peer, seen, "good" if how.startswith("banner:") else how)
        data = peer.recv(65536)
        self.keep(seen, data)
        if data.startswith(b"PRI * HTTP/2.0"):
            Http2(self, peer, seen).run(data)
        elif data.split(b" ", 1)[0] in METHODS or how.startswith("http"):
            Http1(self, peer, seen).run(data)
        else:
            while data:
                peer.sendall(b"witness:" + data)
                data = peer.recv(65536)
                self.keep(seen, data)

    def open_tls(self, peer, seen, how):
        context = self.behaviour.context(how)

        def note(_, name, __):
            seen.sni = name

        context.sni_callback = note
        seen.tls = True
        peer = context.wrap_socket(peer, server_side=True)
        seen.alpn = peer.selected_alpn_protocol()
        certificate = peer.getpeercert() if context.verify_mode == ssl.CERT_REQUIRED else None
        if certificate:
            seen.client_certificate = str(certificate.get("subject"))
        return peer

    @staticmethod
    def keep(seen, data):
        if len(seen.raw) < MAX_KEPT:
            seen.raw += data

    def answer(self, request):
        """(status, headers, body) for a request in the form of Seen.requests."""
        path = request["target"].split("?")[0]
        body = b"hello from the witness\n"
        headers = [("content-type", "text/plain")]
        if path.endswith("/echo"):
            body = json.dumps(request).encode()
            headers = [("content-type", "application/json"),
                       *((f"x-echo-{name}", value) for name, value in request["headers"]
                         if name in ("authorization", "x-api-key", "cookie"))]
        elif path.endswith("/redirect"):
            return 302, [("location", request["target"].split("to=")[1])], b""
        elif path.endswith("/big"):
            body = b"x" * int(request["target"].split("bytes=")[1])
        return 200, headers, body


class Http1:
    """Reads as plainly as can be: what it takes for a request is what most servers would."""

    def __init__(self, server, peer, seen):
        self.server, self.peer, self.seen, self.buffer = server, peer, seen, b""

    def more(self):
        data = self.peer.recv(65536)
        self.server.keep(self.seen, data)
        self.buffer += data
        return bool(data)

    def take(self, size):
        while len(self.buffer) < size and self.more():
            pass
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def line(self):
        while b"\n" not in self.buffer and self.more():
            pass
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.rstrip(b"\r")

    def run(self, data):
        self.buffer = data
        while self.buffer or self.more():
            first = self.line().decode("latin-1")
            if not first:
                continue
            method, _, rest = first.partition(" ")
            headers = []
            while line := self.line():
                name, _, value = line.decode("latin-1").partition(":")
                headers.append([name.lower(), value.strip()])
            table = dict(headers)
            request = {"method": method, "target": rest.rpartition(" ")[0], "headers": headers,
                       "version": "1", "body": ""}
            self.seen.requests.append(request)
            if table.get("expect", "").lower() == "100-continue":
                self.peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = b""
            if "chunked" in table.get("transfer-encoding", "").lower():
                while size := int(self.line().split(b";")[0] or b"0", 16):
                    body += self.take(size)
                    self.line()
                trailers = []
                while line := self.line():
                    trailers.append(line.decode("latin-1"))
                request["trailers"] = trailers
            elif "content-length" in table:
                body = self.take(int(table["content-length"]))
            request["body"] = body.decode("latin-1")
            if table.get("upgrade", "").lower() == "websocket":
                return self.websocket()
            if not self.answer(request):
                return

    def answer(self, request):
        raw = self.server.behaviour.answers.get(request["target"])
        if raw is not None:
            self.peer.sendall(raw)
            return b"close" not in raw.lower()
        status, headers, body = self.server.answer(request)
        lines = [f"HTTP/1.1 {status} OK", f"content-length: {len(body)}",
                 *(f"{name}: {value}" for name, value in headers)]
        self.peer.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" +
                          (b"" if request["method"] == "HEAD" else body))
        return True

    def websocket(self):
        import hashlib
        key = dict(self.seen.requests[-1]["headers"]).get("sec-websocket-key", "")
        accept = base64.b64encode(hashlib.sha1(
            (key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        self.peer.sendall(("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"
                           f"connection: upgrade\r\nsec-websocket-accept: {accept}\r\n\r\n")
                          .encode())
        while self.more():
            self.peer.sendall(b"\x81\x02hi")


class Http2:
    def __init__(self, server, peer, seen):
        self.server, self.peer, self.seen = server, peer, seen
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=False, header_encoding="latin-1", validate_inbound_headers=False))
        self.streams = {}

    def run(self, data):
        self.h2.initiate_connection()
        while data:
            for event in self.h2.receive_data(data):
                self.handle(event)
            self.peer.sendall(self.h2.data_to_send())
            data = self.peer.recv(65536)
            self.server.keep(self.seen, data)

    def handle(self, event):
        if isinstance(event, h2.events.RequestReceived):
            pseudo = {name: value for name, value in event.headers if name.startswith(":")}
            request = {"method": pseudo.get(":method"), "target": pseudo.get(":path"),
                       "headers": [["host", pseudo.get(":authority")],
                                   *([n, v] for n, v in event.headers if not n.startswith(":"))],
                       "version": "2", "body": ""}
            self.streams[event.stream_id] = request
            self.seen.requests.append(request)
        elif isinstance(event, h2.events.DataReceived):
            request = self.streams[event.stream_id]
            if len(request["body"]) < MAX_KEPT:
                request["body"] += event.data.decode("latin-1")
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            self.streams[event.stream_id]["trailers"] = [f"{n}: {v}" for n, v in event.headers]
        elif isinstance(event, h2.events.StreamEnded):
            request = self.streams.pop(event.stream_id)
            status, headers, body = self.server.answer(request)
            self.h2.send_headers(event.stream_id, [(":status", str(status)), *headers])
            self.h2.send_data(event.stream_id, body[:16384], end_stream=True)


class Names:
    """A name server whose answers are told to it. A name's entry is a list of answers, given in
    turn (the last one stays): each a dictionary of record types to lists of values."""

    TYPES = {"A": 1, "CNAME": 5, "TXT": 16, "AAAA": 28, "SVCB": 64, "HTTPS": 65}

    def __init__(self, notes, address):
        self.notes, self.zone, self.asked = notes, {}, {}
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, 53))
        self.tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind((address, 53))
        self.tcp.listen(64)
        threading.Thread(target=self.serve_udp, daemon=True).start()
        threading.Thread(target=self.serve_tcp, daemon=True).start()

    def serve_udp(self):
        while True:
            data, source = self.udp.recvfrom(4096)
            answer = self.answer(data)
            if answer:
                self.udp.sendto(answer, source)

    def serve_tcp(self):
        while True:
            peer, _ = self.tcp.accept()
            threading.Thread(target=self.serve_peer, args=(peer,), daemon=True).start()

    def serve_peer(self, peer):
        peer.settimeout(20)
        try:
            while len(head := peer.recv(2, socket.MSG_WAITALL)) == 2:
                answer = self.answer(peer.recv(struct.unpack("!H", head)[0], socket.MSG_WAITALL))
                peer.sendall(struct.pack("!H", len(answer)) + answer)
        except OSError:
            pass
        finally:
            peer.close()

    @staticmethod
    def encode(name):
        labels = [each for each in name.split(".") if each]
        return b"".join(bytes([len(each)]) + each.encode() for each in labels) + b"\0"

    def answer(self, data):
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
            at += 1 + data[at]
        kind = struct.unpack("!H", data[at + 1:at + 3])[0]
        question = data[12:at + 5]
        name = ".".join(labels).lower()
        with self.notes.lock:
            self.notes.questions.append([name, kind])
        turns = self.zone.get(name)
        if turns is None:  # no such name
            return data[:2] + struct.pack("!HHHHH", 0x8183, 1, 0, 0, 0) + question
        count = self.asked.get((name, kind), 0)
        self.asked[(name, kind)] = count + 1
        entry = turns[min(count, len(turns) - 1)]
        records = []
        self.gather(name, kind, entry, records)
        return (data[:2] + struct.pack("!HHHHH", 0x8180, 1, len(records), 0, 0) + question +
                b"".join(records))

    def gather(self, name, kind, entry, records):
        for word, values in entry.items():
            if word == "ttl":
                continue
            number = self.TYPES[word]
            if number not in (kind, 5):
                continue
            for value in values:
                if word == "A":
                    content = socket.inet_pton(socket.AF_INET, value)
                elif word == "AAAA":
                    content = socket.inet_pton(socket.AF_INET6, value)
                elif word == "CNAME":
                    content = self.encode(value)
                else:
                    content = bytes.fromhex(value)
                records.append(self.encode(name) + struct.pack(
                    "!HHIH", number, 1, entry.get("ttl", 60), len(content)) + content)
                if word == "CNAME" and value in self.zone:
                    self.gather(value, kind, self.zone[value][-1], records)


def main():
    interface, name_server, certificates = sys.argv[1:]
    notes, behaviour = Notes(), Behaviour(certificates)
    if interface:
        Wire(notes, interface).start()
    Server(notes, behaviour)
    names = Names(notes, name_server)

    def behave(at=None, answers=None):
        behaviour.at = at or {}
        behaviour.answers = {path: base64.b64decode(raw) for path, raw in (answers or {}).items()}

    def zone(entries):
        names.zone, names.asked = entries, {}

    orders = {"seen": notes.seen, "clear": notes.clear, "behave": behave, "zone": zone,
              "now": time.time}

    def say(value):
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()

    say("ready")
    for line in sys.stdin:
        order, arguments = json.loads(line)
        say(orders[order](**arguments))


if __name__ == "__main__":
    main()
