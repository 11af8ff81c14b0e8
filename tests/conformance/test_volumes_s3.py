"""Volumes in buckets, against a real S3 server on loopback that checks every signature."""
import hashlib
import http.client
import io
import json
import os
import pathlib
import random
import secrets
import signal
import ssl
import subprocess
import tarfile
import tempfile
import threading
import urllib.parse

import pytest

from harness.buckets import BrokenProxy, Buckets
from harness.server import BIN_DIR, Server, wait_until

VOLUMES = "/api/v1/sandboxvolumes"
ALLOW = ("--allow-s3-endpoint", "127.0.0.1")
PART = 8 << 20


@pytest.fixture(scope="module")
def buckets(tmp_path_factory):
    with open(tmp_path_factory.mktemp("s3") / "log", "w") as log:
        running = Buckets(log)
        yield running
        running.stop()


@pytest.fixture(scope="module")
def proxy(buckets):
    running = BrokenProxy(buckets.about["host"], buckets.about["port"])
    yield running
    running.stop()


@pytest.fixture(scope="module")
def server():
    with Server(extra=ALLOW) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    return server.client


@pytest.fixture
def volume(client, buckets):
    """In a part of the bucket of its own."""
    made = client.create_volume(**buckets.settings(prefix=f"t-{secrets.token_hex(4)}"))
    yield made
    made.delete(force=True)


@pytest.fixture
def broken(client, buckets, proxy):
    """A volume whose bucket is behind the proxy."""
    proxy.faults()
    prefix = f"b-{secrets.token_hex(4)}"
    made = client.create_volume(**buckets.settings(prefix, endpoint_url=proxy.url))
    yield made
    proxy.faults()
    made.delete(force=True)


def prefix_of(volume):
    return volume.get()["s3"]["prefix"]


def names(volume, path="/"):
    return sorted(each["name"] for each in volume.list(path))


def test_what_is_told_and_what_never(server, client, buckets, volume):
    about = buckets.about
    data = volume.get()
    assert data["backend"] == "s3" and data["s3"]["bucket"] == about["bucket"]
    assert set(data["s3"]) == {"provider", "bucket", "prefix", "endpoint_url"}
    volume.write("/f", b"x")
    told = client.expect(200, "GET", VOLUMES).body + json.dumps(data).encode()
    kept = b"".join(path.read_bytes() for path in pathlib.Path(server.data_dir, "db").iterdir()
                    if path.is_file())
    logged = server.log(1 << 20).encode()
    assert data["id"].encode() in kept
    for secret in (about["access_key"], about["secret_key"]):
        assert secret.encode() not in told + kept + logged
    mode = os.stat(f"{server.data_dir}/secrets.key")
    assert mode.st_uid == 0 and mode.st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change, reason", [
    ({"secret_key": "wrong"}, "SignatureDoesNotMatch"), ({"access_key": "AKIANOBODY"}, "Invalid"),
    ({"bucket": "no-such-bucket"}, "NoSuchBucket"),
    ({"endpoint_url": "http://127.0.0.1:1"}, "did not answer"),
    ({"endpoint_url": "http://10.255.255.1"}, "--allow-s3-endpoint")])
def test_a_bucket_that_cannot_be_used_is_refused(client, buckets, change, reason):
    body = buckets.settings()
    body["s3"].update(change)
    answer = client.call("POST", VOLUMES, body)
    assert answer.status == 400 and reason in answer.error["message"], answer.body
    assert buckets.about["secret_key"].encode() not in answer.body


def test_files(client, volume):
    assert volume.list("/") == []
    written = client.expect(200, "POST", volume.file_path("/a/b.txt"), b"0123456789")
    assert volume.read("/a/b.txt") == b"0123456789"
    stat = volume.stat("/a/b.txt")
    assert (stat["type"], stat["size"], stat["mode"]) == ("file", 10, "0644")
    assert volume.stat("/a")["type"] == "dir" and volume.stat("/")["type"] == "dir"
    head = client.expect(200, "HEAD", volume.file_path("/a/b.txt"))
    assert head.headers["Content-Length"] == "10"
    assert head.headers["ETag"] == written.headers["ETag"]
    for asked, status, body in (("bytes=2-4", 206, b"234"), ("bytes=-3", 206, b"789"),
                                ("bytes=8-", 206, b"89"), ("bytes=10-", 416, None)):
        answer = client.call("GET", volume.file_path("/a/b.txt"), headers={"Range": asked})
        assert answer.status == status and body in (None, answer.body), asked
    volume.write("/empty", b"")
    assert volume.read("/empty") == b""
    assert client.call("GET", volume.file_path("/none")).status == 404
    assert client.call("GET", volume.file_path("/none"), headers={"Range": "bytes=0-1"}
                       ).status == 404
    for path in ("/a", "/", "/a/"):
        assert client.call("GET", volume.file_path(path)).status == 409, path
        assert client.call("POST", volume.file_path(path), b"x").status == 409, path
    assert client.call("GET", volume.file_path("/empty", "/list")).status == 409
    assert client.call("GET", volume.file_path("/none", "/list")).status == 404


