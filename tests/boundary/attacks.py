"""The table of attacks: which item of the list each belongs to, and how it is carried out.

An attack is a function of a Field: it sets the policy, lets the attacker's program run in the
sandbox, and asserts what the witness saw. When the assertion fails, the attack succeeded.
"""
import json
import textwrap
import time

import pytest

from world import API, DOWNLOADS, EVIL, PAY

ATTACKS = []
# Name of an attack -> it was refused.
TRIED = {}
ITEMS = [*(f"A{n}" for n in range(1, 11)), *(f"B{n}" for n in range(1, 9)),
         *(f"C{n}" for n in range(1, 11)), *(f"D{n}" for n in range(1, 13)), "E",
         *(f"F{n}" for n in range(1, 7))]


def attack(item, *, each=None, open_defect=None):
    """`each`: {name: value}, one attack for every entry, given as the second argument."""
    def add(function):
        name = function.__name__.replace("_", "-")
        marks = ([pytest.mark.xfail(strict=True, reason=open_defect)] if open_defect else [])
        for case, value in (each or {None: None}).items():
            label = f"{item}-{name}" + (f"-{case}" if case else "")
            ATTACKS.append(pytest.param(item, function, value, each is not None, id=label,
                                        marks=marks))
        return function
    return add


# Longer ones are no argument of a command.
LONG_PROGRAM_BYTES = 60_000


# Policies ---------------------------------------------------------------------------------------
OPEN = {"mode": "allow-all"}


def limited(*domains, **more):
    """Nothing but these names."""
    return {"mode": "block-all",
            "egress": {"trafficRules": [{"name": "some", "action": "allow",
                                         "domains": list(domains)}], **more}}


LIMITED = limited("api.harbour.com")


def inspected(*domains, http=None, also=(), **more):
    """These names, TLS opened, some methods and paths only."""
    rule = {"name": "look", "protocol": "http", "domains": list(domains),
            "tlsMode": "terminate-reoriginate",
            "http": http or {"methods": {"allowed": ["GET", "POST", "PUT"]},
                             "paths": {"deniedPrefixes": ["/secret"]}}}
    return limited(*domains, *also, protocolRules=[rule], **more)


INSPECTED = inspected("api.harbour.com", "old.harbour.com")


