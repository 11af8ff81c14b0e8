"""Credential sources: sealed, versioned, bound; and nowhere a secret that could be read."""
import json
import os
import pathlib
import re
import signal
import sqlite3

import pytest

from harness.command import Command
from harness.server import REPOSITORY, Server, wait_until

SOURCES = "/api/v1/credential-sources"
SECRET = "atoll-test-secret-5c1f0a9e7b"
HEADERS = {"type": "http_headers", "httpHeaders": {"headers": [
    {"name": "Authorization", "valueTemplate": "Bearer {{ .token }}"}]}}


def source(name, token=SECRET, kind="static_headers", **spec):
    return {"name": name, "resolverKind": kind,
            "spec": spec or {"staticHeaders": {"values": {"token": token}}}}


def policy(name, projection=HEADERS, ref="r"):
    return {"mode": "block-all",
            "egress": {"credentialRules": [{
                "credentialRef": ref, "protocol": "https", "domains": ["api.example"],
                "tlsMode": "terminate-reoriginate"}]},
            "credentialBindings": [{"ref": ref, "sourceRef": name, "projection": projection}]}


@pytest.fixture
def make(client):
    made = []

    def create(body):
        made.append(body["name"])
        return client.expect(201, "POST", SOURCES, body).data

    yield create
    for name in made:
        client.call("DELETE", f"{SOURCES}/{name}")


def test_create_read_rotate_delete(client, make):
    made = make(source("gh"))
    assert made["name"] == "gh" and made["resolverKind"] == "static_headers"
    assert made["currentVersion"] == 1 and made["status"] == "active"
    assert client.call("POST", SOURCES, source("gh")).status == 409
    rotated = client.expect(200, "PUT", f"{SOURCES}/gh", source("gh", "other")).data
    assert rotated["currentVersion"] == 2 and rotated["createdAt"] == made["createdAt"]
    assert client.expect(200, "GET", f"{SOURCES}/gh").data == rotated
    assert rotated in client.expect(200, "GET", SOURCES).data
    client.expect(200, "DELETE", f"{SOURCES}/gh")
    assert client.call("GET", f"{SOURCES}/gh").status == 404
    assert client.call("PUT", f"{SOURCES}/gh", source("gh")).status == 404
    assert client.call("DELETE", f"{SOURCES}/gh").status == 404


PEM = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("kind, spec", [
    ("static_username_password", {"staticUsernamePassword": {"username": "u", "password": "p"}}),
    ("static_tls_client_certificate", {"staticTLSClientCertificate": {
        "certificatePem": PEM.replace("PRIVATE KEY", "CERTIFICATE"), "privateKeyPem": PEM}}),
    ("static_ssh_private_key", {"staticSSHPrivateKey": {"privateKeyPem": PEM}}),
    ("oauth2_client_credentials", {"oauth2ClientCredentials": {
        "tokenUrl": "https://auth.example/token", "clientId": "c", "clientSecret": "s"}}),
    ("oauth2_refresh_token", {"oauth2RefreshToken": {
        "tokenUrl": "https://auth.example/token", "clientId": "c", "refreshToken": "r"}}),
    ("http", {"http": {"url": "https://vault.example/v1/token", "headers": {"X-Token": "t"}}}),
    ("command", {"command": {"name": "issue-token"}}),
])
def test_every_kind(client, make, kind, spec):
    assert make(source(f"kind-{kind}", kind=kind, **spec))["resolverKind"] == kind


@pytest.mark.parametrize("body, field", [
    (source("a b"), "name"), (source("a%2Fb".replace("%2F", "/")), "name"),
    ({"name": "x", "resolverKind": "magic", "spec": {}}, "resolverKind"),
    ({"name": "x", "resolverKind": "static_headers"}, "spec"),
    (source("x", kind="http", staticHeaders={"values": {"token": SECRET}}), "spec.http"),
    (source("x", kind="http", http={"url": f"https://u:{SECRET}@h.example/"}), "spec.http.url"),
    (source("x", kind="static_ssh_private_key", staticSSHPrivateKey={"privateKeyPem": SECRET}),
     "spec.staticSSHPrivateKey.privateKeyPem"),
    (source("x", kind="command", command={"name": "../bin/sh"}), "spec.command.name"),
    (source("x", "x" * 50_000), "bytes"),
])
def test_what_is_wrong_is_named_without_the_secret(client, body, field):
    answer = client.call("POST", SOURCES, body)
    assert answer.status == 400 and field in answer.error["message"], answer.body
    assert SECRET.encode() not in answer.body


