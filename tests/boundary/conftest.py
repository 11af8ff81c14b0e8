"""One world, one server and one attacker's sandbox for the whole run."""
import io
import json
import pathlib
import secrets
import socket
import sys
import tarfile
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from attacks import TRIED, Field  # noqa: E402
from clients import go_client, java_client, python_packages  # noqa: E402
from control import HostField, HostSandbox, HostStage  # noqa: E402
from harness.server import Server  # noqa: E402
from servers import Servers, mcp_packages  # noqa: E402
from world import API, DOWNLOADS, NAME_SERVER, PAY, World  # noqa: E402

# Pure Python, the same as the host's: uploaded for the attacker.
HPACK = pathlib.Path("/usr/lib/python3/dist-packages/hpack")


def pytest_addoption(parser):
    parser.addoption("--control", action="store_true",
                     help="try the attacks on the bare host, where they must succeed")


def pytest_terminal_summary(terminalreporter, config):
    if not TRIED:
        return
    if config.getoption("--control"):
        helpless = sorted(name for name, held in TRIED.items() if held)
        terminalreporter.write_line(f"control: {len(TRIED)} tried on the bare host, "
                                    f"{len(TRIED) - len(helpless)} succeeded there; not: "
                                    f"{', '.join(helpless) or 'none'}")
        return
    refused = sum(TRIED.values())
    terminalreporter.write_line(f"attacks: {len(TRIED)} tried, {refused} refused")
    for name, held in sorted(TRIED.items()):
        if not held:
            terminalreporter.write_line(f"attacks: SUCCEEDED: {name}")


@pytest.fixture(scope="session")
def world():
    # From registries, so before this process leaves the machine's network.
    mcp_packages(), python_packages(), go_client(), java_client()
    with World() as made:
        yield made


@pytest.fixture(scope="session")
def server(world):
    # The range of the cable is the witness's own address: closed by class like the rest.
    running = Server(extra=["--dns-upstream", f"{NAME_SERVER}:53", "--egress-roots",
                            str(world.certificates.authority)])
    with running:
        yield running


class Canary:
    """A listener of the host, on every address it has."""

    def __init__(self):
        self.count, self.lock = 0, threading.Lock()
        self.socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with self.lock:
                self.count += 1
            peer.close()

    def hits(self):
        with self.lock:
            count, self.count = self.count, 0
        return count

    def close(self):
        self.socket.close()


class Neighbour:
    """Another sandbox with a server that writes down who came."""

    port = 9000
    SERVER = ("import socket\n"
              "s = socket.create_server(('::', 9000), family=socket.AF_INET6, dualstack_ipv6=True)\n"
              "while True:\n"
              "    c, a = s.accept()\n"
              "    open('/tmp/hits', 'a').write(str(a) + '\\n')\n"
              "    c.sendall(b'neighbour'), c.close()\n")

    def __init__(self, sandbox):
        self.sandbox = sandbox
        sandbox.write("/tmp/hits", b"")
        sandbox.start(["python3", "-c", self.SERVER], user="root")

    def hits(self):
        return self.sandbox.read("/tmp/hits").decode().splitlines()


class Stage:
    """What all attacks share."""

    def __init__(self, world, server, servers):
        self.world, self.server, self.servers = world, server, servers
        self.client = server.client
        self.made = []
        self.homes = {"alpha": API, "beta": PAY, "gamma": DOWNLOADS}
        self.secrets = {name: f"{name}-value-{secrets.token_hex(12)}" for name in self.homes}
        self.placeholders = {name: f"atollph_{name}_{secrets.token_hex(16)}" for name in self.homes}
        self.canary = Canary()
        self.neighbour = Neighbour(self.sandbox())
        for name, value in self.secrets.items():
            self.source(name, value)

    def sandbox(self):
        sandbox = self.client.create()
        self.made.append(sandbox)
        upload = io.BytesIO()
        with tarfile.open(fileobj=upload, mode="w") as tar:
            tar.add(HERE / "attacker.py", arcname="attacker.py")
            tar.add(HPACK, arcname="hpack", filter=lambda each: None if "__pycache__" in each.name
                    else each)
        sandbox.write("/tmp/attacker.tar", upload.getvalue())
        sandbox.out("mkdir -p /opt/attacker && tar -xf /tmp/attacker.tar -C /opt/attacker && "
                    "rm /tmp/attacker.tar", user="root")
        return sandbox

    def source(self, name, value):
        """Creates it, or gives it a new version."""
        body = {"name": name, "resolverKind": "static_headers",
                "spec": {"staticHeaders": {"values": {"token": value}}}}
        answer = self.client.call("POST", "/api/v1/credential-sources", body)
        if answer.status == 409:
            answer = self.client.call("PUT", f"/api/v1/credential-sources/{name}", body)
        assert answer.status in (200, 201), answer.body

    def calls(self):
        path = self.servers.calls_path
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def close(self):
        self.canary.close()
        for sandbox in self.made:
            self.client.call("DELETE", sandbox.path)


@pytest.fixture(scope="session")
def servers(world):
    return Servers(world, token=f"web-token-{secrets.token_hex(8)}")


@pytest.fixture(scope="session")
def stage(world, server, servers):
    made = Stage(world, server, servers)
    yield made
    made.close()


@pytest.fixture(scope="session")
def attacker_sandbox(stage):
    return stage.sandbox()


@pytest.fixture(scope="session")
def host_field(world):
    canary = Canary()
    yield HostField(HostStage(world, canary), HostSandbox(world, str(HERE)))
    canary.close()


@pytest.fixture
def field(request):
    """The attacker's place; the world is as usual and has seen nothing yet."""
    if request.config.getoption("--control"):
        made = request.getfixturevalue("host_field")
        made.world.usual()
        made.world.clear()
        made.canary.hits()
        yield made
        return
    stage = request.getfixturevalue("stage")
    attacker_sandbox = request.getfixturevalue("attacker_sandbox")
    stage.world.usual()
    stage.world.clear()
    stage.servers.calls_path.unlink(missing_ok=True)
    stage.canary.hits()
    made = Field(stage, attacker_sandbox)
    yield made
    for other in made.others:
        stage.client.call("DELETE", other.sandbox.path)
