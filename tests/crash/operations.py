"""Every operation that changes state, as a case of the crash tests needs it.

`prepare` makes the world it happens in, `run` asks for it once (an ApiError or a broken connection
means that nobody was promised anything), `check` compares with what may be: acknowledged, it has
happened whole; not acknowledged, whole or not at all. It ends by doing it again, which must work.
"""
import io
import json
import os
import secrets
import signal
import tarfile
import time

import witness
from harness.client import ApiError, Sandbox
from harness.server import wait_until

ALL = "/api/v1/sandboxes"
SNAPSHOTS = "/api/v1/sandbox-rootfs-snapshots"
# Written by a process that then waits for ever: its memory is there as long as it is.
HEARTBEAT = "echo $$ > /tmp/pid; exec sleep 1000000"


class NotDone(Exception):
    """The server said that it did not do it."""


class Operation:
    background = False   # happens by itself, after `run`

    def __init__(self, server):
        self.server, self.client = server, server.client

    def sandbox(self, **config):
        made = self.client.create(**config)
        made.content = secrets.token_hex(8)
        made.write("/home/user/promise", made.content)
        return made

    def living(self, **config):
        """One with a process whose life can be checked."""
        made = self.sandbox(**config)
        made.start(HEARTBEAT)
        wait_until(lambda: made.out("cat /tmp/pid 2>/dev/null || true"), 20, "the process runs")
        return made

    def post(self, sandbox, verb, body=None, status=200, headers=None):
        return self.client.expect(status, "POST", f"{sandbox.path}/{verb}", body, headers).data

    def alive(self, sandbox):
        return sandbox.run("kill -0 $(cat /tmp/pid)")["exit_code"] == 0

    def keeps(self, sandbox, content=None):
        """It answers, wakes up when it sleeps, and has its file."""
        sandbox.client = self.client
        assert sandbox.read("/home/user/promise").decode() == (content or sandbox.content)
        assert sandbox.out(["cat", "/home/user/promise"]) == (content or sandbox.content)

    def works_on(self, sandbox):
        """Everything can still be done with it, up to its end."""
        self.post(sandbox, "pause")
        self.post(sandbox, "resume")
        self.keeps(sandbox)
        sandbox.delete()

    def snapshot(self, sandbox, **fields):
        return self.post(sandbox, "snapshots", fields, 201)["id"]

    def prepare(self):
        raise NotImplementedError

    def run(self):
        raise NotImplementedError

    def check(self, answer):
        raise NotImplementedError


class Claim(Operation):
    count = 1

    def prepare(self):
        self.key = secrets.token_hex(8)
        self.body = {"template": "default", "config": {"metadata": {"key": self.key}}}
        if self.count > 1:
            self.body["count"] = self.count

    def run(self):
        answer = self.client.expect(201, "POST", ALL, self.body, {"Idempotency-Key": self.key}).data
        many = answer.get("sandboxes") or [answer]
        return {each.get("sandbox_id") or each["id"] for each in many}

    def mine(self):
        page = self.client.expect(200, "GET", f"{ALL}?limit=200").data["sandboxes"]
        return {each["id"] for each in page if (each.get("metadata") or {}).get("key") == self.key}

    def check(self, answer):
        before = self.mine()
        assert answer is None or before == answer, (before, answer)
        assert len(before) in (0, self.count), before
        again = self.run()
        assert answer is None or again == answer, "the key gives the same answer"
        assert not before or again == before
        assert self.mine() == again and len(again) == self.count
        for each in again:
            made = Sandbox(self.client, each)
            assert made.run(["true"])["exit_code"] == 0
            made.delete()


class ClaimMany(Claim):
    count = 3


class ClaimSnapshot(Claim):
    def prepare(self):
        super().prepare()
        self.source = self.sandbox()
        self.body = {"snapshot_id": self.snapshot(self.source),
                     "config": {"metadata": {"key": self.key}}}

    def check(self, answer):
        again = answer or self.run()
        made = Sandbox(self.client, next(iter(again)))
        self.keeps(made, self.source.content)
        super().check(answer)
        self.client.expect(200, "DELETE", f"{SNAPSHOTS}/{self.body['snapshot_id']}")
        self.works_on(self.source)


