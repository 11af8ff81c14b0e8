"""Files: whole and in ranges, atomic, any name, any size, with the caller's rights."""
import http.client
import os
import threading
import time

import pytest

from harness import kernel

GIBIBYTE = 1 << 30


def test_write_then_read(sandbox):
    content = os.urandom(100_000)
    assert sandbox.write("/tmp/a.bin", content)["written"] is True
    answer = sandbox.client.expect(200, "GET", sandbox.file_path("/tmp/a.bin"))
    assert answer.body == content
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert int(answer.headers["Content-Length"]) == len(content)


def test_empty_file(sandbox):
    sandbox.write("/tmp/empty", b"")
    assert sandbox.read("/tmp/empty") == b""
    assert sandbox.stat("/tmp/empty")["size"] == 0


def test_json_read_is_base64(sandbox):
    import base64
    sandbox.write("/tmp/j", b"\x00\xffjson")
    answer = sandbox.client.expect(200, "GET", sandbox.file_path("/tmp/j"),
                                   headers={"Accept": "application/json"})
    assert answer.data["encoding"] == "base64"
    assert base64.b64decode(answer.data["content"]) == b"\x00\xffjson"


def test_parents_are_made_and_belong_to_the_user(sandbox):
    sandbox.write("/home/user/new/deep/file", "x")
    assert sandbox.out("stat -c '%U %a' /home/user/new/deep/file") == "user 644\n"
    assert sandbox.out("stat -c %U /home/user/new/deep") == "user\n"


def test_relative_path_has_a_home(sandbox):
    """Relative paths resolve against /workspace."""
    answer = sandbox.client.call("POST", sandbox.file_path("notes.txt"), b"relative")
    assert answer.status == 200, answer.body
    assert sandbox.read("/workspace/notes.txt") == b"relative"
    assert sandbox.read("notes.txt") == b"relative"


def test_stat_fields(sandbox):
    sandbox.write("/tmp/stat.txt", "12345")
    data = sandbox.stat("/tmp/stat.txt")
    assert (data["name"], data["path"], data["type"], data["size"], data["mode"]) == (
        "stat.txt", "/tmp/stat.txt", "file", 5, "0644")
    assert data["is_link"] is False and data["mod_time"].endswith("Z")


def test_symlinks_are_reported_not_followed(sandbox):
    sandbox.out("ln -sf /etc/hostname /tmp/link; ln -sf nowhere /tmp/dangling")
    data = sandbox.stat("/tmp/link")
    assert data["type"] == "symlink" and data["is_link"] is True
    assert data["link_target"] == "/etc/hostname"
    assert sandbox.stat("/tmp/dangling")["link_target"] == "nowhere"
    assert sandbox.read("/tmp/link") == sandbox.read("/etc/hostname")


def test_list(sandbox):
    sandbox.out("mkdir -p /tmp/l/sub && cd /tmp/l && echo x > file && ln -sf file link")
    entries = {entry["name"]: entry for entry in sandbox.list("/tmp/l")}
    assert {name: entry["type"] for name, entry in entries.items()} == {
        "file": "file", "sub": "dir", "link": "symlink"}
    assert entries["file"]["size"] == 2 and entries["file"]["path"] == "/tmp/l/file"


def test_list_of_many(sandbox):
    sandbox.out("mkdir -p /tmp/many && cd /tmp/many && seq 5000 | xargs touch")
    assert len(sandbox.list("/tmp/many")) == 5000


def test_mkdir(sandbox):
    assert sandbox.mkdir("/tmp/made")["created"] is True
    assert sandbox.stat("/tmp/made")["type"] == "dir"
    answer = sandbox.client.call("POST", sandbox.file_path("/tmp/made", mkdir="true"), b"")
    assert answer.status == 409, answer.body
    missing = sandbox.client.call("POST", sandbox.file_path("/tmp/x/y/z", mkdir="true"), b"")
    assert missing.status == 404
    sandbox.mkdir("/tmp/x/y/z", recursive=True)
    sandbox.mkdir("/tmp/x/y/z", recursive=True)


def test_move(sandbox):
    sandbox.write("/tmp/from", "moved")
    assert sandbox.move("/tmp/from", "/tmp/into/new/place")["moved"] is True
    assert sandbox.read("/tmp/into/new/place") == b"moved"
    answer = sandbox.client.call("POST", f"{sandbox.path}/files/move",
                                 {"source": "/tmp/from", "destination": "/tmp/other"})
    assert answer.status == 404


