"""Network policies: given, merged, replaced, kept over every kind of death, closed when broken."""
import json
import os
import pathlib
import re
import signal
import sqlite3
import tempfile

import pytest

from harness.server import REPOSITORY, Server, wait_until

BLOCKED = {"mode": "block-all", "egress": {"trafficRules": [
    {"name": "a", "action": "allow", "domains": ["a.example"], "ports": [{"port": 443}]}]}}


def network(client, sandbox, status=200):
    return client.expect(status, "GET", f"{sandbox.path}/network").data


def replace(client, sandbox, policy, status=200):
    return client.expect(status, "PUT", f"{sandbox.path}/network", policy).data


def examples(name):
    """The JSON blocks of a page of the documentation."""
    text = (REPOSITORY / "docs" / name).read_text()
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]


def test_without_one_everything_is_allowed(client, create):
    assert network(client, create()) == {"mode": "allow-all"}


def test_of_a_claim_and_replaced(client, create):
    sandbox = create(network=BLOCKED)
    found = network(client, sandbox)
    assert found["mode"] == "block-all"
    rule, = found["egress"]["trafficRules"]
    assert rule["name"] == "a" and rule["ports"] == [{"port": 443, "protocol": "tcp"}]
    changed = replace(client, sandbox, {"mode": "allow-all", "groups": ["blue"]})
    assert changed == {"mode": "allow-all", "groups": ["blue"]} == network(client, sandbox)
    # What was left out stays, an empty list clears.
    assert replace(client, sandbox, {"mode": "block-all"})["groups"] == ["blue"]
    assert replace(client, sandbox, {"mode": "block-all", "groups": []}) == {"mode": "block-all"}
    # What GET says can be sent back.
    assert replace(client, sandbox, network(client, sandbox)) == network(client, sandbox)


def test_of_an_update_and_while_paused(client, create):
    sandbox = create()
    client.expect(200, "PUT", sandbox.path, {"config": {"network": BLOCKED, "ttl": 900}})
    assert network(client, sandbox)["mode"] == "block-all"
    client.expect(400, "PUT", sandbox.path,
                  {"config": {"network": {"mode": "no"}, "ttl": 901}})
    assert sandbox.get()["ttl"] == 900
    client.expect(200, "POST", f"{sandbox.path}/pause", {})
    assert replace(client, sandbox, {"mode": "allow-all"}) == {"mode": "allow-all"}
    assert sandbox.get()["status"] == "paused"


@pytest.mark.parametrize("policy, field", [
    ({}, "network.mode"), ({"mode": "open"}, "network.mode"),
    ({"mode": "allow-all", "floor": True}, "network.floor"),
    ({"mode": "allow-all", "rules": []}, "network.rules"),
    ({"mode": "allow-all", "groups": ["Not A Name"]}, "network.groups"),
    ({"mode": "block-all", "egress": {"trafficRules": [{"action": "allow"}]}}, "trafficRules"),
    ({"mode": "block-all", "egress": {"credentialRules": [
        {"credentialRef": "x", "domains": ["a.example"]}]}},
     "network.egress.credentialRules[0].credentialRef"),
    ({"mode": "allow-all", "credentialBindings": [
        {"ref": "x", "sourceRef": "none", "projection": {"type": "username_password"}}]},
     "network.credentialBindings[0].sourceRef"),
])
def test_what_is_wrong_is_named(client, create, policy, field):
    sandbox = create()
    answer = client.call("PUT", f"{sandbox.path}/network", policy)
    assert answer.status == 400 and field in answer.error["message"], answer.body
    assert network(client, sandbox) == {"mode": "allow-all"}


def test_a_claim_that_is_refused_makes_nothing(client):
    before = client.list_ids()
    answer = client.call("POST", "/api/v1/sandboxes", {
        "template": "default", "config": {"network": {"mode": "block-all", "egress": {
            "proxy": {"type": "socks5", "address": "p.example:1080", "credentialRef": "x"}}}}})
    assert answer.status == 400 and "config.network.egress.proxy" in answer.error["message"]
    assert client.list_ids() == before


def test_a_fork_is_under_the_policy_of_its_parent(client, create):
    sandbox = create(network={**BLOCKED, "groups": ["blue"]})
    made = []
    try:
        data = client.expect(201, "POST", f"{sandbox.path}/fork", {}).data
        made.append(data["sandbox"]["id"])
        path = f"/api/v1/sandboxes/{made[0]}/network"
        assert client.expect(200, "GET", path).data == network(client, sandbox)
        data = client.expect(201, "POST", f"{sandbox.path}/fork",
                             {"config": {"network": {"mode": "allow-all"}}}).data
        made.append(data["sandbox"]["id"])
        other = client.expect(200, "GET", f"/api/v1/sandboxes/{made[1]}/network").data
        assert other["mode"] == "allow-all" and "egress" not in other
    finally:
        for each in made:
            client.call("DELETE", f"/api/v1/sandboxes/{each}")