class Pause(Operation):
    memory = True

    def prepare(self):
        self.target = self.living()

    def run(self):
        return self.post(self.target, "pause", {"memory": self.memory})

    def check(self, answer):
        self.target.client = self.client
        status = self.target.get()["status"]
        assert status == "paused" or (status == "running" and answer is None), (status, answer)
        self.keeps(self.target)
        assert not self.memory or self.alive(self.target), "its memory is kept"
        self.works_on(self.target)


class PauseWithoutMemory(Pause):
    memory = False


class PauseAgainWithoutMemory(Pause):
    """Frozen already; now its memory goes."""
    memory = False

    def prepare(self):
        super().prepare()
        self.post(self.target, "pause")


class Resume(Operation):
    memory = True

    def prepare(self):
        self.target = self.living()
        self.post(self.target, "pause", {"memory": self.memory})

    def run(self):
        answer = self.post(self.target, "resume")
        assert answer["restored"] == ("memory" if self.memory else "filesystem"), answer
        return answer

    def check(self, answer):
        self.target.client = self.client
        status = self.target.get()["status"]
        assert status == "running" or (status == "paused" and answer is None), (status, answer)
        self.keeps(self.target)
        assert not self.memory or self.alive(self.target), "its memory is kept"
        self.works_on(self.target)


class ResumeFromDisk(Resume):
    memory = False


class ResumeByUse(Resume):
    def run(self):
        return self.target.read("/home/user/promise")


class Snapshot(Operation):
    paused = False

    def prepare(self):
        self.target = self.living()
        if self.paused:
            self.post(self.target, "pause")

    def run(self):
        return self.snapshot(self.target, name="moment")

    def check(self, answer):
        self.target.client = self.client
        status = self.target.get()["status"]
        assert status == ("paused" if self.paused else "running"), status
        listed = self.client.expect(200, "GET", f"{self.target.path}/snapshots").data["snapshots"]
        ids = {each["id"] for each in listed}
        assert answer is None or ids == {answer}, (ids, answer)
        assert len(ids) <= 1
        assert self.alive(self.target), "a snapshot disturbs nobody"
        self.target.write("/home/user/promise", "later")
        for each in ids or {self.run()}:
            made = self.client.expect(201, "POST", ALL, {"snapshot_id": each}).data
            child = Sandbox(self.client, made["sandbox_id"])
            if ids:
                self.keeps(child, self.target.content)
            child.delete()
            self.client.expect(200, "DELETE", f"{SNAPSHOTS}/{each}")
        self.keeps(self.target, "later")
        self.target.delete()


class SnapshotOfPaused(Snapshot):
    paused = True


class Restore(Operation):
    """The disk is the one of the snapshot or the one of now, and never a mixture."""
    running = False

    def prepare(self):
        self.target = self.sandbox()
        self.target.write("/home/user/second", "old")
        self.moment = self.snapshot(self.target)
        self.target.write("/home/user/promise", "now")
        self.target.write("/home/user/second", "new")
        self.target.write("/home/user/third", "new")
        if not self.running:
            self.post(self.target, "pause")

    def run(self):
        return self.post(self.target, "rootfs/restore",
                         {"snapshot_id": self.moment, "force": self.running})

    def disk(self):
        script = "cd /home/user; cat promise second; test ! -e third || cat third"
        return self.target.out(script)

    def check(self, answer):
        self.target.client = self.client
        status = self.target.get()["status"]
        assert status == "running" if self.running and answer else status in ("running", "paused")
        old = self.target.content + "old"
        disk = self.disk()
        assert disk == old or (answer is None and disk == "nownewnew"), disk
        self.post(self.target, "pause")
        self.post(self.target, "rootfs/restore", {"snapshot_id": self.moment})
        assert self.disk() == old
        self.client.expect(200, "DELETE", f"{SNAPSHOTS}/{self.moment}")
        self.works_on(self.target)


class RestoreRunning(Restore):
    running = True


