"""Snapshots, restores and forks."""
from harness.client import Sandbox
from operation import ALL, SNAPSHOTS, Operation


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
        status = self.settled(self.target)
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
        status = self.settled(self.target)
        assert status == ("running" if self.running else "paused"), status
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
        # A claim that failed while the node was away is undone in the background, and says so.
        return {each["id"] for each in page if self.parent.id == each.get("parent_id")
                and each["status"] != "terminating"}

    def check(self, answer):
        self.parent.client = self.client
        status = self.settled(self.parent)
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


class ForkOnePaused(Fork):
    """The child takes the moment for its disk and stands still before anybody is told of it."""
    body = {"start": False}


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