def test_conditions(client, volume):
    path = volume.file_path("/f")
    etag = client.expect(200, "POST", path, b"one", {"If-None-Match": "*"}).headers["ETag"]
    assert client.call("POST", path, b"two", {"If-None-Match": "*"}).status == 412
    assert client.call("GET", path, headers={"If-None-Match": etag}).status == 304
    assert client.call("GET", path, headers={"If-Match": '"other"'}).status == 412
    assert client.call("POST", path, b"two", {"If-Match": '"other"'}).status == 412
    assert client.expect(200, "POST", path, b"two", {"If-Match": etag}).headers["ETag"] != etag
    assert client.call("POST", path, b"three", {"If-Match": etag}).status == 412
    assert volume.read("/f") == b"two"


def test_directories(client, volume):
    volume.mkdir("/d")
    assert names(volume) == ["d"] and volume.list("/d") == []
    assert client.call("POST", volume.file_path("/d", mkdir="true"), b"").status == 409
    assert client.call("POST", volume.file_path("/x/y", mkdir="true"), b"").status == 404
    volume.mkdir("/x/y", recursive=True)
    volume.mkdir("/d", recursive=True)
    volume.write("/d/only", b"1")
    volume.remove("/d/only")
    assert volume.list("/d") == [], "a directory stays when its last file goes"
    volume.write("/d/e/f", b"1")
    volume.remove("/d")
    assert names(volume) == ["x"]
    volume.remove("/never/was")
    assert names(volume) == ["x"]
    assert client.call("DELETE", volume.file_path("/")).status == 400


def test_moves(client, volume):
    volume.write("/from/f", b"moved")
    volume.move("/from/f", "/to/g")
    assert volume.read("/to/g") == b"moved"
    assert client.call("GET", volume.file_path("/from/f")).status == 404
    move = lambda source, destination: client.call(
        "POST", f"{volume.path}/files/move", {"source": source, "destination": destination})
    refused = move("/to", "/elsewhere")
    assert refused.status == 501 and "one by one" in refused.error["message"]
    assert move("/none", "/x").status == 404
    assert move("/to/g", "/from").status == 409  # a directory
    assert move("/to/g", "/to/g").status == 200
    assert volume.read("/to/g") == b"moved"


def test_what_a_bucket_cannot_do(client, volume, create_volume):
    volume.write("/f", b"x")
    for method, path, body in (("POST", "/files/chmod", {"path": "/f", "mode": "0600"}),
                               ("POST", "/files/grep", {"pattern": "x"}),
                               ("GET", "/files/glob?pattern=*", None)):
        answer = client.call(method, volume.path + path, body)
        assert answer.status == 501, (path, answer.body)
    for path, body in (("/snapshots", {"name": "x"}), ("/fork", {})):
        answer = client.call("POST", volume.path + path, body)
        assert answer.status == 400 and "s3" in answer.error["message"], answer.body
    claim = client.call("POST", "/api/v1/sandboxes", {
        "template": "default", "mounts": [{"sandboxvolume_id": volume.id, "mount_point": "/m"}]})
    assert claim.status == 400 and "s3" in claim.error["message"], claim.body


ODD = ["with space", "plus+plus", "per%cent%20", "ünï/çödé", "q?&=;:@$,", "!'()*~", "#hash",
       "tab\there", "<xml>&\"quote\"", "日本/語.txt", "trailing.", "-dash", "a\\b"]


def test_odd_names(volume, buckets):
    for name in ODD:
        volume.write(f"/{name}", name)
        assert volume.read(f"/{name}").decode() == name
        assert volume.stat(f"/{name}")["size"] == len(name.encode())
    expected = sorted({name.split("/")[0] for name in ODD})
    assert names(volume) == expected
    prefix = prefix_of(volume)
    assert sorted(buckets.call("keys", prefix=prefix)) == sorted(prefix + name for name in ODD)
    volume.move("/with space", "/moved +%20ü")
    assert volume.read("/moved +%20ü") == b"with space"
    for name in expected:
        volume.remove(f"/{name}")
    assert names(volume) == ["moved +%20ü"]


