"""Credentials for protocols that are not HTTP: SSH (git), MQTT and SOCKS5, against real servers.

Redis and PostgreSQL are with the other clients (test_clients.py).
"""
import os
import pathlib
import secrets
import shutil
import subprocess

import pytest

from attacks import limited
from clients import libraries
from harness.server import wait_until

GIT, BROKER, SOCKS = "5.5.2.20", "5.5.2.21", "5.5.2.22"
ZONE = {"git.harbour.com": [{"A": [GIT]}], "mqtt.harbour.com": [{"A": [BROKER]}],
        "socks.harbour.com": [{"A": [SOCKS]}]}

SSHD = """
Port 22
ListenAddress {address}
HostKey {directory}/host
AuthorizedKeysFile {directory}/authorized
PidFile none
UsePAM no
PasswordAuthentication no
StrictModes no
PermitRootLogin yes
LogLevel VERBOSE
"""

# A SOCKS5 server that wants name and password, and answers each CONNECT itself.
SOCKS_SERVER = """
import socket, sys, threading
address, name, password, log = sys.argv[1:]
def serve(peer):
    with peer:
        file = peer.makefile("rb")
        version, count = file.read(2)
        if 2 not in file.read(count):
            peer.sendall(bytes([5, 255])); return
        peer.sendall(bytes([5, 2]))
        file.read(1)
        given = [file.read(file.read(1)[0]).decode() for _ in range(2)]
        open(log, "a").write(" ".join(given) + "\\n")
        if given != [name, password]:
            peer.sendall(bytes([1, 1])); return
        peer.sendall(bytes([1, 0]))
        head = file.read(4)
        target = file.read(file.read(1)[0]).decode()
        port = int.from_bytes(file.read(2), "big")
        peer.sendall(bytes([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + f"hello {target}:{port}".encode())
listener = socket.create_server((address, 1080))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

SOCKS_CLIENT = """
import socket
peer = socket.create_connection(("socks.harbour.com", 1080), 20)
peer.sendall(bytes([5, 1, {method}]))
assert peer.recv(2) == bytes([5, {method}])
if {method} == 2:
    peer.sendall(bytes([1, 4]) + b"fake" + bytes([4]) + b"fake")
    assert peer.recv(2) == bytes([1, 0])
peer.sendall(bytes([5, 1, 0, 3, 9]) + b"far.world" + bytes([0, 80]))
print(b"".join(iter(lambda: peer.recv(999), b""))[10:].decode())
"""


@pytest.fixture(scope="module")
def place(stage):
    """A sandbox with ssh and the clients of MQTT, and the world's usual names and ours."""
    stage.world.usual(zone=ZONE)
    sandbox = stage.sandbox()
    for program in ("ssh", "mosquitto_pub", "mosquitto_sub"):
        path = shutil.which(program)
        assert path, f"{program} is not installed (packaging/apt-test-deps.txt)"
        sandbox.write(f"/opt/own/bin/{program}", pathlib.Path(path).read_bytes(), user="root")
        for name, library in libraries(path):
            sandbox.write(f"/opt/own/lib/{name}", pathlib.Path(library).read_bytes(), user="root")
    sandbox.out("chmod 755 /opt/own/bin/*", user="root")
    yield sandbox
    stage.world.usual()


def source(stage, name, kind, spec):
    body = {"name": name, "resolverKind": kind, "spec": spec}
    assert stage.client.call("POST", "/api/v1/credential-sources", body).status in (201, 409)


def put(stage, sandbox, domain, port, protocol, ref, projection):
    policy = limited(domain, credentialRules=[
        {"name": "login", "credentialRef": ref, "protocol": protocol, "domains": [domain],
         "ports": [{"port": port}]}])
    policy["credentialBindings"] = [{"ref": ref, "sourceRef": ref, "projection": projection}]
    stage.client.expect(200, "PUT", f"{sandbox.path}/network", policy)


def wait_for_operation(stage, sandbox, text):
    """It is in the record that is written when the connection has ended."""
    path = f"{sandbox.path}/network/flows?limit=50"
    wait_until(lambda: text in stage.client.expect(200, "GET", path).body.decode(), 30,
               f"{text} in the flows")


# SSH ----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def git_server(stage):
    directory = pathlib.Path(stage.world.directory, "git")
    directory.mkdir()
    for name in ("host", "other", "deploy"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name],
                       check=True, timeout=30)
    shutil.copy(directory / "deploy.pub", directory / "authorized")
    os.makedirs("/run/sshd", exist_ok=True)
    (directory / "sshd.conf").write_text(SSHD.format(address=GIT, directory=directory))
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", directory / "it.git"], check=True,
                   timeout=30)
    stage.servers.start("sshd", ["/usr/sbin/sshd", "-D", "-e", "-f", str(directory / "sshd.conf")],
                        GIT, 22)
    source(stage, "deploy", "static_ssh_private_key",
           {"staticSSHPrivateKey": {"privateKeyPem": (directory / "deploy").read_text()}})
    return directory


