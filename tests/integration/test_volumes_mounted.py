"""Volumes in sandboxes: live between several, safe against what a sandbox does to them, and kept
over restarts, pauses and forks."""
import struct

import pytest

from harness.client import Sandbox, Volume
from harness.server import wait_until


def claim(client, volume, path, status=201, **body):
    mounts = [{"sandboxvolume_id": volume.id, "mount_point": path}]
    return client.call("POST", "/api/v1/sandboxes",
                       {"template": "default", "mounts": mounts, **body})


def test_a_mount_in_the_claim(client, create_volume, create):
    volume = create_volume()
    volume.write("/from-api", "api")
    answer = claim(client, volume, "/workspace/data")
    assert answer.status == 201, answer.body
    sandbox = Sandbox(client, answer.data["sandbox_id"])
    try:
        state = answer.data["bootstrap_mounts"]
        assert [(each["sandboxvolume_id"], each["mount_point"], each["state"]) for each in state] \
            == [(volume.id, "/workspace/data", "mounted")]
        assert sandbox.get()["mounts"] == [{"sandboxvolume_id": volume.id,
                                            "mount_point": "/workspace/data", "read_only": False}]
        assert volume.get()["mounted_in"] == [sandbox.id]
        assert sandbox.out("cat /workspace/data/from-api") == "api"
        sandbox.out("echo -n box > /workspace/data/from-box")
        assert volume.read("/from-box") == b"box"
        options = sandbox.out("grep ' /workspace/data ' /proc/self/mountinfo")
        assert "nosuid" in options and "nodev" in options and " rw," in options
    finally:
        sandbox.delete()
    assert volume.get()["mounted_in"] == []
    assert volume.read("/from-box") == b"box"


def test_shared_live(create_volume, create):
    volume = create_volume(access_mode="RWX")
    one = create(mounts={"/mnt/shared": volume})
    other = create(mounts={"/workspace/elsewhere": volume})
    one.out("echo -n hello > /mnt/shared/a; mkfifo /mnt/shared/pipe")
    assert other.out("cat /workspace/elsewhere/a") == "hello"
    other.out("echo -n again > /workspace/elsewhere/a")
    assert one.out("cat /mnt/shared/a") == "again"
    # The same ids in both, whatever they are on the host.
    one.out("sudo chown 4242:4343 /mnt/shared/a")
    assert other.out("stat -c %u:%g /workspace/elsewhere/a").strip() == "4242:4343"
    assert sorted(volume.get()["mounted_in"]) == sorted([one.id, other.id])


def program_that_makes(path):
    """A static executable for x86_64 that makes an empty file and ends."""
    code = (b"\xb8\x55\x00\x00\x00"              # eax = creat
            b"\x48\x8d\x3d\x10\x00\x00\x00"      # rdi = behind the code
            b"\xbe\xff\x01\x00\x00\x0f\x05"      # esi = 0777, call
            b"\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05")  # exit(0)
    content = code + path.encode() + b"\0"
    base, header_bytes = 0x400000, 64 + 56
    size = header_bytes + len(content)
    return (struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, base + header_bytes, 64,
                        0, 0, 64, 56, 1, 64, 0, 0)
            + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096) + content)


def test_nothing_in_a_volume_is_executed_to_serve_it(create_volume, create):
    volume = create_volume()
    sandbox = create(mounts={"/data": volume})
    sandbox.write("/data/program", program_that_makes("/executed"))
    sandbox.out("sudo chmod 755 /data/program; sudo /data/program; test -e /executed")
    sandbox.out("cd /data; mkdir -p dev usr/sbin usr/bin etc/ssh; for each in dev/init"
                " usr/sbin/sshd usr/bin/ssh-keygen; do cp program $each; chmod 755 $each; done")
    assert volume.read("/program") == program_that_makes("/executed")
    volume.write("/answered", "yes")
    assert sandbox.out("cat /data/answered") == "yes"
    names = {each["name"] for each in volume.list("/")}
    assert names == {"program", "dev", "usr", "etc", "answered"}


def test_no_subvolumes_in_a_volume(create_volume, create):
    volume = create_volume()
    sandbox = create(mounts={"/data": volume})
    attempt = ("open(my $dir, '<', '/data') or die; my $name = pack('qZ4088', 0, 'escape');"
               " print ioctl($dir, 0x5000940e, $name) ? 'made' : $!{ENOTTY} ? 'ENOTTY' : $!")
    assert sandbox.out(f'sudo perl -MErrno -e "{attempt}"'.replace("$", "\\$")) == "ENOTTY"
    assert sandbox.out("ls /data") == ""
    sandbox.out("echo -n x > /data/a; cp --reflink=auto /data/a /data/b")
    assert volume.read("/b") == b"x"


def test_one_at_a_time(client, create_volume, create):
    volume = create_volume()
    first = create(mounts={"/data": volume})
    refused = claim(client, volume, "/data")
    assert refused.status == 409 and first.id in refused.error["message"]
    assert claim(client, volume, "/data", count=2).status == 400
    first.delete()
    create(mounts={"/data": volume}).out("touch /data/mine")


