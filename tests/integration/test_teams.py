"""What one team has is not there for another, wherever it is named."""
import hashlib
import pathlib
import secrets
import sqlite3
import urllib.parse

import pytest

from harness.client import Client
from harness.e2b import Builder
from harness.server import Server


@pytest.fixture(scope="module")
def teams():
    """A server with two teams, and a client of each. Teams are made in the database: there is no
    other way so far."""
    server = Server().start()
    try:
        server.stop()
        key = secrets.token_hex(16)
        path, = pathlib.Path(server.data_dir).rglob("atoll.db")
        database = sqlite3.connect(path)
        with database:
            database.execute("INSERT INTO teams VALUES ('other', 'Other', 1)")
            database.execute(
                "INSERT INTO api_keys SELECT 'other-key', 'other', 'other', ?, roles, 1, 1, NULL,"
                " NULL FROM api_keys LIMIT 1", (hashlib.sha256(key.encode()).digest(),))
        database.close()
        server.start()
        yield server.client, Client(server.host, server.port, key)
    finally:
        server.stop()
        server.discard()


def test_ids_of_another_team_are_not_found(teams):
    mine, other = teams
    post = lambda path, body, status=201: mine.expect(status, "POST", f"/api/v1/{path}", body).data
    sandbox = post("sandboxes", {"template": "default"})["sandbox_id"]
    snapshot = post(f"sandboxes/{sandbox}/snapshots", {})["id"]
    volume = post("sandboxvolumes", {})["id"]
    of_volume = post(f"sandboxvolumes/{volume}/snapshots", {"name": "n"})["id"]
    box, moment, disk = (f"sandboxes/{sandbox}", f"sandbox-rootfs-snapshots/{snapshot}",
                         f"sandboxvolumes/{volume}")
    reads = [box, f"{box}/network", f"{box}/tree", f"{box}/diff", f"{box}/export", f"{box}/snapshots",
             moment, f"{moment}/diff", f"{moment}/export",
             disk, f"{disk}/snapshots", f"{disk}/snapshots/{of_volume}",
             f"{disk}/files?path=/", f"{disk}/files/list?path=/"]
    writes = [(f"{box}/pause", {}), (f"{box}/resume", {}), (f"{box}/snapshots", {}),
              (f"{box}/fork", {}), (f"{box}/fork", {"memory": "interpreters"}),
              (f"{box}/rootfs/restore", {"snapshot_id": snapshot, "force": True}),
              ("sandboxes", {"snapshot_id": snapshot}),
              ("templates/from-sandbox", {"template_id": "stolen", "sandbox_id": sandbox}),
              ("templates/from-snapshot", {"template_id": "stolen", "snapshot_id": snapshot}),
              ("sandboxvolumes", {"snapshot_id": of_volume}),
              ("sandboxes", {"template": "default", "mounts": [
                  {"sandboxvolume_id": volume, "mount_point": "/workspace/data"}]}),
              (f"{disk}/fork", {}), (f"{disk}/snapshots", {"name": "n"}),
              (f"{disk}/snapshots/{of_volume}/restore", {})]
    for path in reads:
        assert other.call("GET", f"/api/v1/{path}").status == 404, path
    for path, body in writes:
        assert other.call("POST", f"/api/v1/{path}", body).status == 404, (path, body)
    # What is not there is deleted; whether this one still is, is seen below.
    for path in (f"{disk}/snapshots/{of_volume}", moment):
        assert other.call("DELETE", f"/api/v1/{path}").status in (200, 404), path
    # Another's state is no state to compare with either, nor one to restore.
    theirs = other.expect(201, "POST", "/api/v1/sandboxes", {"template": "default"}).data
    own = f"/api/v1/sandboxes/{theirs['sandbox_id']}"
    for state in (sandbox, snapshot):
        assert other.call("GET", f"{own}/diff?from={state}").status == 404
    assert other.call("POST", f"{own}/rootfs/restore",
                      {"snapshot_id": snapshot, "force": True}).status == 404
    assert other.expect(200, "GET", "/api/v1/sandbox-trees").data["count"] <= 1
    assert other.expect(200, "GET", "/api/v1/sandboxvolumes").data == []
    # And nothing of this has touched anything.
    for path in (f"sandboxes/{sandbox}", f"{disk}/snapshots/{of_volume}", moment):
        mine.expect(200, "GET", f"/api/v1/{path}")
    assert mine.expect(200, "GET", f"/api/v1/sandboxes/{sandbox}").data["status"] == "running"
    other.call("DELETE", own)
    mine.call("DELETE", f"/api/v1/sandboxes/{sandbox}")
    mine.call("DELETE", f"/api/v1/{moment}")
    mine.call("DELETE", f"/api/v1/{disk}?force=true")


