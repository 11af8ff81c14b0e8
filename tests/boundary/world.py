"""The world of the boundary tests: two network namespaces and a cable between them.

This process moves into a namespace of its own, the "host": `atoll serve` and everything else that is
started runs there. Its only way out is a cable to the "witness", a namespace that owns every other
address there is (a local default route), public, private and the clouds' metadata services alike. So
whatever leaves the host's namespace is seen, and nothing leaves the machine. Namespaces have no names
and no files: they end with their processes, also when a test dies.
"""
import base64
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
CLONE_NEWNET = 0x40000000

# The cable.
HOST, WITNESS = "172.30.0.1", "172.30.0.2"
HOST6, WITNESS6 = "fd30::1", "fd30::2"
# An address of the host that looks public.
HOST_PUBLIC = "5.5.9.9"
NAME_SERVER = "5.5.5.53"
# Where real servers live; every other address is answered by the witness itself.
REAL = "5.5.2.0/24"

API, API6 = "5.5.1.10", "2a00:5500::10"
PAY = "5.5.1.11"
DOWNLOADS = "5.5.1.12"
# Speaks HTTP/1.1 only.
OLD = "5.5.1.13"
WEB = "5.5.2.10"
REDIS = "5.5.2.11"
POSTGRES = "5.5.2.12"
MCP = "5.5.2.14"
GRPC = "5.5.2.15"
EVIL, EVIL6 = "6.6.6.6", "2a00:6600::66"
# TLS servers with something wrong.
EXPIRED, STRANGER, WRONG_NAME, ASKS = "5.5.3.1", "5.5.3.2", "5.5.3.3", "5.5.3.4"

ZONE = {
    "api.harbour.com": [{"A": [API], "AAAA": [API6]}],
    "pay.harbour.com": [{"A": [PAY]}],
    "harbour.com": [{"A": [DOWNLOADS]}],
    "files.harbour.com": [{"A": [DOWNLOADS]}],
    "old.harbour.com": [{"A": [OLD]}],
    "www.harbour.com": [{"A": [WEB]}],
    "redis.harbour.com": [{"A": [REDIS]}],
    "db.harbour.com": [{"A": [POSTGRES]}],
    "mcp.harbour.com": [{"A": [MCP]}],
    "grpc.harbour.com": [{"A": [GRPC]}],
    "evil.pirate.net": [{"A": [EVIL], "AAAA": [EVIL6]}],
    "expired.harbour.com": [{"A": [EXPIRED]}],
    "stranger.harbour.com": [{"A": [STRANGER]}],
    "wrong.harbour.com": [{"A": [WRONG_NAME]}],
    "asks.harbour.com": [{"A": [ASKS]}],
    "api.harbour.com.pirate.net": [{"A": [EVIL]}],
    "evilharbour.com": [{"A": [EVIL]}],
}
BEHAVIOUR = {OLD: "old", EXPIRED: "expired", STRANGER: "stranger", WRONG_NAME: "wrong", ASKS: "asks"}


def run(*command, inside=None):
    if inside is not None:
        command = ("nsenter", "--net", "--target", str(inside), *command)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