def test_a_template_can_be_a_floor(client, create):
    sandbox = create()
    template = "floored"
    client.expect(202, "POST", "/api/v1/templates/from-sandbox", {
        "template_id": template, "sandbox_id": sandbox.id})
    try:
        wait_until(lambda: client.expect(200, "GET", f"/api/v1/templates/{template}").data[
            "status"]["creation"]["state"] == "ready", 60, "the template is ready")
        spec = client.expect(200, "GET", f"/api/v1/templates/{template}").data["spec"]
        spec["network"] = {**BLOCKED, "floor": True}
        client.expect(200, "PUT", f"/api/v1/templates/{template}", {"spec": spec})
        child = create(template=template, network={"mode": "allow-all"})
        found = network(client, child)
        assert found["mode"] == "allow-all"
        floor, = found["floors"]
        assert floor["origin"] == "template" and floor["mode"] == "block-all"
        bad = {**spec, "network": {"mode": "block-all", "floor": "yes"}}
        answer = client.call("PUT", f"/api/v1/templates/{template}", {"spec": bad})
        assert answer.status == 400 and "spec.network.floor" in answer.error["message"]
        spec["network"] = {"mode": "allow-all"}
        client.expect(200, "PUT", f"/api/v1/templates/{template}", {"spec": spec})
        assert "floors" not in network(client, child)
        client.call("DELETE", child.path)
    finally:
        client.call("DELETE", f"/api/v1/templates/{template}")


def test_the_examples_of_the_documentation(client, create):
    policy, operator = examples("network-policy.md")
    sandbox = create(network=policy)
    assert len(network(client, sandbox)["egress"]["trafficRules"]) == 2
    assert replace(client, sandbox, operator)["mode"] == "allow-all"


@pytest.fixture
def own_server():
    """A server that a test may kill, with an operator's policy that the API can read."""
    with tempfile.TemporaryDirectory(prefix="atoll-policy-") as directory:
        os.chmod(directory, 0o755)
        path = pathlib.Path(directory, "policy.json")
        path.write_text(json.dumps({"mode": "allow-all"}))
        server = Server(extra=["--operator-policy", str(path)])
        server.operator_policy = path
        try:
            yield server.start()
        finally:
            server.stop()
            server.discard()


def test_what_was_answered_is_kept(own_server):
    server = own_server
    sandbox = server.client.create(network=BLOCKED)
    for victim in ("api", "supervisor", None):
        policy = {**BLOCKED, "groups": [f"after-{victim or 'stop'}".lower()]}
        expected = replace(server.client, sandbox, policy)
        if victim == "api":
            os.kill(server.daemons()["api"], signal.SIGKILL)
            wait_until(lambda: answers(server.client), 60, "the API is back")
        else:
            if victim:
                os.kill(server.process.pid, signal.SIGKILL)
                server.process.wait()
            else:
                server.stop()
            server.start()
        assert network(server.client, sandbox) == expected
        sandbox.client = server.client
    # A policy that cannot be read closes the network, and says so.
    server.stop()
    database, = pathlib.Path(server.data_dir).rglob("atoll.db")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE records SET body = '{\"mode\":' WHERE kind = 'network-policy'")
    server.start()
    found = network(server.client, sandbox)
    assert found["mode"] == "block-all" and "cannot be read" in found["failure"]
    assert replace(server.client, sandbox, BLOCKED)["mode"] == "block-all"
    assert "failure" not in network(server.client, sandbox)
    server.client.expect(202, "DELETE", sandbox.path)


def answers(client):
    try:
        return client.call("GET", "/api/v1/sandboxes").status == 200
    except OSError:
        return False


def test_the_operators_policy_is_a_floor_and_follows_its_file(own_server):
    server, path = own_server, own_server.operator_policy
    sandbox = server.client.create()

    def floor():
        return network(server.client, sandbox)["floors"][0]

    assert floor() == {"origin": "operator", "mode": "allow-all"}
    path.write_text(json.dumps({"mode": "block-all"}))
    wait_until(lambda: floor()["mode"] == "block-all", 10, "the new floor")
    # A broken file changes nothing, and is reported.
    path.write_text("{")
    wait_until(lambda: "earlier one stays" in server.log(), 10, "a line in the log")
    assert floor()["mode"] == "block-all"
    # A file that takes its place counts as well.
    other = path.with_name("other.json")
    other.write_text(json.dumps({"mode": "allow-all"}))
    other.rename(path)
    wait_until(lambda: floor()["mode"] == "allow-all", 10, "the replaced floor")
    server.client.expect(202, "DELETE", sandbox.path)
    # At the start it is a reason not to start.
    server.stop()
    path.write_text('{"mode": "block-all", "egress": {"credentialRules": [1]}}')
    with pytest.raises(AssertionError, match="operator's policy"):
        server.start()
    path.write_text(json.dumps({"mode": "allow-all"}))
    server.start()