def test_move_replaces_a_file(sandbox):
    sandbox.write("/tmp/m1", "one")
    sandbox.write("/tmp/m2", "two")
    sandbox.move("/tmp/m1", "/tmp/m2")
    assert sandbox.read("/tmp/m2") == b"one"


def test_remove_is_recursive_and_idempotent(sandbox):
    sandbox.out("mkdir -p /tmp/gone/a/b && touch /tmp/gone/a/b/c && ln -s /etc /tmp/gone/a/etc")
    assert sandbox.remove("/tmp/gone")["deleted"] is True
    assert sandbox.client.call("GET", sandbox.file_path("/tmp/gone", "/stat")).status == 404
    sandbox.remove("/tmp/gone")
    assert sandbox.run(["ls", "/etc/hostname"])["exit_code"] == 0


def test_chmod(sandbox):
    sandbox.write("/tmp/script", "#!/bin/sh\necho ran\n")
    sandbox.client.expect(200, "POST", f"{sandbox.path}/files/chmod",
                          {"path": "/tmp/script", "mode": "0755"})
    assert sandbox.stat("/tmp/script")["mode"] == "0755"
    assert sandbox.out(["/tmp/script"]) == "ran\n"
    sandbox.write("/tmp/script", "#!/bin/sh\necho again\n")
    assert sandbox.stat("/tmp/script")["mode"] == "0755", "a replaced file keeps its mode"


@pytest.mark.parametrize("name", ["späße/ünïcode ☃.txt", "日本語.txt", "a b+c&d=e%41#f?.txt",
                                  "new\nline", "-rf", "quote'\"\\", "🚀" * 20, ".hidden", "a" * 200])
def test_any_name_works(sandbox, name):
    path = "/tmp/names/" + name
    sandbox.write(path, name)
    assert sandbox.read(path).decode() == name
    assert sandbox.stat(path)["path"] == path
    parent = os.path.dirname(path)
    assert os.path.basename(name) in [entry["name"] for entry in sandbox.list(parent)]
    sandbox.remove(path)


@pytest.mark.parametrize("value,expected,content_range", [
    ("bytes=0-3", b"0123", "bytes 0-3/10"), ("bytes=5-", b"56789", "bytes 5-9/10"),
    ("bytes=-3", b"789", "bytes 7-9/10"), ("bytes=8-100", b"89", "bytes 8-9/10")])
def test_ranges(sandbox, value, expected, content_range):
    sandbox.write("/tmp/range", "0123456789")
    answer = sandbox.client.expect(206, "GET", sandbox.file_path("/tmp/range"),
                                   headers={"Range": value})
    assert answer.body == expected and answer.headers["Content-Range"] == content_range


def test_range_behind_the_end(sandbox):
    sandbox.write("/tmp/range", "0123456789")
    answer = sandbox.client.expect(416, "GET", sandbox.file_path("/tmp/range"),
                                   headers={"Range": "bytes=10-"})
    assert answer.headers["Content-Range"] == "bytes */10"


def test_replacing_is_atomic_for_concurrent_readers(sandbox):
    """A reader sees one whole version; writers never leave a temporary file behind."""
    sandbox.mkdir("/tmp/atomic", recursive=True)
    versions = [bytes([65 + index]) * 300_000 for index in range(4)]
    sandbox.write("/tmp/atomic/file", versions[0])
    stop = threading.Event()
    problems, reads = [], []

    def reader():
        while not stop.is_set():
            content = sandbox.read("/tmp/atomic/file")
            reads.append(1)
            if content not in versions:
                problems.append((len(content), content[:1], content[-1:]))
                return

    def writer(content):
        for _ in range(15):
            sandbox.write("/tmp/atomic/file", content)

    readers = [threading.Thread(target=reader) for _ in range(2)]
    writers = [threading.Thread(target=writer, args=(each,)) for each in versions]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert not problems, problems
    assert len(reads) > 10
    assert [entry["name"] for entry in sandbox.list("/tmp/atomic")] == ["file"]


def test_broken_upload_changes_nothing(sandbox):
    sandbox.write("/tmp/keep", "old")
    connection = sandbox.client.connection()
    connection.putrequest("POST", sandbox.file_path("/tmp/keep"))
    for name, value in sandbox.client.headers({"Content-Length": "1000000"}).items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"n" * 5000)
    connection.close()
    time.sleep(0.3)
    assert sandbox.read("/tmp/keep") == b"old"
    names = [entry["name"] for entry in sandbox.list("/tmp")]
    assert not [name for name in names if name.startswith((".keep", "keep."))], names