def test_readers_only_read(create_volume, create):
    volume = create_volume(access_mode="ROX")
    volume.write("/file", "content")
    for sandbox in (create(mounts={"/data": volume}), create(mounts={"/data": volume})):
        assert sandbox.out("cat /data/file") == "content"
        assert sandbox.run("sudo touch /data/new")["exit_code"] != 0
        assert sandbox.run("sudo mount -o remount,rw /data")["exit_code"] != 0


def test_a_mount_that_is_asked_for_read_only(client, create_volume):
    volume = create_volume()
    mounts = [{"sandboxvolume_id": volume.id, "mount_point": "/data", "read_only": True}]
    data = client.expect(201, "POST", "/api/v1/sandboxes",
                         {"template": "default", "mounts": mounts}).data
    sandbox = Sandbox(client, data["sandbox_id"])
    try:
        assert data["bootstrap_mounts"][0]["read_only"] is True
        assert sandbox.run("sudo touch /data/new")["exit_code"] != 0
    finally:
        sandbox.delete()


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/self", "/sys/x", "/dev/shm", "relative",
                                  "/a/../etc", "/a//b", "/a/.", "", "/x" * 600])
def test_a_mount_point_that_is_refused(client, create_volume, path):
    assert claim(client, create_volume(), path).status == 400


def test_mounts_that_are_refused(client, create_volume):
    one, other = create_volume(), create_volume()
    for mounts in ([(one, "/a"), (other, "/a")], [(one, "/a"), (other, "/a/b")],
                   [(one, "/a/b"), (other, "/a")], [(one, "/a"), (one, "/b")]):
        body = [{"sandboxvolume_id": each.id, "mount_point": path} for each, path in mounts]
        assert client.call("POST", "/api/v1/sandboxes",
                           {"template": "default", "mounts": body}).status == 400, mounts
    missing = Volume(client, "vol-none")
    assert claim(client, missing, "/data").status == 404
    assert one.get()["mounted_in"] == []


def test_links_at_the_mount_point(client, create_volume, create):
    """A link is followed within the sandbox, and never onto the kernel's own places."""
    volume = create_volume(access_mode="RWX")
    volume.write("/mark", "volume")
    parent = create()
    parent.out("sudo mkdir /real && sudo ln -s /real /link && sudo ln -s ../.. /up && "
               "sudo ln -s /proc /kernel && sudo ln -s / /root-link && sudo touch /file && "
               "sudo ln -s /dev/shm /memory && sudo ln -s /proc/self/root /magic")
    snapshot = client.expect(201, "POST", f"{parent.path}/snapshots", {}).data["id"]

    def claim_at(path):
        return client.call("POST", "/api/v1/sandboxes", {
            "snapshot_id": snapshot,
            "mounts": [{"sandboxvolume_id": volume.id, "mount_point": path}]})
    for path in ("/kernel", "/kernel/self", "/root-link", "/up", "/file", "/file/x", "/memory/x",
                 "/magic/x"):
        answer = claim_at(path)
        assert answer.status in (409, 500), (path, answer.body)
    assert volume.get()["mounted_in"] == []
    sandbox = Sandbox(client, client.expect(201, "POST", "/api/v1/sandboxes", {
        "snapshot_id": snapshot,
        "mounts": [{"sandboxvolume_id": volume.id, "mount_point": "/link/deep"}]}).data["sandbox_id"])
    try:
        assert sandbox.out("cat /real/deep/mark") == "volume"
    finally:
        sandbox.delete()
        client.call("DELETE", f"/api/v1/sandbox-rootfs-snapshots/{snapshot}")


def test_what_a_volume_does_not_carry(create_volume, create):
    """No set-user-id program and no device: a volume brings content, not rights."""
    volume = create_volume(access_mode="RWX")
    one, other = create(mounts={"/data": volume}), create(mounts={"/data": volume})
    one.out("sudo cp /usr/bin/id /data/id && sudo chmod 4755 /data/id")
    assert other.out("stat -c %a /data/id").strip() == "4755"
    # As a user without any right to become another one.
    uid = other.out("/data/id -u").strip()
    assert uid == other.out("/usr/bin/id -u").strip() and uid != "0"
    assert one.run("sudo mknod /data/null c 1 3")["exit_code"] != 0


def test_a_full_volume_is_not_a_full_sandbox(create_volume, create):
    volume = create_volume(size="8Mi")
    sandbox = create(mounts={"/data": volume})
    assert sandbox.run("sudo dd if=/dev/zero of=/data/large bs=1M count=20")["exit_code"] != 0
    sandbox.out("sudo rm /data/large && dd if=/dev/zero of=/tmp/large bs=1M count=20 2>&1")
    assert volume.get()["metered_storage_bytes"] < 8 << 20


