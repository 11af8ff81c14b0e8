"""One real `atoll serve`: started from the build, watched from outside, stopped without a trace.

Ending is part of every test: `stop` sends SIGTERM and then asks the kernel whether anything of this
instance is left. When something is, it is cleaned up by its own id and reported as a failure.
"""
import hashlib
import os
import pathlib
import re
import secrets
import select
import shutil
import signal
import ssl
import subprocess
import tempfile
import time

from harness import kernel
from harness.client import Client

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BIN_DIR = pathlib.Path(os.environ.get("ATOLL_BIN_DIR", REPOSITORY / "build" / "bin")).resolve()
READY_LINE = re.compile(rb"(https?)://([0-9.]+|\[[0-9a-f:]+\]):([0-9]+)")
# A first start on a machine without a cached template bootstraps one.
READY_SECONDS = 420
STOP_SECONDS = 60
# In the server's own environment: no sandbox may ever see it.
ENVIRONMENT_SECRET = secrets.token_hex(16)


def wait_until(condition, seconds, what):
    """Polls: for facts outside our processes that nothing announces."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"still not so after {seconds} s: {what}"
        time.sleep(0.02)


class Server:
    def __init__(self, data_dir=None, bin_dir=BIN_DIR, extra=(), authority=None):
        """`authority`: the certificate to trust when the server speaks TLS."""
        self.owns_data_dir = data_dir is None
        self.data_dir = data_dir or tempfile.mkdtemp(prefix="atoll-test-")
        # The API process is somebody else and must be able to pass through.
        os.chmod(self.data_dir, 0o755)
        self.bin_dir = pathlib.Path(bin_dir)
        self.extra = list(extra)
        self.tls = ssl.create_default_context(cafile=authority) if authority else None
        self.process = None
        self.output = b""
        self.seen_pids = set()
        self.log_path = self.data_dir + ".log"

    # Life ---------------------------------------------------------------------------------------
    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.bin_dir / "atoll", "serve", "--data-dir", self.data_dir,
                 "--listen", "127.0.0.1:0", *self.extra],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        self.output = b""
        deadline = time.monotonic() + READY_SECONDS
        while not (match := READY_LINE.search(self.output)):
            left = deadline - time.monotonic()
            readable, _, _ = select.select([self.process.stdout], [], [], max(left, 0))
            piece = os.read(self.process.stdout.fileno(), 65536) if readable else b""
            if not piece:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"no ready line; stdout {self.output!r}; log:\n{self.log()}")
            self.output += piece
        self.scheme, self.host = match.group(1).decode(), match.group(2).decode()
        self.port = int(match.group(3))
        self.key = pathlib.Path(self.data_dir, "admin.key").read_text().strip()
        self.client = Client(self.host, self.port, self.key, tls=self.tls)
        self.note_pids()
        return self

    def log(self, size=6000):
        return kernel.read(self.log_path)[-size:]

    def url(self):
        return f"{self.scheme}://{self.host}:{self.port}"

    def note_pids(self):
        if self.process is not None and self.process.poll() is None:
            self.seen_pids |= {self.process.pid, *kernel.descendants(self.process.pid)}
        return self.seen_pids

    def daemons(self):
        """Our own long-lived processes by role, found by what they are, not by their names."""
        found = {"supervisor": self.process.pid}
        for pid in kernel.descendants(self.process.pid):
            if kernel.parent_of(pid) != self.process.pid or not kernel.alive(pid):
                continue
            if self.executable(pid) != str(self.bin_dir / "atoll"):
                continue
            found["node" if kernel.uids(pid)[0] == 0 else "api"] = pid
        return found

    @staticmethod
    def executable(pid):
        try:
            return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
        except OSError:
            return ""

    def instance(self):
        """Names the cgroups and the run directory of this installation."""
        return hashlib.sha256(os.path.realpath(self.data_dir).encode()).hexdigest()[:8]

    def cell_processes(self, sandbox_id):
        """Host pids in the cgroups of a sandbox; the lowest is its agent's."""
        found = set()
        for group in kernel.cgroups_named(f"atoll-{self.instance()}"):
            for top, _, _ in os.walk(os.path.join(group, f"cell-{sandbox_id}")):
                found |= {int(pid) for pid in kernel.read(f"{top}/cgroup.procs").split()}
        return found

    def cell_file(self, sandbox_id, *names):
        """The first of these cgroup files that a sandbox has: version 1 and 2 name them apart."""
        for group in kernel.cgroups_named(f"atoll-{self.instance()}"):
            for name in names:
                path = os.path.join(group, f"cell-{sandbox_id}", name)
                if os.path.exists(path):
                    return kernel.read(path).strip()
        raise AssertionError(f"sandbox {sandbox_id} has none of {names}")

    def memory_limit(self, sandbox_id):
        return int(self.cell_file(sandbox_id, "memory.limit_in_bytes", "memory.max"))

    def metric(self, name):
        """The sum of all its series."""
        text = self.client.call("GET", "/metrics").body.decode()
        return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                   if re.match(rf"{name}(\{{[^}}]*\}})? ", line))

    def prepared_count(self):
        """Cells that wait for a claim: they have no row."""
        return self.metric("atoll_control_prepared_cells_count")

    def stop(self, signal_number=signal.SIGTERM):
        """Ends the server and fails when anything of it is left."""
        if self.process is None:
            return
        self.note_pids()
        instance = self.instance()
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            code = "still running"
        left = self.leftovers(instance)
        if code == "still running" or left:
            self.clean_up(instance)
        self.process.stdout.close()
        self.process = None
        assert code == 0, f"exit status {code} after SIGTERM; log:\n{self.log()}"
        assert not left, f"left behind: {left}; log:\n{self.log()}"

    def kill_all(self):
        """What a power cut of the processes looks like: the daemons die, the cells stay."""
        self.note_pids()
        for pid in sorted(self.daemons().values(), key=lambda each: each != self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process.stdout.close()

    # Traces -------------------------------------------------------------------------------------
    def leftovers(self, instance):
        left = []
        # Namespaces and cgroups of a process go a moment after it.
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            left = self.traces(instance)
            if not left:
                return []
            time.sleep(0.05)
        return left

    def traces(self, instance):
        left = [f"process {pid}: {self.executable(pid)}" for pid in sorted(self.seen_pids)
                if kernel.alive(pid)]
        left += [f"mount {line}" for line in kernel.mounts_with(self.data_dir)]
        left += [f"loop device {line}" for line in kernel.loops_with(self.data_dir)]
        left += [f"cgroup {path}" for path in kernel.cgroups_named(f"atoll-{instance}")]
        runtime = f"/run/atoll/{instance}"
        left += [runtime] if os.path.exists(runtime) else []
        left += [f"mount {line}" for line in kernel.mounts_with(runtime)]
        return left

    def clean_up(self, instance):
        """After a failed test: by pid and by our own names only."""
        for pid in sorted(self.note_pids(), reverse=True):
            if self.executable(pid).startswith(str(self.bin_dir)) or pid == self.process.pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait()
        groups = kernel.cgroups_named(f"atoll-{instance}")
        for group in groups:
            for top, _, _ in os.walk(group, topdown=False):
                for pid in kernel.read(os.path.join(top, "cgroup.procs")).split():
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
        time.sleep(0.3)
        for group in groups:
            for top, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(top)
                except OSError:
                    pass
        for line in kernel.loops_with(self.data_dir):
            subprocess.run(["losetup", "-d", line.split(":")[0]], capture_output=True)
        shutil.rmtree(f"/run/atoll/{instance}", ignore_errors=True)

    def discard(self):
        """Removes what even a clean stop keeps: the data."""
        if self.owns_data_dir:
            shutil.rmtree(self.data_dir, ignore_errors=True)
            pathlib.Path(self.log_path).unlink(missing_ok=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        try:
            if kind is not None:
                print(f"server log:\n{self.log()}")
            self.stop()
        finally:
            self.discard()
