"""Files of the host: through /proc, /sys, links, handles and escapes from the root directory."""
import os
import pathlib

import pytest

from harness import kernel
from security_values import refused

control = pytest.mark.control


@control
def test_plain_path_does_not_reach_the_host(attack):
    got = attack("got['text'] = read(CANARY)")
    assert got["text"] == "!ENOENT"


@control
def test_root_links_of_all_processes_lead_to_the_own_root(attack):
    got = attack("""
        got['texts'] = {}
        got['roots'] = []
        for name in os.listdir('/proc'):
            if name.isdigit() or name in ('self', 'thread-self'):
                for link in ('root', 'cwd'):
                    for climb in ('', '/..', '/../../../../../..'):
                        path = f'/proc/{name}/{link}{climb}{CANARY}'
                        got['texts'][path] = read(path)
                root = attempt(os.stat, f'/proc/{name}/root')
                if not failed(root):
                    got['roots'].append([root.st_dev, root.st_ino])
        own = os.stat('/')
        got['own'] = [own.st_dev, own.st_ino]
    """)
    assert got["roots"], "no root link could be looked at"
    assert all(root == got["own"] for root in got["roots"])
    assert all(refused(text) for text in got["texts"].values())


@control
def test_descriptor_links_lead_to_nothing_of_the_host(attack):
    got = attack("""
        got['targets'] = []
        for name in os.listdir('/proc'):
            if not name.isdigit():
                continue
            numbers = attempt(os.listdir, f'/proc/{name}/fd')
            for number in [] if failed(numbers) else numbers:
                path = f'/proc/{name}/fd/{number}'
                target = attempt(os.readlink, path)
                got['targets'].append(target)
                for climb in ('', '/..', '/../../../..'):
                    read(path + climb + CANARY)
        got['targets'].append('end')
    """)
    strange = [target for target in got["targets"]
               if not target.startswith(("pipe:", "socket:", "anon_inode:", "!", "/dev/null",
                                         "/dev/pts/", "/proc", "/memfd:", "end"))]
    assert strange == []


@control
def test_pid_1_has_only_its_own_descriptors(attack):
    """0, 1, 2 on /dev/null, the listening socket, and what an event loop needs."""
    got = attack("""
        listing = attempt(os.listdir, '/proc/1/fd')
        got['fds'] = listing if failed(listing) else {
            number: attempt(os.readlink, f'/proc/1/fd/{number}') for number in listing}
    """)
    if not refused(got["fds"]):
        for number, target in got["fds"].items():
            assert target.startswith(("/dev/null", "socket:", "pipe:", "anon_inode:", "!ENOENT",
                                      "!EACCES")), (number, target)


def test_new_processes_inherit_no_descriptor(attack):
    got = attack("""
        got['fds'] = sorted(int(number) for number in os.listdir('/proc/self/fd')
                            if os.path.exists(f'/proc/self/fd/{number}'))
    """)
    assert got["fds"] == [0, 1, 2]


@control
def test_environments_hold_nothing_of_the_host(attack):
    got = attack("""
        got['environments'] = {name: read(f'/proc/{name}/environ')
                               for name in os.listdir('/proc') if name.isdigit()}
    """)
    for text in got["environments"].values():
        assert "ATOLL_TEST" not in text and "CANARY" not in text


@control
def test_mount_table_names_no_host_path(attack, request):
    got = attack("got['table'] = read('/proc/self/mountinfo') + read('/proc/mounts')")
    if request.config.getoption("--control"):
        data_dir = "/sys/fs/cgroup"
    else:
        data_dir = request.getfixturevalue("server").data_dir
    for host_path in (data_dir, "/run/atoll", "/dev/vd", "/dev/sd", "/dev/nvme", "loop"):
        assert host_path not in got["table"]


@control
def test_own_cgroup_is_the_root_of_what_it_sees(attack):
    got = attack("got['text'] = read('/proc/self/cgroup') + read('/proc/1/cgroup')")
    assert "atoll" not in got["text"] and "cell-" not in got["text"]
    assert not refused(got["text"])
    # The control run shows the hierarchies of the host.
    assert all(line.endswith(":/") for line in got["text"].split() if line), got["text"]
    assert "session" not in got["text"]


SECRET_PROC_FILES = ["cmdline", "config.gz", "kallsyms", "kcore", "iomem", "ioports", "modules",
                     "keys", "key-users", "kmsg", "timer_list", "interrupts", "partitions",
                     "diskstats", "swaps", "slabinfo", "vmallocinfo", "zoneinfo", "pagetypeinfo",
                     "buddyinfo", "sched_debug", "mtrr", "kpagecount", "kpageflags", "mdstat"]


