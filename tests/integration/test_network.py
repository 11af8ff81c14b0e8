"""The network of a sandbox: it reaches the world by address and by name, over both families,
through whatever happens to the server, and never around the proxy."""
import os
import signal
import subprocess

import pytest

from harness.client import Sandbox
from harness.e2b import Builder
from harness.outside import ADDRESS, ADDRESS6, ECHO, NAME, NAME_SERVER, Outside
from harness.server import Server, wait_until

# Says a word whenever the file changes, and writes down what comes back, or why nothing does.
TALKER = f"""
import os, socket, sys, time
out = open("/tmp/heard", "a")
def note(text):
    out.write(text + "\\n"); out.flush()
peer = socket.create_connection(("{ADDRESS}", {ECHO}), 30)
note("connected")
last = ""
while True:
    word = open("/tmp/word").read() if os.path.exists("/tmp/word") else ""
    if word != last:
        last = word
        try:
            peer.sendall(word.encode())
            note(peer.recv(100).decode() or "end")
        except OSError as error:
            note(type(error).__name__)
            peer = socket.create_connection(("{ADDRESS}", {ECHO}), 30)
            note("connected again")
    time.sleep(0.02)
"""
# Waits for an answer that nobody gives: it can only learn of an end from outside.
LISTENER = f"""
import socket
peer = socket.create_connection(("{ADDRESS}", {ECHO}), 30)
peer.settimeout(None)
open("/tmp/listens", "w").close()
try:
    ended = repr(peer.recv(1))
except OSError as error:
    ended = type(error).__name__
open("/tmp/ended", "w").write(ended)
"""
SHOUT = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
peer = socket.socket(family, socket.SOCK_DGRAM)
peer.settimeout(20)
peer.sendto(sys.argv[3].encode(), (sys.argv[1], int(sys.argv[2])))
answer, address = peer.recvfrom(100)
print(answer.decode(), address[0], address[1])
"""


@pytest.fixture(scope="module")
def outside():
    with Outside() as world:
        yield world


@pytest.fixture(scope="module")
def world_server(outside):
    with Server(extra=["--dns-upstream", NAME_SERVER]) as running:
        yield running


@pytest.fixture
def box(world_server):
    sandbox = world_server.client.create()
    yield sandbox
    world_server.client.call("DELETE", sandbox.path)


def fetch(box, host):
    return box.out(["curl", "-sS", "--max-time", "30", f"http://{host}/"])


def start_talker(box, program=TALKER):
    write = "import sys; open('/tmp/talker.py', 'w').write(sys.argv[1])"
    box.run(["python3", "-c", write, program])
    box.start(["python3", "/tmp/talker.py"])


def heard(box):
    return box.run("cat /tmp/heard")["stdout"].split("\n")[:-1]


def say(box, word):
    box.out(f"echo -n {word} > /tmp/word.new; mv /tmp/word.new /tmp/word")


def settled(server):
    """Answers again, as a claim shows."""
    def ready():
        try:
            return server.client.call("GET", "/readyz").status == 200
        except OSError:
            return False
    wait_until(ready, 60, "the server is ready again")


def test_the_world_is_reached_by_address_and_name(box, outside):
    assert fetch(box, ADDRESS) == f"you asked {ADDRESS}\n"
    assert fetch(box, f"[{ADDRESS6}]") == f"you asked {ADDRESS6}\n"
    assert box.out(["getent", "ahostsv4", NAME]).split()[0] == ADDRESS
    assert box.out(["getent", "ahostsv6", NAME]).split()[0] == ADDRESS6
    assert fetch(box, NAME) in (f"you asked {ADDRESS}\n", f"you asked {ADDRESS6}\n")
    assert outside.of("question", name=NAME)


def test_datagrams_are_answered_from_where_they_went(box, outside):
    for address in (ADDRESS, ADDRESS6):
        answer = box.out(["python3", "-c", SHOUT, address, str(ECHO), "hello"]).split()
        assert answer == ["HELLO", address, str(ECHO)]
        assert outside.of("datagram", to=address, bytes="hello")


def test_quic_is_refused_at_once(box):
    refused = box.out(["python3", "-c", f"""
import socket
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.settimeout(30)
peer.connect(("{ADDRESS}", 443))
try:
    peer.send(b"x"); print(peer.recv(1))
except OSError as error:
    print(type(error).__name__)
