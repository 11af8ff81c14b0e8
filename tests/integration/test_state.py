"""Pausing, snapshots, restoring and forks of real sandboxes."""
import threading
import time

import pytest

from harness.client import Sandbox

COUNTER = ("import time\ni = 0\nwhile True:\n    i += 1\n    open('/tmp/count', 'w').write(str(i))\n"
           "    time.sleep(0.02)\n")


def call(sandbox, what, body=None, status=200):
    return sandbox.client.expect(status, "POST", f"{sandbox.path}/{what}", body).data


def count(sandbox):
    return int(sandbox.read("/tmp/count") or b"0")


def python(sandbox):
    answer = sandbox.client.expect(201, "POST", f"{sandbox.path}/contexts",
                                   {"type": "repl", "repl": {"alias": "python"}})
    return answer.data["id"]


def run_code(sandbox, context, code):
    answer = sandbox.client.expect(200, "POST", f"{sandbox.path}/contexts/{context}/exec",
                                   {"data": code})
    return answer.data["output_raw"]


@pytest.fixture
def begin(client):
    """Sandboxes that begin as a snapshot and live as long as the test."""
    made = []

    def make(snapshot_id):
        data = client.expect(201, "POST", "/api/v1/sandboxes", {"snapshot_id": snapshot_id}).data
        made.append(Sandbox(client, data["sandbox_id"]))
        return made[-1]
    yield make
    for sandbox in made:
        client.call("DELETE", sandbox.path)


@pytest.fixture
def fork(client):
    """Forks that live as long as the test."""
    made = []

    def make(parent, body=None):
        answer = client.expect(201, "POST", f"{parent.path}/fork", body).data
        assert answer["source_sandbox_id"] == parent.id
        assert answer["sandboxes"][0]["id"] == answer["sandbox"]["id"]
        children = [Sandbox(client, child["id"]) for child in answer["sandboxes"]]
        made.extend(children)
        return children
    yield make
    for sandbox in made:
        client.call("DELETE", sandbox.path)


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_processes_go_on_where_they_were(create):
    sandbox = create()
    context = python(sandbox)
    run_code(sandbox, context, "x = 41; f = open('/tmp/kept', 'w'); f.write('a'); f.flush()")
    counter = sandbox.start(["python3", "-c", COUNTER])
    wait_for(lambda: sandbox.client.call("GET", sandbox.file_path("/tmp/count")).status == 200
             and count(sandbox) > 3)
    paused = call(sandbox, "pause")
    assert paused["paused"] is True and paused["status"] == "paused"
    assert paused["memory"] == "frozen"
    described = sandbox.get()
    assert described["status"] == "paused" and described["paused"] is True
    generation = described["runtime_generation"]

    resumed = call(sandbox, "resume")
    assert resumed["restored"] == "memory"
    assert resumed["runtime_generation"] == generation + 1
    before = count(sandbox)
    wait_for(lambda: count(sandbox) > before)
    assert run_code(sandbox, context, "x + 1").strip().endswith("42")
    run_code(sandbox, context, "f.write('b'); f.flush()")
    assert sandbox.read("/tmp/kept") == b"ab"
    contexts = sandbox.client.expect(200, "GET", f"{sandbox.path}/contexts").data["contexts"]
    assert {c["pid"] for c in contexts if c["id"] == counter["id"]} == {counter["pid"]}


def test_a_paused_one_uses_no_cpu(create):
    sandbox = create()
    sandbox.start(["sh", "-c", "while :; do :; done"])
    call(sandbox, "pause")
    usage = lambda: sandbox.client.expect(
        200, "GET", f"{sandbox.path}/metrics").data
    first = usage()
    assert sandbox.get()["status"] == "paused", "looking does not wake it up"
    second = usage()
    assert sandbox.get()["status"] == "paused"
    assert first and second


def test_use_wakes_it_up_once(create):
    sandbox = create()
    sandbox.out(["sh", "-c", "echo kept > /tmp/file"])
    call(sandbox, "pause")
    generation = sandbox.get()["runtime_generation"]
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(sandbox.out(["cat", "/tmp/file"])))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == ["kept\n"] * 8
    assert sandbox.get()["runtime_generation"] == generation + 1


def test_without_auto_resume_it_stays_asleep(create):
    sandbox = create(auto_resume=False)
    call(sandbox, "pause")
    answer = sandbox.client.call("GET", sandbox.file_path("/etc/hostname"))
    assert answer.status == 503
    assert sandbox.get()["status"] == "paused"
    call(sandbox, "resume")
    assert sandbox.read("/etc/hostname")


