"""Images out of sandboxes and back: what skopeo and umoci read, and what comes back is the same."""
import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
import time

import pytest

from harness.client import Sandbox
from harness.images import CONFIG, busybox_layers, write_layout

SNAPSHOTS = "/api/v1/sandbox-rootfs-snapshots"


def odd_layer():
    """A layer with everything a tree can have."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT,
                      errors="surrogateescape") as tar:
        def add(name, kind=tarfile.REGTYPE, data=b"", mode=0o644, uid=0, link="", **headers):
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.uid, info.gid, info.linkname = kind, mode, uid, uid, link
            info.size, info.mtime = len(data), 1_234_567_890.5
            info.pax_headers = headers
            tar.addfile(info, io.BytesIO(data))
        add("odd", tarfile.DIRTYPE, mode=0o1777, **{"SCHILY.xattr.user.of": "a directory"})
        add("odd/plain", data=b"plain", mode=0o6751, uid=1234)
        add("odd/none", data=b"nobody may", mode=0)
        add("odd/attributes", data=b"x", **{"SCHILY.xattr.user.one": "1",
                                            "SCHILY.xattr.user.two": "zwei \u00fc"})
        add("odd/same", tarfile.LNKTYPE, link="odd/plain")
        add("odd/link", tarfile.SYMTYPE, link="/etc/../nowhere", mode=0o777)
        add("odd/pipe", tarfile.FIFOTYPE, mode=0o640, uid=7)
        add("odd/sparse", data=b"begin" + bytes(3_000_000) + b"end")
        add("odd/\u00fc\n\udcff", data=b"name")
        add("odd/empty", tarfile.DIRTYPE, mode=0o700, uid=99)
    return out.getvalue()


def pack(layout):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for entry in sorted(layout.rglob("*")):
            tar.add(entry, arcname=entry.relative_to(layout), recursive=False)
    return out.getvalue()


def wait_ready(client, name):
    deadline = time.monotonic() + 120
    while True:
        creation = client.expect(200, "GET", f"/api/v1/templates/{name}").data["status"]["creation"]
        if creation["state"] != "creating":
            assert creation["state"] == "ready", creation
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def import_image(client):
    """Templates made from archives, for the time of these tests."""
    made = []

    def make(name, archive):
        made.append(name)
        answer = client.expect(200, "POST", f"/api/v1/templates/{name}/import", archive, timeout=300)
        last = json.loads(answer.body.splitlines()[-1])
        assert last["type"] == "done", last
        return name
    yield make
    for name in made:
        client.call("DELETE", f"/api/v1/templates/{name}")


@pytest.fixture(scope="module")
def odd(import_image, tmp_path_factory):
    """A template with odd files in it."""
    layout = write_layout(tmp_path_factory.mktemp("odd") / "layout",
                          [*busybox_layers(), odd_layer()], CONFIG)
    return import_image("export-odd", pack(layout))


@pytest.fixture
def claim(client):
    made = []

    def make(template):
        made.append(client.create(template=template))
        return made[-1]
    yield make
    for sandbox in made:
        client.call("DELETE", sandbox.path)


def shell(sandbox, script):
    result = sandbox.run(["sh", "-c", script], user="root")
    assert result["exit_code"] == 0, result
    return result["stdout"]


def changes(client, path):
    """Without what every start of a sandbox makes."""
    made = {"/dev", "/proc", "/sys", "/etc/hostname", "/etc/hosts", "/etc/machine-id",
            "/etc/resolv.conf"}
    data = client.expect(200, "GET", path, timeout=120).data
    return [e for e in data["changes"] if e["path"] not in made]


def unpacked(archive, tmp_path):
    """The root of an archive as umoci makes it."""
    layout = tmp_path / "layout"
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(layout)
    bundle = tmp_path / "bundle"
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:latest", str(bundle)], check=True,
                   capture_output=True, timeout=120)
    return bundle / "rootfs"


def inspected(archive, tmp_path):
    path = tmp_path / "image.tar"
    path.write_bytes(archive)
    done = subprocess.run(["skopeo", "inspect", f"oci-archive:{path}"], check=True, timeout=60,
                          capture_output=True)
    config = subprocess.run(["skopeo", "inspect", "--config", f"oci-archive:{path}"], check=True,
                            timeout=60, capture_output=True)
    return json.loads(done.stdout), json.loads(config.stdout)


# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_others_read_it(client, odd, claim, tmp_path, compression):
    sandbox = claim(odd)
    shell(sandbox, "echo new > /odd/new; rm /etc/group; chmod 600 /etc/passwd")
    url = f"{sandbox.path}/export?compression={compression}"
    archive = client.expect(200, "GET", url, timeout=120).body
    image, config = inspected(archive, tmp_path)
    assert len(image["Layers"]) == 2 and config["os"] == "linux"
    assert config["config"]["User"] == "app" and config["config"]["WorkingDir"] == "/srv"
    assert "FROM_IMAGE=yes" in config["config"]["Env"]
    if compression == "zstd":
        return  # umoci of Debian 12 does not know it
    root = unpacked(archive, tmp_path)
    assert (root / "odd/new").read_text() == "new\n"
    assert not (root / "etc/group").exists() and (root / "bin/busybox").exists()
    assert stat.S_IMODE((root / "etc/passwd").stat().st_mode) == 0o600
    odd_root = root / "odd"
    assert stat.S_IMODE(odd_root.stat().st_mode) == 0o1777
    assert os.getxattr(odd_root, "user.of") == b"a directory"
    plain = (odd_root / "plain").stat()
    assert (stat.S_IMODE(plain.st_mode), plain.st_uid, plain.st_nlink) == (0o6751, 1234, 2)
    assert plain.st_mtime_ns == 1_234_567_890_500_000_000
    assert os.getxattr(odd_root / "attributes", "user.two").decode() == "zwei ü"
    assert os.readlink(odd_root / "link") == "/etc/../nowhere"
    assert stat.S_ISFIFO((odd_root / "pipe").stat().st_mode)
    assert (odd_root / "sparse").read_bytes() == b"begin" + bytes(3_000_000) + b"end"
    assert b"\xc3\xbc\n\xff" in os.listdir(os.fsencode(odd_root))


def test_the_same_files_give_the_same_digests(client, odd, claim):
    sandbox = claim(odd)
    shell(sandbox, "echo x > /odd/x")
    snapshot = client.expect(201, "POST", f"{sandbox.path}/snapshots", {}).data["id"]
    first = client.expect(200, "GET", f"{SNAPSHOTS}/{snapshot}/export", timeout=120).body
    second = client.expect(200, "GET", f"{SNAPSHOTS}/{snapshot}/export", timeout=120).body
    assert first == second
    client.expect(200, "DELETE", f"{SNAPSHOTS}/{snapshot}")


def test_there_and_back_again(client, odd, claim, import_image):
    sandbox = claim(odd)
    shell(sandbox, "cd /odd && echo changed >> plain && rm empty -r && mkdir empty && "
                   "echo in > empty/in && ln same third && rm /etc/passwd.missing 2>/dev/null; "
                   "rm -r /opaque; touch /odd/.hidden; chmod 7777 none")
    snapshot = client.expect(201, "POST", f"{sandbox.path}/snapshots", {}).data["id"]
    archive = client.expect(200, "GET", f"{SNAPSHOTS}/{snapshot}/export", timeout=120).body
    copy = claim(import_image("export-back", archive))
    # Other layers, the same files: contents, modes, owners, times, attributes and links.
    assert changes(client, f"{copy.path}/diff?from={snapshot}") == []
    # Holes are holes again.
    assert int(shell(copy, "stat -c %b /odd/sparse")) * 512 < 1_000_000
    # And it says the same about its processes.
    assert copy.out(["sh", "-c", "id -un; pwd; echo $FROM_IMAGE"]) == "app\n/srv\nyes\n"
    client.expect(200, "DELETE", f"{SNAPSHOTS}/{snapshot}")


def test_an_image_as_a_snapshot(client, odd, claim):
    sandbox = claim(odd)
    shell(sandbox, "echo more > /odd/more; rm /odd/none")
    archive = client.expect(200, "GET", f"{sandbox.path}/export", timeout=120).body
    url = f"{SNAPSHOTS}/import?name=copied&template_id={odd}"
    snapshot = client.expect(201, "POST", url, archive, timeout=120).data
    try:
        assert snapshot["name"] == "copied" and snapshot["template_id"] == odd
        data = client.expect(201, "POST", "/api/v1/sandboxes", {"snapshot_id": snapshot["id"]}).data
        child = Sandbox(client, data["sandbox_id"])
        try:
            assert changes(client, f"{child.path}/diff?from={sandbox.id}") == []
            assert child.out(["sh", "-c", "id -un; cat /odd/more"]) == "app\nmore\n"
        finally:
            child.delete()
    finally:
        client.expect(200, "DELETE", f"{SNAPSHOTS}/{snapshot['id']}")
    for query, body, status in (("template_id=nobody", archive, 404), ("", b"no image", 400),
                                ("nam=x", archive, 400)):
        assert client.call("POST", f"{SNAPSHOTS}/import?{query}", body).status == status, query


def test_only_the_layer(client, odd, claim):
    sandbox = claim(odd)
    shell(sandbox, "echo new > /odd/new; rm /odd/plain")
    for compression, mode in (("none", "r:"), ("gzip", "r:gz")):
        url = f"{sandbox.path}/export?layer_only=true&compression={compression}"
        body = client.expect(200, "GET", url).body
        with tarfile.open(fileobj=io.BytesIO(body), mode=mode, errors="surrogateescape") as tar:
            names = tar.getnames()
        assert "odd/new" in names and "odd/.wh.plain" in names and "odd" in names
        assert not any(name.startswith("bin/") for name in names)


def test_a_builtin_template_is_whole(client, create, tmp_path):
    """As large as images get here; not compressed, for time."""
    sandbox = create()
    sandbox.write("/workspace/mine", b"mine")
    connection = client.connection(300)
    path = tmp_path / "image.tar"
    try:
        connection.request("GET", f"{sandbox.path}/export?compression=none",
                           headers=client.headers())
        response = connection.getresponse()
        assert response.status == 200
        with open(path, "wb") as out:
            shutil.copyfileobj(response, out, 1 << 20)
    finally:
        connection.close()
    done = subprocess.run(["skopeo", "inspect", f"oci-archive:{path}"], check=True, timeout=120,
                          capture_output=True)
    assert len(json.loads(done.stdout)["Layers"]) >= 2
    with tarfile.open(path) as tar:
        index = json.load(tar.extractfile("index.json"))
        digest = index["manifests"][0]["digest"].removeprefix("sha256:")
        manifest = json.load(tar.extractfile(f"blobs/sha256/{digest}"))
        top = manifest["layers"][-1]["digest"].removeprefix("sha256:")
        with tarfile.open(fileobj=tar.extractfile(f"blobs/sha256/{top}")) as layer:
            assert layer.extractfile("workspace/mine").read() == b"mine"


# Templates --------------------------------------------------------------------------------------
def make_template(client, what, body, status=202, key=None):
    headers = {"Idempotency-Key": key} if key else None
    return client.expect(status, "POST", f"/api/v1/templates/from-{what}", body, headers)


def test_a_template_of_a_sandbox(client, odd, claim):
    parent = claim(odd)
    shell(parent, "echo prepared > /odd/prepared; rm /odd/plain")
    body = {"template_id": "export-prepared", "sandbox_id": parent.id,
            "spec_overrides": {"description": "ready to go"}}
    made = make_template(client, "sandbox", body, key="once").data
    try:
        assert made["status"]["creation"]["state"] == "creating"
        assert make_template(client, "sandbox", body, key="once").data == made
        # What happens afterwards is not in it.
        shell(parent, "echo later > /odd/later")
        parent.delete()
        wait_ready(client, "export-prepared")
        refused = make_template(client, "sandbox", {**body, "template_id": "Export-Prepared"}, 409)
        assert refused.error["code"] == "conflict"
        child = claim("export-prepared")
        assert shell(child, "cat /odd/prepared; ls /odd/plain /odd/later 2>/dev/null; true") == \
            "prepared\n"
        assert child.out(["sh", "-c", "id -un; pwd"]) == "app\n/srv\n"
        assert changes(client, f"{child.path}/diff") == []
        # A template of a sandbox of a template of a sandbox.
        shell(child, "echo second > /odd/second")
        make_template(client, "sandbox", {"template_id": "export-second", "sandbox_id": child.id})
        wait_ready(client, "export-second")
        child.delete()
        client.expect(200, "DELETE", "/api/v1/templates/export-prepared")
        grandchild = claim("export-second")
        assert shell(grandchild, "cat /odd/prepared /odd/second") == "prepared\nsecond\n"
        grandchild.delete()
    finally:
        for name in ("export-second", "export-prepared"):
            client.call("DELETE", f"/api/v1/templates/{name}")


def test_a_template_of_a_snapshot_needs_nothing_else(client, import_image, claim, tmp_path):
    layout = write_layout(tmp_path / "layout", busybox_layers(), CONFIG)
    base = import_image("export-base", pack(layout))
    parent = claim(base)
    shell(parent, "echo kept > /srv/kept")
    snapshot = client.expect(201, "POST", f"{parent.path}/snapshots", {}).data["id"]
    try:
        make_template(client, "snapshot", {"template_id": "export-child", "snapshot_id": snapshot})
        client.expect(200, "DELETE", f"{SNAPSHOTS}/{snapshot}")
        wait_ready(client, "export-child")
        parent.delete()
        client.expect(200, "DELETE", f"/api/v1/templates/{base}")
        child = claim("export-child")
        assert shell(child, "cat /srv/kept; ls /bin/busybox") == "kept\n/bin/busybox\n"
        child.delete()
    finally:
        client.call("DELETE", "/api/v1/templates/export-child")
        client.call("DELETE", f"{SNAPSHOTS}/{snapshot}")


def test_templates_of_nothing_are_refused(client, create):
    sandbox = create()
    for what, body, status in (
            ("sandbox", {"template_id": "x1", "sandbox_id": "rs-nobody"}, 404),
            ("snapshot", {"template_id": "x1", "snapshot_id": "snap-no"}, 404),
            ("sandbox", {"template_id": "default", "sandbox_id": sandbox.id}, 409),
            ("sandbox", {"template_id": "no spaces", "sandbox_id": sandbox.id}, 400),
            ("sandbox", {"template_id": "x1", "sandbox_id": sandbox.id, "x": 1}, 400),
            ("sandbox", {"template_id": "x1", "sandbox_id": sandbox.id,
                         "spec_overrides": {"mainContainer": {}}}, 400)):
        assert client.call("POST", f"/api/v1/templates/from-{what}", body).status == status, body
    assert client.call("GET", "/api/v1/templates/x1").status == 404
