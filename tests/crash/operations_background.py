"""What happens by itself: ends of lives, restarts; and templates, which are built by jobs."""
import io
import os
import secrets
import signal
import tarfile
import time

import witness
from harness import kernel
from harness.server import wait_until
from operation import SNAPSHOTS, NotDone, Operation


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
        self.killed = self.server.daemons()[self.victim]
        if self.victim == "node":
            # One cell dies while nobody looks.
            os.kill(self.killed, signal.SIGSTOP)
            guest = min(self.server.cell_processes(self.dead.id))
            os.kill(guest, signal.SIGKILL)
            wait_until(lambda: not kernel.alive(guest), 20, "the cell is dead")
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
