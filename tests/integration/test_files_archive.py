"""Trees as tar: GNU tar and Python's tarfile at the other end, and archives made to do harm."""
import gzip
import http.client
import io
import os
import pathlib
import subprocess
import tarfile
import threading

import pytest

from harness.server import wait_until


def archive_path(sandbox, path, **query):
    return sandbox.file_path(path, "/archive", **query)


def download(sandbox, path, **query):
    return sandbox.client.expect(200, "GET", archive_path(sandbox, path, **query))


def upload(sandbox, path, content, status=200, **query):
    answer = sandbox.client.call("PUT", archive_path(sandbox, path, **query), content,
                                 {"Content-Type": "application/x-tar"})
    assert answer.status == status, answer.body
    return answer.data if status == 200 else answer.error


def make_tar(*members, format=tarfile.PAX_FORMAT, mode="w"):
    """members: (name, content or None, {attributes of TarInfo})"""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode=mode, format=format) as archive:
        for name, content, attributes in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            for key, value in attributes.items():
                setattr(info, key, value)
            if content is not None:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if content is not None else None)
    return output.getvalue()


def file(name, content=b"x", **attributes):
    return (name, content, attributes)


def link(name, target, kind=tarfile.SYMTYPE):
    return (name, None, {"type": kind, "linkname": target})


def directory(name, **attributes):
    return (name, None, {"type": tarfile.DIRTYPE, "mode": 0o755, **attributes})


TREE = """
mkdir -p /tmp/src/sub/empty && cd /tmp/src
printf hello > file; printf x > 'name with space'; printf u > "$(printf '\\303\\251')"
chmod 751 file; touch -d '2001-02-03 04:05:06.123456789 UTC' file
ln -s file link; ln -s /nowhere/at/all dangling; ln file hard
head -c 300000 /dev/urandom > sub/big
mkdir -p $(printf 'd%.0s' $(seq 200))/$(printf 'e%.0s' $(seq 200))
printf deep > $(printf 'd%.0s' $(seq 200))/$(printf 'e%.0s' $(seq 200))/$(printf 'f%.0s' $(seq 200))
mkfifo fifo
"""


@pytest.fixture(scope="module")
def tree(sandbox):
    sandbox.out(TREE)
    return "/tmp/src"


def listing(sandbox, path):
    """Everything that an archive keeps, in one text."""
    return sandbox.out(f"cd {path} && find . -mindepth 1 ! -type p -printf '%P %y %m %l %TY%Tm%Td%TT' "
                       "\\( -type f -printf ' %n ' -exec sha256sum {} \\; -o -printf '\\n' \\) "
                       "| sed 's/  .*//' | sort")


def test_gnu_tar_unpacks_what_comes_down(sandbox, tree, tmp_path):
    answer = download(sandbox, tree)
    assert answer.headers["Content-Type"] == "application/x-tar"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="src.tar"'
    subprocess.run(["tar", "-xf", "-", "-C", tmp_path], input=answer.body, check=True)
    assert (tmp_path / "file").read_bytes() == b"hello"
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o751
    assert (tmp_path / "file").stat().st_mtime_ns == 981173106123456789
    assert (tmp_path / "hard").stat().st_ino == (tmp_path / "file").stat().st_ino
    assert os.readlink(tmp_path / "dangling") == "/nowhere/at/all"
    assert (tmp_path / "é").read_bytes() == b"u" and (tmp_path / "sub/empty").is_dir()
    assert (tmp_path / ("d" * 200) / ("e" * 200) / ("f" * 200)).read_bytes() == b"deep"
    assert not (tmp_path / "fifo").exists()
    assert (tmp_path / "sub/big").read_bytes() == sandbox.read(f"{tree}/sub/big")


@pytest.mark.parametrize("format", ["tar", "tar.gz"])
def test_there_and_back(sandbox, tree, format):
    body = download(sandbox, tree, format=format).body
    assert (body[:2] == b"\x1f\x8b") == (format == "tar.gz")
    done = upload(sandbox, f"/tmp/back-{format}", body)
    assert listing(sandbox, f"/tmp/back-{format}") == listing(sandbox, tree)
    assert done["files"] == 6 and done["symlinks"] == 2 and done["skipped"] == 0
    assert done["bytes"] == 300_000 + 5 + 1 + 1 + 4


