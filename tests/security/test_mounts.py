"""Mounts and namespaces: nothing new appears, nothing that hides goes away."""
import os

import pytest

from security_values import refused

control = pytest.mark.control

# type, source, data
MOUNTS = [("tmpfs", "none", ""), ("proc", "proc", ""), ("sysfs", "sysfs", ""),
          ("cgroup2", "none", ""), ("cgroup", "none", "memory"),
          ("devpts", "none", "newinstance"), ("mqueue", "none", ""), ("debugfs", "none", ""),
          ("tracefs", "none", ""), ("securityfs", "none", ""), ("bpf", "none", ""),
          ("ramfs", "none", ""), ("devtmpfs", "none", ""), ("binfmt_misc", "none", ""),
          ("overlay", "none", "lowerdir=/etc,upperdir=/tmp/mu,workdir=/tmp/mw"),
          ("fuse", "none", "fd=0,rootmode=40000,user_id=0,group_id=0"),
          ("btrfs", "/dev/loop0", ""), ("ext4", "/dev/vda", ""), ("nfs", "127.0.0.1:/", ""),
          ("9p", "none", "trans=fd")]


@pytest.mark.parametrize("kind,source,data", MOUNTS, ids=[mount[0] for mount in MOUNTS])
def test_file_system_cannot_be_mounted(attack, kind, source, data):
    got = attack("""
        for name in ('/tmp/mu', '/tmp/mw', '/tmp/mnt'):
            os.makedirs(name, exist_ok=True)
        before = read('/proc/self/mountinfo')
        got['mounted'] = call('mount', SOURCE, '/tmp/mnt', KIND, 0, DATA)
        got['changed'] = read('/proc/self/mountinfo') != before
        got['names'] = attempt(os.listdir, '/tmp/mnt')
    """, SOURCE=source, KIND=kind, DATA=data)
    assert refused(got["mounted"]) and not got["changed"] and got["names"] == []


@control
def test_tmpfs_mount_control(attack):
    """The same attempt once more, in a form that may run on the host to show that it can work."""
    got = attack("""
        os.makedirs('/tmp/atoll-probe-mount', exist_ok=True)
        got['mounted'] = call('mount', 'none', '/tmp/atoll-probe-mount', 'tmpfs', 0, '')
        if not failed(got['mounted']):
            call('umount2', '/tmp/atoll-probe-mount', 2)
        os.rmdir('/tmp/atoll-probe-mount')
    """)
    assert refused(got["mounted"])


@control
@pytest.mark.parametrize("flags", [4096, 4096 | 16384], ids=["bind", "recursive bind"])
def test_directory_cannot_be_bound_elsewhere(attack, flags):
    got = attack("""
        os.makedirs('/tmp/atoll-probe-mount', exist_ok=True)
        got['mounted'] = call('mount', '/proc', '/tmp/atoll-probe-mount', '', FLAGS, '')
        got['names'] = len(os.listdir('/tmp/atoll-probe-mount'))
        if not failed(got['mounted']):
            call('umount2', '/tmp/atoll-probe-mount', 2)
        os.rmdir('/tmp/atoll-probe-mount')
    """, FLAGS=flags)
    assert refused(got["mounted"]) and got["names"] == 0


def test_read_only_mounts_stay_read_only(attack):
    got = attack("""
        got['remounted'] = {}
        for path in ('/proc/sys', '/sys', '/proc/kcore', '/'):
            got['remounted'][path] = call('mount', '', path, '', 32 | 4096, '')   # REMOUNT|BIND
        got['wrote'] = write('/proc/sys/kernel/panic', '1')
    """)
    assert all(refused(result) for result in got["remounted"].values())
    assert refused(got["wrote"])


@pytest.mark.parametrize("flags", [0, 1, 2, 8], ids=["plain", "force", "detach", "nofollow"])
def test_masks_cannot_be_unmounted(attack, flags):
    got = attack("""
        paths = [line.split()[4] for line in read('/proc/self/mountinfo').splitlines()]
        got['count'] = len(paths)
        got['unmounted'] = [path for path in paths if not failed(call('umount2', path, FLAGS))]
        got['texts'] = [read('/proc/kallsyms', 100), read('/proc/cmdline', 100)]
    """, FLAGS=flags)
    assert got["count"] > 5 and got["unmounted"] == []
    assert all(refused(text) or text == "" for text in got["texts"])


@control
def test_new_mount_interface_gives_no_file_system(attack):
    got = attack("""
        got['fsopen'] = {kind: call('fsopen', kind, 0) for kind in
                         ('tmpfs', 'proc', 'sysfs', 'cgroup2', 'overlay', 'ext4')}
    """)
    assert all(refused(result) for result in got["fsopen"].values())


@control
def test_mount_trees_cannot_be_cloned_or_picked(attack):
    got = attack("""
        got['open_tree'] = call('open_tree', -100, '/', 1)          # OPEN_TREE_CLONE
        got['open_tree_attr'] = call('open_tree_attr', -100, '/', 1, None, 0)
        got['fspick'] = call('fspick', -100, '/', 0)
    """)
    assert all(refused(result) for result in got.values())


