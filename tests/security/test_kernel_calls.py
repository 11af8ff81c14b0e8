"""System calls that change or inspect the machine, and ways around the filter."""
import time

import pytest

from harness import kernel
from security_values import refused

control = pytest.mark.control

# Each line is harmless should it ever succeed inside: bad magic numbers, empty data, absent files.
# Those of the second table may even run on the host, where they work.
CALLS = {
    "init_module": "call('init_module', bytes(64), 64, '')",
    "finit_module": "call('finit_module', os.open('/bin/true', os.O_RDONLY), '', 0)",
    "delete_module": "call('delete_module', 'btrfs', 0o4000)",
    "kexec_load": "call('kexec_load', 0, 0, None, 0)",
    "kexec_file_load": "call('kexec_file_load', os.open('/bin/true', os.O_RDONLY), -1, 1, '', 4)",
    "reboot": "call('reboot', 0xfee1dead, 672274793, 0x89abcdef, 0)",
    "swapon": "call('swapon', '/tmp', 0)",
    "swapoff": "call('swapoff', '/tmp')",
    "acct": "call('acct', '/tmp/acct')",
    "settimeofday": "call('settimeofday', struct.pack('qq', 1, 0), None)",
    "clock_settime": "call('clock_settime', 0, struct.pack('qq', 1, 0))",
    "ioperm": "call('ioperm', 0x80, 1, 1)",
    "iopl": "call('iopl', 3)",
    "quotactl": "call('quotactl', 0x800002 << 8, '/dev/vda', 0, None)",
    "vhangup": "call('vhangup')",
    "lookup_dcookie": "call('lookup_dcookie', 0, bytes(16), 16)",
    "move_pages": "call('move_pages', 1, 0, None, None, None, 0)",
    "modify_ldt": "call('modify_ldt', 0, bytes(16), 16)",
}
ALSO_ON_THE_HOST = {
    "bpf map": "call('bpf', 0, struct.pack('IIII', 2, 4, 4, 1) + bytes(112), 128)",
    "perf_event_open": "call('perf_event_open', struct.pack('IIQ', 1, 112, 0) + bytes(96), 0, -1,"
                       " -1, 0)",
    "userfaultfd": "call('userfaultfd', 0)",
    "userfaultfd user mode": "call('userfaultfd', 1)",
    "io_uring_setup": "call('io_uring_setup', 4, ctypes.create_string_buffer(120))",
    "io_setup": "call('io_setup', 1, ctypes.create_string_buffer(8))",
    "huge pages": "call('memfd_create', 'huge', 4)",
    "fanotify_init": "call('fanotify_init', 0, 0)",
    "keyctl session": "call('keyctl', 0, -3, 1)",
    "keyctl describe": "call('keyctl', 6, -4, ctypes.create_string_buffer(200), 200)",
    "add_key": "call('add_key', 'user', 'probe', b'x', 1, -2)",
    "kernel log": "call('syslog', 3, ctypes.create_string_buffer(4096), 4096)",
    "kernel log size": "call('syslog', 10, None, 0)",
}


@pytest.mark.parametrize("name", CALLS)
def test_call_is_refused(attack, name):
    got = attack(f"got['result'] = in_child(lambda: {CALLS[name]})")
    assert refused(got["result"]) and "died" not in got["result"], got


@control
@pytest.mark.parametrize("name", ALSO_ON_THE_HOST)
def test_call_that_works_on_the_host_is_refused(attack, name):
    got = attack(f"got['result'] = in_child(lambda: {ALSO_ON_THE_HOST[name]})")
    assert refused(got["result"]) and "died" not in got["result"], got


def test_clock_of_the_host_keeps_its_time(attack):
    offset = time.time() - time.monotonic()
    got = attack("""
        got['results'] = [
            call('clock_settime', 0, struct.pack('qq', 86400, 0)),
            call('settimeofday', struct.pack('qq', 86400, 0), None),
            call('adjtimex', struct.pack('I4xq', 0x8001, 500000) + bytes(192)),
            call('clock_adjtime', 0, struct.pack('I4xq', 0x8001, 500000) + bytes(192))]
    """)
    assert all(refused(result) for result in got["results"])
    assert abs((time.time() - time.monotonic()) - offset) < 1


@control
def test_kernel_log_stays_closed(attack):
    got = attack("""
        import subprocess
        got['files'] = [read('/dev/kmsg', 4096), read('/proc/kmsg', 4096)]
        got['dmesg'] = subprocess.run(['dmesg'], capture_output=True, text=True).stdout
    """)
    assert got["dmesg"] == "" and all(refused(text) or text == "" for text in got["files"])


@control
def test_32_bit_calls_do_not_go_around_the_filter(attack):
    """int 0x80 enters the kernel by the i386 table, where the same numbers mean other calls."""
    got = attack("""
        import mmap
        def enter():
            # mov eax, edi; int 0x80; ret
            page = mmap.mmap(-1, 4096, prot=7)
            page.write(bytes.fromhex('89f8cd80c3'))
            address = ctypes.addressof(ctypes.c_char.from_buffer(page))
            function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)
            return [function(20), function(64), function(270)]   # getpid, getppid, ...
        got['results'] = in_child(enter)
    """)
    # A kernel without 32-bit support kills the caller: also fine.
    assert refused(got["results"]) or all(result < 0 for result in got["results"][:2])


