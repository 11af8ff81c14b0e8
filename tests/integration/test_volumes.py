"""Volumes by themselves: made, listed, forked, gone back in, deleted; and their files, without any
sandbox."""
import io
import tarfile
import time

import pytest

VOLUMES = "/api/v1/sandboxvolumes"


def test_create_get_list_delete(client, create_volume):
    volume = create_volume(access_mode="RWX", default_posix_uid=1000, default_posix_gid=1000,
                           size="64Mi")
    data = volume.get()
    assert data["access_mode"] == "RWX" and data["backend"] == "s0fs"
    assert (data["default_posix_uid"], data["default_posix_gid"]) == (1000, 1000)
    assert data["size_bytes"] == 64 << 20
    assert data["source_volume_id"] is None and data["mounted_in"] == []
    assert data["metered_storage_bytes"] >= 0 and data["storage_observed_at"]
    listed = client.expect(200, "GET", VOLUMES).data
    assert volume.id in [each["id"] for each in listed]
    assert volume.delete() == {"deleted": True}
    assert volume.delete() == {"deleted": True}
    assert client.call("GET", volume.path).status == 404
    assert client.call("GET", volume.file_path("/", "/list")).status == 404


def test_the_defaults(create_volume):
    data = create_volume().get()
    assert data["access_mode"] == "RWO"
    assert (data["default_posix_uid"], data["default_posix_gid"]) == (0, 0)


@pytest.mark.parametrize("body", [
    {"access_mode": "RW"}, {"snapshot_id": " "}, {"snapshot_id": ""}, {"backend": "nfs"},
    {"default_posix_uid": 65536}, {"default_posix_gid": -1}, {"size": "1"}, {"size": "lots"},
    {"size": "1000000Ti"}, {"s3": {"bucket": "x"}}, {"unknown": 1}])
def test_a_create_that_is_refused(client, body):
    assert client.call("POST", VOLUMES, body).status == 400


def test_unknown_volumes_and_snapshots(client, create_volume):
    volume = create_volume()
    for method, path in (("GET", f"{VOLUMES}/vol-none"), ("POST", f"{VOLUMES}/vol-none/fork"),
                         ("GET", f"{VOLUMES}/vol-none/snapshots"),
                         ("GET", f"{volume.path}/snapshots/vsnap-none"),
                         ("POST", f"{volume.path}/snapshots/vsnap-none/restore")):
        assert client.call(method, path).status == 404, path
    assert client.call("POST", VOLUMES, {"snapshot_id": "vsnap-none"}).status == 404
    assert client.call("POST", f"{volume.path}/snapshots", {}).status == 400
    assert client.call("POST", f"{volume.path}/snapshots", {"name": " "}).status == 400
    assert client.expect(200, "DELETE", f"{volume.path}/snapshots/vsnap-none").data["deleted"]


def test_files_without_a_sandbox(client, create_volume):
    volume = create_volume()
    before = client.list_ids()
    volume.write("/deep/er/file", "content")
    assert volume.read("/deep/er/file") == b"content"
    assert volume.read("deep/er/file") == b"content"  # relative to the root
    volume.mkdir("/made")
    volume.move("/deep/er/file", "/made/moved")
    assert [each["name"] for each in volume.list("/made")] == ["moved"]
    assert {each["name"] for each in volume.list("/")} == {"deep", "made"}
    answer = client.call("GET", volume.file_path("/made/moved"), headers={"Range": "bytes=3-5"})
    assert answer.status == 206 and answer.body == b"ten"
    etag = client.call("HEAD", volume.file_path("/made/moved")).headers["ETag"]
    assert client.call("POST", volume.file_path("/made/moved"), b"x",
                       {"If-None-Match": "*"}).status == 412
    assert client.call("POST", volume.file_path("/made/moved"), b"changed",
                       {"If-Match": etag}).status == 200
    client.expect(200, "POST", f"{volume.path}/files/chmod",
                  {"path": "/made/moved", "mode": "0600"})
    assert volume.stat("/made/moved")["mode"] == "0600"
    found = client.expect(200, "GET", f"{volume.path}/files/glob?pattern=**/moved").data
    assert [each["path"] for each in found["entries"]] == ["/made/moved"]
    found = client.expect(200, "POST", f"{volume.path}/files/grep", {"pattern": "chang"}).data
    assert [each["path"] for each in found["matches"]] == ["/made/moved"]
    volume.remove("/made")
    assert client.call("GET", volume.file_path("/made/moved")).status == 404
    assert client.list_ids() == before, "what serves the files is nobody's sandbox"


def test_what_the_api_makes_has_the_owner(create_volume):
    volume = create_volume(default_posix_uid=1234, default_posix_gid=2345)
    volume.write("/dir/file", "content")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        info = tarfile.TarInfo("unpacked")
        info.uid = info.gid = 7
        tar.addfile(info)
    volume.client.expect(200, "PUT", volume.file_path("/", "/archive"), archive.getvalue())
    packed = volume.client.expect(200, "GET", volume.file_path("/", "/archive")).body
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        owners = {each.name.rstrip("/"): (each.uid, each.gid) for each in tar}
    for name in ("dir", "dir/file", "unpacked"):
        assert owners[name] == (1234, 2345), owners
    # Whose it is does not matter: the caller's rights are the owner's of the volume.
    volume.client.expect(200, "POST", f"{volume.path}/files/chmod",
                         {"path": "/dir", "mode": "0000"})
    assert volume.read("/dir/file") == b"content"