class Fork(Operation):
    paused = False
    body = {"start": True}

    def prepare(self):
        self.parent = self.living()
        if self.paused:
            self.post(self.parent, "pause")

    def run(self):
        answer = self.post(self.parent, "fork", self.body, 201)
        return {each["id"] for each in answer["sandboxes"]}

    def children(self):
        page = self.client.expect(200, "GET", f"{ALL}?limit=200").data["sandboxes"]
        return {each["id"] for each in page if self.parent.id == each.get("parent_id")}

    def check(self, answer):
        self.parent.client = self.client
        status = self.parent.get()["status"]
        assert status == ("paused" if self.paused else "running"), status
        children = self.children()
        assert answer is None or children == answer, (children, answer)
        assert len(children) in (0, self.body.get("count", 1)), children
        assert self.alive(self.parent), "a fork disturbs nobody"
        for each in children | self.run():
            child = Sandbox(self.client, each)
            self.keeps(child, self.parent.content)
            child.delete()
        self.works_on(self.parent)


class ForkPaused(Fork):
    paused = True
    body = {"count": 2}


class Delete(Operation):
    paused = False

    def prepare(self):
        self.target = self.living()
        if self.paused:
            self.post(self.target, "pause")

    def run(self):
        return self.target.delete() or True

    def check(self, answer):
        self.target.client = self.client
        known = self.target.id in self.client.list_ids()
        assert not (answer and known), "an acknowledged deletion came back"
        if known:
            self.keeps(self.target)
            self.target.delete()


class DeletePaused(Delete):
    paused = True


class DeleteSnapshot(Operation):
    def prepare(self):
        self.target = self.sandbox()
        self.moment = self.snapshot(self.target)
        made = self.client.expect(201, "POST", ALL, {"snapshot_id": self.moment}).data
        self.child = Sandbox(self.client, made["sandbox_id"])

    def run(self):
        return self.client.expect(200, "DELETE", f"{SNAPSHOTS}/{self.moment}").data or True

    def check(self, answer):
        status = self.client.call("GET", f"{SNAPSHOTS}/{self.moment}").status
        assert status == 404 or (answer is None and status == 200), status
        self.keeps(self.child, self.target.content)
        if status == 200:
            made = self.client.expect(201, "POST", ALL, {"snapshot_id": self.moment}).data
            self.keeps(Sandbox(self.client, made["sandbox_id"]), self.target.content)
            self.client.expect(202, "DELETE", f"{ALL}/{made['sandbox_id']}")
            self.run()
        self.child.client = self.client
        self.child.delete()
        self.works_on(self.target)


class Update(Operation):
    def prepare(self):
        self.target = self.living(memory="512Mi")

    def run(self):
        return self.client.expect(200, "PUT", self.target.path, {
            "config": {"resources": {"memory": "640Mi"}, "metadata": {"A": "changed"}}}).data

    def check(self, answer):
        self.target.client = self.client
        changed = (self.target.get().get("metadata") or {}).get("A") == "changed"
        assert changed or answer is None
        limit = (640 if changed else 512) << 20
        wait_until(lambda: self.server.memory_limit(self.target.id) == limit, 20,
                   f"the cell has the limit of the row, {limit}")
        assert self.alive(self.target)
        self.run()
        assert self.server.memory_limit(self.target.id) == 640 << 20
        self.works_on(self.target)


class Background(Operation):
    """It happens by itself, once `run` has given it a reason."""
    background = True

    def check(self, answer):
        if answer is None:
            self.run()
        wait_until(self.happened, 30, f"{type(self).__name__} has happened")
        self.clean_up()


class ExpiryPauses(Background):
    def prepare(self):
        self.target = self.living()

    def run(self):
        self.client.expect(200, "PUT", self.target.path, {"config": {"ttl": 1}})
        return True

    def happened(self):
        return self.client.expect(200, "GET", self.target.path).data["status"] == "paused"

    def clean_up(self):
        self.target.client = self.client
        self.client.expect(200, "PUT", self.target.path, {"config": {"ttl": 0}})
        self.keeps(self.target)
        assert self.alive(self.target)
        self.works_on(self.target)


class ExpiryDeletes(Background):
    def prepare(self):
        self.target = self.sandbox()

    def run(self):
        self.client.expect(200, "PUT", self.target.path, {"config": {"hard_ttl": 1}})
        return True

    def happened(self):
        return self.target.id not in self.client.list_ids()

    def clean_up(self):
        pass


class ExpiryOfSnapshot(Background):
    def prepare(self):
        self.target = self.sandbox()

    def run(self):
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
        self.moment = self.snapshot(self.target, expires_at=soon)
        return True

    def happened(self):
        return self.client.call("GET", f"{SNAPSHOTS}/{self.moment}").status == 404

    def clean_up(self):
        self.target.client = self.client
        self.works_on(self.target)