class Certificates:
    """An authority, and leaves that are good and bad."""

    NAMES = ["harbour.com", "*.harbour.com", "*.pirate.net", "pirate.net", "evilharbour.com"]

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.authority = self.directory / "ca.crt"
        self.sign_authority("ca", "Test Authority")
        self.leaf("good", self.NAMES)
        self.leaf("asks", self.NAMES)
        self.leaf("old", self.NAMES)
        self.leaf("wrong", ["other.pirate.net"])
        self.leaf("expired", self.NAMES, dates=("20200101000000Z", "20200201000000Z"))
        self.leaf("client", ["client.harbour.com"])
        self.sign_authority("elsewhere", "Somebody Else")
        self.leaf("stranger", self.NAMES, authority="elsewhere")

    def file(self, name):
        return str(self.directory / name)

    def sign_authority(self, name, common_name):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "30", "-subj", f"/CN={common_name}", "-keyout",
            self.file(f"{name}.key"), "-out", self.file(f"{name}.crt"))

    def leaf(self, name, names, authority="ca", dates=None):
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={names[0]}", "-keyout", self.file(f"{name}.key"), "-out",
            self.file(f"{name}.csr"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text("subjectAltName=" + ",".join(f"DNS:{each}" for each in names) + "\n")
        if dates is None:
            run("openssl", "x509", "-req", "-in", self.file(f"{name}.csr"), "-CA",
                self.file(f"{authority}.crt"), "-CAkey", self.file(f"{authority}.key"),
                "-CAcreateserial", "-days", "7", "-extfile", str(extensions), "-out",
                self.file(f"{name}.crt"))
            return
        (self.directory / "index.txt").write_text("")
        configuration = self.directory / "authority.conf"
        configuration.write_text(
            "[ca]\ndefault_ca=it\n[it]\nunique_subject=no\ndefault_md=sha256\npolicy=any\n"
            f"rand_serial=yes\nnew_certs_dir={self.directory}\n"
            f"database={self.directory}/index.txt\n[any]\ncommonName=supplied\n")
        run("openssl", "ca", "-batch", "-config", str(configuration), "-in",
            self.file(f"{name}.csr"), "-cert", self.file(f"{authority}.crt"), "-keyfile",
            self.file(f"{authority}.key"), "-startdate", dates[0], "-enddate", dates[1],
            "-extfile", str(extensions), "-notext", "-out", self.file(f"{name}.crt"))


class World:
    def __init__(self, watch_wire=True):
        """Without an eye on the wire nothing is slowed down: for measurements."""
        self.interface = "inside" if watch_wire else ""
        self.directory = tempfile.mkdtemp(prefix="atoll-boundary-")
        os.chmod(self.directory, 0o755)
        self.lock = threading.Lock()
        self.before = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.process, self.ends = None, contextlib.ExitStack()
        self.certificates = Certificates(self.directory)

    # Life ---------------------------------------------------------------------------------------
    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        assert self.libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        self.namespace = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.ends.callback(self.end, self.namespace)
        self.wait_for_namespace()
        pid = str(self.namespace.pid)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "outside", "type", "veth", "peer", "name", "inside", "netns", pid)
        run("ip", "address", "add", f"{HOST}/30", "dev", "outside")
        run("ip", "address", "add", f"{HOST6}/64", "dev", "outside", "nodad")
        run("ip", "address", "add", f"{HOST_PUBLIC}/32", "dev", "lo")
        run("ip", "link", "set", "outside", "up")
        for command in (
                ["ip", "link", "set", "lo", "up"],
                ["ip", "address", "add", f"{WITNESS}/30", "dev", "inside"],
                ["ip", "address", "add", f"{WITNESS6}/64", "dev", "inside", "nodad"],
                ["ip", "link", "set", "inside", "up"],
                ["ip", "route", "add", "local", "default", "dev", "lo", "table", "main"],
                ["ip", "-6", "route", "add", "local", "default", "dev", "lo", "table", "main"],
                ["nft", "-f", self.rules()]):
            run(*command, inside=pid)
        run("ip", "route", "add", "default", "via", WITNESS)
        run("ip", "-6", "route", "add", "default", "via", WITNESS6)
        with open(f"{self.directory}/witness.log", "wb") as log:
            self.process = self.spawn(
                ["/usr/bin/python3", str(HERE / "witness.py"), self.interface, NAME_SERVER,
                 self.directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True)
        assert self.process.stdout.readline(), self.log()
        self.usual()

    def rules(self):
        """Everything but the real servers and the name server meets the witness's own sockets."""
        path = pathlib.Path(self.directory, "witness.nft")
        path.write_text(f"""table inet witness {{
  chain arrivals {{
    type filter hook prerouting priority mangle
    iifname != "inside" accept
    ip daddr {{ {REAL}, {WITNESS}/32 }} accept
    ip daddr {NAME_SERVER} th dport 53 accept
    ip6 daddr {WITNESS6} accept
    meta l4proto {{ tcp, udp }} meta nfproto ipv4 tproxy ip to :1 accept
    meta l4proto {{ tcp, udp }} meta nfproto ipv6 tproxy ip6 to :1 accept
  }}
}}
""")
        return str(path)

    def wait_for_namespace(self):
        mine = os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + 10
        while os.readlink(f"/proc/{self.namespace.pid}/ns/net") == mine:
            assert time.monotonic() < deadline, "no namespace for the witness"
            time.sleep(0.01)

    def spawn(self, command, **options):
        """A process in the witness's namespace that ends with the world."""
        process = subprocess.Popen(["nsenter", "--net", "--target", str(self.namespace.pid),
                                    *command], **options)
        self.ends.callback(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def __exit__(self, *_):
        self.ends.close()
        self.libc.setns(self.before, CLONE_NEWNET)
        os.close(self.before)
        shutil.rmtree(self.directory, ignore_errors=True)

    def log(self):
        return pathlib.Path(self.directory, "witness.log").read_text()[-3000:]

    # Orders -------------------------------------------------------------------------------------
    def order(self, name, **arguments):
        with self.lock:
            self.process.stdin.write(json.dumps([name, arguments]) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        assert line, f"the witness died of {name}: {self.log()}"
        return json.loads(line)

    def usual(self, zone=None, at=None, answers=None):
        """Names and servers as in the tables above, with what a test wants otherwise."""
        self.order("zone", entries={**ZONE, **(zone or {})})
        self.order("behave", at={**BEHAVIOUR, **(at or {})},
                   answers={path: base64.b64encode(raw).decode()
                            for path, raw in (answers or {}).items()})

    def clear(self):
        self.order("clear")

    def seen(self):
        return Sight(self.order("seen"))


class Sight:
    """What the witness saw since it was last told to forget."""

    def __init__(self, told):
        self.packets = [tuple(each) for each in told["packets"]]
        self.questions = [name for name, _ in told["questions"]]
        self.datagrams = [{**each, "data": base64.b64decode(each["data"])}
                          for each in told["datagrams"]]
        self.connections = [{**each, "raw": base64.b64decode(each["raw"])}
                            for each in told["connections"]]

    def to(self, *addresses):
        """Packets of any kind."""
        return [each for each in self.packets if each[1] in addresses]

    def strangers(self, *known):
        """Packets to anywhere but these and the name server."""
        return [each for each in self.packets if each[1] not in (*known, NAME_SERVER)]

    def requests(self, *addresses):
        return [request for each in self.connections for request in each["requests"]
                if not addresses or each["address"] in addresses]

    def headers(self, name, *addresses):
        return [value for request in self.requests(*addresses)
                for header, value in request["headers"] if header == name]

    def heard(self, text, *addresses):
        """Where a text arrived: in the bytes (TLS opened), or in a request that was taken apart."""
        text = text if isinstance(text, bytes) else text.encode()
        places = [f"{each['address']}:{each['port']}" for each in self.connections
                  if (not addresses or each["address"] in addresses) and
                  (text in each["raw"] or text.decode("latin-1") in json.dumps(each["requests"]))]
        places += [f"udp {each['address']}:{each['port']}" for each in self.datagrams
                   if text in each["data"]]
        places += [f"dns {name}" for name in self.questions if text.decode("latin-1") in name]
        return places


if __name__ == "__main__":  # a look at it: python3 world.py COMMAND...
    with World():
        sys.exit(subprocess.call(sys.argv[1:]))