def has_content(path):
    try:
        with open(path, "rb", buffering=0) as file:
            os.set_blocking(file.fileno(), False)
            return file.read(1) not in (b"", None)
    except OSError:
        return False


@control
@pytest.mark.parametrize("name", [name for name in SECRET_PROC_FILES
                                  if has_content(f"/proc/{name}")])
def test_proc_file_about_the_machine_is_empty(attack, name):
    got = attack("got['text'] = read('/proc/' + NAME, 4096)", NAME=name)
    assert got["text"] == "" or refused(got["text"]), got["text"][:200]


@control
def test_proc_directories_about_the_machine_are_empty(attack):
    got = attack("""
        got['found'] = []
        for name in ('acpi', 'asound', 'bus', 'driver', 'fs', 'irq', 'pressure', 'scsi',
                     'dynamic_debug', 'tty/driver'):
            listing = attempt(os.listdir, '/proc/' + name)
            if not failed(listing):
                got['found'] += [f'{name}/{each}' for each in listing]
    """)
    assert got["found"] == []


SETTINGS = ["kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "kernel/panic",
            "kernel/sysrq", "kernel/printk", "kernel/randomize_va_space", "kernel/dmesg_restrict",
            "kernel/hostname", "kernel/domainname", "kernel/pid_max", "kernel/threads-max",
            "kernel/ns_last_pid", "kernel/poweroff_cmd", "kernel/usermodehelper/bset",
            "kernel/unprivileged_bpf_disabled", "kernel/yama/ptrace_scope",
            "vm/overcommit_memory", "vm/drop_caches", "vm/panic_on_oom", "vm/mmap_min_addr",
            "fs/file-max", "fs/binfmt_misc/register", "fs/protected_symlinks", "fs/suid_dumpable",
            "net/ipv4/ip_forward", "net/core/somaxconn", "user/max_user_namespaces"]


@control
def test_kernel_settings_cannot_be_opened_for_writing(attack):
    """Opening is enough to know; nothing is written, so the control run changes nothing."""
    got = attack("""
        got['opened'] = []
        for name in SETTINGS:
            descriptor = attempt(os.open, '/proc/sys/' + name, os.O_WRONLY)
            if not failed(descriptor):
                got['opened'].append(name)
    """, SETTINGS=SETTINGS)
    assert got["opened"] == []


@pytest.mark.parametrize("name", ["kernel/core_pattern", "kernel/modprobe", "kernel/sysrq",
                                  "vm/overcommit_memory", "kernel/hostname"])
def test_kernel_setting_keeps_its_value(attack, name):
    before = kernel.read(f"/proc/sys/{name}")
    got = attack("got['wrote'] = write('/proc/sys/' + NAME, VALUE)", NAME=name,
                 VALUE="|/tmp/evil" if "pattern" in name or "modprobe" in name else "1")
    assert refused(got["wrote"])
    assert kernel.read(f"/proc/sys/{name}") == before


def test_core_dump_runs_no_program_and_leaves_no_file_on_the_host(attack):
    got = attack("""
        def crash():
            os.chdir('/tmp')
            os.kill(os.getpid(), signal.SIGSEGV)
        got['end'] = in_child(crash)
        got['core'] = [name for name in os.listdir('/tmp') if name.startswith('core')]
    """)
    assert "died" in got["end"] and got["core"] == []


def test_sysrq_trigger_cannot_be_written(attack):
    # "h" prints help into the kernel log: harmless should it ever work.
    got = attack("""
        got['wrote'] = write('/proc/sysrq-trigger', 'h')
        got['masked'] = os.path.exists('/proc/sysrq-trigger') and stat.S_ISCHR(
            os.stat('/proc/sysrq-trigger').st_mode)
    """)
    assert refused(got["wrote"]) or got["masked"], "the real trigger took the write"


@control
def test_sys_shows_no_hardware_firmware_or_kernel(attack):
    got = attack("""
        got['found'] = []
        # The only thing of that name is ours: where the cell's own boot id is mounted from.
        got['kernel'] = os.listdir('/sys/kernel')
        for name in ('firmware', 'block', 'bus', 'module', 'power', 'hypervisor',
                     'class/block', 'class/dmi', 'devices/pci0000:00', 'fs/cgroup/memory',
                     'fs/cgroup/cgroup.procs', 'kernel/debug', 'kernel/security', 'dev/block'):
            if os.path.exists('/sys/' + name):
                got['found'].append(name)
    """)
    assert got["found"] == []
    assert got["kernel"] == ["boot_id"]