def test_keys_that_are_no_paths_are_not_shown(client, volume, buckets):
    prefix = prefix_of(volume)
    buckets.call("put", keys=[prefix + key for key in ("a//b", "./x", "../y", "/z", "ok", "d/")])
    assert names(volume) == ["a", "d", "ok"]
    assert volume.list("/a") == []
    volume.remove("/a")
    assert f"{prefix}a//b" not in buckets.call("keys", prefix=prefix)
    # Nothing beyond the prefix is reached, however the path is written.
    buckets.call("put", keys=["outside"])
    for path in ("/../outside", "../outside", "/a/../../outside"):
        assert client.call("GET", volume.file_path(path)).status == 404


def test_more_than_a_page(volume, buckets):
    prefix = prefix_of(volume)
    buckets.call("put", keys=[f"{prefix}many/{number:04}" for number in range(1050)], size=2)
    listed = volume.list("/many")
    assert [each["name"] for each in listed] == [f"{number:04}" for number in range(1050)]
    volume.remove("/many")
    assert buckets.call("keys", prefix=f"{prefix}many") == []


def test_large_files_go_in_parts(client, volume, buckets):
    content = random.Random(7).randbytes(2 * PART + 12345)
    volume.write("/large", content)
    assert hashlib.sha256(volume.read("/large")).digest() == hashlib.sha256(content).digest()
    answer = client.call("GET", volume.file_path("/large"),
                         headers={"Range": f"bytes={PART - 5}-{PART + 4}"})
    assert answer.body == content[PART - 5:PART + 5]
    volume.write("/exact", content[:PART])
    assert volume.read("/exact") == content[:PART]
    assert buckets.call("uploads") == []


def test_an_upload_that_breaks_off_leaves_nothing(client, volume, buckets):
    volume.write("/f", b"old")
    connection = client.connection()
    connection.putrequest("POST", volume.file_path("/f"))
    for name, value in client.headers({"Content-Length": str(3 * PART)}).items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"n" * (PART + 1000))
    wait_until(lambda: buckets.call("uploads"), 30, "the upload has begun")
    connection.close()
    wait_until(lambda: not buckets.call("uploads"), 30, "the upload is aborted")
    assert volume.read("/f") == b"old"


def test_passing_trouble_is_not_seen(broken, proxy, buckets):
    proxy.faults(503, "cut", 500)
    broken.write("/a", b"content")
    proxy.faults("lose", "cut", 429)
    assert broken.read("/a") == b"content"
    content = random.Random(8).randbytes(PART + 10)
    proxy.faults("cut", "lose", 503)
    broken.write("/large", content)
    assert broken.read("/large") == content
    # The very last answer of an upload is lost: it is there all the same.
    key = urllib.parse.quote(f"/{buckets.about['bucket']}/{prefix_of(broken)}large")
    proxy.faults("pass", "lose", only=f"POST {key}")
    broken.write("/large", content[::-1])
    assert broken.read("/large") == content[::-1]
    assert buckets.call("uploads") == []


def test_lasting_trouble_is_an_answer(client, broken, proxy, buckets):
    broken.write("/a", b"old")
    proxy.faults(*[503] * 50)
    answer = client.call("POST", broken.file_path("/a"), b"new")
    assert answer.status == 503 and buckets.about["secret_key"] not in answer.body.decode()
    proxy.faults(*["cut"] * 50)
    assert client.call("GET", broken.file_path("/a")).status == 503
    proxy.faults()
    assert broken.read("/a") == b"old"
    # A download that breaks in the middle must not look whole.
    broken.write("/long", b"x" * 100_000)
    proxy.faults("half")
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        client.call("GET", broken.file_path("/long"))


def test_archives(client, volume):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        def add(name, content=None, **fields):
            entry = tarfile.TarInfo(name)
            for key, value in fields.items():
                setattr(entry, key, value)
            entry.size = len(content or b"")
            archive.addfile(entry, io.BytesIO(content or b""))
        add("d", type=tarfile.DIRTYPE)
        add("d/ü f", b"one")
        add("big", b"b" * (PART + 7))
        add("empty", b"")
        add("link", type=tarfile.SYMTYPE, linkname="d")
    counts = client.expect(200, "PUT", volume.file_path("/in", "/archive"),
                           packed.getvalue()).data
    assert counts == {"files": 3, "directories": 1, "symlinks": 0, "bytes": PART + 10,
                      "skipped": 1}
    assert volume.read("/in/d/ü f") == b"one" and volume.read("/in/empty") == b""
    for form, mode in (("tar", "r:"), ("tar.gz", "r:gz")):
        answer = client.expect(200, "GET", volume.file_path("/in", "/archive", format=form))
        with tarfile.open(fileobj=io.BytesIO(answer.body), mode=mode) as archive:
            found = {each.name: each.size for each in archive.getmembers() if each.isfile()}
            assert found == {"d/ü f": 3, "big": PART + 7, "empty": 0}
            assert archive.extractfile("d/ü f").read() == b"one"
    assert client.call("GET", volume.file_path("/none", "/archive")).status == 404
    assert client.call("PUT", volume.file_path("/bad", "/archive"), b"no archive").status == 400


