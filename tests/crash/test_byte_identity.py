"""Random trees through random pauses, resumes, snapshots, restores, forks and deletions.

Beside every sandbox and every snapshot stands a model of what is in it (tree_model.py). After each
step the sandbox it was about is compared with its model, path by path: names, kinds, modes, owners,
hard links, contents, times, extended attributes, link targets. The trees are one of our own and one
that came with the template, so that removals leave whiteouts. A program writes a file all the time:
whatever moment a snapshot has caught, the file has no gap.

The seed is printed; ATOLL_IDENTITY_SEED and ATOLL_IDENTITY_STEPS run it again.
"""
import json
import os
import pathlib
import random

import pytest

import tree_tool
import witness
from harness.client import Sandbox
from harness.server import Server, wait_until
from tree_model import TreeModel

SEED = int(os.environ.get("ATOLL_IDENTITY_SEED", random.SystemRandom().randrange(1 << 32)))
WHOLE = os.environ.get("ATOLL_CRASH_CASES") == "all"
STEPS = int(os.environ.get("ATOLL_IDENTITY_STEPS", "250" if WHOLE else "40"))
# The second and third came with the template, and our own program does not need them.
ROOTS = ["/data", "/usr/lib/python3.11/wsgiref", "/usr/lib/python3.11/xml"]
TOOL = "/home/user/tree_tool.py"
RECORD = 13
WRITER = ("import os, time\nf = os.open('/home/user/growing', os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
          "i = os.fstat(f).st_size // 13\n"
          "while True:\n    os.write(f, b'%012d\\n' % i)\n    i += 1\n    time.sleep(0.001)\n")
MOST_SANDBOXES = 4
MOST_SNAPSHOTS = 5
ALL = "/api/v1/sandboxes"


class Tracked:
    """A sandbox, its model, and how many records its writer is known to have made."""

    def __init__(self, sandbox, model, records=0, paused=False):
        self.sandbox, self.model, self.records, self.paused = sandbox, model, records, paused

    def tool(self, *words):
        return self.sandbox.out(["python3", "-IB", TOOL, *words], user="root")

    def change(self, generator):
        changes = self.model.changes(generator, generator.randrange(1, 30))
        self.sandbox.write("/home/user/changes", json.dumps(changes))
        self.tool("apply", "/home/user/changes")

    def compare(self, what):
        self.paused = False   # looking wakes it up
        if self.tool("digest", *ROOTS).strip() != self.model.digest():
            real = self.tool("manifest", *ROOTS).splitlines()
            model = self.model.manifest()
            raise AssertionError(f"{what} (seed {SEED}): the tree is not the model's\n"
                                 f"only real: {sorted(set(real) - set(model))[:8]}\n"
                                 f"only model: {sorted(set(model) - set(real))[:8]}")
        written = self.sandbox.read("/home/user/growing")
        count = len(written) // RECORD
        assert written == b"".join(b"%012d\n" % i for i in range(count)), f"{what} (seed {SEED})"
        assert count >= self.records, f"{what} (seed {SEED}): records are lost"
        self.records = count

    def start_writer(self):
        self.sandbox.start(["python3", "-IB", "-c", WRITER], user="root")