@pytest.mark.parametrize("arguments", [["--format=gnu"], ["--format=ustar"], ["--format=pax"],
                                       ["--format=gnu", "-z"], ["-J"], ["--zstd"], ["-j"],
                                       ["--format=gnu", "--sparse"]])
def test_everything_gnu_tar_makes(sandbox, tmp_path, arguments):
    source = tmp_path / "source"
    deep = source / ("a" * 60) / ("b" * 60)
    deep.mkdir(parents=True)
    (deep / ("c" * 60)).write_text("deep")
    with open(source / "sparse", "wb") as sparse:
        sparse.truncate(1 << 20)
        sparse.seek(500_000)
        sparse.write(b"middle")
    os.symlink("sparse", source / "link")
    packed = subprocess.run(["tar", "-c", *arguments, "-C", source, "."], check=True,
                            capture_output=True).stdout
    target = f"/tmp/gnu{'-'.join(arguments)}".replace("=", "_")
    upload(sandbox, target, packed)
    names = sandbox.out(f"cd {target} && find . | sort").splitlines()
    assert f"./{'a' * 60}/{'b' * 60}/{'c' * 60}" in names
    content = sandbox.read(f"{target}/sparse")
    assert len(content) == 1 << 20 and content[500_000:500_006] == b"middle"
    assert content.strip(b"\0") == b"middle"


def test_content_encoding_gzip_is_understood(sandbox):
    packed = gzip.compress(make_tar(file("encoded", b"yes")))
    sandbox.client.expect(200, "POST", archive_path(sandbox, "/tmp/encoding"), packed,
                          {"Content-Type": "application/x-tar", "Content-Encoding": "gzip"})
    assert sandbox.read("/tmp/encoding/encoded") == b"yes"


def test_curl_and_tar_in_a_pipe(sandbox, server, tmp_path):
    """As people use it; chunked, and nothing is held whole in memory."""
    (tmp_path / "in").mkdir()
    for number in range(50):
        (tmp_path / "in" / f"{number}").write_bytes(os.urandom(100_000))
    key, url = f"Authorization: Bearer {server.key}", server.url()
    subprocess.run(f"tar -cz -C {tmp_path}/in . | curl -sSf -T - -H '{key}' "
                   f"'{url}{archive_path(sandbox, 'piped')}' -o /dev/null", shell=True, check=True)
    subprocess.run(f"mkdir {tmp_path}/out && curl -sSf -H '{key}' "
                   f"'{url}{archive_path(sandbox, 'piped', format='tgz')}' | tar -xz -C {tmp_path}/out",
                   shell=True, check=True)
    subprocess.run(["diff", "-r", tmp_path / "in", tmp_path / "out"], check=True)
    assert sandbox.out("stat -c %U /workspace/piped/7") == "user\n"


def test_owners_and_set_id_bits_only_for_root(sandbox):
    packed = make_tar(file("owned", uid=33, gid=33, mode=0o4755), file("far", uid=2**31, gid=70000))
    upload(sandbox, "/tmp/as-user", packed)
    upload(sandbox, "/tmp/as-root", packed, user="root")
    assert sandbox.out("stat -c '%u %a' /tmp/as-user/owned") == "1000 755\n"
    assert sandbox.out("stat -c '%u %g %a' /tmp/as-root/owned") == "33 33 4755\n"
    assert sandbox.out("stat -c '%u %g' /tmp/as-root/far") == "0 0\n"


def test_a_file_and_an_empty_directory(sandbox):
    sandbox.write("/tmp/one/only", "content")
    with tarfile.open(fileobj=io.BytesIO(download(sandbox, "/tmp/one/only").body)) as archive:
        assert archive.getnames() == ["only"] and archive.extractfile("only").read() == b"content"
    sandbox.mkdir("/tmp/hollow")
    with tarfile.open(fileobj=io.BytesIO(download(sandbox, "/tmp/hollow").body)) as archive:
        assert archive.getnames() == []
    assert upload(sandbox, "/tmp/hollow2", download(sandbox, "/tmp/hollow").body)["files"] == 0
    assert sandbox.list("/tmp/hollow2") == []