def test_the_size_is_measured(client, volume):
    volume.write("/a/b", b"x" * 1000)
    volume.write("/c", b"x" * 234)
    wait_until(lambda: volume.get()["metered_storage_bytes"] == 1234, 30, "it is measured")
    assert volume.get()["storage_observed_at"]
    volume.remove("/c")
    wait_until(lambda: volume.get()["metered_storage_bytes"] == 1000, 30, "it is measured again")


def test_another_team_or_prefix_sees_nothing(client, buckets):
    first = client.create_volume(**buckets.settings(prefix="shared/one"))
    second = client.create_volume(**buckets.settings(prefix="/shared//one2/"))
    try:
        assert prefix_of(second) == "shared/one2/"
        first.write("/f", b"1")
        assert names(second) == [] and names(first) == ["f"]
    finally:
        first.remove("/f")
        first.delete()
        second.delete()


@pytest.fixture
def secure_proxy(buckets, tmp_path, monkeypatch):
    """The bucket over https, with an authority that servers started from now on trust."""
    subprocess.run([BIN_DIR / "atoll", "cert", "dev", "--dir", tmp_path, "--name", "127.0.0.1"],
                   check=True, capture_output=True)
    os.chmod(tmp_path, 0o755)
    os.chmod(tmp_path / "ca.crt", 0o644)
    trusted = tempfile.NamedTemporaryFile(prefix="atoll-test-ca-", suffix=".crt")
    trusted.write((tmp_path / "ca.crt").read_bytes())
    trusted.flush()
    os.chmod(trusted.name, 0o644)
    monkeypatch.setenv("SSL_CERT_FILE", trusted.name)
    name = next(each for each in tmp_path.glob("*.crt") if each.name != "ca.crt")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(name, name.with_suffix(".key"))
    running = BrokenProxy(buckets.about["host"], buckets.about["port"], tls)
    yield running
    running.stop()
    trusted.close()


def test_kill_during_writes_and_rotation_of_the_key(client, buckets, secure_proxy):
    """What was acknowledged is there, whole; what was not is there whole or not at all. Over
    https."""
    settings = buckets.settings(prefix="killed", endpoint_url=secure_proxy.url)
    answer = client.call("POST", VOLUMES, settings)  # a server that does not know the authority
    assert answer.status == 400 and "certificate" in answer.error["message"], answer.body
    with Server(extra=ALLOW) as server:
        volume = server.client.create_volume(**settings)
        acknowledged = []

        def write_on():
            for number in range(1000):
                try:
                    volume.write(f"/f{number}", f"{number}," * 50_000)
                except Exception:  # noqa: BLE001 - the server is killed under it
                    return
                acknowledged.append(number)

        writer = threading.Thread(target=write_on)
        writer.start()
        wait_until(lambda: len(acknowledged) >= 3, 60, "some writes")
        os.kill(server.daemons()["api"], signal.SIGKILL)
        writer.join()
        wait_until(lambda: server.client.call("GET", volume.path).status == 200
                   if "api" in server.daemons() and reachable(server) else False, 60,
                   "the API is back")
        for number in range(acknowledged[-1] + 2):
            answer = server.client.call("GET", volume.file_path(f"/f{number}"))
            whole = answer.status == 200 and answer.body == (f"{number}," * 50_000).encode()
            assert whole or (number not in acknowledged and answer.status == 404), number

        # A new key on top: the old one still opens, and is not needed after one start.
        key_file = pathlib.Path(server.data_dir, "secrets.key")
        old = key_file.read_text()
        server.stop()
        new = secrets.token_hex(32) + "\n"
        key_file.write_text(new + old)
        server.start()
        rotated = type(volume)(server.client, volume.id)
        assert rotated.read("/f0").startswith(b"0,0,")
        server.stop()
        key_file.write_text(new)
        server.start()
        rotated = type(volume)(server.client, volume.id)
        assert rotated.read("/f0").startswith(b"0,0,")
        server.stop()
        key_file.write_text(old)
        server.start()
        answer = server.client.call("GET", rotated.file_path("/f0"))
        assert answer.status == 500, answer.body
        server.stop()
        key_file.write_text(new)
        server.start()
        rotated = type(volume)(server.client, volume.id)
        assert rotated.delete() == {"deleted": True}
        assert buckets.call("keys", prefix="killed/"), "what is in the bucket stays"


def reachable(server):
    try:
        return server.client.call("GET", "/healthz").status == 200
    except OSError:
        return False