"""])
    assert refused.strip() == "ConnectionRefusedError"


def test_what_a_sandbox_sees_of_its_network(box):
    assert box.out("ip -o link").count("\n") == 1, "its loopback device and nothing else"
    assert "10.200.0.2/32" in box.out("ip -o addr")
    assert "nameserver 10.200.0.1" in box.out("cat /etc/resolv.conf")
    assert box.out("python3 -m http.server 80 >/dev/null 2>&1 & "
                   "curl -s --retry 30 --retry-connrefused --retry-delay 1 -o /dev/null "
                   "-w '%{http_code}' http://127.0.0.1/") == "200", "low ports are everybody's"
    for command in ("ip route add 5.0.0.0/8 dev lo", "ip link add x type veth",
                    "ip addr add 5.5.1.1/32 dev lo", "ip link set lo down"):
        assert box.run(["sudo", *command.split()])["exit_code"] != 0, command


@pytest.mark.parametrize("victim", ["api", "node"])
def test_a_killed_process_of_the_server_costs_no_network(box, world_server, outside, victim):
    before = world_server.daemons()
    fetch(box, ADDRESS)
    os.kill(before[victim], signal.SIGKILL)
    wait_until(lambda: world_server.daemons().get(victim) not in (None, before[victim]), 60,
               "another one is started")
    settled(world_server)
    assert fetch(box, NAME).startswith("you asked")
    other = world_server.client.create()
    try:
        assert fetch(other, ADDRESS)
    finally:
        world_server.client.call("DELETE", other.path)


def test_a_connection_begun_while_the_api_is_gone_is_served_by_the_next(box, world_server, outside):
    """Nothing of a sandbox gets out meanwhile, and nobody inside is refused."""
    box.start(["bash", "-c", "while [ ! -e /tmp/go ]; do sleep 0.05; done; sleep 1;"
               f"curl -sS --max-time 60 http://{ADDRESS}/late > /tmp/late 2>&1; touch /tmp/done"])
    api = world_server.daemons()["api"]
    box.out("touch /tmp/go")
    os.kill(api, signal.SIGSTOP)
    try:
        wait_until(lambda: waiting_connections(world_server, box) > 0, 30, "a connection waits")
        assert not outside.of("http", line="GET /late HTTP/1.1")
    finally:
        os.kill(api, signal.SIGKILL)
    wait_until(lambda: world_server.daemons().get("api") not in (None, api), 60, "the next one")
    settled(world_server)
    wait_until(lambda: box.run("cat /tmp/done")["exit_code"] == 0, 60, "curl ends")
    assert box.out("cat /tmp/late") == f"you asked {ADDRESS}\n"


def waiting_connections(server, box):
    """As the kernel sees them from outside: established, and of a sandbox's own address."""
    pid = min(server.cell_processes(box.id))
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as table:
        return sum(line.split()[1].startswith("0200C80A:") and line.split()[3] == "01"
                   for line in table.readlines()[1:])


def test_connections_stay_open_over_a_pause_in_memory(box):
    start_talker(box)
    wait_until(lambda: heard(box) == ["connected"], 30, "it is connected")
    say(box, "one")
    wait_until(lambda: heard(box)[-1] == "one", 30, "it hears")
    box.client.expect(200, "POST", f"{box.path}/pause")
    box.client.expect(200, "POST", f"{box.path}/resume")
    say(box, "two")
    wait_until(lambda: heard(box)[-1] == "two", 30, "it hears on the same connection")
    assert "connected again" not in heard(box)


@pytest.fixture
def dumps(world_server):
    found = world_server.client.expect(200, "GET", "/metadata").data["capabilities"]
    if not found["memory_dump"]:
        pytest.skip(found["memory_dump_reason"])


def test_memory_from_disk_has_no_connection_but_gets_new_ones(box, dumps):
    start_talker(box)
    box.start(["python3", "-c", LISTENER])
    wait_until(lambda: heard(box) == ["connected"], 30, "it is connected")
    wait_until(lambda: box.run("ls /tmp/listens")["exit_code"] == 0, 30, "so is the listener")
    paused = box.client.expect(200, "POST", f"{box.path}/pause", {"memory": "disk"}).data
    assert paused["memory"] == "disk", paused
    assert box.client.expect(200, "POST", f"{box.path}/resume").data["restored"] == "memory"
    wait_until(lambda: box.run("cat /tmp/ended")["stdout"] != "", 30, "it learns of the end")
    assert "Error" in box.out("cat /tmp/ended")
    say(box, "one")
    wait_until(lambda: heard(box)[-1] == "connected again", 30, "a new connection")
    say(box, "two")
    wait_until(lambda: heard(box)[-1] == "two", 30, "it hears")


def test_a_fork_has_none_of_its_parents_connections(box, world_server, outside, dumps):
    start_talker(box)
    wait_until(lambda: heard(box) == ["connected"], 30, "it is connected")
    forked = world_server.client.expect(201, "POST", f"{box.path}/fork",
                                        {"memory": True, "start": True}).data
    child = Sandbox(world_server.client, forked["sandbox"]["id"])
    try:
        say(child, "child")
        wait_until(lambda: heard(child)[-1] == "connected again", 30, "the child begins anew")
        assert not outside.of("echo", bytes="child"), "no word on the parent's connection"
        say(child, "again")
        wait_until(lambda: heard(child)[-1] == "again", 30, "the child hears")
        say(box, "parent")
        wait_until(lambda: heard(box)[-1] == "parent", 30, "the parent goes on")
        assert "connected again" not in heard(box)
    finally:
        world_server.client.call("DELETE", child.path)


