"""A sandbox prepares its own filesystem for the moment when it is mounted again.

Starting a cell on an existing filesystem is the one time the privileged side works on names that an
attacker chose. The agent is killed from outside, the node makes a new cell on the same disk.
"""
import os
import pathlib
import signal

import pytest

from harness.server import wait_until


def restart(server, sandbox):
    """Kills the agent; answers the status the sandbox settles in."""
    generation = sandbox.get()["runtime_generation"]
    os.kill(min(server.cell_processes(sandbox.id)), signal.SIGKILL)

    def settled():
        data = sandbox.get()
        if data["status"] == "failed":
            return "failed"
        return "running" if data["runtime_generation"] > generation else None
    return wait_until(settled, 30, "the sandbox is started again, or has failed")


PREPARATIONS = {
    "etc is a link": "mv /etc /etc.real; ln -s {directory} /etc",
    "host name file is a link": "ln -sf {file} /etc/hostname; ln -sf {file} /etc/hosts",
    "accounts are a link": "ln -sf {file} /etc/passwd; ln -sf {file} /etc/group",
    "accounts are a pipe": "rm /etc/passwd; mkfifo /etc/passwd",
    "workspace is a link": "rm -rf /workspace; ln -s {directory} /workspace",
    "home is a link": "mv /home/user /home/gone; ln -s {directory} /home/user",
    "temporary directory is a link": "mv /tmp /tmp.real; ln -s {directory} /tmp",
    "binaries are gone": "rm -rf /usr/bin /bin/* /usr/lib64 2>/dev/null; true",
    "everything is gone": "rm -rf --one-file-system / --no-preserve-root 2>/dev/null; true",
    "all modes are closed": "chmod 000 /etc /usr /home /tmp /var; chown 1000 /etc /var",
    "names below mounts": "mkdir -p /x && mv /x /y; mknod /dev/evil p; mkdir /dev/shm/evil",
}


@pytest.mark.parametrize("name", PREPARATIONS)
def test_prepared_tree_reaches_nothing_of_the_host(create, neighbour, server, world, name):
    sandbox = create()
    script = PREPARATIONS[name].format(directory=world.directory, file=world.file)
    sandbox.run(["bash", "-c", script], user="root")
    daemons = server.daemons()
    names = sorted(path.name for path in pathlib.Path(world.directory).iterdir())
    status = restart(server, sandbox)
    if status == "running":
        for path in ("/etc/open.txt", "/etc/hostname", "/etc/hosts", "/etc/passwd",
                     "/workspace/open.txt", "/home/user/open.txt", "/tmp/open.txt"):
            answer = sandbox.client.call("GET", sandbox.file_path(path, user="root"), timeout=60)
            assert world.secret.encode() not in answer.body
        sandbox.client.call("POST", sandbox.file_path("/etc/written", user="root"), b"x")
        sandbox.client.call("POST", f"{sandbox.path}/contexts", {
            "type": "cmd", "cmd": {"command": ["true"]}, "wait_until_done": True,
            "timeout_ms": 5000}, timeout=60)
    assert sorted(path.name for path in pathlib.Path(world.directory).iterdir()) == names
    assert server.daemons() == daemons, "a daemon was restarted"
    assert neighbour.run(["true"])["exit_code"] == 0


@pytest.mark.parametrize("attribute,value", [
    ("redirect", "/etc"), ("redirect", "/../../../../../../etc"), ("redirect", "../../.."),
    ("opaque", "y"), ("opaque", "x"), ("metacopy", ""), ("whiteout", "y"), ("origin", "\x00\xfb")])
def test_forged_overlay_attributes_are_not_believed_later(create, server, world, attribute,
                                                           value):
    """The next mount reads attributes from the disk: an attacker's must not be among them."""
    sandbox = create()
    sandbox.run(["python3", "-c", f"""
import os
os.makedirs('/srv/forged/inner', exist_ok=True)
open('/srv/forged/file', 'w').write('mine')
for path in ('/srv/forged', '/srv/forged/inner', '/srv/forged/file', '/srv'):
    for prefix in ('user.overlay.', 'user.overlay.overlay.', 'trusted.overlay.'):
        try: os.setxattr(path, prefix + {attribute!r}, {value!r}.encode('latin-1'))
        except OSError: pass
"""], user="root")
    inside = sandbox.out("find /srv | sort; cat /srv/forged/file", user="root")
    assert restart(server, sandbox) == "running"
    assert sandbox.out("find /srv | sort; cat /srv/forged/file", user="root") == inside
