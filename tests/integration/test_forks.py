"""What forks are: who they are, where they came from, how far they go, and that nothing is left."""
import fcntl
import io
import json
import os
import re
import secrets
import signal
import tarfile
import time

import pytest

from harness import kernel
from harness.client import Sandbox
from harness.images import CONFIG, busybox_layers, write_layout
from harness.server import Server, wait_until

BTRFS_IOC_SYNC = 0x9408
IDENTITY = r"""
import json, os, uuid
read = lambda path: open(path).read().strip()
print(json.dumps({
    "hostname": os.uname().nodename, "etc_hostname": read("/etc/hostname"),
    "hosts": read("/etc/hosts"), "machine_id": read("/etc/machine-id"),
    "boot_id": read("/proc/sys/kernel/random/boot_id"), "uuid": str(uuid.uuid4()),
    "random": os.urandom(32).hex()}))
"""


def call(sandbox, what, body=None, status=200, headers=None):
    return sandbox.client.expect(status, "POST", f"{sandbox.path}/{what}", body, headers).data


def identity(sandbox):
    return json.loads(sandbox.out(["python3", "-c", IDENTITY], user="root"))


@pytest.fixture
def fork(client):
    """Forks that live as long as the test."""
    made = []

    def make(parent, headers=None, **body):
        answer = call(parent, "fork", body, 201, headers)
        children = [Sandbox(client, child["id"]) for child in answer["sandboxes"]]
        made.extend(children)
        return children
    yield make
    for sandbox in made:
        client.call("DELETE", sandbox.path)


# Who they are -----------------------------------------------------------------------------------
def test_every_sandbox_is_somebody_else(create, fork):
    parent = create()
    children = fork(parent, count=2, start=True)
    seen = [identity(each) for each in (parent, *children)]
    for who, found in zip((parent, *children), seen):
        assert found["hostname"] == found["etc_hostname"] == who.id
        assert f"127.0.1.1\t{who.id}" in found["hosts"]
        assert re.fullmatch("[0-9a-f]{32}", found["machine_id"])
        assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", found["boot_id"])
    for what in ("machine_id", "boot_id", "uuid", "random", "hostname"):
        assert len({found[what] for found in seen}) == 3, what
    assert parent.id not in seen[1]["hosts"], "the parent's name does not live on"


def test_identity_stays_over_resume_and_restart(create):
    sandbox = create()
    first = identity(sandbox)
    sandbox.out("echo '10.1.2.3 database' >> /etc/hosts", user="root")
    call(sandbox, "pause")
    call(sandbox, "resume")
    thawed = identity(sandbox)
    assert thawed["boot_id"] == first["boot_id"], "the same processes, the same boot"
    call(sandbox, "pause", {"memory": False})
    call(sandbox, "resume")
    again = identity(sandbox)
    assert again["machine_id"] == first["machine_id"]
    assert again["boot_id"] != first["boot_id"], "a start from the files is another boot"
    assert "10.1.2.3 database" in again["hosts"] and sandbox.id in again["hosts"]


def test_a_fork_keeps_what_its_parent_wrote_into_hosts(create, fork):
    parent = create()
    parent.out("echo '10.1.2.3 database' >> /etc/hosts", user="root")
    hosts = identity(fork(parent, start=True)[0])["hosts"]
    assert "10.1.2.3 database" in hosts and parent.id not in hosts


def test_a_claim_from_a_snapshot_is_somebody_else_too(create, client):
    parent = create()
    before = identity(parent)
    snapshot = call(parent, "snapshots", {}, 201)
    data = client.expect(201, "POST", "/api/v1/sandboxes", {"snapshot_id": snapshot["id"]}).data
    child = Sandbox(client, data["sandbox_id"])
    try:
        found = identity(child)
        assert found["etc_hostname"] == child.id and found["machine_id"] != before["machine_id"]
    finally:
        child.delete()
    call(parent, "rootfs/restore", {"snapshot_id": snapshot["id"], "force": True})
    assert identity(parent)["machine_id"] == before["machine_id"], "its own moment, its own name"


