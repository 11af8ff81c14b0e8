"""Processes of the host and of PID 1: seeing, signalling, tracing, stealing."""
import os

import pytest

from harness import kernel
from security_values import refused

control = pytest.mark.control


@control
def test_only_own_processes_are_visible(attack):
    got = attack("""
        got['commands'] = {name: read(f'/proc/{name}/cmdline').replace(chr(0), ' ')
                           for name in os.listdir('/proc') if name.isdigit()}
        got['first'] = read('/proc/1/comm').strip()
    """)
    assert "atoll-gue" in got["first"]
    assert len(got["commands"]) < 10
    assert not any("sleep 86400" in command for command in got["commands"].values())


@control
def test_pids_of_the_host_do_not_exist(attack):
    got = attack("""
        got['found'] = [pid for pid in (HOST_PID,) if os.path.exists(f'/proc/{pid}')]
        got['opened'] = call('pidfd_open', HOST_PID, 0)
    """)
    assert got["found"] == [] and refused(got["opened"])


@control
def test_no_signal_reaches_the_host_by_pid(attack):
    """Signal 0 asks "may I?", so the control run harms nobody; the next test sends real ones."""
    got = attack("got['signalled'] = call('kill', HOST_PID, 0)")
    assert refused(got["signalled"])


def test_no_signal_reaches_the_host_by_any_pid(fresh_attack, neighbour, world):
    attack = fresh_attack()
    attack("""
        own = os.getpid()
        for pid in list(range(1, 70000)) + [HOST_PID]:
            if pid != own:
                call('kill', pid, signal.SIGKILL)
        call('kill', -1, signal.SIGKILL)
    """)
    # Own processes may die of it (there is nothing else); the host's must live.
    assert world.process.poll() is None
    assert attack.sandbox.run(["true"])["exit_code"] == 0
    assert neighbour.run(["true"])["exit_code"] == 0


@control
@pytest.mark.parametrize("request_number,label", [(16, "attach"), (0x4206, "seize")],
                         ids=["attach", "seize"])
def test_processes_of_the_host_cannot_be_traced(attack, request_number, label):
    got = attack("""
        got['traced'] = call('ptrace', REQUEST, HOST_PID, 0, 0)
        if not failed(got['traced']):
            if REQUEST == 16:
                os.waitpid(HOST_PID, 0x40000000)
            call('ptrace', 17, HOST_PID, 0, 0)
    """, REQUEST=request_number)
    assert refused(got["traced"])


@control
def test_memory_of_the_host_cannot_be_read(attack):
    got = attack("""
        buffer = ctypes.create_string_buffer(64)
        class Vector(ctypes.Structure):
            _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
        local = Vector(ctypes.addressof(buffer), 64)
        maps = read(f'/proc/{HOST_PID}/maps')
        address = int(maps.split('-')[0], 16) if not failed(maps) else 0x400000
        remote = Vector(address, 64)
        got['read'] = call('process_vm_readv', HOST_PID, ctypes.byref(local), 1,
                           ctypes.byref(remote), 1, 0)
        got['mem'] = attempt(os.open, f'/proc/{HOST_PID}/mem', os.O_RDONLY)
    """)
    assert refused(got["read"]) and refused(got["mem"])


@control
def test_descriptors_of_the_host_cannot_be_stolen(attack):
    got = attack("""
        pidfd = call('pidfd_open', HOST_PID, 0)
        got['stolen'] = pidfd if failed(pidfd) else call('pidfd_getfd', pidfd, 0, 0)
    """)
    assert refused(got["stolen"])


def test_priority_of_the_host_cannot_be_changed(attack, world):
    before = os.getpriority(os.PRIO_PROCESS, world.process.pid)
    got = attack("""
        got['nice'] = attempt(os.setpriority, os.PRIO_PROCESS, HOST_PID, 19)
        got['real_time'] = attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))
        got['higher'] = attempt(os.setpriority, os.PRIO_PROCESS, 0, -10)
    """)
    assert all(refused(value) for value in got.values())
    assert os.getpriority(os.PRIO_PROCESS, world.process.pid) == before


def test_root_inside_is_nobody_outside(attack, server):
    """Looked at from the host: ids of the agent and of a process that calls itself root."""
    context = attack.sandbox.start(["sleep", "30"], user="root")
    try:
        found = server.cell_processes(attack.sandbox.id)
        assert len(found) >= 2
        for pid in found:
            assert all(uid >= 0x70000000 for uid in kernel.uids(pid)), pid
            assert all(int(gid) >= 0x70000000 for gid in kernel.status_field(pid, "Gid").split())
            groups = kernel.status_field(pid, "Groups").split()
            assert all(int(gid) >= 0x70000000 for gid in groups)
    finally:
        attack.sandbox.client.call("DELETE", f"{attack.sandbox.path}/contexts/{context['id']}")