def test_credentials_of_another_team_are_not_there(teams):
    mine, other = teams
    path = "/api/v1/credential-sources"
    body = {"name": "ours", "resolverKind": "static_headers",
            "spec": {"staticHeaders": {"values": {"token": "x"}}}}
    mine.expect(201, "POST", path, body)
    assert other.expect(200, "GET", path).data == []
    for method, sent in (("GET", None), ("PUT", body), ("DELETE", None)):
        assert other.call(method, f"{path}/ours", sent).status == 404
    answer = other.call("POST", "/api/v1/sandboxes", {"template": "default", "config": {"network": {
        "mode": "allow-all", "credentialBindings": [{
            "ref": "r", "sourceRef": "ours", "projection": {"type": "http_headers", "httpHeaders": {
                "headers": [{"name": "X-Key", "valueTemplate": "{{ .token }}"}]}}}]}}})
    assert answer.status == 400 and "sourceRef" in answer.error["message"]
    # The same name is another source.
    other.expect(201, "POST", path, body)
    other.expect(200, "DELETE", f"{path}/ours")
    assert mine.expect(200, "GET", f"{path}/ours").data["currentVersion"] == 1


def test_templates_of_another_team_are_shown_when_they_are_public(teams):
    mine, other = (Builder(client) for client in teams)
    try:
        asked = mine.must_build("shared-or-not", [("RUN", ["echo made > ~/by"])])
        template, name = asked["templateID"], urllib.parse.quote("default/shared-or-not", safe="")
        build = f"/templates/{template}/builds/{asked['buildID']}"
        looks = [("GET", f"/templates/{template}"), ("GET", f"{build}/status"), ("GET", f"{build}/logs"),
                 ("GET", f"/templates/aliases/{name}"), ("GET", f"/templates/{template}/tags"),
                 ("GET", f"/templates/{template}/files/{'0' * 64}"),
                 ("DELETE", f"/templates/{template}"), ("DELETE", f"/templates/{name}")]
        for method, path in looks:
            other.call(method, path, status=404)
        other.sandbox("default/shared-or-not", status=404)
        other.sandbox(template, status=404)
        other.request("default/shared-or-not", status=403)
        assert not other.call("GET", "/templates", status=200)
        mine.call("PATCH", f"/v2/templates/{template}", {"public": True}, 200)
        assert other.sandbox("default/shared-or-not").out(["cat", "/home/user/by"]) == "made\n"
        other.sandbox("shared-or-not", status=404)  # by its whole name only
        for method, path in looks:
            other.call(method, path, status=403)
        other.call("PATCH", f"/v2/templates/{template}", {"public": False}, 403)
        # The same name is free for others.
        other.request("shared-or-not")
        mine.call("PATCH", f"/v2/templates/{template}", {"public": False}, 200)
        other.sandbox("default/shared-or-not", status=404)
    finally:
        other.end()
        mine.end()


def test_what_is_prepared_is_given_to_one_team_only(teams):
    """Cells of a template that both may use are the same until they are claimed."""
    mine, other = teams
    made = {}
    for round_number in range(8):
        for client, word in ((mine, "mine"), (other, "other")):
            sandbox = client.create()
            assert sandbox.id not in made, (sandbox.id, made)
            made[sandbox.id] = client
            assert sandbox.run(["cat", "/home/user/word"])["exit_code"] != 0
            sandbox.write("/home/user/word", word)
            if round_number % 2:
                sandbox.delete()
    for sandbox_id, owner in made.items():
        stranger = other if owner is mine else mine
        assert stranger.call("GET", f"/api/v1/sandboxes/{sandbox_id}").status == 404
        owner.call("DELETE", f"/api/v1/sandboxes/{sandbox_id}")
