"""Network policies and credential sources: written, replaced, deleted."""
import secrets

from harness.client import Sandbox
from operation import ALL, Operation

SOURCES = "/api/v1/credential-sources"


class NetworkOperation(Operation):
    def group(self):
        return f"g-{secrets.token_hex(4)}"

    def groups(self, sandbox):
        network = self.client.expect(200, "GET", f"{sandbox.path}/network").data
        assert "failure" not in network
        return network.get("groups", [])

    def set_group(self, sandbox, group):
        return self.client.expect(200, "PUT", f"{sandbox.path}/network",
                                  {"mode": "block-all", "groups": [group]}).data["groups"]


class ClaimWithNetwork(NetworkOperation):
    """The policy is there as soon as the sandbox is."""

    def prepare(self):
        self.asked = self.group()

    def run(self):
        return self.client.expect(201, "POST", ALL, {"template": "default", "config": {
            "network": {"mode": "block-all", "groups": [self.asked]}}}).data["sandbox_id"]

    def check(self, answer):
        made = set(self.client.list_ids())
        assert answer is None or made == {answer}, (made, answer)
        for each in made | {self.run()}:
            sandbox = Sandbox(self.client, each)
            assert self.groups(sandbox) == [self.asked]
            sandbox.delete()


class SetNetwork(NetworkOperation):
    def prepare(self):
        self.target, self.before, self.after = self.sandbox(), self.group(), self.group()
        self.set_group(self.target, self.before)

    def run(self):
        return self.set_group(self.target, self.after)

    def check(self, answer):
        self.target.client = self.client
        found = self.groups(self.target)
        assert found == answer if answer else found in ([self.before], [self.after])
        assert self.run() == self.groups(self.target) == [self.after]
        self.works_on(self.target)


class CredentialOperation(Operation):
    def source(self):
        return {"name": self.name, "resolverKind": "static_headers",
                "spec": {"staticHeaders": {"values": {"token": secrets.token_hex(8)}}}}

    def create(self):
        return self.client.expect(201, "POST", SOURCES, self.source()).data["currentVersion"]

    def rotate(self):
        path = f"{SOURCES}/{self.name}"
        return self.client.expect(200, "PUT", path, self.source()).data["currentVersion"]

    def version(self):
        """None: there is no such source."""
        answer = self.client.call("GET", f"{SOURCES}/{self.name}")
        assert answer.status in (200, 404)
        if answer.status == 404:
            return None
        assert answer.data["status"] == "active"
        return answer.data["currentVersion"]

    def remove(self):
        self.client.expect(200, "DELETE", f"{SOURCES}/{self.name}")
        assert self.version() is None
        return True

    def prepare(self):
        self.name = f"c-{secrets.token_hex(4)}"


class CreateCredential(CredentialOperation):
    def run(self):
        return self.create()

    def check(self, answer):
        found = self.version()
        assert found == answer if answer else found in (None, 1)
        if found is not None:
            self.remove()
        self.create()
        self.remove()


class RotateCredential(CredentialOperation):
    def prepare(self):
        super().prepare()
        self.create()

    def run(self):
        return self.rotate()

    def check(self, answer):
        found = self.version()
        assert found == answer if answer else found in (1, 2)
        assert self.rotate() == found + 1
        self.remove()


class DeleteCredential(CredentialOperation):
    def prepare(self):
        super().prepare()
        self.create()

    def run(self):
        return self.remove()

    def check(self, answer):
        found = self.version()
        assert found is None if answer else found in (None, 1)
        if found is None:
            self.create()
        self.remove()
