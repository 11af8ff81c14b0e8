"""Sandboxes: claimed, paused, resumed, changed, deleted."""
import secrets

from harness.client import Sandbox
from harness.server import wait_until
from operation import ALL, SNAPSHOTS, Operation


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
        # One whose claim failed is on its way out and says so; a later claim makes another.
        return {each["id"] for each in page if (each.get("metadata") or {}).get("key") == self.key
                and each["status"] != "terminating"}

    def check(self, answer):
        before = self.mine()
        assert answer is None or before == answer, (before, answer)
        assert len(before) in (0, self.count), before
        again = self.run()
        assert answer is None or again == answer, "the key gives the same answer"
        assert not before or again == before, (again, before)
        mine = self.mine()
        assert mine == again and len(again) == self.count, (mine, again)
        for each in again:
            made = Sandbox(self.client, each)
            ran = made.run(["true"])
            assert ran["exit_code"] == 0, (ran, made.get())
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
        status = self.settled(self.target)
        assert status == "paused" or (status == "running" and answer is None), (status, answer)
        self.keeps(self.target)
        assert not self.memory or self.alive(self.target), "its memory is kept"
        self.works_on(self.target)


class PauseWithoutMemory(Pause):
    memory = False


class PauseToDisk(Pause):
    """Where the host has no criu this is a pause like any other."""
    memory = "disk"


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
        status = self.settled(self.target)
        assert status == "running" or (status == "paused" and answer is None), (status, answer)
        self.keeps(self.target)
        assert not self.memory or self.alive(self.target), "its memory is kept"
        self.works_on(self.target)


class ResumeFromDisk(Resume):
    memory = False


class ResumeByUse(Resume):
    def run(self):
        return self.target.read("/home/user/promise")


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