def test_deletion_of_a_mounted_volume(client, create_volume, create):
    volume = create_volume()
    sandbox = create(mounts={"/data": volume})
    sandbox.out("echo kept > /data/file; echo 'while sleep 0.1; do :; done' > /tmp/loop")
    holder = sandbox.start("exec 5>>/data/open; cd /data; sleep 600")["id"]
    refused = client.call("DELETE", volume.path)
    assert refused.status == 409 and sandbox.id in refused.error["message"]
    generation = sandbox.get()["runtime_generation"]
    assert volume.delete(force=True) == {"deleted": True}
    after = sandbox.get()
    assert after["mounts"] == [] and after["status"] == "running"
    assert after["runtime_generation"] == generation, "it was not stopped for it"
    assert sandbox.context(holder)["running"] is True
    assert "/data" not in sandbox.out("cat /proc/self/mountinfo")
    assert sandbox.out("ls -A /data") == ""
    assert client.call("GET", volume.path).status == 404


def test_a_mount_that_was_moved_away(create_volume, create):
    """Whatever its sandbox does to the path: by force the volume goes, and nothing else does."""
    volume = create_volume()
    sandbox = create(mounts={"/place/data": volume})
    sandbox.out("sudo mv /place /elsewhere && sudo mkdir /place && sudo ln -s /proc /place/data")
    volume.delete(force=True)
    wait_until(lambda: sandbox.get()["status"] == "running", 30, "it runs")
    lines = sandbox.out("cat /proc/self/mountinfo")
    assert "/elsewhere/data" not in lines and " /proc " in lines
    assert sandbox.out("cat /proc/kcore 2>/dev/null | wc -c").strip() == "0"


def test_restore_of_a_mounted_volume(client, create_volume, create):
    volume = create_volume()
    volume.write("/file", "old")
    moment = volume.snapshot()["id"]
    sandbox = create(mounts={"/data": volume})
    sandbox.out("echo -n new | sudo tee /data/file")
    answer = client.call("POST", f"{volume.path}/snapshots/{moment}/restore")
    assert answer.status == 409 and sandbox.id in answer.error["message"]
    generation = sandbox.get()["runtime_generation"]
    volume.restore(moment, force=True)
    assert sandbox.get()["runtime_generation"] == generation + 1
    assert sandbox.out("cat /data/file") == "old"
    sandbox.out("echo -n newer | sudo tee /data/file")
    assert volume.read("/file") == b"newer"
    # One without processes is in nobody's way.
    client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": False})
    volume.restore(moment)
    assert sandbox.out("cat /data/file") == "old"


def test_a_mount_stays(client, create_volume, create):
    """Over a pause with and without memory, a restore and a death of the sandbox."""
    volume = create_volume()
    sandbox = create(mounts={"/data": volume})
    sandbox.out("echo -n 1 | sudo tee /data/file")
    moment = client.expect(201, "POST", f"{sandbox.path}/snapshots", {}).data["id"]
    for memory in (True, False):
        client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": memory})
        client.expect(200, "POST", f"{sandbox.path}/resume")
        assert sandbox.out("cat /data/file") == "1"
    sandbox.out("echo -n 2 | sudo tee /data/file; sudo touch /outside")
    client.expect(200, "POST", f"{sandbox.path}/rootfs/restore",
                  {"snapshot_id": moment, "force": True})
    assert sandbox.out("cat /data/file") == "2", "a volume is no part of a snapshot"
    assert sandbox.run("test -e /outside")["exit_code"] == 1


def test_forks(client, create_volume, create):
    own = create_volume()
    shared = create_volume(access_mode="RWX")
    parent = create(mounts={"/own": own, "/shared": shared})
    parent.out("echo -n parent | sudo tee /own/file /shared/file")
    children = [Sandbox(client, each["id"]) for each in client.expect(
        201, "POST", f"{parent.path}/fork", {"count": 2, "start": True}).data["sandboxes"]]
    forked = []
    try:
        for child in children:
            mounts = {each["mount_point"]: each["sandboxvolume_id"]
                      for each in child.get()["mounts"]}
            assert mounts["/shared"] == shared.id and mounts["/own"] != own.id
            forked.append(Volume(client, mounts["/own"]))
            assert forked[-1].get()["source_volume_id"] == own.id
            assert child.out("cat /own/file") == "parent"
            child.out(f"echo -n {child.id} | sudo tee /own/file /shared/file")
        assert parent.out("cat /own/file") == "parent"
        assert parent.out("cat /shared/file") == children[-1].id
        assert [each.read("/file").decode() for each in forked] == [each.id for each in children]
    finally:
        for each in children:
            client.call("DELETE", each.path)
        for each in forked:
            client.call("DELETE", each.path)


def test_a_watch_sees_what_sandboxes_do(server, create_volume, create):
    volume = create_volume(access_mode="RWX")
    sandbox = create(mounts={"/data": volume})
    connection = server.client.connection()
    try:
        connection.request("GET", f"{volume.path}/files/watch?path=/",
                           headers=server.client.headers({"Accept": "application/x-ndjson"}))
        response = connection.getresponse()
        assert response.status == 200 and b"subscribed" in response.readline()
        sandbox.out("touch /data/seen")
        line = b""
        while b"/seen" not in line:
            line = response.readline()
    finally:
        connection.close()
