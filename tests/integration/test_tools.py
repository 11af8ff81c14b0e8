"""What people do in a sandbox: sudo, apt, pip, npm, git, several users. Without any network."""
import pytest


@pytest.fixture(scope="module")
def box(client):
    sandbox = client.create()
    yield sandbox
    client.call("DELETE", sandbox.path)


def test_default_user(box):
    assert box.out("whoami; id -u; echo $HOME; test -w $HOME && echo writable") == \
        "user\n1000\n/home/user\nwritable\n"


def test_sudo(box):
    assert box.out(["sudo", "-n", "id", "-un"]) == "root\n"
    assert box.out("sudo sh -c 'echo x > /etc/made-by-root && stat -c %U /etc/made-by-root'") == \
        "root\n"


def test_sudo_to_another_user(box):
    assert box.out(["sudo", "-n", "-u", "nobody", "id", "-un"]) == "nobody\n"


def test_users_and_groups(box):
    box.out("useradd -m alice && useradd -m bob && groupadd team && usermod -aG team alice",
            user="root")
    assert box.out("id -Gn", user="alice") == "alice team\n"
    box.out("echo mine > ~/private && chmod 600 ~/private", user="alice", cwd="/home/alice")
    assert box.run(["cat", "/home/alice/private"], user="bob")["exit_code"] != 0
    assert box.out(["su", "alice", "-c", "cat ~/private"], user="root") == "mine\n"


def test_ownership_and_modes(box):
    assert box.out("cd /tmp && touch o && chown daemon:mail o && chmod 2750 o && "
                   "stat -c '%U:%G %a' o", user="root") == "daemon:mail 2750\n"


def test_apt_and_dpkg(box):
    assert box.out(["apt-get", "--version"]).startswith("apt ")
    box.out("""
        set -e
        mkdir -p /tmp/pkg/DEBIAN /tmp/pkg/usr/bin
        printf '%s\\n' 'Package: tiny' 'Version: 1.0' 'Architecture: all' 'Description: tiny' \\
            'Maintainer: me <me@example.com>' > /tmp/pkg/DEBIAN/control
        printf '#!/bin/sh\\necho tiny works\\n' > /tmp/pkg/usr/bin/tiny
        chmod 755 /tmp/pkg/usr/bin/tiny
        dpkg-deb --build --root-owner-group /tmp/pkg /tmp/tiny.deb
        sudo dpkg -i /tmp/tiny.deb""")
    assert box.out(["tiny"]) == "tiny works\n"
    assert "install ok installed" in box.out(["dpkg", "-s", "tiny"])
    box.out("sudo apt-get install -y --reinstall /tmp/tiny.deb && sudo apt-get remove -y tiny",
            timeout_ms=120_000)
    assert box.run(["which", "tiny"])["exit_code"] != 0


def test_pip_installs_a_local_project(box):
    box.out("""
        set -e
        mkdir -p ~/project/hello && cd ~/project
        echo 'def greet(): return "hello from a package"' > hello/__init__.py
        echo 'from setuptools import setup' > setup.py
        echo 'setup(name="hello", version="1.0", packages=["hello"])' >> setup.py
        pip install --no-index --no-build-isolation . 2>&1""", timeout_ms=120_000)
    assert box.out(["python3", "-c", "import hello; print(hello.greet())"], cwd="/tmp") == \
        "hello from a package\n"


def test_virtual_environment(box):
    box.out("python3 -m venv ~/venv && ~/venv/bin/python -c 'import sys; "
            "assert sys.prefix != sys.base_prefix'", timeout_ms=120_000)


def test_npm_installs_a_local_package(box):
    box.out("""
        set -e
        mkdir -p ~/lib ~/app
        cd ~/lib && npm init -y >/dev/null
        echo 'module.exports = () => 6 * 7' > index.js && npm pack >/dev/null
        cd ~/app && npm init -y >/dev/null
        npm install --offline ~/lib/lib-1.0.0.tgz >/dev/null""", timeout_ms=120_000)
    assert box.out(["node", "-e", "console.log(require('lib')())"], cwd="/home/user/app") == "42\n"


def test_git(box):
    assert "first" in box.out("""
        set -e
        mkdir ~/repository && cd ~/repository && git init -q
        git config user.email me@example.com && git config user.name me
        echo content > file && git add file && git commit -qm first
        git clone -q . ../clone && git -C ../clone log --oneline""")


def test_python_with_threads_and_processes(box):
    assert box.out(["python3", "-c", """
import concurrent.futures as f, multiprocessing
def square(x): return x * x
if __name__ == '__main__':
    with f.ThreadPoolExecutor(4) as pool: print(sum(pool.map(square, range(10))))
    with multiprocessing.Pool(2) as pool: print(sum(pool.map(square, range(10))))
"""]) == "285\n285\n"


def test_local_network_works(box):
    assert box.out(["python3", "-c", """
import http.server, threading, urllib.request
server = http.server.HTTPServer(('127.0.0.1', 80), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen('http://localhost/').status)
"""], cwd="/tmp") == "200\n"


def test_terminal_programs_find_their_devices(box):
    assert box.out("echo x > /dev/null; head -c 4 /dev/urandom | wc -c; test -c /dev/ptmx && "
                   "script -qc 'tty' /dev/null </dev/null | head -1 | tr -d '\\r'") \
        .split() == ["4", "/dev/pts/0"]


def test_temporary_and_shared_memory_are_writable(box):
    box.out("echo x > /tmp/t && echo x > /var/tmp/t && echo x > /dev/shm/t && rm /dev/shm/t")


def test_host_name_resolves(box):
    assert box.run("getent hosts $(hostname) && getent hosts localhost")["exit_code"] == 0


def test_limits_are_visible_and_kept(client):
    sandbox = client.create(memory="256Mi", cpu="1")
    try:
        done = sandbox.run(["python3", "-c", "x = bytearray(b'y') * (1 << 30)"])
        assert done["exit_code"] != 0
        assert sandbox.run(["true"])["exit_code"] == 0
    finally:
        client.call("DELETE", sandbox.path)