def test_the_kind_stays(client, make):
    make(source("fixed"))
    answer = client.call("PUT", f"{SOURCES}/fixed", source(
        "fixed", kind="static_username_password",
        staticUsernamePassword={"username": "u", "password": "p"}))
    assert answer.status == 400 and "resolverKind" in answer.error["message"]


def test_bound_sources_stay(client, make, create):
    make(source("bound"))
    sandbox = create(network=policy("bound"))
    answer = client.call("DELETE", f"{SOURCES}/bound")
    assert answer.status == 409 and answer.error["details"]["reason"] == "credential_in_use"
    found = client.expect(200, "GET", f"{sandbox.path}/network").data
    assert found["credentialBindings"][0]["projection"]["httpHeaders"] == HEADERS["httpHeaders"]
    # Left out they stay, an empty list clears; a rule without its credential is refused.
    assert client.call("PUT", f"{sandbox.path}/network",
                       {**policy("bound"), "credentialBindings": []}).status == 400
    client.expect(200, "PUT", f"{sandbox.path}/network", {"mode": "block-all"})
    assert client.call("DELETE", f"{SOURCES}/bound").status == 409
    client.expect(200, "PUT", f"{sandbox.path}/network",
                  {"mode": "block-all", "credentialBindings": []})
    client.expect(200, "DELETE", f"{SOURCES}/bound")


def test_projection_and_source_must_fit(client, make, create):
    make(source("words"))
    sandbox = create()
    wrong = policy("words", {"type": "username_password"})
    answer = client.call("PUT", f"{sandbox.path}/network", wrong)
    assert answer.status == 400 and "sourceRef" in answer.error["message"]


def placeholder_of(network):
    replacement, = network["credentialBindings"][0]["projection"]["placeholderSubstitution"][
        "replacements"]
    return replacement["placeholder"]


def test_a_placeholder_is_made_and_is_in_the_environment(client, make, create):
    make(source("llm"))
    body = policy("llm", {"type": "placeholder_substitution", "placeholderSubstitution": {
        "replacements": [{"valueTemplate": "{{ .token }}", "locations": ["header"],
                          "env": "LLM_KEY", "prefix": "sk-"}]}})
    sandbox, other = create(network=body), create(network=body)
    network = client.expect(200, "GET", f"{sandbox.path}/network").data
    placeholder = placeholder_of(network)
    assert re.fullmatch(r"sk-[A-Za-z0-9]{25,}", placeholder)
    assert len(placeholder) == max(len(SECRET), len("sk-") + 22)
    assert sandbox.out("printf %s $LLM_KEY") == placeholder
    assert other.out("printf %s $LLM_KEY") != placeholder
    # It outlives a rotation, and a policy that says the same again.
    client.expect(200, "PUT", f"{SOURCES}/llm", source("llm", "longer" * 20))
    assert placeholder_of(client.expect(200, "PUT", f"{sandbox.path}/network", body).data) \
        == placeholder
    # A fork has the rules, but no credential.
    child = client.expect(201, "POST", f"{sandbox.path}/fork", {"start": True}).data["sandbox"]
    try:
        path = f"/api/v1/sandboxes/{child['id']}/network"
        found = client.expect(200, "GET", path).data
        assert "credentialBindings" not in found and found["egress"]["credentialRules"]
    finally:
        client.call("DELETE", f"/api/v1/sandboxes/{child['id']}")


def test_the_examples_of_the_documentation(client, make, create):
    make(source("github"))
    text = (REPOSITORY / "docs" / "credentials.md").read_text()
    examples = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    assert len(examples) == 2
    sandbox = create()
    for example in examples:
        client.expect(200, "PUT", f"{sandbox.path}/network", example)


