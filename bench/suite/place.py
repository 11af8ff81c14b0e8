"""Where a run happens: one work directory, one server at a time, and no trace of either afterwards."""
import contextlib
import glob
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "bench")]

from harness import kernel  # noqa: E402
from harness.server import Server  # noqa: E402
from suite.client import Client, Failed  # noqa: E402

END_SECONDS = 30
UNPACK_SECONDS = 600


def say(text):
    print(text, flush=True)


class Place:
    """A context manager; what is entered into `ends` goes with it, also when interrupted."""

    def __init__(self, options, bin_dir):
        self.options = options
        self.bin_dir = pathlib.Path(bin_dir).resolve()
        self.ends = contextlib.ExitStack()
        self.server = self.client = None
        self.present = []
        self.absent = {}  # contestants that do not run here, and why

    def __enter__(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(143))
        self.work = pathlib.Path(self.ends.enter_context(
            tempfile.TemporaryDirectory(prefix="atoll-bench-", ignore_cleanup_errors=True)))
        os.chmod(self.work, 0o755)
        self.ends.callback(remove_floor_traces)
        return self

    def __exit__(self, *error):
        self.stop_server()
        return self.ends.__exit__(*error)

    def program(self, name):
        return str(self.bin_dir / name)

    # The server -----------------------------------------------------------------------------------
    def start_server(self, *extra, data_dir=None):
        self.stop_server()
        # Known before it starts: an interruption meanwhile must find it.
        self.server = Server(data_dir=data_dir, bin_dir=self.bin_dir, extra=extra)
        self.server.start()
        self.client = Client(self.bin_dir, self.server.url(), self.server.key)
        return self.server

    def room_for(self, sandboxes):
        """The words that let a server have so many; none for one whose limit is fixed."""
        told = subprocess.run([self.program("atoll"), "serve", "--help"], capture_output=True,
                              text=True).stdout
        return ("--max-sandboxes", str(sandboxes)) if "--max-sandboxes" in told else ()

    def stop_server(self, keep=False):
        """The harness cleans up and complains when something was left."""
        if self.server is None:
            return
        server, self.server = self.server, None
        try:
            server.stop()
        finally:
            if not keep:
                server.discard()

    def environment(self):
        """For the command line."""
        return {"ATOLL_API_URL": self.server.url(),
                "ATOLL_KEY_FILE": str(pathlib.Path(self.server.data_dir, "admin.key"))}

    # The root filesystem that everybody has ---------------------------------------------------------
    def bundle(self):
        """The default template unpacked, with a config.json for OCI runtimes."""
        bundle = self.work / "bundle"
        if bundle.exists():
            return bundle
        cache = pathlib.Path(os.environ.get("ATOLL_CACHE_DIR", "/var/cache/atoll"))
        archive = newest_archive(cache)
        (bundle / "rootfs").mkdir(parents=True)
        subprocess.run(["tar", "--zstd", "--numeric-owner", "-xf", archive, "-C",
                        bundle / "rootfs"], check=True, timeout=UNPACK_SECONDS)
        return bundle

    def spawn_server(self, *command):
        """The URL of atoll-spawn-server, which ends with this run."""
        process = subprocess.Popen([self.program("atoll-spawn-server"), *command],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def end():
            process.stdin.close()
            try:
                process.wait(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self.ends.callback(end)
        readable, _, _ = select.select([process.stdout], [], [], END_SECONDS)
        if not readable or not (line := process.stdout.readline()):
            raise Failed("atoll-spawn-server did not start")
        return line.strip()


def newest_archive(cache):
    """The default template as the server keeps it for other installations."""
    archives = sorted(cache.glob("default-*.tar.zst"), key=lambda each: each.stat().st_mtime)
    if not archives:
        raise Failed(f"{cache} has no archive of the default template, which everybody is to run "
                     "on: start atoll serve once, or set ATOLL_CACHE_DIR to where it keeps them")
    return archives[-1]


def remove_floor_traces():
    """Of an atoll-floor that was killed: its cgroups, when nobody is in them any more."""
    for group in [*glob.glob("/sys/fs/cgroup/atoll-floor-*"),
                  *glob.glob("/sys/fs/cgroup/*/atoll-floor-*")]:
        pid = int(group.rsplit("-", 1)[1])
        if kernel.alive(pid):
            continue
        for top, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(top)


def which(*names):
    for name in names:
        if found := shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            return found
        if os.path.exists(name):
            return name
    return None
