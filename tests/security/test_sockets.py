"""Sockets: families, interfaces, listeners of the host and of the neighbour."""
import socket
import subprocess

import pytest

from security_values import refused

control = pytest.mark.control

FAMILIES = {"packet": (17, 3, 0), "vsock": (40, 1, 0), "alg": (38, 5, 0), "bluetooth": (31, 3, 1),
            "can": (29, 3, 1), "tipc": (30, 4, 0), "xdp": (44, 3, 0), "key": (15, 3, 2),
            "rds": (21, 5, 0), "rxrpc": (33, 2, 2), "kcm": (41, 2, 0), "smc": (43, 1, 0),
            "nfc": (39, 5, 0), "qipcrtr": (42, 2, 0), "mctp": (45, 2, 0), "x25": (9, 5, 0),
            "appletalk": (5, 2, 0), "llc": (26, 2, 0), "phonet": (35, 2, 0),
            "ieee802154": (36, 2, 0)}


@pytest.mark.parametrize("family", FAMILIES)
def test_socket_family_is_closed(attack, family):
    got = attack("""
        got['results'] = [attempt(lambda kind=kind: socket.socket(FAMILY, kind, PROTOCOL).fileno())
                          for kind in {KIND, 1, 2, 3, 5}]
    """, FAMILY=FAMILIES[family][0], KIND=FAMILIES[family][1], PROTOCOL=FAMILIES[family][2])
    assert all(refused(result) for result in got["results"])


@control
@pytest.mark.parametrize("family", ["packet", "vsock"])
def test_socket_family_control(attack, family):
    """Two of them in a form for the control run: on the host these open."""
    number, kind, protocol = FAMILIES[family]
    got = attack("got['socket'] = attempt(lambda: socket.socket(FAMILY, KIND, PROTOCOL).fileno())",
                 FAMILY=number, KIND=kind, PROTOCOL=protocol)
    assert refused(got["socket"])


@control
@pytest.mark.parametrize("family,protocol", [(2, 1), (2, 255), (10, 58), (10, 255)],
                         ids=["icmp", "raw", "icmp6", "raw6"])
def test_raw_socket_is_refused(attack, family, protocol):
    got = attack("got['socket'] = attempt(lambda: socket.socket(FAMILY, 3, PROTOCOL).fileno())",
                 FAMILY=family, PROTOCOL=protocol)
    assert refused(got["socket"])


PROTOCOLS = {"sctp": (1, 132), "sctp packets": (5, 132), "dccp": (6, 33), "dccp default": (6, 0),
             "udplite": (2, 136), "l2tp": (2, 115), "mptcp": (1, 262), "mismatch": (1, 17)}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocol_that_could_load_a_module_is_closed(attack, name):
    got = attack("""
        got['results'] = [attempt(lambda: socket.socket(family, KIND, PROTOCOL).fileno())
                          for family in (socket.AF_INET, socket.AF_INET6)]
    """, KIND=PROTOCOLS[name][0], PROTOCOL=PROTOCOLS[name][1])
    assert set(got["results"]) <= {"!EPROTONOSUPPORT", "!ESOCKTNOSUPPORT"}, got


NETLINK = {"sock_diag": 4, "xfrm": 6, "selinux": 7, "audit": 9, "connector": 11, "netfilter": 12,
           "kobject_uevent": 15, "generic": 16, "crypto": 21}


@pytest.mark.parametrize("protocol", NETLINK)
def test_netlink_other_than_route_is_closed(attack, protocol):
    got = attack("got['socket'] = attempt(lambda: socket.socket(16, 3, PROTOCOL).fileno())",
                 PROTOCOL=NETLINK[protocol])
    assert refused(got["socket"])


@control
def test_netlink_control(attack):
    got = attack("got['socket'] = attempt(lambda: socket.socket(16, 3, 15).fileno())")
    assert refused(got["socket"])


@control
def test_no_interface_but_loopback(attack):
    got = attack("""
        got['names'] = [name for _, name in socket.if_nameindex()]
        got['sys'] = os.listdir('/sys/class/net')
        got['proc'] = [line.split(':')[0].strip() for line in
                       read('/proc/net/dev').splitlines()[2:]]
        got['routes'] = read('/proc/net/route').splitlines()[1:]
    """)
    assert got["names"] == ["lo"] and got["sys"] == ["lo"] and got["proc"] == ["lo"]
    # What is local is in no list of routes that lead somewhere.
    assert got["routes"] == []


def test_interfaces_and_routes_cannot_be_made(attack):
    done = attack.sandbox.run(
        "ip link add probe type dummy; ip link add v type veth; ip route add default dev lo; "
        "ip addr add 192.0.2.1/24 dev lo; ip link", user="root")
    assert "probe" not in done["stdout"] and "veth" not in done["stdout"]
    assert done["stdout"].count("link/") == 1, done["stdout"]