def test_host_keys_and_seeds_are_not_shared(create, fork):
    """What an ssh server would have: keys, a generator, and the server itself."""
    parent = create()
    parent.out(
        "mkdir -p /etc/ssh /var/lib/systemd && cd /etc/ssh && rm -f ssh_host_* &&"
        " for kind in rsa ecdsa ed25519; do echo parent > ssh_host_${kind}_key;"
        " echo parent > ssh_host_${kind}_key.pub; done; echo seed > /var/lib/systemd/random-seed;"
        " cp /etc/machine-id /var/lib/dbus/machine-id 2>/dev/null;"
        " [ -x /usr/sbin/sshd ] || install -m 755 /bin/true /usr/sbin/sshd;"
        " [ -x /usr/bin/ssh-keygen ] || printf '#!/bin/sh\\n"
        "[ \"$1\" = -A ] && head -c 32 /dev/urandom | od -An -tx1 > /etc/ssh/ssh_host_ed25519_key\\n'"
        " > /usr/bin/ssh-keygen; chmod 755 /usr/bin/ssh-keygen", user="root")
    keys = []
    for child in fork(parent, count=2, start=True):
        wait_until(lambda: child.run(["test", "-s", "/etc/ssh/ssh_host_ed25519_key"],
                                     user="root")["exit_code"] == 0, 20, "the child has its own key")
        keys.append(child.out(["cat", "/etc/ssh/ssh_host_ed25519_key"], user="root"))
        assert "parent" not in child.out("cat /etc/ssh/ssh_host_*", user="root")
        assert child.run(["test", "-e", "/var/lib/systemd/random-seed"],
                         user="root")["exit_code"] == 1
    assert keys[0] != keys[1] and "parent\n" not in keys
    assert parent.out(["cat", "/etc/ssh/ssh_host_rsa_key"], user="root") == "parent\n"


# What they take along ---------------------------------------------------------------------------
@pytest.mark.parametrize("ephemeral", [False, True])
def test_tmp_survives_unless_it_must_not(create, fork, ephemeral):
    sandbox = create(ephemeral_tmp=True) if ephemeral else create()
    assert sandbox.get()["ephemeral_tmp"] is ephemeral
    sandbox.out("echo kept > /tmp/file; echo kept > /workspace/file")
    there = lambda each: each.out("cat /tmp/file 2>/dev/null; true") == "kept\n"
    call(sandbox, "pause")
    call(sandbox, "resume")
    assert there(sandbox), "processes that go on keep it"
    assert there(fork(sandbox, start=True)[0]) is not ephemeral
    call(sandbox, "pause", {"memory": False})
    call(sandbox, "resume")
    assert there(sandbox) is not ephemeral
    assert sandbox.out("cat /workspace/file") == "kept\n"
    assert sandbox.out(["stat", "-c", "%a", "/tmp"]).strip() == "1777"


def test_an_ephemeral_tmp_counts_as_memory(create):
    sandbox = create(ephemeral_tmp=True, memory="128Mi")
    full = sandbox.run("head -c 200M /dev/zero > /tmp/big")
    assert full["exit_code"] != 0, "not more than the sandbox may have"
    assert sandbox.out(["stat", "-f", "-c", "%T", "/tmp"]).strip() == "tmpfs"