class World:
    def __init__(self, server, generator):
        self.server, self.client, self.generator = server, server.client, generator
        self.sandboxes, self.snapshots = [], {}
        self.counts = {}

    def begin(self):
        sandbox = self.client.create(disk="2Gi")
        sandbox.out("mkdir /data", user="root")
        sandbox.write(TOOL, pathlib.Path(tree_tool.__file__).read_text())
        described = sandbox.out(["python3", "-IB", TOOL, "manifest", *ROOTS], user="root")
        tracked = Tracked(sandbox, TreeModel(ROOTS, described.splitlines()))
        tracked.start_writer()
        wait_until(lambda: self.client.call("GET", sandbox.file_path("/home/user/growing")).status == 200,
                   20, "the writer writes")
        tracked.change(self.generator)
        tracked.compare("begin")
        self.sandboxes.append(tracked)

    def post(self, tracked, verb, body=None, status=200):
        return self.client.expect(status, "POST", f"{tracked.sandbox.path}/{verb}", body).data

    def step(self):
        verbs = {name: getattr(self, name) for name in STEP_NAMES}
        name = self.generator.choice(STEP_NAMES)
        tracked = verbs[name](self.generator.choice(self.sandboxes))
        if tracked is None:
            return False
        self.counts[name] = self.counts.get(name, 0) + 1
        if tracked in self.sandboxes and not tracked.paused:
            tracked.compare(name)
        return True

    # Steps: the sandbox to look at afterwards, None when it cannot be done now ---------------------
    def change(self, tracked):
        tracked.change(self.generator)
        tracked.paused = False
        return tracked

    def pause(self, tracked):
        tracked.records = 0 if tracked.paused else len(tracked.sandbox.read("/home/user/growing")) // RECORD
        self.post(tracked, "pause")
        tracked.paused = True
        return tracked

    def pause_without_memory(self, tracked):
        self.post(tracked, "pause", {"memory": False})
        tracked.paused = True
        return tracked

    def resume(self, tracked):
        if not tracked.paused:
            return None
        answer = self.post(tracked, "resume")
        tracked.paused = False
        if answer["restored"] == "filesystem":
            tracked.start_writer()
        return tracked

    def snapshot(self, tracked):
        if len(self.snapshots) >= MOST_SNAPSHOTS:
            return None
        made = self.post(tracked, "snapshots", {}, 201)["id"]
        self.snapshots[made] = (tracked.model.copy(), tracked.records)
        return tracked

    def restore(self, tracked):
        if not self.snapshots:
            return None
        moment = self.generator.choice(sorted(self.snapshots))
        model, records = self.snapshots[moment]
        self.post(tracked, "rootfs/restore", {"snapshot_id": moment, "force": True})
        tracked.model, tracked.records = model.copy(), records
        tracked.paused = tracked.sandbox.get()["paused"]
        return tracked

    def fork(self, tracked):
        if len(self.sandboxes) >= MOST_SANDBOXES:
            return None
        start = self.generator.random() < 0.5
        answer = self.post(tracked, "fork", {"start": start}, 201)
        child = Tracked(Sandbox(self.client, answer["sandboxes"][0]["id"]), tracked.model.copy(),
                        tracked.records, paused=not start)
        self.sandboxes.append(child)
        child.compare("fork")
        return tracked

    def claim(self, _):
        if not self.snapshots or len(self.sandboxes) >= MOST_SANDBOXES:
            return None
        moment = self.generator.choice(sorted(self.snapshots))
        model, records = self.snapshots[moment]
        made = self.client.expect(201, "POST", ALL, {"snapshot_id": moment}).data["sandbox_id"]
        child = Tracked(Sandbox(self.client, made), model.copy(), records)
        self.sandboxes.append(child)
        return child

    def delete(self, tracked):
        if len(self.sandboxes) < 2:
            return None
        tracked.sandbox.delete()
        self.sandboxes.remove(tracked)
        return tracked

    def delete_snapshot(self, tracked):
        if not self.snapshots:
            return None
        moment = self.generator.choice(sorted(self.snapshots))
        self.client.expect(200, "DELETE", f"/api/v1/sandbox-rootfs-snapshots/{moment}")
        del self.snapshots[moment]
        return tracked

    def end(self):
        for tracked in self.sandboxes:
            tracked.compare("at the end")
        for moment, (model, records) in self.snapshots.items():
            made = self.client.expect(201, "POST", ALL, {"snapshot_id": moment}).data["sandbox_id"]
            last = Tracked(Sandbox(self.client, made), model, records)
            last.compare(f"snapshot {moment}")
            last.sandbox.delete()
            self.client.expect(200, "DELETE", f"/api/v1/sandbox-rootfs-snapshots/{moment}")
        for tracked in self.sandboxes:
            tracked.sandbox.delete()


STEP_NAMES = ["change", "change", "change", "pause", "pause_without_memory", "resume", "resume",
              "snapshot", "restore", "fork", "claim", "delete", "delete_snapshot"]


@pytest.fixture
def server():
    with Server() as running:
        yield running


def test_every_byte_is_where_it_was(server, request):
    print(f"ATOLL_IDENTITY_SEED={SEED} ATOLL_IDENTITY_STEPS={STEPS}")
    world = World(server, random.Random(SEED))
    world.begin()
    done = 0
    while done < STEPS:
        done += world.step()
    world.end()
    witness.agree(server)
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line(f"\nbyte identity: {done} steps of seed {SEED}: "
                        + ", ".join(f"{count} {name}" for name, count in sorted(world.counts.items())))