def test_mounts_cannot_be_moved_or_changed(attack):
    got = attack("""
        attributes = struct.pack('QQQQ', 0, 1, 0, 0)                 # clear RDONLY
        descriptor = os.open('/proc/sys', os.O_PATH)
        got['move'] = call('move_mount', -100, '/proc/sys', -100, '/tmp', 0)
        got['old move'] = call('mount', '/proc', '/tmp', '', 8192, '')
        got['setattr'] = call('mount_setattr', -100, '/proc/sys', 0, attributes, 32)
        got['setattr_fd'] = call('mount_setattr', descriptor, '', 0x1000, attributes, 32)
        os.makedirs('/tmp/old', exist_ok=True)
        got['pivot'] = call('pivot_root', '/', '/tmp/old')
    """)
    assert all(refused(result) for result in got.values())


@control
def test_mount_listing_calls_show_nothing(attack):
    got = attack("""
        request = struct.pack('IIQQQ', 32, 0, 0xFFFFFFFFFFFFFFFF, 0, 0)   # LSMT_ROOT
        space = ctypes.create_string_buffer(8 * 64)
        got['listmount'] = call('listmount', request, space, 64, 0)
    """)
    assert refused(got["listmount"])


FLAGS = {"user": 0x10000000, "mount": 0x00020000, "pid": 0x20000000, "net": 0x40000000,
         "ipc": 0x08000000, "uts": 0x04000000, "cgroup": 0x02000000, "time": 0x80,
         "user and mount": 0x10020000}


@control
@pytest.mark.parametrize("kind", FLAGS)
def test_unshare_gives_no_new_namespace(attack, kind):
    got = attack("got['result'] = in_child(lambda: call('unshare', FLAG))", FLAG=FLAGS[kind])
    assert refused(got["result"])


@control
@pytest.mark.parametrize("kind", [kind for kind in FLAGS if kind != "time"])
def test_clone_gives_no_new_namespace(attack, kind):
    got = attack("""
        result = call('clone', FLAG | signal.SIGCHLD, 0, 0, 0, 0)
        if result == 0:
            os._exit(0)
        if not failed(result):
            os.waitpid(result, 0)
        got['result'] = result
    """, FLAG=FLAGS[kind])
    assert refused(got["result"])


@control
@pytest.mark.parametrize("kind", FLAGS)
def test_clone3_gives_no_new_namespace(attack, kind):
    got = attack("""
        arguments = struct.pack('11Q', FLAG, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
        result = call('clone3', arguments, len(arguments))
        if result == 0:
            os._exit(0)
        if not failed(result):
            os.waitpid(result, 0)
        got['result'] = result
    """, FLAG=FLAGS[kind])
    assert refused(got["result"])


@control
def test_setns_joins_nothing(attack):
    got = attack("""
        got['joined'] = []
        for pid in [name for name in os.listdir('/proc') if name.isdigit()][:5]:
            for kind in ('user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup'):
                descriptor = attempt(os.open, f'/proc/{pid}/ns/{kind}', os.O_RDONLY)
                if not failed(descriptor):
                    if not failed(in_child(lambda: call('setns', descriptor, 0))):
                        got['joined'].append(f'{pid} {kind}')
                    os.close(descriptor)
            pidfd = call('pidfd_open', int(pid), 0)
            if not failed(pidfd):
                if not failed(in_child(lambda: call('setns', pidfd, 0x00020000))):
                    got['joined'].append(f'{pid} by pidfd')
                os.close(pidfd)
    """)
    assert got["joined"] == []


@control
def test_namespaces_are_not_the_hosts(attack):
    got = attack("""
        got['own'] = {kind: os.readlink(f'/proc/self/ns/{kind}') for kind in
                      ('user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup')}
    """)
    for kind, name in got["own"].items():
        assert name != os.readlink(f"/proc/self/ns/{kind}"), kind


@control
def test_owning_and_parent_namespaces_are_out_of_reach(attack):
    """NS_GET_USERNS and NS_GET_PARENT hand out descriptors of outer namespaces if they may."""
    got = attack("""
        got['found'] = {}
        for kind in ('user', 'pid', 'mnt', 'net'):
            descriptor = os.open(f'/proc/self/ns/{kind}', os.O_RDONLY)
            for request in (0xb701, 0xb702):
                found = call('ioctl', descriptor, request, 0)
                if not failed(found):
                    got['found'][f'{kind} {request:#x}'] = os.readlink(f'/proc/self/fd/{found}')
        got['own'] = [os.readlink(f'/proc/self/ns/{kind}') for kind in ('user', 'pid')]
    """)
    # The owner of the own mount or net namespace is the own user namespace: no news. On the host
    # the same call hands out the initial one.
    assert set(got["found"].values()) <= set(got["own"])
    assert os.readlink("/proc/self/ns/user") not in got["found"].values()
