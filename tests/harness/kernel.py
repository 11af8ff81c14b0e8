"""What the kernel knows: the only witness these tests trust about leaks and isolation.

Every function looks from outside, through /proc and /sys, never through the server under test.
"""
import os
import pathlib
import subprocess

NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time")


def read(path, default=""):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return default


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def parent_of(pid):
    stat = read(f"/proc/{pid}/stat")
    return int(stat.rsplit(")", 1)[1].split()[1]) if stat else 0


def state_of(pid):
    stat = read(f"/proc/{pid}/stat")
    return stat.rsplit(")", 1)[1].split()[0] if stat else ""


def alive(pid):
    return state_of(pid) not in ("", "Z", "X")


def descendants(root):
    """All living processes below `root`, without itself."""
    children = {}
    for pid in pids():
        children.setdefault(parent_of(pid), []).append(pid)
    found, queue = [], [root]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def status_field(pid, field):
    for line in read(f"/proc/{pid}/status").splitlines():
        if line.startswith(field + ":"):
            return line.split(":", 1)[1].strip()
    return ""


def uids(pid):
    return [int(each) for each in status_field(pid, "Uid").split()]


def kibibytes(pid, field):
    value = status_field(pid, field)
    return int(value.split()[0]) if value else 0


def namespace(pid, kind):
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def namespaces():
    """Every namespace some process is in."""
    found = {namespace(pid, kind) for pid in pids() for kind in NAMESPACES}
    found.discard("")
    return found


def mounts_with(text, pid="self"):
    return [line for line in read(f"/proc/{pid}/mountinfo").splitlines() if text in line]


def loops_with(text):
    output = subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout
    return [line for line in output.splitlines() if text in line]


def cgroups_named(name):
    """Directories of that name directly below any cgroup hierarchy or our own place in it."""
    found = []
    for top, directories, _ in os.walk("/sys/fs/cgroup"):
        if name in directories:
            found.append(os.path.join(top, name))
        # Ours lie at most two levels below a hierarchy's own directory.
        if top.count("/") >= 6:
            directories.clear()
    return found


def cells_in(cgroups):
    cells = set()
    for directory in cgroups:
        try:
            cells |= {name[len("cell-"):] for name in os.listdir(directory)
                      if name.startswith("cell-")}
        except FileNotFoundError:
            pass
    return cells


def open_fds(pid):
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
            except OSError:
                pass
    except OSError:
        pass
    return found