def test_names_that_are_no_text(sandbox):
    sandbox.out("mkdir -p /tmp/odd && cd /tmp/odd && printf x > \"$(printf 'a\\377\\nb')\"")
    upload(sandbox, "/tmp/odd2", download(sandbox, "/tmp/odd").body)
    names = sandbox.out("ls -b /tmp/odd2")
    assert names == sandbox.out("ls -b /tmp/odd")


@pytest.mark.parametrize("path, query, status, code", [
    ("/tmp/no-such-tree", {}, 404, "file_not_found"),
    ("/root", {}, 403, "permission_denied"),
    ("/tmp", {"format": "zip"}, 400, "bad_request"),
])
def test_downloads_that_cannot_be(sandbox, path, query, status, code):
    answer = sandbox.client.call("GET", archive_path(sandbox, path, **query))
    assert (answer.status, answer.error["code"]) == (status, code)


def test_a_tree_that_breaks_in_the_middle_is_no_archive(sandbox):
    """The first entries are on their way when an unreadable file comes: the client must see it."""
    sandbox.out("mkdir -p /tmp/mixed && cd /tmp/mixed && head -c 3000000 /dev/zero > a")
    sandbox.out("cd /tmp/mixed && head -c 3000000 /dev/zero > b && chmod 600 a b && chown root b "
                "&& chown user a", user="root")
    with pytest.raises((http.client.IncompleteRead, ConnectionError, AssertionError)):
        answer = sandbox.client.call("GET", archive_path(sandbox, "/tmp/mixed"))
        assert answer.status == 200, answer.body
    sandbox.client.forget_connection()


# Archives that want to do harm --------------------------------------------------------------------

@pytest.fixture
def jail(sandbox):
    """A directory to unpack into, beside one that must stay as it is."""
    sandbox.out("rm -rf /tmp/jail /tmp/outside; mkdir -p /tmp/jail /tmp/outside; "
                "printf secret > /tmp/outside/file")
    yield "/tmp/jail"
    assert sandbox.out("ls -A /tmp/outside; cat /tmp/outside/file; stat -c %h /tmp/outside/file"
                       ) == "file\nsecret1\n"


@pytest.mark.parametrize("name", ["../outside/evil", "a/../../outside/evil", "..", "a/..",
                                  "../../../../../../tmp/outside/evil"])
def test_the_way_up_is_refused(sandbox, jail, name):
    error = upload(sandbox, jail, make_tar(file("first"), file(name)), status=400)
    assert error["details"]["reason"] == "path_escapes"
    assert sandbox.read("/tmp/jail/first") == b"x"  # what was written stays


def test_absolute_paths_become_relative(sandbox, jail):
    upload(sandbox, jail, make_tar(file("/tmp/outside/evil"), file("//etc/passwd", b"mine")))
    assert sandbox.read("/tmp/jail/tmp/outside/evil") == b"x"
    assert sandbox.read("/tmp/jail/etc/passwd") == b"mine"


@pytest.mark.parametrize("target", ["/tmp/outside", "../outside", "/tmp/jail/real"])
def test_nothing_is_written_through_a_symlink(sandbox, jail, target):
    packed = make_tar(directory("real"), link("door", target), file("door/evil"))
    error = upload(sandbox, jail, packed, status=400)
    assert error["details"]["reason"] == "path_escapes" and "door" in error["message"]


def test_nothing_is_written_through_a_symlink_that_was_there(sandbox, jail):
    sandbox.out("ln -s /tmp/outside /tmp/jail/door")
    for member in (file("door/evil"), directory("door"), directory("door/evil"),
                   link("door/evil", "x"), link("door/evil", "door/file", tarfile.LNKTYPE)):
        upload(sandbox, jail, make_tar(member), status=400)
    # In its place, though, a file may come.
    upload(sandbox, jail, make_tar(file("door", b"now a file")))
    assert sandbox.read("/tmp/jail/door") == b"now a file"


