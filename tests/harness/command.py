"""The command line as a person runs it: the shipped binary against one server."""
import os
import subprocess

from harness.server import BIN_DIR
from harness.terminal import Terminal


class Command:
    def __init__(self, server):
        self.server = server
        self.env = {**os.environ, "ATOLL_API_URL": server.url(), "NO_COLOR": "1",
                    "ATOLL_KEY_FILE": os.path.join(server.data_dir, "admin.key"),
                    "PATH": f"{BIN_DIR}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8",
                    "TERM": "xterm-256color"}
        self.env.pop("TMUX", None)

    def __call__(self, *words, stdin=None, check=0, env=None, text=True):
        done = subprocess.run(
            [BIN_DIR / "atoll", *words], capture_output=True, timeout=120,
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            stdin=subprocess.DEVNULL if stdin is None else None, env={**self.env, **(env or {})})
        if check is not None:
            assert done.returncode == check, (words, done.returncode, done.stdout, done.stderr)
        if text:
            done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done

    def terminal(self, line, **options):
        """A terminal that runs `atoll <line>`."""
        return Terminal(f"atoll {line}", self.env, **options)