def host_addresses():
    output = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True).stdout
    found = [line.split()[3].split("/")[0] for line in output.splitlines() if " inet " in line]
    return found or ["127.0.0.1"]


# Every connection to an address outside is accepted, by the proxy: what counts is who answers.
ANSWERS = """
    got['answers'] = []
    for address in ADDRESSES:
        peer = socket.socket()
        peer.settimeout(10)
        if failed(attempt(peer.connect, (address, PORT))):
            continue
        attempt(peer.sendall, REQUEST.encode())
        answer = attempt(peer.recv, 1000)
        got['answers'].append(answer.decode('latin-1') if isinstance(answer, bytes) else answer)
"""


@control
def test_listener_of_the_host_is_not_reached(attack, world):
    """It says something to whoever connects, and world.check() knows whether anybody did."""
    got = attack(ANSWERS, ADDRESSES=sorted({"127.0.0.1", "0.0.0.0", *host_addresses()}),
                 PORT=world.tcp_port, REQUEST="")
    assert not any(world.secret in answer for answer in got["answers"])


def test_api_of_the_host_is_not_reached(attack, server):
    got = attack(ANSWERS, ADDRESSES=sorted({"127.0.0.1", *host_addresses()}), PORT=server.port,
                 REQUEST="GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert not any(answer.startswith("HTTP/1.1 200") for answer in got["answers"]), got


def test_nothing_near_is_reached(attack):
    """What lies beyond, and that nothing is sent there, is tests/boundary's to see."""
    got = attack("""
        got['tcp'], got['udp'] = [], []
        for address in ('10.0.0.1', '169.254.169.254', '100.100.100.200', '172.17.0.1', '224.0.0.1'):
            peer = socket.socket()
            peer.settimeout(10)
            said = attempt(peer.connect, (address, 4567))
            got['tcp'].append(said if failed(said) else attempt(lambda: peer.recv(100).decode()))
            peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            peer.settimeout(1)
            peer.connect((address, 4567))
            attempt(peer.send, b'x')
            got['udp'].append(attempt(lambda: peer.recv(100).decode()))
    """, seconds=90)
    assert all(answer == "" or refused(answer) for answer in got["tcp"]), got
    assert all(refused(answer) for answer in got["udp"]), got


@control
def test_abstract_socket_of_the_host_is_not_reached(attack):
    got = attack("""
        peer = socket.socket(socket.AF_UNIX)
        got['connected'] = attempt(peer.connect, chr(0) + ABSTRACT)
        got['listed'] = ABSTRACT in read('/proc/net/unix', 1 << 20)
    """)
    assert refused(got["connected"]) and not got["listed"]


@control
def test_path_socket_of_the_host_is_not_reached(attack):
    got = attack("""
        got['results'] = [attempt(socket.socket(socket.AF_UNIX).connect, prefix + SOCKET_PATH)
                          for prefix in ('', '/proc/1/root', '/proc/self/root')]
    """)
    assert all(refused(result) for result in got["results"])


def test_sockets_of_the_neighbour_are_not_reached(attack, neighbour):
    listener = neighbour.start(["python3", "-c", """
import socket, sys
tcp = socket.create_server(('0.0.0.0', 4567))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind(chr(0) + 'neighbour')
abstract.listen()
print('listening', flush=True)
tcp.accept()
"""], user="root")
    try:
        for event in neighbour.stream(listener["id"]):
            if "data_base64" in event:
                break
        assert neighbour.run(["python3", "-c", "import socket;"
                              "socket.socket(socket.AF_UNIX).connect(chr(0)+'neighbour')"]
                             )["exit_code"] == 0, "the neighbour itself must reach it"
        got = attack("""
            peer = socket.socket()
            peer.settimeout(2)
            got['tcp'] = attempt(peer.connect, ('127.0.0.1', 4567))
            got['abstract'] = attempt(socket.socket(socket.AF_UNIX).connect, chr(0) + 'neighbour')
        """)
        assert refused(got["tcp"]) and refused(got["abstract"])
    finally:
        neighbour.client.call("DELETE", f"{neighbour.path}/contexts/{listener['id']}")


@control
def test_host_name_is_not_told_and_cannot_be_set(attack):
    host = socket.gethostname()
    got = attack("""
        got['names'] = [socket.gethostname(), os.uname().nodename,
                        read('/proc/sys/kernel/hostname').strip(), read('/etc/hostname').strip()]
    """)
    assert host not in got["names"]


def test_host_name_cannot_be_set(attack):
    before = socket.gethostname()
    got = attack("""
        got['host'] = call('sethostname', 'evil', 4)
        got['domain'] = call('setdomainname', 'evil', 4)
        got['name'] = socket.gethostname()
    """)
    assert refused(got["host"]) and refused(got["domain"]) and got["name"] != "evil"
    assert socket.gethostname() == before
