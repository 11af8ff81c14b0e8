"""Every operation that changes state, as a case of the crash tests needs it.

`prepare` makes the world it happens in, `run` asks for it once (an ApiError or a broken connection
means that nobody was promised anything), `check` compares with what may be: acknowledged, it has
happened whole; not acknowledged, whole or not at all. It ends by doing it again, which must work.
"""
import secrets

from harness.server import wait_until

ALL = "/api/v1/sandboxes"
SNAPSHOTS = "/api/v1/sandbox-rootfs-snapshots"
VOLUMES = "/api/v1/sandboxvolumes"
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

    def settled(self, sandbox):
        """Its status, once whatever the crash has left undone is over: a cell that died under an
        operation is made again, and until then its sandbox says that it starts."""
        sandbox.client = self.client
        return wait_until(lambda: (status := sandbox.get()["status"]) != "starting" and status, 60,
                          "the sandbox is settled")

    def snapshot(self, sandbox, **fields):
        return self.post(sandbox, "snapshots", fields, 201)["id"]

    def prepare(self):
        raise NotImplementedError

    def run(self):
        raise NotImplementedError

    def check(self, answer):
        raise NotImplementedError
