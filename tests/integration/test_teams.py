"""What one team has is not there for another, wherever it is named."""
import hashlib
import pathlib
import secrets
import sqlite3

import pytest

from harness.client import Client
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
    reads = [box, f"{box}/tree", f"{box}/diff", f"{box}/export", f"{box}/snapshots",
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