@pytest.mark.parametrize("target", ["/tmp/outside/file", "../outside/file", "door/file", "missing"])
def test_hard_links_stay_inside(sandbox, jail, target):
    packed = make_tar(link("door", "/tmp/outside"), link("stolen", target, tarfile.LNKTYPE))
    answer = sandbox.client.call("PUT", archive_path(sandbox, jail), packed)
    assert answer.status in (400, 404, 409), answer.body
    assert "stolen" not in [entry["name"] for entry in sandbox.list(jail)]


def test_a_hard_link_to_a_symlink_links_the_symlink(sandbox, jail):
    packed = make_tar(link("door", "/tmp/outside/file"), link("second", "door", tarfile.LNKTYPE),
                      file("second", b"mine"))
    upload(sandbox, jail, packed)
    assert sandbox.read("/tmp/jail/second") == b"mine"


def test_devices_and_pipes_are_left_out(sandbox, jail):
    packed = make_tar(("null", None, {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}),
                      ("disk", None, {"type": tarfile.BLKTYPE, "devmajor": 7, "devminor": 0}),
                      ("pipe", None, {"type": tarfile.FIFOTYPE}), file("good"))
    done = upload(sandbox, jail, packed, user="root")
    assert done["skipped"] == 3 and done["files"] == 1
    assert [entry["name"] for entry in sandbox.list(jail)] == ["good"]


def test_the_last_of_equal_names_counts(sandbox, jail):
    packed = make_tar(file("same", b"one"), file("same", b"two"), link("same", "x"),
                      file("same", b"three"))
    upload(sandbox, jail, packed)
    assert sandbox.read("/tmp/jail/same") == b"three"
    error = upload(sandbox, jail, make_tar(directory("dir"), file("dir/f"), file("dir")), status=409)
    assert "dir" in error["message"]


@pytest.mark.parametrize("damage", ["truncated", "checksum", "garbage", "truncated gzip"])
def test_damaged_archives(sandbox, jail, damage):
    packed = make_tar(file("good", b"g"), file("broken", b"b" * 100_000), file("after"))
    if damage == "truncated":
        packed = packed[:20_000]
    elif damage == "checksum":
        at = packed.index(b"broken")
        packed = packed[:at] + b"BROKEN" + packed[at + 6:]
    elif damage == "garbage":
        packed = os.urandom(50_000)
    else:
        packed = gzip.compress(make_tar(file("good"), file("broken", os.urandom(100_000))))[:-5000]
    error = upload(sandbox, jail, packed, status=400)
    assert error["details"]["reason"] == "bad_archive"
    if damage == "truncated":
        assert "broken" in error["message"] and sandbox.read("/tmp/jail/good") == b"g"
    assert "broken" not in [entry["name"] for entry in sandbox.list(jail)]
    assert not [entry["name"] for entry in sandbox.list(jail) if entry["name"].startswith(".atoll")]


def test_sizes_that_lie(sandbox, jail):
    """A header that promises 8 EiB, or just more than the disk."""
    for size, status in ((8 << 60, 400), (1 << 50, 413)):
        info = tarfile.TarInfo("huge")
        info.size = size
        upload(sandbox, jail, info.tobuf(tarfile.GNU_FORMAT) + b"x" * 10_000, status=status)


def test_a_gzip_bomb_ends_at_the_disk(create):
    """10 GiB of zeros in 10 MB; the sandbox has a disk of 64 MiB."""
    sandbox = create(disk="64Mi")
    zeros = gzip.compress(b"\0" * (10 << 20), 9)
    info = tarfile.TarInfo("bomb")
    info.size = 10 << 30
    assert upload(sandbox, "/tmp/b", gzip.compress(info.tobuf()) + zeros * 1024,
                  status=413)["code"] == "request_too_large"
    # In pieces that are each allowed, until there is no room.
    members = []
    for number in range(40):
        info = tarfile.TarInfo(f"part{number}")
        info.size = 10 << 20
        members.append(gzip.compress(info.tobuf()) + zeros)
    answer = sandbox.client.call("PUT", archive_path(sandbox, "/tmp/b"), b"".join(members))
    assert answer.status in (413, 507), answer.body
    assert sandbox.out("echo alive") == "alive\n"


