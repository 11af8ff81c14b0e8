"""Device nodes: what is there, what can be made, what can be opened."""
import os

import pytest

from security_values import refused

control = pytest.mark.control

ORDINARY = {"null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr",
            "ptmx", "pts", "shm", "mqueue", "core", "console",
            "init"}  # the guest itself, as a read-only file


@control
def test_dev_holds_the_harmless_nodes_only(attack):
    got = attack("got['names'] = os.listdir('/dev')")
    assert set(got["names"]) <= ORDINARY


# Not part of the control run: merely opening some of these changes the machine.
@pytest.mark.parametrize("path", [
    "/dev/kvm", "/dev/mem", "/dev/port", "/dev/kmsg", "/dev/loop-control", "/dev/loop0",
    "/dev/fuse", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/net/tun", "/dev/vhost-net",
    "/dev/vsock", "/dev/btrfs-control", "/dev/mapper/control", "/dev/uinput", "/dev/userfaultfd",
    "/dev/console", "/dev/watchdog", "/dev/cpu/0/msr"])
def test_dangerous_device_cannot_be_opened(attack, path):
    got = attack("got['opened'] = attempt(os.open, PATH, os.O_RDWR | os.O_NONBLOCK)", PATH=path)
    assert refused(got["opened"])


def root_disk():
    device = os.stat("/").st_dev
    return os.major(device), os.minor(device)


NODES = [("root disk of the host", "b", *root_disk()), ("first disk", "b", 8, 0),
         ("loop 0", "b", 7, 0), ("mem", "c", 1, 1), ("port", "c", 1, 4), ("kmsg", "c", 1, 11),
         ("kvm", "c", 10, 232), ("fuse", "c", 10, 229), ("loop-control", "c", 10, 237),
         ("tun", "c", 10, 200)]


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/dev"])
@pytest.mark.parametrize("label,kind,major,minor", NODES, ids=[node[0] for node in NODES])
def test_made_device_node_gives_nothing(attack, place, label, kind, major, minor):
    """Whether mknod or open refuses is the kernel's choice; bytes of the device are the loss."""
    got = attack("""
        path = os.path.join(PLACE, 'node')
        mode = 0o666 | (stat.S_IFBLK if KIND == 'b' else stat.S_IFCHR)
        got['made'] = attempt(os.mknod, path, mode, os.makedev(MAJOR, MINOR))
        got['opened'] = attempt(os.open, path, os.O_RDWR | os.O_NONBLOCK)
        attempt(os.unlink, path)
    """, PLACE=place, KIND=kind, MAJOR=major, MINOR=minor)
    assert refused(got["opened"])
    assert refused(got["made"]) or got["opened"] == "!EACCES"


@control
def test_terminal_input_cannot_be_forged(attack):
    """TIOCSTI types into a terminal; also with high bits set, which the kernel ignores."""
    got = attack("""
        import pty, tty, select
        def forge():
            master, slave = pty.openpty()
            os.setsid()
            call('ioctl', slave, 0x540E, 0)      # TIOCSCTTY
            tty.setraw(slave)
            results = []
            for request in (0x5412, 0xFFFFFFFF00005412, 0x100005412):
                results.append(call('ioctl', slave, request, ctypes.create_string_buffer(b'x')))
            readable, _, _ = select.select([slave], [], [], 0.2)
            return [results, os.read(slave, 10).decode() if readable else '']
        got['results'], got['typed'] = in_child(forge)
    """)
    assert got["typed"] == "" and all(refused(result) for result in got["results"])


def test_console_selection_and_line_disciplines_are_refused(attack):
    got = attack("""
        import pty
        master, slave = pty.openpty()
        got['disciplines'] = [number for number in range(1, 30) if not failed(
            call('ioctl', slave, 0x5423, ctypes.byref(ctypes.c_int(number))))]
        got['selection'] = call('ioctl', slave, 0x541C, ctypes.create_string_buffer(b'p'))
        got['console'] = call('ioctl', slave, 0x541D, 0)
    """)
    assert got["disciplines"] == []
    assert refused(got["selection"]) and refused(got["console"])


@control
def test_own_terminals_are_not_the_hosts(attack):
    got = attack("got['device'] = os.stat('/dev/pts').st_dev")
    assert got["device"] != os.stat("/dev/pts").st_dev