GIT_SETUP = ("export HOME=/tmp LD_LIBRARY_PATH=/opt/own/lib GIT_SSH_COMMAND='/opt/own/bin/ssh -F none "
             "-o StrictHostKeyChecking=accept-new -o BatchMode=yes -o UserKnownHostsFile=/tmp/known'; "
             "cd /tmp; rm -rf work; ")


def ssh_projection(directory, host="host", **more):
    key = " ".join((directory / f"{host}.pub").read_text().split()[:2])
    return {"type": "ssh_proxy", "sshProxy": {"upstreamUsername": "root", **more,
                                              "knownHosts": [f"git.harbour.com {key}"]}}


def test_git_over_ssh_without_a_key(stage, place, git_server):
    """Clone, commit and push; the key is nowhere in the sandbox."""
    put(stage, place, "git.harbour.com", 22, "ssh", "deploy", ssh_projection(git_server))
    done = place.run(
        GIT_SETUP + f"git clone -q anybody@git.harbour.com:{git_server}/it.git work && cd work && "
        "echo content > file && git add file && git -c user.name=t -c user.email=t@t commit -qm one "
        "&& git push -q origin HEAD:main", user="root", timeout_ms=90_000)
    assert done["exit_code"] == 0, (done, stage.server.log())
    shown = subprocess.run(["git", "-C", git_server / "it.git", "show", "main:file"],
                           capture_output=True, timeout=30)
    assert shown.stdout == b"content\n", shown
    wait_for_operation(stage, place, "exec git-receive-pack")
    key = (git_server / "deploy").read_text().splitlines()[1]
    assert place.run(f"grep -rl {key[:40]} /tmp /root /home 2>/dev/null", user="root")["stdout"] == ""


def test_another_host_key_gets_no_login(stage, place, git_server):
    put(stage, place, "git.harbour.com", 22, "ssh", "deploy", ssh_projection(git_server, "other"))
    done = place.run(GIT_SETUP + f"git clone anybody@git.harbour.com:{git_server}/it.git work",
                     user="root", timeout_ms=90_000)
    assert done["exit_code"] != 0 and "host key" in done["stderr"], done


def test_without_the_rule_there_is_no_way_in(stage, place, git_server):
    stage.client.expect(200, "PUT", f"{place.path}/network",
                        {"credentialBindings": [], **limited("git.harbour.com")})
    done = place.run("rm -f /tmp/known; " + GIT_SETUP +
                     f"git clone root@git.harbour.com:{git_server}/it.git work", user="root",
                     timeout_ms=90_000)
    assert done["exit_code"] != 0 and "Permission denied" in done["stderr"], done


# MQTT ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
def test_mqtt(stage, place, version):
    directory = pathlib.Path(stage.world.directory, "mqtt")
    if not directory.exists():
        directory.mkdir()
        password = secrets.token_hex(12)
        subprocess.run(["mosquitto_passwd", "-b", "-c", directory / "passwords", "agent", password],
                       check=True, timeout=30)
        os.chmod(directory / "passwords", 0o644)
        (directory / "conf").write_text(f"listener 1883 {BROKER}\nallow_anonymous false\n"
                                        f"password_file {directory}/passwords\nuser root\n")
        stage.servers.start("mosquitto", ["mosquitto", "-c", str(directory / "conf")], BROKER, 1883)
        source(stage, "broker", "static_username_password",
               {"staticUsernamePassword": {"username": "agent", "password": password}})
    client = f"LD_LIBRARY_PATH=/opt/own/lib timeout 30 /opt/own/bin/mosquitto_{{}} -V {version} " \
             "-h mqtt.harbour.com -t it "
    stage.client.expect(200, "PUT", f"{place.path}/network",
                        {"credentialBindings": [], **limited("mqtt.harbour.com")})
    assert place.run(client.format("pub") + "-m no", user="root")["exit_code"] != 0
    put(stage, place, "mqtt.harbour.com", 1883, "mqtt", "broker",
        {"type": "username_password", "usernamePassword": {}})
    done = place.run(client.format("pub") + "-r -m kept -u fake -P fake && " +
                     client.format("sub") + "-C 1", user="root")
    assert done["exit_code"] == 0 and done["stdout"] == "kept\n", (done, stage.server.log())


# SOCKS5 -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", [0, 2], ids=["without", "fake"])
def test_socks5(stage, place, method):
    log = pathlib.Path(stage.world.directory, "socks.log")
    if "socks" not in stage.servers.running:
        password = secrets.token_hex(12)
        stage.servers.start("socks", ["/usr/bin/python3", "-c", SOCKS_SERVER, SOCKS, "agent",
                                      password, str(log)], SOCKS, 1080)
        source(stage, "socks", "static_username_password",
               {"staticUsernamePassword": {"username": "agent", "password": password}})
    put(stage, place, "socks.harbour.com", 1080, "socks5", "socks",
        {"type": "username_password", "usernamePassword": {}})
    place.write("/tmp/socks.py", SOCKS_CLIENT.format(method=method))
    done = place.run("python3 /tmp/socks.py", user="root")
    assert done["stdout"] == "hello far.world:80\n", (done, stage.server.log())
    assert "fake" not in log.read_text()
    wait_for_operation(stage, place, "connect far.world:80")