def test_a_template_decides_about_tmp(create, client, tmp_path):
    name = f"tmp-{secrets.token_hex(4)}"
    layout = write_layout(tmp_path / "layout", busybox_layers(), CONFIG)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for entry in sorted(layout.rglob("*")):
            tar.add(entry, arcname=entry.relative_to(layout), recursive=False)
    path = f"/api/v1/templates/{name}"
    try:
        assert client.call("POST", f"{path}/import", body=archive.getvalue()).status == 200
        refused = client.call("PUT", path, {"spec": {"ephemeral_tmp": "yes"}})
        assert refused.status == 400
        assert create(template=name).get()["ephemeral_tmp"] is False
        client.expect(200, "PUT", path, {"spec": {"ephemeral_tmp": True}})
        sandbox = create(template=name)
        assert sandbox.get()["ephemeral_tmp"] is True
        mounts = sandbox.out(["cat", "/proc/mounts"])
        assert [line.split()[2] for line in mounts.splitlines() if line.split()[1] == "/tmp"] == [
            "tmpfs"]
        other = create(template=name, ephemeral_tmp=False)
        assert other.get()["ephemeral_tmp"] is False
        # A template stays as long as something needs it.
        snapshot = call(sandbox, "snapshots", {}, 201)["id"]
        for each in client.list_ids():
            if Sandbox(client, each).get()["template_id"] == name:
                Sandbox(client, each).delete()
        assert client.call("DELETE", path).status == 409
        made = client.expect(201, "POST", "/api/v1/sandboxes", {"snapshot_id": snapshot}).data
        child = Sandbox(client, made["sandbox_id"])
        client.expect(200, "DELETE", f"/api/v1/sandbox-rootfs-snapshots/{snapshot}")
        assert child.get()["ephemeral_tmp"] is True
        assert child.out(["ls", "/opaque"], user="root") == "new\n"
        assert client.call("DELETE", path).status == 409
        child.delete()
        assert client.call("DELETE", path).status == 200
    finally:
        client.call("DELETE", path)


# Where they came from ---------------------------------------------------------------------------
def test_trees(create, fork, client):
    root = create()
    snapshot = call(root, "snapshots", {"name": "base"}, 201)
    child = fork(root)[0]
    grandchild = fork(child)[0]
    call(root, "rootfs/restore", {"snapshot_id": snapshot["id"], "force": True})
    child.delete()
    tree = client.expect(200, "GET", f"{grandchild.path}/tree").data
    assert [(n["id"], n["kind"], n["cause"], n["depth"], n["parent_id"]) for n in tree["nodes"]] == [
        (root.id, "sandbox", "template", 0, None),
        (snapshot["id"], "snapshot", "snapshot", 1, root.id),
        (child.id, "sandbox", "fork", 1, root.id),
        (grandchild.id, "sandbox", "fork", 2, child.id)]
    assert tree["count"] == 4
    top, kept, gone, last = tree["nodes"]
    assert top["status"] == "running" and [r["snapshot_id"] for r in top["restores"]] == [
        snapshot["id"]]
    assert kept["name"] == "base" and kept["status"] is None
    assert gone["deleted_at"] and gone["status"] is None and not last["deleted_at"]
    assert grandchild.get()["status"] == "paused", "looking is no use"
    assert client.expect(200, "GET", f"{child.path}/tree").data == tree, "also from a deleted one"
    trees = client.expect(200, "GET", "/api/v1/sandbox-trees").data
    assert {root.id, grandchild.id} <= {n["id"] for n in trees["nodes"]}
    assert client.call("GET", "/api/v1/sandboxes/rs-none/tree").status == 404
    client.expect(200, "DELETE", f"/api/v1/sandbox-rootfs-snapshots/{snapshot['id']}")


def test_a_key_makes_forks_and_snapshots_happen_once(create, client):
    parent = create()
    key = {"Idempotency-Key": secrets.token_hex(8)}
    first = client.expect(201, "POST", f"{parent.path}/fork", {"count": 2}, key)
    again = client.expect(201, "POST", f"{parent.path}/fork", {"count": 2}, key)
    assert again.data == first.data and again.headers["Idempotent-Replayed"] == "true"
    refused = client.call("POST", f"{parent.path}/fork", {"count": 1}, key)
    assert refused.status == 409
    for child in first.data["sandboxes"]:
        assert child["status"] == "paused"
        client.expect(202, "DELETE", f"/api/v1/sandboxes/{child['id']}")
    key = {"Idempotency-Key": secrets.token_hex(8)}
    taken = client.expect(201, "POST", f"{parent.path}/snapshots", {"name": "a"}, key)
    repeated = client.expect(201, "POST", f"{parent.path}/snapshots", {"name": "a"}, key)
    assert repeated.data == taken.data
    claim = {"Idempotency-Key": secrets.token_hex(8)}
    body = {"snapshot_id": taken.data["id"]}
    made = client.expect(201, "POST", "/api/v1/sandboxes", body, claim)
    client.expect(200, "DELETE", f"/api/v1/sandbox-rootfs-snapshots/{taken.data['id']}")
    assert client.expect(201, "POST", "/api/v1/sandboxes", body, claim).data == made.data
    client.expect(202, "DELETE", f"/api/v1/sandboxes/{made.data['sandbox_id']}")


