"""F1 to F6: when something fails, it fails closed; when somebody wants everything, others get some."""
import os
import signal
import time

from attacks import INSPECTED, LIMITED, OPEN, attack, inspected
from world import API, EVIL

GET = 'to("api.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 3)'


@attack("F1")
def proxy_that_dies(field):
    """Killed, it is back by itself; in between nothing goes out, and the rules are still the rules."""
    field.policy(LIMITED)
    before = field.server.daemons()["api"]
    context = field.start("""
        for n in range(60):
            got[f"evil {n}"] = tcp(EVIL, 80, b"GET / HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\n\\r\\n", 0.2)["error"]
            ask("stolen.evil.pirate.net", 1, None, False, 0.1)
            time.sleep(0.05)
    """)
    time.sleep(0.4)
    os.kill(before, signal.SIGKILL)
    field.wait_for_the_api(before)
    field.finish(context)
    field.unreached(EVIL)
    assert not [name for name in field.seen().questions if "stolen" in name]
    # And what is allowed works again.
    got = field.run_until("hello from", f'got["a"] = {GET}')
    assert got


@attack("F2")
def reload_under_load(field):
    """New rules while requests run: none that both allow is dropped, none that neither allows
    passes."""
    field.policy(INSPECTED)
    context = field.start(f"""
        got["done"], got["lost"] = 0, []
        end = time.monotonic() + 4
        sock = None
        while time.monotonic() < end:
            answer = {GET}
            if "hello from" in answer["data"]:
                got["done"] += 1
            else:
                got["lost"].append(answer)
            tcp(EVIL, 443, hello(server_name(b"evil.pirate.net")), 0.3)
    """)
    for n in range(15):
        field.policy(INSPECTED if n % 2 else inspected("api.harbour.com", "pay.harbour.com"))
        time.sleep(0.2)
    got = field.finish(context)
    assert got["done"] > 3 and not got["lost"], got
    field.unreached(EVIL)


@attack("F3")
def connections_without_end(field):
    """One sandbox opens all it can; it is capped, and its neighbour is served."""
    field.policy(OPEN)
    other = field.other()
    other.policy(LIMITED)
    context = field.start("""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (8000, 8000))
        socks, got["refused"] = [], 0
        for n in range(6000):
            try:
                sock = socket.socket()
                sock.settimeout(2)
                sock.connect((EVIL, 7000 + n % 50))
                sock.sendall(b"x")
                socks.append(sock)
            except OSError:
                got["refused"] += 1
                if got["refused"] > 200:
                    break
        alive = 0
        for sock in socks:
            try:
                sock.settimeout(0)
                if sock.recv(10):
                    alive += 1
            except BlockingIOError:
                alive += 1
            except OSError:
                pass
        got["alive"] = alive
        open("/tmp/full", "w").close()
        time.sleep(4)
    """, seconds=120)
    field.wait_for_file("/tmp/full", 90)
    answer = other.run(f'got["a"] = {GET}')
    got = field.finish(context)
    field.sandbox.run("rm -f /tmp/full", user="root")
    assert "hello from" in answer["a"]["data"], answer
    assert got["alive"] < 6000, "no limit at all"


@attack("F3")
def questions_without_end(field):
    """DNS asked as fast as can be: capped, and the neighbour still gets answers."""
    field.policy(OPEN)
    other = field.other()
    other.policy(LIMITED)
    context = field.start("""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server, end, got["sent"] = name_server(), time.monotonic() + 4, 0
        while time.monotonic() < end:
            try:
                sock.sendto(question(f"n{got['sent']}.pirate.net"), (server, 53))
                got["sent"] += 1
            except OSError:
                pass
    """)
    time.sleep(1)
    answer = other.run(f'got["a"] = {GET}')
    got = field.finish(context)
    assert "hello from" in answer["a"]["data"], answer
    assert got["sent"] > 100


@attack("F4")
def clock_of_the_sandbox(field):
    """What the sandbox thinks of the time changes nothing about certificates and leases."""
    field.policy(inspected("api.harbour.com", "expired.harbour.com"))
    got = field.run(f"""
        try:
            time.clock_settime(time.CLOCK_REALTIME, 1577880000)  # when that one was still good
            got["set"] = True
        except OSError as error:
            got["set"] = str(error)
        got["expired"] = to("expired.harbour.com", b"GET /hello HTTP/1.1\\r\\nHost: expired.harbour.com\\r\\nConnection: close\\r\\n\\r\\n", 3)
        got["good"] = {GET}
    """)
    assert got["set"] is not True, "a sandbox set the host's clock"
    assert "hello from" in got["good"]["data"]
    assert not [each for each in field.seen().requests() if "expired" in str(each["headers"])]


@attack("F5")
def upstream_that_hangs(field):
    """Servers that take everything and say nothing hold up nobody else."""
    field.policy(INSPECTED)
    field.names(at={EVIL: "hang", "5.5.1.13": "hang"})
    got = field.run(f"""
        socks = []
        for n in range(40):
            try:
                sock = connect("5.5.1.13", 80)
                sock.sendall(b"GET /hello HTTP/1.1\\r\\nHost: old.harbour.com\\r\\n\\r\\n")
                socks.append(sock)
            except OSError:
                pass
        try:
            tls("5.5.1.13", 443, "old.harbour.com", ["http/1.1"], 1)
        except OSError:
            pass
        got["good"] = {GET}
        got["held"] = len(socks)
    """)
    assert "hello from" in got["good"]["data"], got
    assert got["held"] > 10


@attack("F6")
def thousand_slow_uploads(field):
    """Bodies that never end do not pile up in memory."""
    field.policy(inspected("api.harbour.com", http={"methods": {"allowed": ["POST", "GET"]}}))
    memory = field.memory_of_the_proxy()
    context = field.start("""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (8000, 8000))
        socks = []
        for n in range(1000):
            try:
                sock = socket.socket()
                sock.settimeout(2)
                sock.connect((API, 80))
                sock.sendall(b"POST /hello HTTP/1.1\\r\\nHost: api.harbour.com\\r\\nContent-Length: 1000000\\r\\n\\r\\n" + b"x" * 20000)
                socks.append(sock)
            except OSError:
                pass
        got["open"] = len(socks)
        open("/tmp/full", "w").close()
        time.sleep(2)
    """, seconds=120)
    field.wait_for_file("/tmp/full", 100)
    grown = field.memory_of_the_proxy() - memory
    got = field.finish(context)
    field.sandbox.run("rm -f /tmp/full", user="root")
    assert grown < 256 << 20, f"{grown >> 20} MiB for {got['open']} uploads"


@attack("F1")
def broken_policy(field):
    """A policy that cannot be read changes nothing: the old one stays."""
    field.policy(LIMITED)
    client, path = field.server.client, f"{field.sandbox.path}/network"
    for body in ({"mode": "open"}, {"mode": "allow-all", "egress": {"trafficRules": [{}]}},
                 {"mode": "allow-all", "egress": {"trafficRules": "all"}}, {"egress": {}}, [],
                 {"mode": "allow-all", "unknown": 1},
                 {"mode": "allow-all", "egress": {"credentialRules": [
                     {"credentialRef": "nowhere", "domains": ["api.harbour.com"]}]}}):
        answer = client.call("PUT", path, body)
        assert answer.status == 400, (body, answer.status, answer.body)
    field.run("""
        got["evil"] = tcp(EVIL, 80, b"GET / HTTP/1.1\\r\\nHost: evil.pirate.net\\r\\n\\r\\n", 1)
    """)
    field.unreached(EVIL)
    assert API
