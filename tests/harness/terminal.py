"""A real terminal: a tmux server of its own with one pane, driven by keys and read by eye.

`Terminal` runs one command in the pane. What a person would see is `screen()`; `wait_for` looks
until a text is there. The exit status of the command is caught by a shell around it.
"""
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness.server import wait_until

SECONDS = 40


class Terminal:
    def __init__(self, command, env, columns=100, rows=30):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="atoll-tmux-"))
        self.socket = str(self.directory / "socket")
        self.status_file = self.directory / "status"
        self.modes_before = self.directory / "modes-before"
        self.modes_after = self.directory / "modes-after"
        self.env = env
        # Ctrl-C also reaches this shell, which shall live to tell the status.
        script = (f"trap : INT\nstty -g > {self.modes_before}\n{command}\nstatus=$?\n"
                  f"stty -g > {self.modes_after}\n"
                  f"echo $status > {self.status_file}.part\n"
                  f"mv {self.status_file}.part {self.status_file}\nexec cat\n")
        (self.directory / "run").write_text(script)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  "sh", str(self.directory / "run"))
        self.pid = int(self.tmux("display-message", "-p", "#{pid}").strip())

    def tmux(self, *words, stdin=None):
        return subprocess.run(["tmux", "-S", self.socket, *words], env=self.env, check=True,
                              capture_output=True, timeout=30, input=stdin).stdout.decode()

    def screen(self, history=False):
        return self.tmux("capture-pane", "-p", "-J", *(["-S", "-"] if history else []))

    def wait_for(self, pattern, seconds=SECONDS, history=False):
        """The first match of a regular expression, once it is on the screen."""
        def look():
            return re.search(pattern, self.screen(history), re.MULTILINE)
        try:
            return wait_until(look, seconds, pattern)
        except AssertionError:
            raise AssertionError(f"{pattern!r} is not on the screen:\n{self.screen(history)}")

    def type(self, text):
        self.tmux("send-keys", "-l", "--", text)

    def key(self, *names):
        self.tmux("send-keys", *names)

    def line(self, text):
        self.type(text)
        self.key("Enter")

    def paste(self, text, bracketed=False):
        self.tmux("load-buffer", "-", stdin=text.encode())
        self.tmux("paste-buffer", *(["-p"] if bracketed else []))

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def status(self, seconds=SECONDS):
        wait_until(self.status_file.exists, seconds, f"an end of the command:\n{self.screen()}")
        return int(self.status_file.read_text())

    def modes_are_back(self):
        return self.modes_before.read_text() == self.modes_after.read_text()

    def child(self, name):
        """The pid of the command in the pane."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        found = subprocess.run(["pgrep", "-P", shell, "-x", name], capture_output=True, timeout=30)
        return int(found.stdout.split()[0])

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True, timeout=30)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()