@control
def test_sys_has_nothing_to_write(attack):
    got = attack("""
        got['writable'] = []
        for top, directories, files in os.walk('/sys'):
            for name in files:
                descriptor = attempt(os.open, os.path.join(top, name), os.O_WRONLY | os.O_NONBLOCK)
                if not failed(descriptor):
                    os.close(descriptor)
                    got['writable'].append(os.path.join(top, name))
            if len(got['writable']) > 5:
                break
        made = attempt(os.mkdir, '/sys/evil')
        if not failed(made):
            got['writable'].append('/sys/evil')
    """)
    assert got["writable"] == []


@control
def test_classic_chroot_escape_ends_in_the_own_root(attack):
    got = attack("""
        def escape():
            os.makedirs('/tmp/jail', exist_ok=True)
            outside = os.open('/', os.O_RDONLY)
            if failed(call('chroot', '/tmp/jail')):
                return '!chroot'
            os.fchdir(outside)
            for _ in range(64):
                os.chdir('..')
            call('chroot', '.')
            return [read(CANARY), read('/etc/hostname')]
        got['texts'] = in_child(escape)
    """)
    assert refused(got["texts"]) or refused(got["texts"][0])


@control
def test_openat2_magic_links_and_in_root_resolution_stay_inside(attack):
    got = attack("""
        def openat2(directory, path, resolve):
            how = struct.pack('QQQ', os.O_RDONLY, 0, resolve)
            return call('openat2', directory, path, how, len(how))
        got['texts'] = []
        for base in ('/proc/1/root', '/proc/self/root', '/', '/proc/self/fd'):
            directory = attempt(os.open, base, os.O_PATH)
            if failed(directory):
                continue
            for resolve in (0, 0x08, 0x10, 0x20):   # none, BENEATH, IN_ROOT, CACHED
                for path in (CANARY, CANARY[1:], '../../..' + CANARY, '/proc/1/root' + CANARY):
                    descriptor = openat2(directory, path, resolve)
                    got['texts'].append(descriptor if failed(descriptor)
                                        else os.read(descriptor, 100).decode())
    """)
    assert got["texts"] and all(refused(text) for text in got["texts"])


@control
def test_file_handles_reach_no_inode(attack):
    """The classic escape: guess the handle of the host's root, open it by number."""
    got = attack("""
        got['opened'] = []
        got['own'] = call('name_to_handle_at', -100 & 0xFFFFFFFF, '/', ctypes.create_string_buffer(
            struct.pack('Ii', 128, 0) + bytes(128)), ctypes.byref(ctypes.c_int()), 0)
        mount = os.open('/', os.O_RDONLY)
        for inode in (2, 1, 128, 256):
            handle = struct.pack('IiII', 8, 1, inode, 0)
            descriptor = call('open_by_handle_at', mount, ctypes.create_string_buffer(handle), 0)
            if descriptor not in ('!EPERM', '!ENOSYS'):
                got['opened'].append(descriptor)
    """)
    assert got["opened"] == []


def test_file_api_follows_links_inside_only(fresh_attack, world):
    """Every way to name the host's file through the API yields the sandbox's own tree."""
    attack = fresh_attack()
    sandbox = attack.sandbox
    attack("""
        for name, target in (('direct', CANARY), ('proc', '/proc/1/root' + CANARY),
                             ('climb', '../../../../../../..' + CANARY)):
            if os.path.islink('/tmp/' + name):
                os.unlink('/tmp/' + name)
            os.symlink(target, '/tmp/' + name)
        if not os.path.islink('/tmp/up'):
            os.symlink('../../../../../../../..', '/tmp/up')
    """)
    for path in ("/tmp/direct", "/tmp/proc", "/tmp/climb", "/tmp/up" + world.file, world.file,
                 "/../../.." + world.file, "/proc/1/root" + world.file,
                 "/proc/self/root" + world.file, "/proc/self/cwd/../../../.." + world.file):
        answer = sandbox.client.call("GET", sandbox.file_path(path))
        assert world.secret.encode() not in answer.body, path
        # Once a write below has gone through a link, the sandbox has a file of that name.
        assert answer.status in (400, 403, 404) or answer.body == b"evil", (path, answer.status)
        written = sandbox.client.call("POST", sandbox.file_path(path), b"evil")
        assert pathlib.Path(world.file).read_text() == world.secret, path
        assert written.status in (200, 400, 403, 404, 409), (path, written.status)
