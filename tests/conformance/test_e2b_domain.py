"""The SDKs with nothing but E2B_DOMAIN: TLS with HTTP/2, a certificate of `atoll cert dev`, and a
host name for every port of every sandbox.

The names must lead somewhere. Here a name server on the loopback device says 127.0.0.1 for all of
them, and the client runs where /etc/resolv.conf names it: a mount namespace of its own.
"""
import os
import pathlib
import re
import socket
import subprocess
import threading

import pytest

from e2b_releases import RELEASES
from harness.server import BIN_DIR, Server

DOMAIN = "sandboxes.test"
NAME_SERVER = "127.83.0.1"
SCRIPTS = pathlib.Path(__file__).resolve().parent / "e2b"


class Names:
    """A name server: every name below the domain is this machine, in IPv4."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((NAME_SERVER, 53))
        self.asked = set()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            question, peer = self.socket.recvfrom(512)
            if not question:
                return
            end = question.index(b"\0", 12)
            labels, at = [], 12
            while at < end:
                labels.append(question[at + 1:at + 1 + question[at]].decode())
                at += 1 + question[at]
            name, kind = ".".join(labels).lower(), question[end + 1:end + 3]
            self.asked.add(name)
            ours = name.endswith(f".{DOMAIN}")
            found = ours and kind == b"\0\1"
            head = question[:2] + (b"\x81\x80" if ours else b"\x81\x83") + b"\0\1" + (
                b"\0\1" if found else b"\0\0") + b"\0\0\0\0" + question[12:end + 5]
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("127.0.0.1")
            self.socket.sendto(head + (answer if found else b""), peer)

    def close(self):
        self.socket.sendto(b"", (NAME_SERVER, 53))
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def names():
    made = Names()
    yield made
    made.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory, names):
    directory = tmp_path_factory.mktemp("certificates")
    subprocess.run([BIN_DIR / "atoll", "cert", "dev", "--dir", directory, "--domain", DOMAIN],
                   check=True, capture_output=True, timeout=60)
    (directory / "resolv.conf").write_text(f"nameserver {NAME_SERVER}\n")
    with Server(extra=["--tls-cert", directory / "server.crt", "--tls-key",
                       directory / "server.key", "--domain", DOMAIN],
                authority=directory / "ca.crt") as running:
        running.directory = directory
        yield running


def run(place, command, **extra):
    inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
              'mount --bind "$0" /etc/resolv.conf && exec "$@"', place.directory / "resolv.conf"]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    settings |= {"E2B_DOMAIN": f"{DOMAIN}:{place.port}",
                 "E2B_API_KEY": place.key.replace("atoll_", "e2b_"),
                 "NODE_EXTRA_CA_CERTS": str(place.directory / "ca.crt"),
                 "SSL_CERT_FILE": str(place.directory / "ca.crt"), **extra}
    done = subprocess.run([*inside, *command], env=settings, capture_output=True, text=True,
                          timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def http2_connections(place):
    text = place.client.call("GET", "/metrics").body.decode()
    found = re.search(r"^atoll_http2_connections_total (\S+)", text, re.MULTILINE)
    return int(float(found.group(1)))


@pytest.mark.parametrize("release", [each for each in RELEASES if each.quick], ids=str)
def test_by_host_names_alone(place, names, release, tmp_path):
    names.asked.clear()
    before = http2_connections(place)
    packages = release.installed()
    if release.language == "javascript":
        (tmp_path / "node_modules").symlink_to(packages / "node_modules")
        script = tmp_path / "domain.mjs"
        script.write_text((SCRIPTS / "domain" / "domain.mjs").read_text())
        told = run(place, ["node", script])
    else:
        told = run(place, ["/usr/bin/python3", SCRIPTS / "domain" / "domain.py"],
                   PYTHONPATH=str(packages), PYTHONDONTWRITEBYTECODE="1")
    sandbox = told.split()[-1]
    assert f"api.{DOMAIN}" in names.asked
    assert f"49983-{sandbox}.{DOMAIN}" in names.asked
    assert f"3000-{sandbox}.{DOMAIN}" in names.asked
    if str(release) == "js-2.51.0":
        assert http2_connections(place) > before
