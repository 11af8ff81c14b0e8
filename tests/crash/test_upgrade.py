"""Another build of the server takes over while sandboxes run: nothing in them notices.

The executables are replaced as a package manager does it (a new file under the old name), the old
server is killed, the new one is started. What ran goes on, with its memory; a stream is read on from
where it was; a paused sandbox is still frozen.
"""
import base64
import os
import shutil
import tempfile

import pytest

from harness.server import BIN_DIR, Server

COUNT = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done"


def other_build(source, destination):
    """The same program with another identity: bytes behind the end of an executable are not read."""
    temporary = f"{destination}.new"
    shutil.copy2(source, temporary)
    with open(temporary, "ab") as file:
        file.write(os.urandom(64))
    os.rename(temporary, destination)


@pytest.fixture
def installation():
    directory = tempfile.mkdtemp(prefix="atoll-upgrade-")
    os.chmod(directory, 0o755)
    for name in ("atoll", "atoll-guest"):
        other_build(BIN_DIR / name, f"{directory}/{name}")
    yield directory
    shutil.rmtree(directory)


def read_some(sandbox, context, start, count):
    """(where to read on, text): at least so many lines."""
    text = b""
    for event in sandbox.stream(context, start=start):
        if "data_base64" in event:
            assert event["offset"] == start + len(text), "no byte is missing"
            text += base64.b64decode(event["data_base64"])
            if text.count(b"\n") >= count:
                return start + len(text), text
    raise AssertionError(f"the stream ended with {text[-200:]!r}")


def test_sandboxes_do_not_notice_an_upgrade(installation):
    with Server(bin_dir=installation) as server:
        client = server.client
        sandbox, frozen = client.create(), client.create()
        repl = client.expect(201, "POST", f"{sandbox.path}/contexts",
                             {"type": "repl", "repl": {"alias": "python"}}).data["id"]

        def run(code):
            return server.client.expect(200, "POST", f"{sandbox.path}/contexts/{repl}/exec",
                                        {"data": code}).data["output_raw"]
        run("x = 41; f = open('/tmp/open', 'w'); n = f.write('a')")
        counter = sandbox.start(COUNT)
        cursor, before = read_some(sandbox, counter["id"], 0, 20)
        frozen.start("echo $$ > /tmp/pid; exec sleep 1000000")
        client.expect(200, "POST", f"{frozen.path}/pause")
        generations = [each.get()["runtime_generation"] for each in (sandbox, frozen)]
        inode = os.stat(f"{installation}/atoll").st_ino

        for name in ("atoll", "atoll-guest"):
            other_build(f"{installation}/{name}", f"{installation}/{name}")
        server.kill_all()
        server.start()
        sandbox.client = frozen.client = server.client
        assert os.stat(f"{installation}/atoll").st_ino != inode
        for pid in server.daemons().values():
            assert os.stat(f"/proc/{pid}/exe").st_ino != inode, "the new build runs"

        assert [each.get()["runtime_generation"] for each in (sandbox, frozen)] == generations
        assert frozen.get()["status"] == "paused"
        assert run("f.write('b'); f.close(); x + 1").strip().endswith("42")
        assert sandbox.read("/tmp/open") == b"ab"
        _, after = read_some(sandbox, counter["id"], cursor, 20)
        lines = (before + after).split()
        assert lines == [b"%d" % number for number in range(len(lines))], "no gap and no repeat"
        resumed = server.client.expect(200, "POST", f"{frozen.path}/resume").data
        assert resumed["restored"] == "memory"
        assert frozen.run("kill -0 $(cat /tmp/pid)")["exit_code"] == 0
        for each in (sandbox, frozen):
            each.delete()