def test_x32_calls_do_not_go_around_the_filter(attack):
    got = attack("""
        got['results'] = [call(0x40000000 | number) for number in (39, 102, 110)]  # getpid, ...
        got['mount'] = call(0x40000000 | 165, 'none', '/tmp', 'tmpfs', 0, '')
    """)
    assert all(refused(result) for result in got["results"]) and refused(got["mount"])


def test_unknown_future_calls_are_refused(attack):
    got = attack("""
        got['strange'] = {number: result for number in list(range(470, 600)) + [1000, 0x7FFFFFFF]
                          if (result := call(number, 0, 0, 0, 0, 0)) != '!ENOSYS'}
    """)
    assert got["strange"] == {}


@control
def test_dangerous_personalities_are_refused(attack):
    got = attack("""
        def change(value):
            result = call('personality', value)
            return [result, call('personality', 0xFFFFFFFF)]
        got['results'] = [in_child(lambda: change(value)) for value in
                          (0x0400000, 0x0100000, 0x0500000, 0x7, 0xFF)]
    """)
    for result, persona in got["results"]:
        assert refused(result) and persona == 0


def test_filter_cannot_be_removed_and_applies_to_children(attack):
    got = attack("""
        import subprocess
        got['mode'] = [line.split()[1] for line in read('/proc/self/status').splitlines()
                       if line.startswith('Seccomp:')]
        got['strict'] = call('prctl', 22, 0, 0, 0, 0)      # PR_SET_SECCOMP, disabled
        child = 'import ctypes; l = ctypes.CDLL(None); print(l.syscall(425, 4, b"\\\\0" * 120))'
        got['child'] = subprocess.run([sys.executable, '-c', child], capture_output=True,
                                      text=True).stdout.strip()
        got['after'] = call('io_uring_setup', 4, ctypes.create_string_buffer(120))
    """)
    assert got["mode"] == ["2"] and refused(got["strict"])
    assert got["child"] == "-1" and refused(got["after"])


def test_key_of_the_host_is_invisible(attack, world):
    """A key in the host's user keyring, readable to all; the sandbox has no call to look for it."""
    add_key = lambda *arguments: world.libc.syscall(248, *arguments)  # noqa: E731
    key = add_key(b"user", b"atoll-canary", world.secret.encode(), len(world.secret), -4)
    if key < 0:
        pytest.skip("this kernel has no keyrings")
    try:
        world.libc.syscall(250, 5, key, 0x3F3F3F3F)   # KEYCTL_SETPERM
        got = attack("""
            buffer = ctypes.create_string_buffer(200)
            got['read'] = call('keyctl', 11, KEY, buffer, 200)
            got['found'] = call('request_key', 'user', 'atoll-canary', None, 0)
            got['text'] = buffer.value.decode('utf-8', 'replace')
            got['listed'] = read('/proc/keys') + read('/proc/key-users')
        """, KEY=key)
        assert refused(got["read"]) and refused(got["found"]) and got["text"] == ""
        assert "atoll-canary" not in got["listed"]
    finally:
        world.libc.syscall(250, 9, key, -4)           # KEYCTL_UNLINK


@control
def test_shared_memory_of_the_host_is_invisible(attack):
    got = attack("""
        got['segment'] = call('shmget', SHM_KEY, 4096, 0o666)
        got['listed'] = read('/proc/sysvipc/shm').splitlines()[1:]
        got['file'] = read(SHM_PATH)
        if not failed(got['segment']):
            libc.shmat.restype = ctypes.c_void_p
            address = libc.shmat(got['segment'], None, 0)
            got['text'] = ctypes.string_at(address, 32).decode()
    """)
    assert refused(got["segment"]) and refused(got["file"]) and got["listed"] == []


def test_queues_of_the_host_are_invisible(attack, world):
    libc = world.libc
    queue = libc.msgget(world.shm_key, 0o1666)
    semaphore = libc.semget(world.shm_key, 1, 0o1666)
    try:
        got = attack("""
            got['queue'] = call('msgget', SHM_KEY, 0o666)
            got['semaphore'] = call('semget', SHM_KEY, 1, 0o666)
            got['posix'] = os.listdir('/dev/mqueue')
        """)
        assert refused(got["queue"]) and refused(got["semaphore"]) and got["posix"] == []
    finally:
        libc.msgctl(queue, 0, None)
        libc.semctl(semaphore, 0, 0)


def test_shared_memory_of_the_neighbour_is_invisible(attack, neighbour):
    neighbour.out("echo neighbour > /dev/shm/shared; ipcmk -M 4096 >/dev/null || "
                  "python3 -c 'import ctypes; ctypes.CDLL(None).shmget(4711, 4096, 0o1666)'",
                  user="root")
    got = attack("""
        got['names'] = os.listdir('/dev/shm')
        got['segments'] = read('/proc/sysvipc/shm').splitlines()[1:]
    """)
    assert "shared" not in got["names"] and got["segments"] == []


def test_no_kernel_taint_or_log_from_the_probes(attack):
    """Nothing above made the kernel complain: the host's taint flags are readable outside only."""
    tainted = kernel.read("/proc/sys/kernel/tainted").strip()
    attack("got['x'] = call('bpf', 0, bytes(128), 128)")
    assert kernel.read("/proc/sys/kernel/tainted").strip() == tainted
