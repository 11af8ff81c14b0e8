"""Sandboxes with a server inside, and those who visit it. The fixtures are imported by their users."""
import http.client
import json
import socket

import pytest

from harness.server import REPOSITORY, Server

DOMAIN = "apps.test"
PROGRAM = (REPOSITORY / "tests" / "integration" / "service_server.py").read_text()


@pytest.fixture(scope="module")
def served():
    with Server(extra=["--domain", DOMAIN]) as running:
        yield running


@pytest.fixture
def make(served):
    made = []

    def create(**options):
        sandbox = served.client.create(**options)
        made.append(sandbox)
        return sandbox

    yield create
    for sandbox in made:
        served.client.call("DELETE", sandbox.path)


@pytest.fixture(scope="module")
def web(served):
    """One sandbox with the server on 127.0.0.1:8000, public."""
    yield from make_web(served)


@pytest.fixture(scope="module")
def plain():
    """A server without a domain: its services are below its path."""
    with Server() as running:
        yield running


@pytest.fixture(scope="module")
def plain_web(plain):
    yield from make_web(plain)


def make_web(served):
    sandbox = served.client.create()
    start_server(sandbox, 8000)
    put(sandbox, {"id": "web", "port": 8000, "ingress": {"public": True}})
    yield sandbox
    served.client.call("DELETE", sandbox.path)


def start_server(sandbox, port, address="127.0.0.1"):
    sandbox.write("/tmp/server.py", PROGRAM)
    context = sandbox.start(["python3", "/tmp/server.py", str(port), address])
    for event in sandbox.stream(context["id"]):
        assert event["type"] == "output", event
        return context


def put(sandbox, *services):
    return sandbox.client.expect(200, "PUT", f"{sandbox.path}/services",
                                 {"services": list(services)}).data


def service(port=8000, runtime=None, **route):
    body = {"id": "web", "port": port,
            "ingress": {"public": True, "routes": [{"id": "all", **route}]}}
    if runtime:
        body["runtime"] = runtime
    return body


class Visitor:
    """A client of a service, at its own host or below the path of the server."""

    def __init__(self, served, sandbox, port=8000, form="{id}--p{port}"):
        self.served = served
        self.by_path = form is None
        self.host = "x" if form is None else (
            form.format(id=sandbox.id, port=port) + f".{DOMAIN}:{served.port}")
        self.prefix = f"/s/{sandbox.id}/{port}" if form is None else ""

    def connection(self):
        return http.client.HTTPConnection(self.served.host, self.served.port, timeout=60)

    def call(self, method="GET", path="/", body=None, headers=None):
        connection = self.connection()
        headers = dict(headers or {})
        if not self.by_path:
            headers.setdefault("Host", self.host)
        try:
            connection.request(method, self.prefix + path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused while we were still sending: the answer is waiting
        answer = connection.getresponse()
        answer.content = answer.read()
        connection.close()
        return answer

    def see(self, *arguments, **options):
        answer = self.call(*arguments, **options)
        assert answer.status == 200, (answer.status, answer.content)
        return json.loads(answer.content)

    def raw(self, text):
        """Sends bytes as they are; everything that comes until the end."""
        with socket.create_connection((self.served.host, self.served.port), timeout=60) as peer:
            peer.sendall(text.replace(b"HOST", self.host.encode()))
            peer.shutdown(socket.SHUT_WR)
            received = b""
            while piece := peer.recv(65536):
                received += piece
            return received


@pytest.fixture(params=["{id}--p{port}", "{port}-{id}", None], ids=["label", "e2b", "path"])
def visitor(request):
    names = ("served", "web") if request.param else ("plain", "plain_web")
    return Visitor(*map(request.getfixturevalue, names), form=request.param)