# How far they go --------------------------------------------------------------------------------
def test_three_hundred_generations(create, client, record_property):
    """Each adds a file and changes one; parents go as soon as they have a child."""
    current = create(memory="128Mi")
    current.out("mkdir /workspace/all")
    model, times = {}, []
    try:
        for generation in range(300):
            name = f"/workspace/all/g{generation % 40}"
            begin = time.monotonic()
            data = call(current, "fork", {"start": True}, 201)["sandbox"]
            times.append(time.monotonic() - begin)
            current.delete()
            current = Sandbox(client, data["id"])
            if generation % 10 == 0:
                model[name] = str(generation)
                current.write(name, str(generation))
        found = current.out("cd /workspace/all && grep -r . . | sort")
        assert found == "".join(f"./{os.path.basename(name)}:{value}\n"
                                for name, value in sorted(model.items()))
        tree = client.expect(200, "GET", f"{current.path}/tree").data
        assert tree["count"] == 301 and tree["nodes"][-1]["depth"] == 300
    finally:
        current.delete()
    early, late = sorted(times[:20])[10], sorted(times[-20:])[10]
    record_property("fork_ms", f"first {early * 1000:.1f}, last {late * 1000:.1f}")
    print(f"fork of generation 1..20: {early * 1000:.1f} ms, 281..300: {late * 1000:.1f} ms")


# Nothing is left --------------------------------------------------------------------------------
def pool_of(server):
    return f"/proc/{server.daemons()['node']}/root{server.data_dir}/pool/mnt"


def used_bytes(server):
    """After what is deleted had its turn: the kernel frees it at a commit, half a minute apart."""
    pool = os.open(pool_of(server), os.O_RDONLY)
    try:
        fcntl.ioctl(pool, BTRFS_IOC_SYNC)
    finally:
        os.close(pool)
    status = os.statvfs(pool_of(server))
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def disks(server):
    return [name for folder in ("uppers", "snapshots", "trash")
            for name in os.listdir(f"{pool_of(server)}/{folder}")]


def test_deleting_in_any_order_hurts_nobody_and_gives_space_back():
    """Also when the node is killed while it deletes."""
    size = 24 << 20
    with Server(extra=["--prepared-max", "0"]) as server:   # its disks are counted
        client = server.client
        root = client.create()
        fill = f"head -c {size} /dev/urandom > /workspace/big && sync"
        before = used_bytes(server)
        root.out(fill)
        digest = root.out("sha256sum < /workspace/big")
        snapshot = call(root, "snapshots", {}, 201)["id"]
        root.out(fill)
        children = [Sandbox(client, each["id"])
                    for each in call(root, "fork", {"count": 3, "start": True}, 201)["sandboxes"]]
        claimed = client.expect(201, "POST", "/api/v1/sandboxes", {"snapshot_id": snapshot}).data
        claimed = Sandbox(client, claimed["sandbox_id"])
        children[0].out(fill)
        others = children[1].out("sha256sum < /workspace/big")
        assert used_bytes(server) - before > 2.5 * size
        client.expect(200, "DELETE", f"/api/v1/sandbox-rootfs-snapshots/{snapshot}")
        root.delete()
        children[0].delete()
        assert claimed.out("sha256sum < /workspace/big") == digest
        assert children[1].out("sha256sum < /workspace/big") == others
        node = server.daemons()["node"]
        for child in children[1:]:
            client.call("DELETE", child.path)
            if kernel.alive(node):
                os.kill(node, signal.SIGKILL)
        wait_until(lambda: server.daemons().get("node") not in (None, node), 30, "a new node")
        assert claimed.out("sha256sum < /workspace/big") == digest
        claimed.delete()
        wait_until(lambda: client.list_ids() == [], 30, "every deletion is finished")
        wait_until(lambda: not disks(server), 30, "no disk is left")
        wait_until(lambda: used_bytes(server) - before < size / 2, 60, "the space is back")