def test_ten_thousand_entries_in_a_few_bytes(sandbox, server):
    """Many members of gzip, one after the other, with the same names again and again."""
    block = b"".join(tarfile.TarInfo(f"{number}").tobuf(tarfile.USTAR_FORMAT) for number in range(500))
    packed = gzip.compress(block, 6)
    path = archive_path(sandbox, "/tmp/million")
    connection = server.client.connection(timeout=100)
    connection.putrequest("PUT", path)
    for name, value in server.client.headers({"Transfer-Encoding": "chunked"}).items():
        connection.putheader(name, value)
    connection.endheaders()
    for _ in range(20):
        connection.send(b"%x\r\n%s\r\n" % (len(packed), packed))
    connection.send(b"0\r\n\r\n")
    response = connection.getresponse()
    assert response.status == 200, response.read()
    connection.close()
    assert len(sandbox.list("/tmp/million")) == 500
    sandbox.remove("/tmp/million")


def test_an_upload_that_stops_in_the_middle_leaves_no_half_file(sandbox, server):
    packed = make_tar(file("first"), file("second", b"s" * 4_000_000))
    connection = server.client.connection(timeout=20)
    connection.putrequest("PUT", archive_path(sandbox, "/tmp/broken-off"))
    for name, value in server.client.headers({"Content-Length": str(len(packed))}).items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(packed[:3_000_000])
    wait_until(lambda: server.client.call("GET", sandbox.file_path("/tmp/broken-off/first")).status
               == 200, 10, "the first file is there")
    connection.close()
    wait_until(lambda: [entry["name"] for entry in sandbox.list("/tmp/broken-off")] == ["first"], 10,
               "nothing else is left")


def test_many_at_once_and_slow_ones_do_not_block(sandbox, server):
    """More uploads than threads trickle; one more gets through meanwhile."""
    packed = make_tar(file("slow", b"s" * 2_000_000))
    slow = []
    try:
        for number in range(12):
            connection = server.client.connection(timeout=60)
            connection.putrequest("PUT", archive_path(sandbox, f"/tmp/slow{number}"))
            for name, value in server.client.headers({"Content-Length": str(len(packed))}).items():
                connection.putheader(name, value)
            connection.endheaders()
            connection.send(packed[:700_000])
            slow.append(connection)
        upload(sandbox, "/tmp/quick", make_tar(file("quick")))
        download(sandbox, "/tmp/quick", format="tar.gz")

        def finish(connection):
            connection.send(packed[700_000:])
            assert connection.getresponse().status == 200

        threads = [threading.Thread(target=finish, args=(each,)) for each in slow]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sandbox.out("cat /tmp/slow*/slow | wc -c") == f"{12 * 2_000_000}\n"
    finally:
        for connection in slow:
            connection.close()
        sandbox.out("rm -rf /tmp/slow*")


def test_memory_stays_flat(sandbox, server):
    """100 MB each way through the API process."""
    api = server.daemons()["api"]

    def resident():
        status = pathlib.Path(f"/proc/{api}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    sandbox.out("mkdir -p /tmp/large && head -c 100M /dev/urandom > /tmp/large/f")
    pathlib.Path(f"/proc/{api}/clear_refs").write_text("5")
    before = resident()
    url, key = server.url(), f"Authorization: Bearer {server.key}"
    subprocess.run(f"curl -sSf -H '{key}' '{url}{archive_path(sandbox, '/tmp/large')}' | "
                   f"curl -sSf -T - -H '{key}' '{url}{archive_path(sandbox, '/tmp/large2')}' "
                   "-o /dev/null", shell=True, check=True)
    assert resident() - before < 48 * 1024, "KiB"
    assert sandbox.out("cmp /tmp/large/f /tmp/large2/f && echo same") == "same\n"
    sandbox.out("rm -rf /tmp/large /tmp/large2")
