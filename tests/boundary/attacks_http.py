"""C1 to C10: HTTP that two readers would read differently, in both directions."""
from attacks import INSPECTED, OPEN, attack, inspected, limited
from world import API, EVIL, OLD

HOST = b"Host: api.harbour.com\r\n"
SMUGGLED = b"GET /secret/x HTTP/1.1\r\nHost: api.harbour.com\r\n\r\n"


def post(headers, body=b""):
    return b"POST /hello HTTP/1.1\r\n" + HOST + headers + b"\r\n" + body


CHUNKED = b"Transfer-Encoding: chunked\r\n"
ZERO = b"0\r\n\r\n"
SMUGGLING = {
    "cl-te": post(b"Content-Length: %d\r\n" % (len(ZERO) + len(SMUGGLED)) + CHUNKED,
                  ZERO + SMUGGLED),
    "te-cl": post(b"Content-Length: 4\r\n" + CHUNKED,
                  b"%x\r\n" % len(SMUGGLED) + SMUGGLED + b"\r\n" + ZERO),
    "te-te": post(CHUNKED + b"Transfer-Encoding: cow\r\n", ZERO + SMUGGLED),
    "te-identity": post(b"Transfer-Encoding: identity\r\nContent-Length: %d\r\n" % len(SMUGGLED),
                        SMUGGLED),
    "te-list": post(b"Transfer-Encoding: chunked, identity\r\n", ZERO + SMUGGLED),
    "te-odd": post(b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", ZERO + SMUGGLED),
    "te-tab": post(b"Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n", ZERO + SMUGGLED),
    "te-vertical-tab": post(b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n",
                            ZERO + SMUGGLED),
    "te-space-before-colon": post(b"Transfer-Encoding : chunked\r\nContent-Length: 5\r\n",
                                  ZERO + SMUGGLED),
    "te-folded": post(b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n", ZERO + SMUGGLED),
    "te-quoted": post(b'Transfer-Encoding: "chunked"\r\nContent-Length: 5\r\n', ZERO + SMUGGLED),
    "te-10": b"POST /hello HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n" + ZERO + SMUGGLED,
    "te-in-line": post(b"X: y\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                       ZERO + SMUGGLED),
    "cl-cl": post(b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(SMUGGLED), SMUGGLED),
    "cl-list": post(b"Content-Length: 0, %d\r\n" % len(SMUGGLED), SMUGGLED),
    "cl-plus": post(b"Content-Length: +0\r\n", SMUGGLED),
    "cl-minus": post(b"Content-Length: -1\r\n", SMUGGLED),
    "cl-hex": post(b"Content-Length: 0x0\r\n", SMUGGLED),
    "cl-huge": post(b"Content-Length: 18446744073709551616\r\n", SMUGGLED),
    "cl-space": post(b"Content-Length: 0 0\r\n", SMUGGLED),
    "cl-name-nul": post(b"Content-Length\0: 100\r\n", SMUGGLED),
    "chunk-extension-lf": post(CHUNKED, b"0;\n" + SMUGGLED + b"\r\n\r\n"),
    "chunk-size-overflow": post(CHUNKED, b"ffffffffffffffff1\r\n" + SMUGGLED),
    "chunk-size-sign": post(CHUNKED, b"-1\r\n" + SMUGGLED),
    "chunk-size-hex": post(CHUNKED, b"0x0\r\n\r\n" + SMUGGLED),
    "chunk-without-crlf": post(CHUNKED, b"1\r\naXX0\r\n\r\n" + SMUGGLED),
    "chunk-bare-lf": post(CHUNKED, b"0\n\n" + SMUGGLED),
    "bare-lf": b"POST /hello HTTP/1.1\n" + HOST + b"Content-Length: 0\n\n" + SMUGGLED,
    "bare-cr": post(b"X: a\rContent-Length: 0\r\n", SMUGGLED),
    "obs-fold": post(b"X: y\r\n z\r\nContent-Length: 0\r\n", SMUGGLED),
    "nul-in-value": post(b"X: a\0b\r\nContent-Length: 0\r\n", SMUGGLED),
    "empty-name": post(b": chunked\r\nContent-Length: 0\r\n", SMUGGLED),
    "request-line-extra": b"GET /hello HTTP/1.1 /secret HTTP/1.1\r\n" + HOST + b"\r\n",
    "request-line-tabs": b"GET\t/secret\tHTTP/1.1\r\n" + HOST + b"\r\n",
    "get-with-body": b"GET /hello HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n"
                     % len(SMUGGLED) + SMUGGLED,
    "expect": post(b"Expect: 100-continue\r\nContent-Length: 0\r\n", SMUGGLED),
}


def one_reading(sight):
    """Whatever arrived can be read in one way only."""
    for request in sight.requests():
        names = [name for name, _ in request["headers"]]
        assert request["target"] == "/hello", request
        assert names.count("content-length") + names.count("transfer-encoding") <= 1, request
        assert names.count("host") == 1, request
        for name, value in request["headers"]:
            assert name == name.strip() and name and "\0" not in name + value, request
            if name == "transfer-encoding":
                assert value == "chunked", request
    for each in sight.connections:
        lines = each["raw"].split(b"\r\n\r\n")[0]
        assert each["alpn"] == "h2" or b"\n" not in lines.replace(b"\r\n", b""), each["raw"]


# C1: where does a request end? --------------------------------------------------------------------
@attack("C1", each=SMUGGLING)
def smuggled_request(field, request):
    """A request to a path that is closed, hidden in or behind one that is open. What stands behind
    a request is the next request: it is judged like any other, and refused."""
    field.policy(INSPECTED)
    got = field.run('got["answer"] = to("api.harbour.com", REQUEST, 1.5)', REQUEST=request)
    one_reading(field.seen())
    assert got


@attack("C1", each={name: SMUGGLING[name] for name in
                    ("cl-te", "te-cl", "te-te", "te-folded", "te-space-before-colon", "cl-cl",
                     "chunk-extension-lf", "chunk-bare-lf")})
def smuggled_request_in_plain_http(field, request):
    field.policy(INSPECTED)
    field.run('got["answer"] = tcp(API, 80, REQUEST, 1.5)', REQUEST=request)
    one_reading(field.seen())


@attack("C1", each={name: SMUGGLING[name] for name in
                    ("cl-te", "te-cl", "te-te", "te-tab", "te-folded", "cl-cl", "cl-plus",
                     "chunk-extension-lf", "chunk-size-overflow", "bare-lf", "obs-fold")})
def smuggled_to_a_server_without_http2(field, request):
    field.policy(INSPECTED)
    field.run('got["answer"] = to("old.harbour.com", REQUEST, 1.5)',
              REQUEST=request.replace(b"api.harbour.com", b"old.harbour.com"))
    one_reading(field.seen())


# C1, the other way: where does an answer end? -----------------------------------------------------
POISON = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"
ANSWERS = {
    "cl-te": b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "cl-cl": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 50\r\n\r\n",
    "behind": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "no-content": b"HTTP/1.1 204 No Content\r\nContent-Length: 100\r\n\r\n",
    "not-modified": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "chunk-lf": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n",
    "chunk-overflow": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
    "te-odd": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n",
    "te-twice": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "obs-fold": b"HTTP/1.1 200 OK\r\nX: y\r\n Content-Length: 5\r\nContent-Length: 0\r\n\r\n",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "nul": b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 0\r\n\r\n",
    "cl-plus": b"HTTP/1.1 200 OK\r\nContent-Length: +0\r\n\r\n",
    "no-status": b"HTTP/1.1 \r\nContent-Length: 0\r\n\r\n",
    "early-hints": b"HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\n"
                   b"Content-Length: 0\r\n\r\n",
}


@attack("C1", each=ANSWERS)
def smuggled_answer(field, answer):
    """An upstream hides an answer behind its answer: nobody's next request may get it."""
    field.policy(INSPECTED)
    field.names(answers={"/first": answer + POISON})
    got = field.run("""
        first = b"GET /first HTTP/1.1\\r\\nHost: old.harbour.com\\r\\n\\r\\n"
        second = b"GET /hello HTTP/1.1\\r\\nHost: old.harbour.com\\r\\nConnection: close\\r\\n\\r\\n"
        try:
            sock = tls(OLD, 443, "old.harbour.com", ["http/1.1"])
            sock.sendall(first)
            time.sleep(0.5)
            sock.sendall(second)
            got["both"] = read(sock, 1.5)
        except OSError as error:
            got["both"] = told(error=str(error))
        got["other"] = to("old.harbour.com", second, 1.5)
    """, OLD=OLD)
    # As the body of the first it may come (where a length says so); as an answer it may not.
    data = got["both"]["data"]
    assert data.count("HTTP/1.1 200 OK\r\nContent-Length: 8") == 0 or data.count("HTTP/1.1") <= 2
    assert "poisoned" not in got["other"]["data"]
    assert "hello from the witness" in got["other"]["data"]
    answers = data.split("HTTP/1.1 ")
    if len(answers) > 2:
        assert "poisoned" not in answers[-1], data


# C2: HTTP/2 in front, HTTP/1 behind ---------------------------------------------------------------
def fields(*more, method="GET", path="/hello", authority="old.harbour.com", scheme="https"):
    return [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path),
            *more]


TAIL = "\r\n\r\nGET /secret/x HTTP/1.1\r\nHost: old.harbour.com\r\n\r\n"
DOWNGRADES = {
    "crlf-in-value": fields(("x-a", "b" + TAIL)),
    "lf-in-value": fields(("x-a", "b\nhost: evil.pirate.net")),
    "cr-in-value": fields(("x-a", "b\rtransfer-encoding: chunked")),
    "nul-in-value": fields(("x-a", "b\0c")),
    "crlf-in-name": fields(("x-a: b" + TAIL + "y", "z")),
    "colon-in-name": fields(("transfer-encoding: chunked\r\nx", "z")),
    "space-in-name": fields(("transfer-encoding ", "chunked")),
    "upper-case-name": fields(("Transfer-Encoding", "chunked")),
    "empty-name": fields(("", "chunked")),
    "transfer-encoding": fields(("transfer-encoding", "chunked"), method="POST"),
    "connection": fields(("connection", "close, host")),
    "upgrade": fields(("upgrade", "websocket"), ("connection", "upgrade")),
    "te": fields(("te", "chunked")),
    "length-too-small": fields(("content-length", "0"), method="POST"),
    "length-too-big": fields(("content-length", "999"), method="POST"),
    "length-twice": fields(("content-length", "0"), ("content-length", "50"), method="POST"),
    "method-crlf": fields(method="GET /secret/x HTTP/1.1\r\nHost: old.harbour.com\r\n\r\nGET"),
    "method-space": fields(method="GET /secret/x"),
    "path-space": fields(path="/secret/x HTTP/1.1\r\nX: "),
    "path-crlf": fields(path="/hello HTTP/1.1" + TAIL),
    "path-plain-space": fields(path="/hello /secret"),
    "path-absolute": fields(path="https://evil.pirate.net/x"),
    "path-empty": fields(path=""),
    "path-no-slash": fields(path="secret"),
    "authority-crlf": fields(authority="old.harbour.com\r\nX: y"),
    "authority-userinfo": fields(authority="old.harbour.com@evil.pirate.net"),
    "authority-path": fields(authority="old.harbour.com/secret"),
    "path-twice": [*fields(), (":path", "/secret/x")],
    "authority-twice": [*fields(), (":authority", "evil.pirate.net")],
    "method-twice": [*fields(), (":method", "DELETE")],
    "pseudo-after-regular": [(":method", "GET"), (":scheme", "https"), ("x", "y"),
                             (":authority", "old.harbour.com"), (":path", "/secret/x")],
    "unknown-pseudo": [*fields(), (":protocol", "websocket")],
    "no-path": [(":method", "GET"), (":scheme", "https"), (":authority", "old.harbour.com")],
    "no-authority": [(":method", "GET"), (":scheme", "https"), (":path", "/hello"),
                     ("host", "evil.pirate.net")],
    "scheme": fields(scheme="https://evil.pirate.net/x?"),
    "extended-connect": [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"),
                         (":authority", "old.harbour.com"), (":path", "/secret/x")],
    "connect": [(":method", "CONNECT"), (":authority", "evil.pirate.net:443")],
}


@attack("C2", each=DOWNGRADES)
def downgraded_request(field, headers):
    field.policy(INSPECTED)
    field.run("""
        h = H2(OLD, "old.harbour.com")
        got["alpn"] = h.alpn
        has_body = any(name == ":method" and value == "POST" for name, value in FIELDS)
        try:
            h.headers(1, [(n.encode(), v.encode()) for n, v in FIELDS], end=not has_body)
            if has_body:
                h.data(1, b"0\\r\\n\\r\\nGET /secret/x HTTP/1.1\\r\\nHost: old.harbour.com\\r\\n\\r\\n")
            got["answers"] = h.collect(1.5)
        except OSError as error:
            got["error"] = str(error)
    """, FIELDS=headers, OLD=OLD)
    sight = field.seen()
    assert not sight.to(EVIL)
    for request in sight.requests():
        names = [name for name, _ in request["headers"]]
        assert request["target"] == "/hello" and request["method"] in ("GET", "POST"), request
        assert dict(request["headers"])["host"] == "old.harbour.com", request
        assert names.count("content-length") + names.count("transfer-encoding") <= 1, request
        assert not {"upgrade", "te"} & set(names), request
        for name, value in request["headers"]:
            assert name == name.strip() and "\r" not in name + value and "\0" not in value, request


# C3: pipelined ------------------------------------------------------------------------------------
@attack("C3", each={"other-host": b"GET /hello HTTP/1.1\r\nHost: evil.pirate.net\r\n\r\n",
                    "closed-path": SMUGGLED,
                    "absolute": b"GET http://evil.pirate.net/ HTTP/1.1\r\nHost: evil.pirate.net\r\n\r\n",
                    "closed-method": b"DELETE /hello HTTP/1.1\r\n" + HOST + b"\r\n"})
def pipelined_second_request(field, second):
    field.policy(INSPECTED)
    field.run("""
        first = b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\n\\r\\n"
        got["tls"] = to("api.harbour.com", first + SECOND + first + SECOND, 1.5)
        got["plain"] = tcp(API, 80, first + SECOND + first + SECOND, 1.5)
    """, SECOND=second)
    one_reading(field.seen())
    field.no_request(host="evil")
    field.no_request(method="DELETE")


# C6: too much -------------------------------------------------------------------------------------
@attack("C6", each={
    "long-header": b"GET /hello HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 300_000 + b"\r\n\r\n",
    "many-headers": b"GET /hello HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 20_000 + b"\r\n",
    "long-line": b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "long-chunk-extension": post(CHUNKED, b"1;" + b"x" * 300_000 + b"\r\na\r\n0\r\n\r\n"),
    "long-trailers": post(CHUNKED, b"0\r\n" + b"X: " + b"y" * 300_000 + b"\r\n\r\n"),
})
def oversized_request(field, request):
    field.policy(INSPECTED)
    field.run("""
        got["tls"] = to("api.harbour.com", REQUEST, 2)
    """, REQUEST=request)
    sight = field.seen()
    assert max([0, *(len(each["raw"]) for each in sight.connections)]) < 200_000


@attack("C6")
def hpack_bomb(field):
    """A few bytes that stand for gigabytes."""
    field.policy(INSPECTED)
    memory = field.memory_of_the_proxy()
    field.run("""
        h = H2(API, "api.harbour.com")
        try:
            h.headers(1, [(":method", "GET"), (":scheme", "https"), (":authority", "api.harbour.com"),
                          (":path", "/hello"), ("x-bomb", "b" * 3900)])
            for stream in range(3, 60, 2):  # indexed again and again: one byte is 4 KB
                block = h.encoder.encode([(":method", "GET"), (":scheme", "https"),
                                          (":authority", "api.harbour.com"), (":path", "/hello")])
                h.frame(1, 5, stream, block + b"\\xbe" * 15000)
            got["answers"] = h.collect(2, 30)
        except OSError as error:
            got["error"] = str(error)
    """)
    assert field.memory_of_the_proxy() < memory + (64 << 20)
    for value in field.seen().headers("x-bomb"):
        assert len(value) < 8192


@attack("C6")
def continuation_flood(field):
    field.policy(INSPECTED)
    memory = field.memory_of_the_proxy()
    field.run("""
        h = H2(API, "api.harbour.com")
        block = h.encoder.encode([(":method", "GET"), (":scheme", "https"),
                                  (":authority", "api.harbour.com"), (":path", "/hello")])
        try:
            h.frame(1, 1, 1, block)  # no END_HEADERS
            for n in range(3000):
                h.frame(9, 0, 1, b"\\0\\x04name\\x7e" + b"x" * 126 if n % 2 else b"")
            got["sent"] = True
            got["answers"] = h.collect(2)
        except OSError as error:
            got["error"] = str(error)
    """)
    assert field.memory_of_the_proxy() < memory + (64 << 20)
    assert not field.seen().requests()


@attack("C6")
def rapid_reset(field):
    field.policy(INSPECTED)
    field.run("""
        h = H2(API, "api.harbour.com")
        got["sent"] = 0
        try:
            for stream in range(1, 20001, 2):
                h.get(stream, "api.harbour.com")
                h.frame(3, 0, stream, b"\\0\\0\\0\\x08")
                got["sent"] = stream
            got["answers"] = str(h.collect(1))[:200]
        except OSError as error:
            got["error"] = str(error)
    """, seconds=90)
    assert len(field.seen().requests()) < 5000, "10,000 requests went upstream, all of them reset"


@attack("C6", each={"settings": (4, 0, b"\0\x03\0\0\0\x64"), "ping": (6, 0, b"12345678"),
                    "priority": (2, 1, b"\0\0\0\0\x10"), "window": (8, 0, b"\0\0\0\x01")})
def frame_flood(field, case):
    kind, stream, payload = case
    field.policy(INSPECTED)
    memory = field.memory_of_the_proxy()
    field.run("""
        h = H2(API, "api.harbour.com")
        try:
            whole = (struct.pack("!I", len(PAYLOAD))[1:] + bytes([KIND, 0]) +
                     struct.pack("!I", STREAM) + PAYLOAD) * 200
            for n in range(200):  # and nobody reads the answers
                h.sock.sendall(whole)
            got["sent"] = True
        except OSError as error:
            got["error"] = str(error)
    """, KIND=kind, STREAM=stream, PAYLOAD=payload)
    assert field.memory_of_the_proxy() < memory + (64 << 20)


@attack("C6")
def slow_headers(field):
    """Many who begin and never finish; meanwhile others are served."""
    field.policy(INSPECTED)
    got = field.run("""
        socks = []
        for n in range(60):
            try:
                sock = connect(API, 80)
                sock.sendall(b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nX: ")
                socks.append(sock)
            except OSError:
                break
        for sock in socks:
            sock.sendall(b"a")
        got["others"] = to("api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n")
    """)
    assert "hello from the witness" in got["others"]["data"], got
    assert len(field.seen().requests()) == 1


# C7: turning into something else ------------------------------------------------------------------
@attack("C7", each={
    "h2c": b"GET /hello HTTP/1.1\r\n" + HOST + b"Connection: Upgrade, HTTP2-Settings\r\n"
           b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    "other": b"GET /hello HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: tls/1.3\r\n\r\n"})
def upgrade(field, request):
    field.policy(INSPECTED)
    got = field.run("""
        got["tls"] = to("api.harbour.com", REQUEST + SMUGGLED, 1.5)
        got["plain"] = tcp(API, 80, REQUEST + SMUGGLED, 1.5)
    """, REQUEST=request, SMUGGLED=SMUGGLED)
    sight = field.no_request(path="/secret")
    assert not sight.headers("upgrade") and not sight.headers("http2-settings")
    assert " 101 " not in got["tls"]["data"][:20] + got["plain"]["data"][:20]


WEBSOCKET = (b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             b"Sec-WebSocket-Version: %s\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


@attack("C7", each={"refused-upgrade": (b"/first", b"13"), "old-version": (b"/hello", b"1")})
def websocket_upgrade_that_is_refused(field, case):
    """A server that says no leaves an HTTP connection: what follows is judged as HTTP."""
    path, version = case
    field.policy(INSPECTED)
    field.names(answers={"/first": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"})
    field.run("""
        try:
            sock = tls(OLD, 443, "old.harbour.com", ["http/1.1"])
            sock.sendall(REQUEST)
            got["first"] = sock.recv(4096).decode("latin-1")
            sock.sendall(SMUGGLED)
            got["second"] = read(sock, 1)
        except OSError as error:
            got["error"] = str(error)
        got["at once"] = to("old.harbour.com", REQUEST + SMUGGLED, 1)
    """, REQUEST=WEBSOCKET % (path, b"old.harbour.com", version), OLD=OLD,
        SMUGGLED=SMUGGLED.replace(b"api.", b"old."))
    sight = field.no_request(path="/secret")
    for each in sight.connections:
        if each["alpn"] != "h2" and not any(name == "upgrade" for request in each["requests"]
                                            for name, _ in request["headers"]):
            assert b"/secret" not in each["raw"]


@attack("C7")
def expect_continue_to_a_closed_path(field):
    field.policy(INSPECTED)
    got = field.run("""
        request = b"POST /secret/x HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nExpect: 100-continue\\r\\nContent-Length: 6\\r\\n\\r\\n"
        got["answer"] = to("api.harbour.com", request, 1.5)
        got["odd"] = to("api.harbour.com", request.replace(b"100-continue", b"200-ok"), 1.5)
    """)
    field.no_request(path="/secret")
    assert "100 Continue" not in got["answer"]["data"]


# C8: paths ----------------------------------------------------------------------------------------
PATHS = {
    "dots": b"/allowed/../secret", "encoded-dots": b"/allowed/%2e%2e/secret",
    "half-encoded": b"/allowed/.%2e/secret", "encoded-slash": b"/allowed/..%2fsecret",
    "double-encoded": b"/allowed/%252e%252e/secret", "backslash": b"/allowed\\..\\secret",
    "double-slash": b"//secret/x", "slashes": b"/allowed//../../secret", "dot": b"/./secret/x",
    "encoded-letter": b"/%73ecret/x", "upper-hex": b"/%53ecret", "semicolon": b"/allowed/..;/secret",
    "parameter": b"/secret;x=y", "nul": b"/allowed%00/../secret", "overlong": b"/allowed/%c0%ae%c0%ae/secret",
    "fragment": b"/secret/x#/allowed", "question": b"/secret?/allowed", "tab": b"/allowed/.\t./secret",
    "full-width": "/allowed/．．/secret".encode(), "authority": b"//evil.pirate.net/secret",
    "bad-percent": b"/%zzsecret", "trailing-dot": b"/secret./x", "encoded-semicolon": b"/allowed/..%3b/secret",
}


@attack("C8", each=PATHS)
def path_confusion(field, path):
    """Only /allowed is open: whatever arrives is there, for every reader."""
    field.policy(inspected("api.harbour.com", http={
        "methods": {"allowed": ["GET"]}, "paths": {"allowedPrefixes": ["/allowed"]}}))
    field.run("""
        got["h1"] = to("api.harbour.com", b"GET " + PATH + b" HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 1.5)
        h = H2(API, "api.harbour.com")
        h.headers(1, [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"api.harbour.com"), (b":path", PATH)])
        got["h2"] = h.collect(1.5)
    """, PATH=path)
    for request in field.seen().requests():
        target = request["target"].lower()
        assert target.startswith("/allowed"), request
        assert ".." not in target and "%2" not in target and "\\" not in target, request
        assert "%5c" not in target and "%00" not in target and "%c0" not in target, request


@attack("C8", each={name: PATHS[name] for name in
                    ("encoded-letter", "upper-hex", "double-slash", "dot", "parameter", "question",
                     "dots", "encoded-slash", "backslash", "fragment", "double-encoded")})
def path_confusion_against_a_denied_prefix(field, path):
    field.policy(INSPECTED)
    field.run("""
        got["h1"] = to("api.harbour.com", b"GET " + PATH + b" HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 1.5)
    """, PATH=path)
    for request in field.seen().requests():
        target = request["target"].split("?")[0]  # /Secret is another place
        assert "secret" not in target or ".." not in target and not target.startswith(
            ("/secret", "//secret", "/./secret", "/%73", "/%53")), request
        assert not target.startswith("/allowed\\"), request


@attack("C8", each={"lower": b"get", "mixed": b"Get", "unknown": b"SECRET", "override": b"POST"})
def method_confusion(field, method):
    field.policy(inspected("api.harbour.com", http={"methods": {"denied": ["DELETE", "PATCH"],
                                                                "allowed": ["GET", "POST"]}}))
    field.run("""
        for method in (METHOD, b"DELETE", b"delete", b"PATCH"):
            got[method.decode()] = to("api.harbour.com", method + b" /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n", 1)
    """, METHOD=method)
    for request in field.seen().requests():
        assert request["method"] in ("GET", "POST"), request


# C9: TRACE ----------------------------------------------------------------------------------------
@attack("C9", each={"trace": b"TRACE", "track": b"TRACK", "debug": b"DEBUG"})
def echo_of_the_request(field, method):
    field.policy(field.credentialed())
    field.run("""
        got["h1"] = to("api.harbour.com", METHOD + b" /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 1.5)
        h = H2(API, "api.harbour.com")
        h.get(1, "api.harbour.com", method=METHOD.decode())
        got["h2"] = h.collect(1.5)
    """, METHOD=method)
    if method != b"DEBUG":
        field.no_request(method=method.decode())


@attack("C7")
def websocket_to_a_closed_path(field):
    field.policy(INSPECTED)
    field.run("""
        got["answer"] = to("api.harbour.com", REQUEST, 1.5)
    """, REQUEST=WEBSOCKET % (b"/secret/socket", b"api.harbour.com", b"13"))
    field.no_request(path="/secret")


@attack("C3")
def rules_that_change_between_requests(field):
    """The second request on an open connection is judged by the rules of now."""
    field.policy(INSPECTED)
    context = field.start("""
        sock = tls(API, 443, "api.harbour.com", ["http/1.1"])
        request = b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\n\\r\\n"
        sock.sendall(request)
        got["first"] = sock.recv(4096).decode("latin-1")
        open("/tmp/first-done", "w").close()
        while not os.path.exists("/tmp/go-on"):
            time.sleep(0.02)
        try:
            sock.sendall(request.replace(b"/hello", b"/later"))
            got["second"] = read(sock, 1.5)
        except OSError as error:
            got["second"] = str(error)
        os.unlink("/tmp/first-done"), os.unlink("/tmp/go-on")
    """)
    field.wait_for_file("/tmp/first-done")
    field.policy(limited("pay.harbour.com"))
    field.sandbox.write("/tmp/go-on", b"")
    got = field.finish(context)
    assert "hello from" in got["first"], got
    field.no_request(path="/later")


@attack("C3")
def open_connection_after_the_rule_is_gone(field):
    """A connection that is no longer allowed is cut, not only its successors."""
    field.policy(OPEN)
    context = field.start("""
        sock = connect(EVIL, 7777)
        sock.sendall(b"one")
        got["first"] = sock.recv(100).decode()
        open("/tmp/first-done", "w").close()
        sock.settimeout(10)
        try:
            got["end"] = sock.recv(100).decode()
        except OSError as error:
            got["end"] = type(error).__name__
        try:
            sock.sendall(b"two"), time.sleep(0.2), sock.sendall(b"three")
        except OSError:
            pass
        os.unlink("/tmp/first-done")
    """)
    field.wait_for_file("/tmp/first-done")
    field.policy(limited("api.harbour.com"))
    got = field.finish(context)
    assert got["end"] in ("", "ConnectionResetError"), got
    assert not field.seen().heard("two")