def test_the_command_line(server, client, create, tmp_path):
    atoll = Command(server)
    try:
        assert atoll("credential", "create", "cli", "--key", "token",
                     stdin=SECRET + "\n").stdout == "cli\n"
        document = tmp_path / "source.json"
        document.write_text(json.dumps(source("cli", "next")))
        assert atoll("credential", "rotate", "cli", str(document)).stdout == "cli\n"
        assert "static_headers  2" in atoll("credential", "ls").stdout
        sandbox = create()
        shown = atoll("network", "set", sandbox.id, stdin=json.dumps(policy("cli"))).stdout
        assert json.loads(shown) == json.loads(atoll("network", "get", sandbox.id).stdout)
        refused = atoll("credential", "rm", "cli", check=None)
        assert refused.returncode != 0 and "bound" in refused.stderr
        client.expect(202, "DELETE", sandbox.path)
        assert atoll("credential", "rm", "cli").stdout == "cli\n"
    finally:
        client.call("DELETE", f"{SOURCES}/cli")


def answers(client):
    try:
        return client.call("GET", SOURCES).status == 200
    except OSError:
        return False


def everything_in(directory):
    for path in pathlib.Path(directory).rglob("*"):
        if path.is_file() and not path.is_symlink() and "pool" not in path.parts:
            yield path


def test_secrets_are_durable_and_in_no_file(tmp_path):
    """Killed at any moment it is there; what is on disk, in the log and in answers is no secret."""
    server = Server()
    try:
        server.start()
        client = server.client
        client.expect(201, "POST", SOURCES, source("kept"))
        client.expect(201, "POST", SOURCES, source(
            "login", kind="static_username_password",
            staticUsernamePassword={"username": "u", "password": SECRET}))
        sandbox = client.create(network=policy("kept"))
        client.call("POST", SOURCES, source("kept"))
        for body in (source("x", kind="http", http={"url": SECRET}), {"name": SECRET}, [SECRET]):
            client.call("POST", SOURCES, body)
        os.kill(server.daemons()["api"], signal.SIGKILL)
        wait_until(lambda: answers(server.client), 60, "the API is back")
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        server.start()
        names = {each["name"]: each for each in server.client.expect(200, "GET", SOURCES).data}
        assert set(names) == {"kept", "login"}
        assert all(each["status"] == "active" for each in names.values())
        shown = b"".join(server.client.call("GET", path).body for path in (
            SOURCES, f"{SOURCES}/kept", f"{sandbox.path}/network", sandbox.path))
        assert SECRET.encode() not in shown
        server.client.expect(202, "DELETE", sandbox.path)
        server.stop()
        for path in [*everything_in(server.data_dir), pathlib.Path(server.log_path)]:
            assert SECRET.encode() not in path.read_bytes(), path
        # Without its key a source cannot be opened, and says so; written again it can.
        pathlib.Path(server.data_dir, "secrets.key").unlink()
        server.start()
        assert server.client.expect(200, "GET", f"{SOURCES}/kept").data["status"] == "unreadable"
        renewed = server.client.expect(200, "PUT", f"{SOURCES}/kept", source("kept")).data
        assert renewed["status"] == "active" and renewed["currentVersion"] == 2
    finally:
        server.stop()
        server.discard()


def test_a_row_moved_to_another_name_does_not_open():
    server = Server()
    try:
        server.start()
        server.client.expect(201, "POST", SOURCES, source("mine"))
        server.stop()
        database, = pathlib.Path(server.data_dir).rglob("atoll.db")
        with sqlite3.connect(database) as connection:
            connection.execute("INSERT INTO records SELECT kind, 'default/theirs', team_id, owner_id,"
                               " version, body, created_at, updated_at FROM records"
                               " WHERE kind = 'credential-source'")
        server.start()
        states = {each["name"]: each["status"]
                  for each in server.client.expect(200, "GET", SOURCES).data}
        assert states == {"mine": "active", "theirs": "unreadable"}
    finally:
        server.stop()
        server.discard()
