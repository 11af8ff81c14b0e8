"""A server whose sandboxes have an internet: that of the boundary tests (tests/boundary/world.py).

For modules of other tests. While it lives, this thread is in a network namespace of its own, so the
session's server cannot be reached from it.
"""
import contextlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "boundary"))

from harness.client import ApiError, Answer, Sandbox  # noqa: E402
from harness.contract import contract  # noqa: E402
from harness.server import Server  # noqa: E402
from world import NAME_SERVER, World  # noqa: E402


class Place:
    def __init__(self, world, server):
        self.world, self.server, self.client = world, server, server.client
        self.made = []

    def sandbox(self, policy=None, **options):
        """One with a policy from its first moment on."""
        if policy is not None:
            options["network"] = policy
        made = self.client.create(**options)
        self.made.append(made)
        return made

    def set_policy(self, sandbox, policy):
        self.client.expect(200, "PUT", f"{sandbox.path}/network", policy)

    def flows(self, sandbox, **query):
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return self.client.expect(200, "GET", f"{sandbox.path}/network/flows?{text}").data["flows"]

    def lines(self, path, schema):
        """The lines of an answer that does not end."""
        connection = self.client.connection(timeout=60)
        try:
            connection.request("GET", path, headers=self.client.headers())
            response = connection.getresponse()
            if response.status != 200:
                raise ApiError("GET", path, Answer(response.status, response.headers,
                                                   response.read()))
            assert response.readline() == b"\n", "a blank line says that nothing is missed any more"
            yield None
            for line in response:
                if line.strip():
                    record = json.loads(line)
                    contract().judge_schema(schema, record)
                    yield record
        finally:
            connection.close()

    def clean(self):
        for sandbox in self.made:
            self.client.call("DELETE", sandbox.path)
        self.made.clear()
        self.world.usual()


@contextlib.contextmanager
def boundary(*extra):
    with World(watch_wire=False) as world:
        server = Server(extra=["--dns-upstream", f"{NAME_SERVER}:53", "--egress-roots",
                               str(world.certificates.authority), *extra])
        with server:
            place = Place(world, server)
            try:
                yield place
            finally:
                place.clean()


def limited(*domains, **egress):
    """Nothing but these names."""
    rules = [{"name": "hosts", "action": "allow", "domains": list(domains)}] if domains else []
    return {"mode": "block-all", "egress": {"trafficRules": rules, **egress}}


def opened(*domains):
    """Nothing but these names, with their TLS opened."""
    return limited(*domains, protocolRules=[
        {"name": "look", "protocol": "http", "domains": list(domains),
         "tlsMode": "terminate-reoriginate", "http": {"methods": {"denied": ["DELETE"]}}}])


__all__ = ["Place", "Sandbox", "boundary", "limited", "opened"]