def test_without_memory_the_files_stay(create):
    sandbox = create()
    sandbox.out(["sh", "-c", "echo kept > /root/file; echo also > /tmp/file"], user="root")
    paused = call(sandbox, "pause", {"memory": False})
    assert paused["memory"] == "none"
    resumed = call(sandbox, "resume")
    assert resumed["restored"] == "filesystem" and resumed["reason"]
    assert sandbox.out(["cat", "/root/file", "/tmp/file"], user="root") == "kept\nalso\n"


def test_ttl_pauses_and_use_brings_it_back(create):
    sandbox = create(ttl=1)
    sandbox.out(["sh", "-c", "echo kept > /tmp/file"])
    wait_for(lambda: sandbox.get()["status"] == "paused")
    assert sandbox.read("/tmp/file") == b"kept\n"
    assert sandbox.get()["status"] == "running"


def test_snapshot_restore_and_claim(create, client, begin):
    sandbox = create()
    sandbox.write("/workspace/a", "good")
    snapshot = call(sandbox, "snapshots", {"name": "good", "description": "first"}, 201)
    assert snapshot["sandbox_id"] == sandbox.id and snapshot["name"] == "good"
    sandbox.out("echo bad > /workspace/a; rm /etc/debian_version; echo x > /workspace/b", user="root")
    listed = client.expect(200, "GET", f"{sandbox.path}/snapshots").data
    assert listed["count"] == 1 and listed["snapshots"][0]["id"] == snapshot["id"]

    refused = client.call("POST", f"{sandbox.path}/rootfs/restore", {"snapshot_id": snapshot["id"]})
    assert refused.status == 409
    child = begin(snapshot["id"])
    assert child.read("/workspace/a") == b"good"
    assert child.get()["parent_id"] == sandbox.id
    assert child.read("/etc/debian_version")
    restored = call(sandbox, "rootfs/restore", {"snapshot_id": snapshot["id"], "force": True})
    assert restored["status"] == "running"
    assert sandbox.read("/workspace/a") == b"good"
    assert sandbox.read("/etc/debian_version")
    assert client.call("GET", sandbox.file_path("/workspace/b")).status == 404
    path = f"/api/v1/sandbox-rootfs-snapshots/{snapshot['id']}"
    assert client.expect(200, "GET", path).data["id"] == snapshot["id"]
    client.expect(200, "DELETE", path)
    assert client.call("GET", path).status == 404
    assert child.read("/workspace/a") == b"good", "what was made from it is not touched"


def test_a_snapshot_of_a_writing_sandbox_is_consistent(create, client, begin):
    """Two files that are always written one after the other never differ by more than one."""
    sandbox = create()
    sandbox.start(["python3", "-c",
                   "import os\ni = 0\nwhile True:\n    i += 1\n    for n in 'ab':\n"
                   "        f = os.open('/workspace/.' + n, os.O_WRONLY | os.O_CREAT)\n"
                   "        os.write(f, b'%012d' % i)\n        os.close(f)\n"])
    wait_for(lambda: client.call("GET", sandbox.file_path("/workspace/.b")).status == 200)
    for _ in range(5):
        snapshot = call(sandbox, "snapshots", {}, 201)
        child = begin(snapshot["id"])
        first, second = (int(child.read(f"/workspace/.{n}")) for n in "ab")
        assert first - second in (0, 1), (first, second)
        client.expect(200, "DELETE", f"/api/v1/sandbox-rootfs-snapshots/{snapshot['id']}")


def test_forks_have_the_files_and_an_identity_of_their_own(create, fork):
    parent = create()
    parent.write("/workspace/file", "shared")
    children = fork(parent, {"count": 3, "start": True})
    assert len({child.id for child in children} | {parent.id}) == 4
    for child in children:
        described = child.get()
        assert described["status"] == "running" and described["parent_id"] == parent.id
        assert child.read("/workspace/file") == b"shared"
        assert child.out(["hostname"]).strip() == child.id
    parent.write("/workspace/file", "changed")
    children[1].write("/workspace/file", "mine")
    assert children[0].read("/workspace/file") == b"shared"
    assert parent.read("/workspace/file") == b"changed"


def test_a_fork_of_the_contract_begins_paused_and_wakes_up(create, client, fork):
    parent = create()
    parent.write("/workspace/file", "shared")
    child = fork(parent)[0]
    assert child.get()["status"] == "paused" and child.get()["paused"] is True
    assert child.read("/workspace/file") == b"shared"
    assert child.get()["status"] == "running"


def test_generations_of_forks(create, fork):
    current = create()
    for generation in range(12):
        current.write(f"/workspace/g{generation}", "x")
        current = fork(current, {"start": True})[0]
    names = sorted(entry["name"] for entry in current.list("/workspace"))
    assert names == sorted(f"g{i}" for i in range(12))
