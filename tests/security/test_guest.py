"""A guest that is hostile: taken over from inside, or never honest at all.

Whatever it does, the server must keep serving others, in the same processes, without growing.
"""
import pathlib
import shutil
import subprocess

import pytest

from harness import kernel
from harness.server import BIN_DIR, Server
from security_values import refused

MOST_GROWTH_KIB = 64 * 1024


def test_pid_1_survives_signals(fresh_attack):
    attack = fresh_attack()
    attack("""
        for number in range(1, 65):
            if number not in (32, 33):
                call('kill', 1, number)
    """)
    assert attack.sandbox.run(["true"])["exit_code"] == 0


@pytest.mark.parametrize("way", ["ptrace", "mem", "vm_write", "steal"])
def test_attack_on_pid_1_hurts_nobody_else(fresh_attack, neighbour, server, way):
    """Root inside may wreck its own agent; the others and the daemons must not notice."""
    daemons = server.daemons()
    attack = fresh_attack()
    got = attack({
        "ptrace": """
            got['result'] = call('ptrace', 16, 1, 0, 0)
            if not failed(got['result']):
                os.waitpid(1, 0x40000000)
                got['poked'] = call('ptrace', 5, 1, 0x400000, 0xCCCCCCCC)
                call('ptrace', 17, 1, 0, signal.SIGSEGV)
        """,
        "mem": """
            def overwrite():
                maps = open('/proc/1/maps').read().splitlines()
                memory = os.open('/proc/1/mem', os.O_RDWR)
                total = 0
                for line in maps:
                    begin, end = (int(each, 16) for each in line.split()[0].split('-'))
                    if 'r-x' in line or 'rw' in line:
                        total += os.pwrite(memory, bytes([0xCC]) * min(end - begin, 4096), begin)
                return total
            got['result'] = in_child(overwrite)
        """,
        "vm_write": """
            class Vector(ctypes.Structure):
                _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
            buffer = ctypes.create_string_buffer(bytes([0xCC]) * 4096)
            local = Vector(ctypes.addressof(buffer), 4096)
            remote = Vector(0x400000, 4096)
            got['result'] = call('process_vm_writev', 1, ctypes.byref(local), 1,
                                 ctypes.byref(remote), 1, 0)
        """,
        "steal": """
            pidfd = call('pidfd_open', 1, 0)
            got['result'] = call('pidfd_getfd', pidfd, 3, 0)
            if not failed(got['result']):
                # Answer whoever comes next with rubbish.
                listener = socket.socket(fileno=got['result'])
                if os.fork() == 0:
                    while True:
                        peer, _ = listener.accept()
                        attempt(peer.sendall, bytes([0xFF]) * 100000)
                        peer.close()
        """}[way])
    answer = attack.sandbox.client.call("POST", f"{attack.sandbox.path}/contexts", {
        "type": "cmd", "cmd": {"command": ["true"]}, "wait_until_done": True}, timeout=90)
    if refused(got["result"]):
        assert answer.status == 201 and answer.data["exit_code"] == 0, "nothing was broken"
    else:
        assert answer.status in (201, 404, 409, 410, 500, 502, 503), answer.body
    assert neighbour.run(["true"])["exit_code"] == 0
    assert server.daemons() == daemons, "a daemon was restarted"
    attack.sandbox.client.expect(202, "DELETE", attack.sandbox.path)


@pytest.fixture(scope="module")
def lying_server(tmp_path_factory, server):
    """The real server with a lying agent beside it. The usual one runs too: instances coexist."""
    directory = tmp_path_factory.mktemp("lying-bin")
    directory.chmod(0o755)
    shutil.copy2(BIN_DIR / "atoll", directory / "atoll")
    source = pathlib.Path(__file__).parent / "probes" / "lying_guest.c"
    compiler = shutil.which("clang-19") or shutil.which("gcc")
    subprocess.run([compiler, "-O1", "-static", "-o", directory / "atoll-guest", source],
                   check=True)
    with Server(bin_dir=directory) as running:
        yield running


