"""The SSH gateway, with OpenSSH's own programs: ssh, sftp, scp, rsync, git."""
import os
import pathlib
import pty
import select
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness.client import Sandbox
from harness.server import Server, wait_until


class Keys:
    """A user's key, and what ssh needs to use it."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        for name in ("good", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@test",
                            "-f", self.directory / name], check=True, timeout=30)

    def public(self, name="good"):
        return (self.directory / f"{name}.pub").read_text().strip()


class Ssh:
    def __init__(self, client, keys):
        self.client, self.keys = client, keys

    def options(self, key="good"):
        return ["-F", "none", "-i", str(self.keys.directory / key), "-o", "IdentitiesOnly=yes",
                "-o", "IdentityAgent=none", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30",
                "-o", "StrictHostKeyChecking=accept-new", "-o", "LogLevel=ERROR",
                "-o", f"UserKnownHostsFile={self.keys.directory / 'known_hosts'}"]

    def address(self, sandbox):
        return sandbox.get()["ssh"]

    def command(self, sandbox, *words, key="good", options=(), user=None):
        ssh = self.address(sandbox)
        return ["ssh", *self.options(key), "-p", str(ssh["port"]), *options,
                f"{user or ssh['username']}@{ssh['host']}", *words]

    def run(self, sandbox, *words, input=b"", timeout=90, **more):
        return subprocess.run(self.command(sandbox, *words, **more), input=input,
                              capture_output=True, timeout=timeout)

    def out(self, sandbox, *words, **more):
        done = self.run(sandbox, *words, **more)
        assert done.returncode == 0, done
        return done.stdout.decode()

    def copy(self, program, sandbox, *words, timeout=120):
        """scp or sftp: {} in a word is the sandbox's address."""
        ssh = self.address(sandbox)
        at = f"{ssh['username']}@{ssh['host']}"
        return subprocess.run([program, *self.options(), "-P", str(ssh["port"]),
                               *(word.replace("{}", at) for word in words)],
                              capture_output=True, timeout=timeout)


@pytest.fixture(scope="module")
def server():
    with Server(extra=["--ssh-listen", "127.0.0.1:0"]) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    return server.client


@pytest.fixture(scope="module")
def ssh(client, tmp_path_factory):
    keys = Keys(tmp_path_factory.mktemp("ssh"))
    made = client.expect(201, "POST", "/users/me/ssh-keys",
                         {"name": "laptop", "public_key": keys.public()}).data
    yield Ssh(client, keys)
    client.call("DELETE", f"/users/me/ssh-keys/{made['id']}")


def test_keys(client, tmp_path):
    keys = Keys(tmp_path)
    line = keys.public("stranger")
    made = client.expect(201, "POST", "/users/me/ssh-keys",
                         {"name": "other", "public_key": line}).data
    fingerprint = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "stranger.pub"],
                                 capture_output=True, text=True, timeout=30).stdout.split()[1]
    assert made["fingerprint_sha256"] == fingerprint
    assert made["comment"] == "stranger@test" and made["key_type"] == "ssh-ed25519"
    assert made["public_key"] == " ".join(line.split()[:2])
    assert made["id"] in [each["id"] for each in
                          client.expect(200, "GET", "/users/me/ssh-keys").data["ssh_keys"]]
    client.expect(409, "POST", "/users/me/ssh-keys", {"name": "again", "public_key": line})
    for bad in ("", "ssh-ed25519 AAAA", line.replace("ssh-ed25519", "ssh-rsa"),
                (tmp_path / "stranger").read_text()):
        client.expect(400, "POST", "/users/me/ssh-keys", {"name": "bad", "public_key": bad})
    client.expect(200, "DELETE", f"/users/me/ssh-keys/{made['id']}")
    client.expect(404, "DELETE", f"/users/me/ssh-keys/{made['id']}")
    assert client.call("GET", "/users/me/ssh-keys", headers={"Authorization": "Bearer x"}).status == 401