def test_two_sandboxes_share_no_user_id(attack, neighbour, server):
    ranges = []
    for sandbox in (attack.sandbox, neighbour):
        pid = min(server.cell_processes(sandbox.id))
        maps = {tuple(line.split()) for name in ("uid_map", "gid_map")
                for line in kernel.read(f"/proc/{pid}/{name}").splitlines()}
        assert len(maps) == 1, "one range for users and groups alike"
        inside, outside, count = map(int, maps.pop())
        assert inside == 0 and outside >= 0x70000000
        ranges.append(range(outside, outside + count))
    first, second = ranges
    assert first.stop <= second.start or second.stop <= first.start


CAPABILITIES = {0: "chown", 1: "dac_override", 3: "fowner", 4: "fsetid", 5: "kill", 6: "setgid",
                7: "setuid", 8: "setpcap", 10: "net_bind_service", 18: "sys_chroot",
                29: "audit_write", 31: "setfcap"}


@control
def test_capabilities_are_exactly_the_harmless_ones(attack):
    got = attack("""
        got['sets'] = {line.split(':')[0]: int(line.split()[1], 16) for line in
                       read('/proc/self/status').splitlines() if line.startswith('Cap')}
        got['first'] = {line.split(':')[0]: int(line.split()[1], 16) for line in
                        read('/proc/1/status').splitlines() if line.startswith('Cap')}
    """)
    allowed = sum(1 << number for number in CAPABILITIES)
    for sets in (got["sets"], got["first"]):
        assert sets["CapEff"] == allowed and sets["CapBnd"] == allowed
        assert sets["CapPrm"] == allowed and sets["CapInh"] & ~allowed == 0


def test_capabilities_cannot_be_raised(attack):
    got = attack("""
        header = struct.pack('Ii', 0x20080522, 0)
        everything = struct.pack('6I', 0xFFFFFFFF, 0xFFFFFFFF, 0, 0x1FF, 0x1FF, 0)
        got['capset'] = call('capset', header, everything)
        # A file that claims every capability, then run.
        import shutil, subprocess
        shutil.copy('/bin/cat', '/tmp/power')
        value = struct.pack('<IIIII', 0x02000001, 0xFFFFFFFF, 0, 0x1FF, 0)
        got['setxattr'] = attempt(os.setxattr, '/tmp/power', 'security.capability', value)
        done = attempt(subprocess.run, ['/tmp/power', '/proc/self/status'], capture_output=True,
                       text=True)
        got['effective'] = [] if failed(done) else [
            line for line in done.stdout.splitlines() if line.startswith('CapEff')]
        os.unlink('/tmp/power')
    """)
    assert refused(got["capset"])
    allowed = sum(1 << number for number in CAPABILITIES)
    for line in got["effective"]:
        assert int(line.split()[1], 16) & ~allowed == 0


def test_setuid_root_file_is_nobodys_on_the_host(attack, server):
    attack("""
        import shutil
        shutil.copy('/bin/cat', '/tmp/become-root')
        os.chown('/tmp/become-root', 0, 0)
        os.chmod('/tmp/become-root', 0o6755)
    """)
    pid = min(server.cell_processes(attack.sandbox.id))
    status = os.stat(f"/proc/{pid}/root/tmp/become-root")
    assert status.st_mode & 0o6000, "the bits must be there for the probe to mean something"
    assert status.st_uid >= 0x70000000 and status.st_gid >= 0x70000000
    # Stored with the sandbox's own ids, so no path of the host may lead to it.
    for top, _, files in os.walk(server.data_dir):
        assert "become-root" not in files, top
    attack("os.unlink('/tmp/become-root')")


def test_setuid_works_inside_and_only_there(attack):
    """sudo must work: a setuid program gives the sandbox's root, which the host maps to nobody."""
    done = attack.sandbox.run(["sudo", "-n", "id", "-u"], user="user")
    assert (done["exit_code"], done["stdout"].strip()) == (0, "0")


def test_ids_outside_the_range_do_not_exist(attack):
    got = attack("""
        got['setuid'] = in_child(lambda: attempt(os.setuid, 70000))
        got['chown'] = attempt(os.chown, '/tmp', 70000, 70000)
        got['setgroups'] = in_child(lambda: attempt(os.setgroups, [70000]))
    """)
    assert all(refused(value) for value in got.values())


@control
def test_identity_maps_cannot_be_rewritten(attack):
    got = attack("""
        got['opened'] = [name for name in ('uid_map', 'gid_map', 'setgroups') if not failed(
            write(f'/proc/self/{name}', '0 0 4294967295' if 'map' in name else 'allow'))]
        got['map'] = read('/proc/self/uid_map').split()
    """)
    assert got["opened"] == []
    assert got["map"][2] == "65536"


def test_processes_of_the_neighbour_are_invisible(attack, neighbour):
    context = neighbour.start(["sleep", "77777"])
    try:
        got = attack("""
            got['commands'] = [read(f'/proc/{name}/cmdline') for name in os.listdir('/proc')
                               if name.isdigit()]
        """)
        assert got["commands"] and not any("77777" in command for command in got["commands"])
    finally:
        neighbour.client.call("DELETE", f"{neighbour.path}/contexts/{context['id']}")