class CellDies(Background):
    def prepare(self):
        self.target = self.sandbox()
        self.generation = self.target.get()["runtime_generation"]

    def run(self):
        os.kill(min(self.server.cell_processes(self.target.id)), signal.SIGKILL)
        return True

    def happened(self):
        now = self.client.expect(200, "GET", self.target.path).data
        return now["status"] == "running" and now["runtime_generation"] > self.generation

    def clean_up(self):
        self.target.client = self.client
        self.keeps(self.target)
        self.works_on(self.target)


class Restart(Background):
    """A daemon dies by itself; the point is passed by the next one, which puts things in order."""
    victim = "node"

    def prepare(self):
        self.running, self.frozen, self.asleep = self.living(), self.living(), self.living()
        self.post(self.frozen, "pause")
        self.post(self.asleep, "pause", {"memory": False})
        self.dead = self.sandbox()

    def run(self):
        if self.victim == "node":
            # Its cell dies while nobody looks.
            os.kill(min(self.server.cell_processes(self.dead.id)), signal.SIGKILL)
        self.killed = self.server.daemons()[self.victim]
        os.kill(self.killed, signal.SIGKILL)
        return True

    def happened(self):
        now = self.server.daemons().get(self.victim)
        return now not in (None, self.killed) and witness.ready(self.server)

    def clean_up(self):
        for each in (self.running, self.frozen):
            each.client = self.client
        assert self.frozen.get()["status"] == "paused"
        for each in (self.running, self.frozen, self.asleep, self.dead):
            self.keeps(each)
        assert self.alive(self.running) and self.alive(self.frozen)
        for each in (self.running, self.frozen, self.asleep, self.dead):
            each.delete()


class RestartOfApi(Restart):
    victim = "api"


def context_of(dockerfile):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(dockerfile)
        tar.addfile(info, io.BytesIO(dockerfile.encode()))
    return out.getvalue()


class BuildTemplate(Operation):
    def prepare(self):
        self.name = f"t-{secrets.token_hex(6)}"

    def run(self):
        context = context_of(f"FROM default\nRUN echo {self.name} > /made\n")
        lines = self.client.expect(200, "POST", f"/api/v1/templates/{self.name}/build", context,
                                   {"Content-Type": "application/x-tar"}).body.splitlines()
        if self.state() != "ready":
            raise NotDone(lines)
        return True

    def state(self):
        answer = self.client.call("GET", f"/api/v1/templates/{self.name}")
        return answer.data["status"]["creation"]["state"] if answer.status == 200 else None

    def check(self, answer):
        wait_until(lambda: self.state() in (None, "ready", "failed"), 30, "the build has ended")
        assert self.state() == "ready" or answer is None
        if self.state() != "ready":
            self.run()
        made = self.client.create(template=self.name)
        assert made.read("/made").decode() == self.name + "\n"
        made.delete()
        self.client.expect(200, "DELETE", f"/api/v1/templates/{self.name}")
        assert self.state() is None


class DeleteTemplate(BuildTemplate):
    def prepare(self):
        super().prepare()
        super().run()

    def run(self):
        self.client.expect(200, "DELETE", f"/api/v1/templates/{self.name}")
        return True

    def check(self, answer):
        state = self.state()
        assert state is None or (answer is None and state == "ready"), state
        if state == "ready":
            made = self.client.create(template=self.name)
            assert made.read("/made").decode() == self.name + "\n"
            made.delete()
            self.run()


OPERATIONS = [Claim, ClaimMany, ClaimSnapshot, Pause, PauseWithoutMemory, PauseAgainWithoutMemory,
              Resume, ResumeFromDisk, ResumeByUse, Snapshot, SnapshotOfPaused, Restore,
              RestoreRunning, Fork, ForkPaused, Delete, DeletePaused, DeleteSnapshot, Update,
              ExpiryPauses, ExpiryDeletes, ExpiryOfSnapshot, CellDies, Restart, RestartOfApi,
              BuildTemplate, DeleteTemplate]
# What a broken answer looks like to a client.
NOT_ACKNOWLEDGED = (ApiError, NotDone, OSError, json.JSONDecodeError)