class Field:
    """Where one attack takes place."""

    SETTLE_SECONDS = 0.15

    def __init__(self, stage, sandbox):
        """`stage`: what all attacks share (see conftest.py)."""
        self.stage, self.sandbox = stage, sandbox
        self.world, self.server = stage.world, stage.server
        self.secrets, self.neighbour, self.canary = stage.secrets, stage.neighbour, stage.canary
        self.others, self.output = [], ""

    # What the attack arranges -------------------------------------------------------------------
    def policy(self, policy):
        self.server.client.expect(200, "PUT", f"{self.sandbox.path}/network",
                                  {"credentialBindings": [], **policy})

    def names(self, **options):
        self.world.usual(**options)

    def placeholder(self, name):
        return self.stage.placeholders[name].encode()

    def source(self, name, value):
        self.stage.source(name, value)

    def credential_parts(self):
        """Three credentials, each for its own host: as headers, and as placeholders."""
        def rule(ref, domain):
            return {"name": f"use-{ref}", "credentialRef": ref, "protocol": "https",
                    "tlsMode": "terminate-reoriginate", "domains": [domain]}
        return {"credentialRules": [rule("alpha", "api.harbour.com"),
                                    rule("beta", "pay.harbour.com"),
                                    rule("gamma", "files.harbour.com")]}

    def credentialed(self, alpha="alpha", redact=False, only_rules=False):
        """The credentials' hosts, and the attacker's, opened so that it can be looked into."""
        look = [{"name": "look", "protocol": "http", "tlsMode": "terminate-reoriginate",
                 "domains": ["evil.pirate.net", "api.harbour.com"],
                 "http": {"methods": {"denied": ["DELETE"]}}}]
        parts = {} if only_rules else self.credential_parts()
        policy = limited("api.harbour.com", "pay.harbour.com", "files.harbour.com",
                         "evil.pirate.net", protocolRules=look, **parts)
        if not only_rules:
            policy["credentialBindings"] = self.bindings(alpha, redact)
        return policy

    def bindings(self, alpha="alpha", redact=False):
        headers = [{"name": "Authorization", "valueTemplate": "Bearer {{ .token }}"},
                   {"name": "X-Api-Key", "valueTemplate": "{{ .token }}"}]
        more = {"redactResponses": True} if redact else {}

        def replacing(ref, *locations):
            return {"ref": ref, "sourceRef": ref, "projection": {
                "type": "placeholder_substitution", **more, "placeholderSubstitution": {
                    "replacements": [{"placeholder": self.stage.placeholders[ref],
                                      "valueTemplate": "{{ .token }}",
                                      "locations": list(locations)}]}}}
        return [{"ref": "alpha", "sourceRef": alpha, "projection": {
                    "type": "http_headers", **more, "httpHeaders": {"headers": headers}}},
                replacing("beta", "header", "query", "body"), replacing("gamma", "header")]

    def other(self):
        """A second sandbox, for as long as the attack takes."""
        field = Field(self.stage, self.stage.sandbox())
        self.others.append(field)
        return field

    def fork(self):
        answer = self.server.client.expect(201, "POST", f"{self.sandbox.path}/fork", {}).data
        child = type(self.sandbox)(self.server.client, answer["sandbox"]["id"])
        field = Field(self.stage, child)
        self.others.append(field)
        return field

    # The attacker's programs --------------------------------------------------------------------
    def program(self, code, values):
        values = {"API": API, "PAY": PAY, "EVIL": EVIL, "DOWNLOADS": DOWNLOADS, **values}
        lines = "\n".join(f"{name} = {value!r}" for name, value in values.items())
        code = textwrap.dedent(code)
        text = ("import sys; sys.path.insert(0, '/opt/attacker')\nfrom attacker import *\n"
                f"{lines}\n{code}\nprint(json.dumps(got))\n")
        if len(text) < LONG_PROGRAM_BYTES:
            return ["python3", "-I", "-c", text]
        self.sandbox.write("/tmp/program.py", text)
        return ["python3", "-I", "/tmp/program.py"]

    def result(self, done):
        self.output += done["stdout"] + done["stderr"]
        assert done["exit_code"] == 0, f"the program itself broke: {done['stderr'][-2000:]}"
        return json.loads(done["stdout"].strip().splitlines()[-1])

    def run(self, code, seconds=60, **values):
        """Runs a program; what it puts into `got` comes back."""
        return self.result(self.sandbox.run(self.program(code, values), user="root",
                                            timeout_ms=seconds * 1000))

    def run_until(self, text, code):
        """Repeats while a server that was killed comes back."""
        deadline = time.monotonic() + 20
        while True:
            got = self.run(code)
            if text in json.dumps(got):
                return got
            assert time.monotonic() < deadline, got

    def start(self, code, seconds=60, **values):
        return self.sandbox.start(self.program(code, values), user="root",
                                  timeout_ms=seconds * 1000)["id"]

    def finish(self, context):
        deadline = time.monotonic() + 120
        while True:
            done = self.sandbox.context(context)
            if not done["running"]:
                return self.result(done)
            assert time.monotonic() < deadline, done
            time.sleep(0.05)

    def wait_for_file(self, path, seconds=20):
        deadline = time.monotonic() + seconds
        while self.sandbox.client.call("GET", self.sandbox.file_path(path, "/stat")).status != 200:
            assert time.monotonic() < deadline, f"no {path}"
            time.sleep(0.05)

    def wait_for_the_api(self, before):
        deadline = time.monotonic() + 30
        while True:
            try:
                now = self.server.daemons().get("api")
                if now and now != before and self.server.client.call(
                        "GET", self.sandbox.path).status == 200:
                    return
            except OSError:
                pass
            assert time.monotonic() < deadline, "the API process did not come back"
            time.sleep(0.05)

    # What was seen ------------------------------------------------------------------------------
    def seen(self):
        """Nothing announces that nothing comes: what is under way gets a moment to arrive."""
        time.sleep(self.SETTLE_SECONDS)
        return self.world.seen()

    def calls(self):
        return self.stage.calls()

    def memory_of_the_proxy(self):
        pid = self.server.daemons()["api"]
        for line in open(f"/proc/{pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no such process")

    def unreached(self, *addresses):
        packets = self.seen().to(*addresses)
        assert not packets, f"the witness saw {packets[:5]}"

    def silent(self, *known):
        """Nothing at all left but to these and the name server."""
        strangers = self.seen().strangers(*known)
        assert not strangers, f"the witness saw {strangers[:5]}"

    def no_request(self, *, path=None, host=None, method=None):
        sight = self.seen()
        for request in sight.requests():
            hosts = [value for name, value in request["headers"] if name == "host"]
            assert path is None or path not in request["target"], request
            assert host is None or host not in str(hosts), request
            assert method is None or method != request["method"], request
        return sight

    def secrets_kept(self):
        """After every attack: no secret where it must not be."""
        sight = self.world.seen()
        for name, secret in self.secrets.items():
            for field in (self, *self.others):
                assert secret not in field.output, f"the attacker got to see {name}"
            places = sight.heard(secret)
            mine = self.stage.homes[name]
            assert all(place.startswith(f"{mine}:") for place in places), (name, places)
