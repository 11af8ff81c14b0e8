"""Volumes: made, forked, gone back in, deleted, with sandboxes that have them mounted."""
import secrets

from harness.client import Sandbox, Volume
from harness.server import wait_until
from operation import ALL, VOLUMES, HEARTBEAT, Operation
from operations_disks import Fork


class VolumeOperation(Operation):
    def volume(self, **fields):
        made = self.client.create_volume(access_mode="RWX", size="32Mi", **fields)
        made.content = secrets.token_hex(8)
        made.write("/promise", made.content)
        return made

    def volumes(self, **fields):
        """Of all volumes those that look so."""
        every = self.client.expect(200, "GET", VOLUMES).data
        return {each["id"] for each in every if fields.items() <= each.items()}

    def holds(self, volume_id, content):
        assert Volume(self.client, volume_id).read("/promise").decode() == content

    def works(self, volume, content):
        volume.client = self.client
        self.holds(volume.id, content)
        moment = volume.snapshot()["id"]
        volume.write("/promise", "else")
        volume.restore(moment)
        self.holds(volume.id, content)
        volume.delete()
        assert self.client.call("GET", volume.path).status == 404


class CreateVolume(VolumeOperation):
    def prepare(self):
        self.owner = secrets.randbelow(60_000)

    def run(self):
        return self.client.create_volume(size="32Mi", default_posix_uid=self.owner).id

    def check(self, answer):
        made = self.volumes(default_posix_uid=self.owner)
        assert answer is None or made == {answer}, (made, answer)
        for each in made | {self.run()}:
            volume = Volume(self.client, each)
            volume.write("/promise", "x")
            self.works(volume, "x")


class ForkVolume(VolumeOperation):
    def prepare(self):
        self.target = self.volume()

    def run(self):
        return self.target.fork().id

    def check(self, answer):
        self.target.client = self.client
        made = self.volumes(source_volume_id=self.target.id)
        assert answer is None or made == {answer}, (made, answer)
        for each in made | {self.run()}:
            self.works(Volume(self.client, each), self.target.content)
        self.works(self.target, self.target.content)


class SnapshotVolume(VolumeOperation):
    def prepare(self):
        self.target = self.volume()

    def run(self):
        return self.target.snapshot()["id"]

    def check(self, answer):
        self.target.client = self.client
        path = f"{self.target.path}/snapshots"
        made = {each["id"] for each in self.client.expect(200, "GET", path).data}
        assert answer is None or made == {answer}, (made, answer)
        self.target.write("/promise", "later")
        for each in made:
            begun = self.client.create_volume(snapshot_id=each)
            self.holds(begun.id, self.target.content)
            begun.delete()
        self.works(self.target, "later")


class RestoreVolume(VolumeOperation):
    """Mounted in a sandbox that runs, which is stopped for it."""

    def prepare(self):
        self.target = self.volume()
        self.moment = self.target.snapshot()["id"]
        self.target.write("/promise", "now")
        made = self.client.expect(201, "POST", ALL, {
            "template": "default",
            "mounts": [{"sandboxvolume_id": self.target.id, "mount_point": "/data"}]}).data
        self.user = Sandbox(self.client, made["sandbox_id"])

    def run(self):
        return self.target.restore(self.moment, force=True) or True

    def check(self, answer):
        self.target.client = self.user.client = self.client
        disk = self.user.out(["cat", "/data/promise"])
        assert disk == self.target.content or (answer is None and disk == "now"), disk
        self.holds(self.target.id, disk)
        self.run()
        assert self.user.out(["cat", "/data/promise"]) == self.target.content
        self.user.delete()
        self.works(self.target, self.target.content)


class DeleteVolume(RestoreVolume):
    def run(self):
        return self.target.delete(force=True) or True

    def check(self, answer):
        self.target.client = self.user.client = self.client
        known = self.target.id in self.volumes()
        assert not (answer and known), "an acknowledged deletion came back"
        assert self.user.run(["true"])["exit_code"] == 0
        if known:
            self.holds(self.target.id, "now")
            self.run()
            assert not self.volumes(id=self.target.id)
        self.user.delete()


class DeleteVolumeSnapshot(VolumeOperation):
    def prepare(self):
        self.target = self.volume()
        self.moment = self.target.snapshot()["id"]

    def run(self):
        path = f"{self.target.path}/snapshots/{self.moment}"
        return self.client.expect(200, "DELETE", path).data or True

    def check(self, answer):
        self.target.client = self.client
        path = f"{self.target.path}/snapshots/{self.moment}"
        status = self.client.call("GET", path).status
        assert status == 404 or (answer is None and status == 200), status
        if status == 200:
            self.target.restore(self.moment)
            self.run()
        self.works(self.target, self.target.content)


class ForkWithVolume(Fork):
    """A volume that is for one sandbox is forked with it."""

    def prepare(self):
        self.volume = self.client.create_volume(size="32Mi")
        self.volume.write("/promise", "volume")
        made = self.client.expect(201, "POST", ALL, {
            "template": "default",
            "mounts": [{"sandboxvolume_id": self.volume.id, "mount_point": "/data"}]}).data
        self.parent = Sandbox(self.client, made["sandbox_id"])
        self.parent.content = secrets.token_hex(8)
        self.parent.write("/home/user/promise", self.parent.content)
        self.parent.start(HEARTBEAT)
        wait_until(lambda: self.parent.out("cat /tmp/pid 2>/dev/null || true"), 20, "it runs")

    def keeps(self, sandbox, content=None):
        super().keeps(sandbox, content)
        assert sandbox.out(["cat", "/data/promise"]) == "volume"

    def check(self, answer):
        super().check(answer)
        for each in self.client.expect(200, "GET", VOLUMES).data:
            assert each["id"] == self.volume.id or each["source_volume_id"] == self.volume.id, each
            Volume(self.client, each["id"]).delete()
