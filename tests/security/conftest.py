"""The attacker and the world it must not touch.

`attack` runs a probe (tests/security/probes/prelude.py plus the test's own lines) as root inside a
sandbox and returns what it got. `world` holds the host's canaries: things an escaped program could
read, change, signal or connect to, all of them open to everybody, so that nothing but isolation
protects them. After every probe the canaries are looked at again.

`pytest tests/security --control` runs the probes marked `control` on the host itself, in a private
mount namespace, and expects each to FAIL its assertions: it shows that the probe would notice.
"""
import ctypes
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading

import pytest

from harness.server import ENVIRONMENT_SECRET

PRELUDE = (pathlib.Path(__file__).parent / "probes" / "prelude.py").read_text()
ATTACK_MEMORY = "1Gi"


def pytest_addoption(parser):
    parser.addoption("--control", action="store_true",
                     help="run the harmless probes on the host and expect them to fail")


def pytest_configure(config):
    config.addinivalue_line("markers", "control: the probe may run on the host, where it must fail")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--control"):
        kept = [item for item in items if item.get_closest_marker("control")]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if item.config.getoption("--control") and report.when == "call":
        if report.outcome == "passed":
            report.outcome = "failed"
            report.longrepr = "the probe notices nothing: it passes on the bare host"
        elif call.excinfo is not None and call.excinfo.errisinstance(AssertionError):
            report.outcome = "passed"


class World:
    """Canaries on the host."""

    def __init__(self):
        self.secret = secrets.token_hex(16)
        self.directory = tempfile.mkdtemp(prefix="atoll-canary-")
        os.chmod(self.directory, 0o777)
        self.file = os.path.join(self.directory, "open.txt")
        pathlib.Path(self.file).write_text(self.secret)
        os.chmod(self.file, 0o666)
        self.before = os.stat(self.file)
        self.process = subprocess.Popen(["/bin/sleep", "86400"],
                                        env={"CANARY": self.secret, "PATH": "/bin"})
        self.hits = []
        self.abstract_name = "atoll-canary-" + secrets.token_hex(4)
        self.socket_path = os.path.join(self.directory, "socket")
        self.tcp = socket.create_server(("0.0.0.0", 0))
        self.tcp_port = self.tcp.getsockname()[1]
        self.listeners = [self.tcp]
        for address in ("\0" + self.abstract_name, self.socket_path):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(address)
            listener.listen()
            self.listeners.append(listener)
        os.chmod(self.socket_path, 0o777)
        for listener in self.listeners:
            threading.Thread(target=self.serve, args=(listener,), daemon=True).start()
        self.shm_path = "/dev/shm/atoll-canary-" + secrets.token_hex(4)
        pathlib.Path(self.shm_path).write_text(self.secret)
        os.chmod(self.shm_path, 0o666)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.shmat.restype = ctypes.c_void_p
        self.shm_key = secrets.randbelow(2**30) + 1
        self.shm_id = self.libc.shmget(self.shm_key, 4096, 0o1666)
        assert self.shm_id >= 0
        address = self.libc.shmat(self.shm_id, None, 0)
        ctypes.memmove(address, self.secret.encode(), len(self.secret))
        self.libc.shmdt(ctypes.c_void_p(address))

    def serve(self, listener):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            self.hits.append(listener)
            try:
                peer.sendall(self.secret.encode())
            except OSError:
                pass
            peer.close()

    def check(self):
        """Fails when a canary was touched."""
        now = os.stat(self.file)
        assert pathlib.Path(self.file).read_text() == self.secret, "the host's file was changed"
        assert (now.st_mtime_ns, now.st_mode, now.st_uid, now.st_ino) == (
            self.before.st_mtime_ns, self.before.st_mode, self.before.st_uid, self.before.st_ino)
        assert self.process.poll() is None, "the host's process was ended"
        assert not self.hits, "a listener of the host was reached"

    def close(self):
        self.process.kill()
        self.process.wait()
        for listener in self.listeners:
            listener.close()
        os.unlink(self.shm_path)
        self.libc.shmctl(self.shm_id, 0, None)
        shutil.rmtree(self.directory)


@pytest.fixture(scope="session")
def world():
    canaries = World()
    yield canaries
    canaries.close()


@pytest.fixture(autouse=True)
def canaries_stay_untouched(request):
    if request.config.getoption("--control"):
        yield
        return
    world = request.getfixturevalue("world")
    yield
    world.check()


class Attacker:
    """Root in a sandbox."""

    def __init__(self, sandbox, world):
        self.sandbox = sandbox
        self.world = world

    def execute(self, program, seconds):
        done = self.sandbox.run(["python3", "-I", "-c", program], user="root",
                                timeout_ms=seconds * 1000)
        return done["exit_code"], done["stdout"], done["stderr"]

    def __call__(self, code, seconds=30, **values):
        """Runs a probe; `values` become its global variables."""
        values = {"CANARY": self.world.file, "SHM_KEY": self.world.shm_key,
                  "SHM_PATH": self.world.shm_path, "ABSTRACT": self.world.abstract_name,
                  "SOCKET_PATH": self.world.socket_path, "TCP_PORT": self.world.tcp_port,
                  "HOST_PID": self.world.process.pid, **values}
        lines = "\n".join(f"{name} = {value!r}" for name, value in values.items())
        program = f"{PRELUDE}\n{lines}\n{textwrap.dedent(code)}\nprint(json.dumps(got))\n"
        exit_code, stdout, stderr = self.execute(program, seconds)
        if exit_code != 0:
            raise RuntimeError(f"the probe itself broke ({exit_code}): {stderr[-3000:]}")
        for secret in (self.world.secret, ENVIRONMENT_SECRET):
            assert secret not in stdout + stderr, "the attacker read a secret of the host"
        return json.loads(stdout.strip().splitlines()[-1])


class HostAttacker(Attacker):
    """Root on the bare host, for the control run."""

    def execute(self, program, seconds):
        environment = {**os.environ, "ATOLL_TEST_ENVIRONMENT_SECRET": ENVIRONMENT_SECRET}
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable,
                               "-I", "-c", program], capture_output=True, text=True,
                              timeout=seconds, env=environment)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="session")
def attack(request, world):
    """The usual attacker; probes leave its sandbox usable for the next one."""
    if request.config.getoption("--control"):
        yield HostAttacker(None, world)
        return
    # Not deleted: the server's own end must cope with what the probes made of it.
    yield Attacker(request.getfixturevalue("client").create(memory=ATTACK_MEMORY), world)


@pytest.fixture(scope="session")
def neighbour(client):
    """Another sandbox that must not notice anything."""
    sandbox = client.create()
    yield sandbox
    client.call("DELETE", sandbox.path)


@pytest.fixture
def fresh_attack(create, world):
    """Makes an attacker with a sandbox of its own, for probes that wreck it."""
    def make(**options):
        return Attacker(create(**options), world)
    return make