def test_a_start_from_files_is_on_the_network(box, world_server):
    box.client.expect(200, "POST", f"{box.path}/pause", {"memory": False})
    box.client.expect(200, "POST", f"{box.path}/resume")
    assert fetch(box, ADDRESS)
    before = set(world_server.cell_processes(box.id))
    os.kill(min(before), signal.SIGKILL)

    def started_again():
        # Those that were killed may be seen for a while, and the sandbox is said to run meanwhile.
        now = set(world_server.cell_processes(box.id))
        return now and not now & before and box.get()["status"] == "running"

    wait_until(started_again, 30, "it is started again")
    wait_until(lambda: box.run(["curl", "-s", f"http://{ADDRESS}/"])["exit_code"] == 0, 30,
               "it reaches the world")


def test_sandboxes_do_not_meet(box, world_server, outside):
    other = world_server.client.create()
    try:
        other.start(["python3", "-m", "http.server", "8000"])
        for address in ("10.200.0.2", "127.0.0.1", "10.200.0.1"):
            answer = box.run(["curl", "-fsS", "--max-time", "5", f"http://{address}:8000/"])
            assert answer["exit_code"] != 0, address
    finally:
        world_server.client.call("DELETE", other.path)
    assert not outside.of("connection", port=8000)


def claim_member(server, name, groups):
    body = {"template": "default", "name": name,
            "config": {"network": {"mode": "allow-all", "groups": groups}}}
    data = server.client.expect(201, "POST", "/api/v1/sandboxes", body).data
    return Sandbox(server.client, data["sandbox_id"])


def test_members_of_a_group_meet_by_name_and_wake_each_other(world_server):
    """A server on the loopback device of one is enough; nobody else gets in."""
    members = []
    try:
        db = claim_member(world_server, "db-of-test", ["shop"])
        members.append(db)
        web = claim_member(world_server, "web-of-test", ["shop", "front"])
        members.append(web)
        stranger = claim_member(world_server, "stranger-of-test", ["other"])
        members.append(stranger)
        db.out("echo from-db > /tmp/index.html")
        db.start(["python3", "-m", "http.server", "--bind", "127.0.0.1", "-d", "/tmp", "8000"])
        fetched = ["curl", "-fsS", "--max-time", "30", "--retry", "5", "--retry-all-errors",
                   "http://db-of-test.atoll.internal:8000/"]
        assert web.out(fetched) == "from-db\n"
        refused = ["curl", "-fsS", "--max-time", "10", "http://db-of-test.atoll.internal:8000/"]
        assert stranger.run(refused)["exit_code"] != 0
        db.client.expect(200, "POST", f"{db.path}/pause")
        assert web.out(fetched) == "from-db\n", "it is woken"
        assert db.get()["status"] == "running"
    finally:
        for member in members:
            world_server.client.call("DELETE", member.path)


@pytest.mark.parametrize("damage", [["nft", "flush", "ruleset"],
                                    ["ip", "route", "del", "local", "default", "table", "local"]],
                         ids=["rules", "routes"])
def test_who_loses_rules_or_routes_has_cut_itself_off(box, world_server, outside, damage):
    """Nobody inside can do this; done from outside, it opens nothing."""
    pid = min(world_server.cell_processes(box.id))
    subprocess.run(["nsenter", "--net", "--target", str(pid), *damage], check=True, timeout=30)
    before = len(outside.arrived)
    assert box.run(["curl", "-sS", "--max-time", "5", f"http://{ADDRESS}/"])["exit_code"] != 0
    assert box.run(["python3", "-c", SHOUT.replace("20", "2"), ADDRESS, str(ECHO), "hello"]
                   )["exit_code"] != 0
    assert len(outside.arrived) == before


def test_capabilities_say_so(world_server):
    found = world_server.client.expect(200, "GET", "/metadata").data["capabilities"]
    assert found["egress"] is True


def test_steps_of_a_build_reach_what_a_sandbox_reaches(world_server):
    builder = Builder(world_server.client)
    try:
        _, status = builder.build("reaches", [
            ("RUN", [f"curl -sS -m 20 http://{NAME}/ && curl -s -m 5 http://127.0.0.1:{world_server.port}/ "
                     "|| echo not the host"]),
            ("RUN", ["cat /etc/resolv.conf > ~/resolver"])])
        said = [entry["message"] for entry in status["logEntries"]]
        assert status["status"] == "ready", said
        assert any("you asked" in text for text in said), said
        assert any("not the host" in text for text in said), said
    finally:
        builder.end()