LIES = ["huge-length", "limit-plus-one", "unknown-kind", "empty-frames", "truncated", "random",
        "endless-files", "endless-output", "started-twice", "bad-error", "hang-up",
        "one-byte-at-a-time"]
# These say "started" as an honest agent does, which is all that a caller who does not wait asks.
CREDIBLE_START = ["started-twice", "one-byte-at-a-time"]
# What an answer may hold of a command's output is bounded by the API, not by the guest.
MOST_CAPTURE_KIB = 128 * 1024


@pytest.mark.parametrize("lie", LIES)
def test_lying_guest_gets_an_error_and_nothing_else(lying_server, lie):
    client = lying_server.client
    daemons = lying_server.daemons()
    before = kernel.kibibytes(daemons["api"], "VmHWM")
    sandbox = client.create()
    try:
        command = {"type": "cmd", "cmd": {"command": [f"lie-{lie}"]}}
        requests = [
            ("POST", f"{sandbox.path}/contexts",
             {**command, "wait_until_done": True, "timeout_ms": 3000}),
            ("POST", f"{sandbox.path}/contexts", command),
            ("GET", sandbox.file_path(f"/lie-{lie}", "/stat"), None),
            ("GET", sandbox.file_path(f"/lie-{lie}", "/list"), None),
        ]
        for method, path, body in requests:
            if lie == "endless-output" and body is not None:
                continue   # bounded by the reader: see the next test
            answer = client.call(method, path, body, timeout=90)
            if body == command and lie in CREDIBLE_START:
                assert answer.status in (201, 500, 502, 503)
                continue
            assert 400 <= answer.status < 600, (path, answer.status, answer.body[:300])
            assert answer.error["message"]
        for path in (sandbox.file_path(f"/lie-{lie}"),):
            try:
                answer = client.call("GET", path, timeout=90)
                assert answer.status >= 400 or lie.startswith("endless"), answer.status
            except Exception as error:  # a broken body is an honest end of a broken stream
                assert not isinstance(error, (AssertionError, TimeoutError)), error
        written = client.call("POST", sandbox.file_path(f"/lie-{lie}"), b"content", timeout=90)
        assert written.status >= 400
    finally:
        client.expect(202, "DELETE", sandbox.path)
    assert lying_server.daemons() == daemons, "a daemon was restarted"
    assert kernel.kibibytes(daemons["api"], "VmHWM") < before + MOST_GROWTH_KIB
    client.expect(200, "GET", "/healthz")


def test_endless_output_of_a_lying_guest_is_bounded(lying_server):
    client = lying_server.client
    api = lying_server.daemons()["api"]
    before = kernel.kibibytes(api, "VmHWM")
    sandbox = client.create()
    try:
        try:
            answer = client.call("POST", f"{sandbox.path}/contexts", {
                "type": "cmd", "cmd": {"command": ["lie-endless-output"]}, "wait_until_done": True,
                "timeout_ms": 2000}, timeout=8)
            assert answer.status >= 400 or answer.data["state"], answer.body[:300]
        except (TimeoutError, OSError):
            pass   # the caller's patience is its own; hanging up must stop it
        client.expect(200, "GET", "/healthz")
        assert kernel.kibibytes(api, "VmHWM") < before + MOST_CAPTURE_KIB
    finally:
        client.expect(202, "DELETE", sandbox.path)


def test_silent_guest_does_not_block_others(lying_server):
    """A request that gets no answer waits alone."""
    client = lying_server.client
    sandbox = client.create()
    try:
        try:
            client.call("GET", sandbox.file_path("/lie-silent", "/stat"), timeout=3)
        except (TimeoutError, OSError):
            pass
        client.expect(200, "GET", "/healthz", timeout=5)
        client.create().delete()
    finally:
        client.expect(202, "DELETE", sandbox.path)