def test_archives_count_what_they_hold(create_volume):
    volume = create_volume()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("a", "b/c"):
            info = tarfile.TarInfo(name)
            info.size = 5
            tar.addfile(info, io.BytesIO(b"12345"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "a"
        tar.addfile(link)
        device = tarfile.TarInfo("device")
        device.type = tarfile.CHRTYPE
        tar.addfile(device)
    answer = volume.client.expect(200, "PUT", volume.file_path("/in", "/archive"),
                                  archive.getvalue(), {"Content-Type": "application/x-tar"}).data
    assert (answer["files"], answer["symlinks"], answer["bytes"], answer["skipped"]) == (2, 1, 10, 1)
    assert volume.read("/in/link") == b"12345"


def test_links_lead_nowhere_else(client, create_volume):
    """The root of what serves the files is the volume: a link to / is a link to its own root."""
    volume = create_volume()
    volume.write("/inside", "mine")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, target in (("root", "/"), ("up", "../../../.."), ("kernel", "/proc/self/environ"),
                             ("passwd", "/etc/passwd"), ("out", "/tmp/out")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
    client.expect(200, "PUT", volume.file_path("/", "/archive"), archive.getvalue())
    assert volume.read("/root/inside") == b"mine"
    assert volume.read("/up/inside") == b"mine"
    for path in ("/kernel", "/passwd", "/root/proc/self/environ", "/root/dev/null",
                 "/../../../proc/version"):
        assert client.call("GET", volume.file_path(path)).status == 404, path
    volume.write("/out", "through a link")
    assert volume.read("/tmp/out") == b"through a link"
    assert volume.read("/root/tmp/out") == b"through a link"


def test_a_full_volume(client, create_volume):
    volume = create_volume(size="8Mi")
    answer = client.call("POST", volume.file_path("/large"), b"\x5a" * (16 << 20))
    assert answer.status == 507, answer.body
    volume.write("/small", "still")
    volume.remove("/small")


def test_the_size_is_measured(create_volume):
    volume = create_volume()
    empty = volume.get()["metered_storage_bytes"]
    volume.write("/file", b"\x5a" * (4 << 20))
    assert volume.get()["metered_storage_bytes"] >= empty + (4 << 20)


def test_fork(create_volume, client):
    volume = create_volume(access_mode="RWX", default_posix_uid=5)
    volume.write("/file", "before")
    fork = volume.fork(access_mode="ROX")
    try:
        data = fork.get()
        assert data["source_volume_id"] == volume.id
        assert data["access_mode"] == "ROX" and data["default_posix_uid"] == 5
        volume.write("/file", "after")
        assert fork.read("/file") == b"before"
        fork.write("/file", "own")
        assert volume.read("/file") == b"after"
        volume.delete()
        assert fork.read("/file") == b"own"
    finally:
        fork.delete()


def test_snapshots_and_restore(create_volume, client):
    volume = create_volume()
    volume.write("/file", "first")
    first = volume.snapshot("first", description="one")
    assert first["volume_id"] == volume.id and first["expires_at"] is None
    assert first["size_bytes"] >= 0
    volume.write("/file", "second")
    second = volume.snapshot("second")
    listed = client.expect(200, "GET", f"{volume.path}/snapshots").data
    assert [each["id"] for each in listed] == [first["id"], second["id"]]
    assert client.expect(200, "GET", f"{volume.path}/snapshots/{first['id']}").data == first
    assert volume.restore(first["id"]) == {"status": "restored"}
    assert volume.read("/file") == b"first"
    volume.restore(second["id"])
    assert volume.read("/file") == b"second"
    other = create_volume(snapshot_id=first["id"])
    assert other.get()["source_volume_id"] == volume.id
    assert other.read("/file") == b"first"
    assert client.call("POST", f"{other.path}/snapshots/{first['id']}/restore").status == 404
    for _ in range(2):
        assert client.expect(200, "DELETE", f"{volume.path}/snapshots/{first['id']}").data == {
            "deleted": True}
    assert other.read("/file") == b"first"


def test_a_snapshot_that_expires(create_volume, client):
    volume = create_volume()
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
    snapshot = volume.snapshot("short", expires_at=soon)
    assert snapshot["expires_at"]
    path = f"{volume.path}/snapshots/{snapshot['id']}"
    deadline = time.monotonic() + 20
    while client.call("GET", path).status != 404:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_watching_without_a_socket(server, create_volume):
    volume = create_volume()
    connection = server.client.connection()
    try:
        connection.request("GET", f"{volume.path}/files/watch?path=/&recursive=true",
                           headers=server.client.headers({"Accept": "application/x-ndjson"}))
        response = connection.getresponse()
        assert response.status == 200
        assert b"subscribed" in response.readline()
        volume.write("/new", "x")
        line = b""
        while b"/new" not in line:
            line = response.readline()
    finally:
        connection.close()