def test_commands(ssh, sandbox):
    assert ssh.out(sandbox, "echo hello; pwd; whoami").splitlines()[0] == "hello"
    done = ssh.run(sandbox, "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert ssh.run(sandbox, "cat", input=b"\0" * 3_000_000).stdout == b"\0" * 3_000_000
    # Ended by a signal: ssh itself says 255.
    assert ssh.run(sandbox, "kill -TERM $$").returncode == 255
    # The sandbox's own user and environment, and the client's variables.
    assert ssh.out(sandbox, "whoami").strip() == sandbox.out("whoami").strip()
    assert ssh.out(sandbox, "echo $LC_TEST", options=["-o", "SetEnv=LC_TEST=abc"]) == "abc\n"
    # By name of the sandbox's main session as well.
    assert ssh.out(sandbox, "echo x", user=f"{sandbox.id}+main") == "x\n"


def test_a_name_will_do(ssh, client):
    made = client.expect(201, "POST", "/api/v1/sandboxes",
                         {"template": "default", "name": "harbour"}).data
    try:
        class Named:
            id = made["sandbox_id"]

            @staticmethod
            def get():
                return client.expect(200, "GET", f"/api/v1/sandboxes/{made['sandbox_id']}").data
        assert ssh.out(Named, "hostname; true", user="harbour")
    finally:
        client.call("DELETE", f"/api/v1/sandboxes/{made['sandbox_id']}")


def test_strangers_stay_outside(ssh, sandbox):
    for more in ({"key": "stranger"}, {"user": "nobody"}, {"user": "x"}, {"user": "../x"}):
        done = ssh.run(sandbox, "echo in", **more)
        assert done.returncode == 255 and b"in" not in done.stdout, done
    # Passwords are not even offered.
    done = ssh.run(sandbox, "true", key="stranger",
                   options=["-o", "LogLevel=VERBOSE", "-o", "PreferredAuthentications=password"])
    assert done.returncode == 255 and b"publickey" in done.stderr, done


def test_command_line(ssh, server, sandbox, tmp_path):
    """`atoll ssh` registers a key and becomes OpenSSH's client."""
    keys = Keys(tmp_path)
    environment = {**os.environ, "ATOLL_API_URL": server.url(), "ATOLL_API_KEY": server.key}
    atoll = [str(server.bin_dir / "atoll"), "ssh"]
    done = subprocess.run([*atoll, "--add-key", str(tmp_path / "good.pub")], env=environment,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("SHA256:"), done
    options = Ssh(server.client, keys).options()
    done = subprocess.run([*atoll, sandbox.id, "--", *options], env=environment,
                          input=b"echo by $((6 * 7)); exit 3\n", capture_output=True, timeout=90)
    assert (done.returncode, done.stdout) == (3, b"by 42\n"), done


def test_a_removed_key_is_refused(ssh, client, sandbox, tmp_path):
    keys = Keys(tmp_path)
    other = Ssh(client, keys)
    made = client.expect(201, "POST", "/users/me/ssh-keys",
                         {"name": "passing", "public_key": keys.public()}).data
    socket_path = tmp_path / "master"
    shared = ["-S", str(socket_path)]
    master = subprocess.Popen(other.command(sandbox, options=[*shared, "-M", "-N"]))
    try:
        wait_until(socket_path.exists, 60, "the shared connection")
        assert other.out(sandbox, "echo in", options=shared) == "in\n"
        client.expect(200, "DELETE", f"/users/me/ssh-keys/{made['id']}")
        assert other.run(sandbox, "echo in").returncode == 255
        # Nor does a connection that was there before begin anything more.
        late = other.run(sandbox, "echo in", options=shared)
        assert late.returncode != 0 and late.stdout == b"", late
    finally:
        master.terminate()
        master.wait(timeout=30)


def read_until(descriptor, wanted, seconds=60):
    output, deadline = b"", time.monotonic() + seconds
    while wanted not in output:
        ready, _, _ = select.select([descriptor], [], [], deadline - time.monotonic())
        assert ready, output
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    assert wanted in output, output
    return output


PROMPT = b"prompt> "


def test_shell_on_a_terminal(ssh, sandbox):
    """A shell, its size, a window that changes, an interrupt, and its end."""
    master, slave = pty.openpty()
    subprocess.run(["stty", "rows", "31", "cols", "97"], stdin=slave, check=True)
    process = subprocess.Popen(ssh.command(sandbox, options=["-tt"]), stdin=slave, stdout=slave,
                               stderr=slave, start_new_session=True,
                               env={**os.environ, "TERM": "xterm-256color"})
    os.close(slave)
    try:
        os.write(master, b"PS1='pro''mpt> '; stty size; echo term=$TERM\n")
        assert b"31 97" in read_until(master, b"term=xterm-256color")
        subprocess.run(["stty", "rows", "40", "cols", "120"], stdin=master, check=True)
        process.send_signal(signal.SIGWINCH)
        # Announced by nobody: the shell is asked until it knows.
        os.write(master, b"until [ \"$(stty size)\" = '40 120' ]; do sleep 0.1; done; echo re''sized\n")
        read_until(master, b"resized")
        # Said by the program itself: it has the terminal, so the interrupt is for it.
        os.write(master, b"tail -n +1 -f /etc/passwd\n")
        read_until(master, b"root:")
        os.write(master, b"\x03")
        # An interrupted shell throws away what was typed ahead: wait for its prompt.
        read_until(master, PROMPT)
        os.write(master, b"echo sti''ll here; exit 5\n")
        read_until(master, b"still here")
        assert process.wait(60) == 5
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_leaving_ends_the_program(ssh, sandbox):
    sandbox.out("rm -f /tmp/alive")
    process = subprocess.Popen(ssh.command(sandbox, "echo $$ > /tmp/alive; exec sleep 1000"),
                               stdin=subprocess.DEVNULL)
    try:
        sandbox.out("until [ -s /tmp/alive ]; do sleep 0.05; done")
    finally:
        process.kill()
        process.wait()
    sandbox.out("pid=$(cat /tmp/alive); while kill -0 $pid 2>/dev/null; do sleep 0.05; done",
                timeout_ms=30_000)


def test_many_channels_at_once(ssh, sandbox, tmp_path):
    """One connection, shared; each program has its own output and its own end."""
    control = tmp_path / "c"
    master = subprocess.Popen(
        ssh.command(sandbox, options=["-N", "-M", "-S", str(control)]), stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not control.exists():
            assert time.monotonic() < deadline and master.poll() is None
            time.sleep(0.05)
        share = ["-S", str(control)]
        running = [subprocess.Popen(ssh.command(sandbox, f"seq {n} 20000; exit {n}", options=share),
                                    stdout=subprocess.PIPE) for n in range(1, 7)]
        for n, process in enumerate(running, 1):
            output, _ = process.communicate(timeout=120)
            assert process.returncode == n
            assert output == b"".join(b"%d\n" % i for i in range(n, 20001))
    finally:
        master.terminate()
        master.wait(30)


def test_sftp(ssh, sandbox, tmp_path):
    big = os.urandom(5_000_000)
    (tmp_path / "big").write_bytes(big)
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "file").write_text("deep")
    os.utime(tmp_path / "tree" / "deep" / "file", (1_500_000_000, 1_500_000_000))
    batch = tmp_path / "batch"
    batch.write_text(f"""
mkdir /tmp/sftp
cd /tmp/sftp
put {tmp_path}/big
put -r -p {tmp_path}/tree
chmod 640 big
rename big large
ln -s large link
ls -l
get large {tmp_path}/back
rm link
-rm missing
df /tmp
""")
    done = ssh.copy("sftp", sandbox, "-b", str(batch), "{}")
    assert done.returncode == 0, done
    assert (tmp_path / "back").read_bytes() == big
    assert b"-rw-r-----" in done.stdout and b"link" in done.stdout
    listed = sandbox.out("cd /tmp/sftp && find . | sort && stat -c %a:%s:%U large && "
                         "stat -c %Y tree/deep/file && cat tree/deep/file")
    user = sandbox.out("whoami").strip()
    assert listed == (".\n./large\n./tree\n./tree/deep\n./tree/deep/file\n"
                      f"640:5000000:{user}\n1500000000\ndeep")
    # The user's rights count.
    batch.write_text("put /etc/hostname /etc/forbidden\n")
    if user != "root":
        assert ssh.copy("sftp", sandbox, "-b", str(batch), "{}").returncode != 0
    # An upload that was broken off goes on.
    sandbox.out("head -c 1000000 /tmp/sftp/large > /tmp/sftp/part")
    batch.write_text(f"reput {tmp_path}/big /tmp/sftp/part\n")
    assert ssh.copy("sftp", sandbox, "-b", str(batch), "{}").returncode == 0
    sandbox.out("cmp /tmp/sftp/part /tmp/sftp/large")


def test_scp(ssh, sandbox, tmp_path):
    (tmp_path / "a file").write_text("scp")
    done = ssh.copy("scp", sandbox, str(tmp_path / "a file"), "{}:/tmp/copied")
    assert done.returncode == 0, done
    assert sandbox.read("/tmp/copied") == b"scp"
    done = ssh.copy("scp", sandbox, "-r", "{}:/etc/apt", str(tmp_path / "apt"))
    assert done.returncode == 0, done
    assert (tmp_path / "apt" / "sources.list.d").is_dir() or any((tmp_path / "apt").iterdir())


def install(sandbox, *programs):
    """Programs of this machine with their libraries, for a template that has them not."""
    for program in programs:
        path = shutil.which(program)
        libraries = [word for line in subprocess.run(["ldd", path], capture_output=True, text=True,
                                                     timeout=30).stdout.splitlines()
                     for word in line.split() if word.startswith("/") and ".so" in word
                     and not os.path.basename(word).startswith(("ld-linux", "libc.so", "libm.so"))]
        for source, mode in [(path, "0755"), *((each, "0644") for each in libraries)]:
            directory = "bin" if source == path else "lib"
            target = f"/tmp/tools/{directory}/{os.path.basename(source)}"
            sandbox.write(target, pathlib.Path(source).read_bytes())
            sandbox.out(f"chmod {mode} {target}")
        name = os.path.basename(path)
        sandbox.out(f"cd /tmp/tools && printf '#!/bin/sh\\nLD_LIBRARY_PATH=/tmp/tools/lib exec "
                    f"/tmp/tools/bin/{name} \"$@\"\\n' > {name} && chmod 755 {name} && "
                    f"sudo ln -sf /tmp/tools/{name} /usr/local/bin/{name}")


def test_rsync_and_old_scp(ssh, sandbox, tmp_path):
    install(sandbox, "rsync", "scp")
    (tmp_path / "tree").mkdir()
    for n in range(20):
        (tmp_path / "tree" / f"file{n}").write_text(f"{n}\n" * 1000)
    at = ssh.address(sandbox)
    shell = " ".join(["ssh", *ssh.options(), "-p", str(at["port"])])
    done = subprocess.run(["rsync", "-a", "-e", shell, f"{tmp_path}/tree/",
                           f"{at['username']}@{at['host']}:/tmp/synced/"],
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done
    assert sandbox.out("cat /tmp/synced/file* | wc -l").strip() == "20000"
    done = ssh.copy("scp", sandbox, "-O", "-r", str(tmp_path / "tree"), "{}:/tmp/legacy")
    assert done.returncode == 0, done
    sandbox.out("diff -r /tmp/legacy /tmp/synced")


def test_git(ssh, sandbox, tmp_path):
    sandbox.out("git init -q --bare -b main /tmp/repository.git")
    at = ssh.address(sandbox)
    environment = {**os.environ, "GIT_SSH_COMMAND": " ".join(["ssh", *ssh.options()]),
                   "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(tmp_path)}
    url = f"ssh://{at['username']}@{at['host']}:{at['port']}/tmp/repository.git"

    def git(*words, cwd=tmp_path):
        done = subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=cwd,
                              env=environment, capture_output=True, timeout=120)
        assert done.returncode == 0, done
        return done.stdout.decode()

    git("init", "-q", "-b", "main", "work")
    (tmp_path / "work" / "file").write_text("pushed")
    git("add", ".", cwd=tmp_path / "work")
    git("commit", "-qm", "first", cwd=tmp_path / "work")
    git("push", "-q", url, "main", cwd=tmp_path / "work")
    assert sandbox.out("git -C /tmp/repository.git show main:file") == "pushed"
    git("clone", "-q", url, "again")
    assert (tmp_path / "again" / "file").read_text() == "pushed"


def test_local_forward(ssh, sandbox):
    sandbox.start(["python3", "-m", "http.server", "8123", "--bind", "127.0.0.1", "--directory",
                   "/etc"])
    sandbox.out("until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123))' "
                "2>/dev/null; do sleep 0.1; done")
    with socket.socket() as picked:
        picked.bind(("127.0.0.1", 0))
        port = picked.getsockname()[1]
    process = subprocess.Popen(ssh.command(
        sandbox, "echo ready; cat", options=["-L", f"127.0.0.1:{port}:localhost:8123", "-o",
                                             "ExitOnForwardFailure=yes"]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), 30) as peer:
                peer.sendall(b"GET /hostname HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: peer.recv(65536), b""))
            assert b"200 OK" in answer and sandbox.read("/etc/hostname") in answer
    finally:
        process.stdin.close()
        process.wait(30)


def test_other_forwarding_is_refused(ssh, sandbox):
    """Politely: the session goes on where the client lets it."""
    with socket.socket() as picked:
        picked.bind(("127.0.0.1", 0))
        port = picked.getsockname()[1]
    # To somewhere else than the sandbox.
    done = ssh.run(sandbox, options=["-W", "example.com:80"])
    assert done.returncode != 0, done
    done = ssh.run(sandbox, "echo still", options=["-R", f"{port}:127.0.0.1:1"])
    assert done.stdout == b"still\n", done
    assert ssh.out(sandbox, "echo [$SSH_AUTH_SOCK]", options=["-A"]) == "[]\n"


def test_a_login_wakes_the_sandbox(ssh, create, client):
    sandbox = create()
    sandbox.out("echo kept > /tmp/kept")
    client.expect(200, "POST", f"{sandbox.path}/pause", {})
    assert sandbox.get()["status"] == "paused"
    assert ssh.out(sandbox, "cat /tmp/kept") == "kept\n"
    assert sandbox.get()["status"] == "running"
    client.expect(200, "PUT", sandbox.path, {"config": {"auto_resume": False}})
    client.expect(200, "POST", f"{sandbox.path}/pause", {})
    done = ssh.run(sandbox, "echo in")
    assert done.returncode == 255 and b"atoll:" in done.stderr and b"in\n" not in done.stdout, done


def test_the_host_key_stays(tmp_path):
    """Over a restart; a client that knows it is not asked again."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    keys = Keys(tmp_path)
    with Server(data_dir=str(data_dir), extra=["--ssh-listen", "127.0.0.1:0"]) as first:
        first.client.expect(201, "POST", "/users/me/ssh-keys",
                            {"name": "laptop", "public_key": keys.public()})
        sandbox = first.client.create()
        shown = scan(Ssh(first.client, keys).address(sandbox))
        sandbox_id = sandbox.id
    with Server(data_dir=str(data_dir), extra=["--ssh-listen", "127.0.0.1:0"]) as second:
        sandbox = Sandbox(second.client, sandbox_id)
        assert scan(Ssh(second.client, keys).address(sandbox)) == shown
        # The key of the user is known again, too.
        assert Ssh(second.client, keys).out(sandbox, "echo in") == "in\n"
        second.client.expect(202, "DELETE", sandbox.path)


def scan(at):
    done = subprocess.run(["ssh-keyscan", "-T", "30", "-p", str(at["port"]), at["host"]],
                          capture_output=True, text=True, timeout=60)
    keys = {line.split(" ", 1)[1] for line in done.stdout.splitlines() if not line.startswith("#")}
    assert keys, done
    return keys


def ended(peer):
    """Whether the server has hung up, after whatever it said."""
    peer.setblocking(False)
    try:
        while peer.recv(4096):
            pass
        return True
    except ConnectionError:
        return True
    except BlockingIOError:
        return False
    finally:
        peer.settimeout(10)


def test_silent_and_broken_clients_cost_nothing(ssh, sandbox):
    at = ssh.address(sandbox)
    peers = []
    try:
        for _ in range(20):
            peers.append(socket.create_connection((at["host"], at["port"]), 10))
        # More than one address may have waiting: the oldest make room for those who log in.
        assert ssh.out(sandbox, "echo works") == "works\n"
        assert ended(peers[0]) and not ended(peers[-1])
        peers[-1].sendall(b"GET / HTTP/1.0\r\n\r\n")
        peers[-2].sendall(b"SSH-2.0-x\r\n" + b"\xff" * 5000)
        peers[-3].sendall(os.urandom(100_000))
        assert ssh.out(sandbox, "echo works") == "works\n"
    finally:
        for peer in peers:
            peer.close()