def test_chunked_upload(sandbox):
    def pieces():
        for index in range(100):
            yield bytes([index]) * 1000
    connection = sandbox.client.connection()
    connection.request("POST", sandbox.file_path("/tmp/chunked"), body=pieces(),
                       headers=sandbox.client.headers(), encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()
    assert sandbox.read("/tmp/chunked") == b"".join(pieces())


ERRORS = [("GET", "", "/no/such", 404, "file_not_found"), ("GET", "/stat", "/no/such", 404, ""),
          ("GET", "/list", "/no/such", 404, ""), ("GET", "/list", "/etc/passwd", 409, ""),
          ("GET", "", "/etc", 409, ""), ("GET", "", "/etc/shadow", 403, "permission_denied"),
          ("POST", "", "/etc/passwd", 403, "permission_denied"),
          ("DELETE", "", "/etc/passwd", 403, "permission_denied"),
          ("POST", "", "/etc/passwd/x", (403, 409), ""),
          ("POST", "", "/proc/sys/x", (403, 404, 500), "")]


@pytest.mark.parametrize("method,verb,path,status,code", ERRORS)
def test_errors_say_what_is_wrong(sandbox, method, verb, path, status, code):
    answer = sandbox.client.call(method, sandbox.file_path(path, verb),
                                 b"x" if method == "POST" else None)
    assert answer.status in ((status,) if isinstance(status, int) else status), answer.body
    assert answer.error["message"] and (not code or answer.error["code"] == code), answer.error


@pytest.mark.parametrize("query", ["", "path=", "path=%00", "path=/a%00b", "path=" + "x" * 5000,
                                   "path=/tmp/x&mkdir=maybe", "paht=/tmp/x"])
def test_bad_paths_are_refused(sandbox, query):
    for method in ("POST",) if "mkdir" in query else ("GET", "POST", "DELETE"):
        answer = sandbox.client.call(method, f"{sandbox.path}/files?{query}",
                                     b"x" if method == "POST" else None)
        assert answer.status == 400, (method, answer.status, answer.body[:200])
        assert answer.error["message"]


def test_rights_of_a_user_apply(sandbox):
    sandbox.out("echo secret > /root/secret && chmod 600 /root/secret", user="root")
    assert sandbox.client.call("GET", sandbox.file_path("/root/secret")).status == 403
    assert sandbox.read("/root/secret", user="root") == b"secret\n"


def test_special_files_do_not_hang(sandbox):
    sandbox.out("mkfifo -m 666 /tmp/fifo || true")
    answer = sandbox.client.call("GET", sandbox.file_path("/tmp/fifo"), timeout=15)
    assert answer.status >= 400
    endless = sandbox.client.call("GET", sandbox.file_path("/dev/tty"), timeout=15)
    assert endless.status >= 400


def test_procfs_files_read_whole(sandbox):
    assert b"processor" in sandbox.read("/proc/cpuinfo")


class Zeros:
    """A body of zeros without a copy of it; http.client asks it for pieces."""

    def __init__(self, size):
        self.left = size
        self.piece = bytes(1 << 20)

    def read(self, _=0):
        size = min(self.left, len(self.piece))
        self.left -= size
        return self.piece[:size]


def test_five_gibibytes_pass_with_constant_memory(create, server):
    sandbox = create(disk="8Gi")
    size = 5 * GIBIBYTE
    api = server.daemons()["api"]
    before = kernel.kibibytes(api, "VmHWM")
    begin = time.monotonic()
    connection = sandbox.client.connection(timeout=300)
    connection.request("POST", sandbox.file_path("/tmp/big"), body=Zeros(size),
                       headers=sandbox.client.headers({"Content-Length": str(size)}))
    assert connection.getresponse().read() and sandbox.stat("/tmp/big")["size"] == size
    connection.close()
    uploaded = time.monotonic()
    connection = sandbox.client.connection(timeout=300)
    connection.request("GET", sandbox.file_path("/tmp/big"), headers=sandbox.client.headers())
    response = connection.getresponse()
    total, buffer = 0, bytearray(4 << 20)
    try:
        while got := response.readinto(buffer):
            total += got
    except http.client.IncompleteRead:
        pass
    connection.close()
    print(f"5 GiB up in {uploaded - begin:.1f} s, down in {time.monotonic() - uploaded:.1f} s")
    assert total == size
    assert kernel.kibibytes(api, "VmHWM") - before < 64 * 1024
