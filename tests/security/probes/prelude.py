# Goes in front of every probe: short names for what an attacker does. Runs inside the sandbox as
# root (or on the host for the control run), fills `got`, and prints it. Failures are values: a
# string that starts with "!" and names the errno.
import ctypes
import errno
import json
import os
import signal
import socket
import stat
import struct
import sys
import time

got = {}
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NUMBERS = {
    "acct": 163, "add_key": 248, "adjtimex": 159, "bpf": 321, "capset": 126, "chroot": 161,
    "clock_adjtime": 305, "clock_settime": 227, "clone": 56, "clone3": 435, "delete_module": 176,
    "fanotify_init": 300, "finit_module": 313, "fsconfig": 431, "fsmount": 432, "fsopen": 430,
    "fspick": 433, "init_module": 175, "io_uring_setup": 425, "ioctl": 16, "ioperm": 173,
    "iopl": 172, "kexec_file_load": 320, "kexec_load": 246, "keyctl": 250, "kill": 62,
    "listmount": 458, "lookup_dcookie": 212, "modify_ldt": 154, "mount": 165, "mount_setattr": 442,
    "move_mount": 429, "move_pages": 279, "mq_open": 240, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "open_tree": 428, "open_tree_attr": 467, "openat2": 437,
    "perf_event_open": 298, "personality": 135, "pidfd_getfd": 438, "pidfd_open": 434,
    "pidfd_send_signal": 424, "pivot_root": 155, "process_vm_readv": 310, "process_vm_writev": 311,
    "ptrace": 101, "quotactl": 179, "reboot": 169, "request_key": 249, "setdomainname": 171,
    "sethostname": 170, "setns": 308, "settimeofday": 164, "statmount": 457, "swapoff": 168,
    "swapon": 167, "syslog": 103, "umount2": 166, "unshare": 272, "userfaultfd": 323,
    "vhangup": 153, "shmget": 29, "shmat": 30, "msgget": 68, "semget": 64, "prctl": 157,
    "lsm_list_modules": 461, "sched_setscheduler": 144, "setpriority": 141, "uprobe": 336,
    "inotify_init1": 294, "io_setup": 206, "memfd_create": 319,
}


def call(name, *arguments):
    """A raw system call: its result, or "!ERRNO"."""
    number = NUMBERS.get(name, name)
    converted = []
    for each in arguments:
        if each is None:
            converted.append(ctypes.c_void_p(None))
        elif isinstance(each, int):
            converted.append(ctypes.c_ulong(each & 0xFFFFFFFFFFFFFFFF))
        elif isinstance(each, str):
            converted.append(ctypes.c_char_p(each.encode()))
        elif isinstance(each, bytes):
            converted.append(ctypes.c_char_p(each))
        else:
            converted.append(each)
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *converted)
    return result if result >= 0 else name_of(ctypes.get_errno())


def name_of(number):
    return "!" + errno.errorcode.get(number, str(number))


def attempt(function, *arguments, **named):
    """What a Python call gives, or "!ERRNO"."""
    try:
        return function(*arguments, **named)
    except OSError as error:
        return name_of(error.errno) if error.errno else "!" + type(error).__name__


def failed(value):
    return isinstance(value, str) and value.startswith("!")


def read(path, size=65536):
    def go():
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(descriptor, size).decode("utf-8", "replace")
        finally:
            os.close(descriptor)
    return attempt(go)


def write(path, text):
    def go():
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    return attempt(go)


def in_child(function, seconds=20):
    """Runs in a forked child, because it may die or lose its root: its JSON value, or how it died."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            value = function()
        except OSError as error:
            value = name_of(error.errno or 0)
        except BaseException as error:
            value = "!" + repr(error)
        os.write(writer, json.dumps(value).encode())
        os._exit(0)
    os.close(writer)
    signal.alarm(seconds)
    data = b""
    while piece := os.read(reader, 65536):
        data += piece
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    signal.alarm(0)
    return json.loads(data) if data else f"!died of status {status}"
