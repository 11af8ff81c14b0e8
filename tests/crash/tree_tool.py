"""Changes trees and describes them; runs inside a sandbox, as root, and in the test as a library.

    tree_tool.py apply FILE     carries out the changes in a JSON file
    tree_tool.py digest ROOT... the SHA-256 of the manifest
    tree_tool.py manifest ROOT...

A manifest has one line per path: everything about it that a program could see and that must not
change by itself. Names are bytes; in JSON they are text with surrogates for what is not UTF-8.
"""
import hashlib
import json
import os
import random
import shutil
import socket
import stat
import sys

KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link",
         stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device"}


def encode(name):
    return name.encode("utf-8", "surrogateescape")


def decode(name):
    return name.decode("utf-8", "surrogateescape")


def content_of(seed, size):
    return random.Random(seed).randbytes(size)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def line(path, kind, mode=0, owner=(0, 0), twin="", size=0, digest="", mtime=0, xattrs=(), target=""):
    return json.dumps([path, kind, mode, list(owner), twin, size, digest, mtime,
                       sorted(map(list, xattrs)), target])


def read(path):
    with open(path, "rb") as file:
        return file.read()


def describe(path, twins):
    info = os.lstat(path)
    kind = KINDS[stat.S_IFMT(info.st_mode)]
    name = decode(path)
    if kind == "link":
        return line(name, kind, owner=(info.st_uid, info.st_gid), target=decode(os.readlink(path)))
    xattrs = []
    if kind in ("file", "directory"):
        xattrs = [(each, os.getxattr(path, each).hex()) for each in os.listxattr(path)
                  if each.startswith("user.")]
    fields = {"mode": stat.S_IMODE(info.st_mode), "owner": (info.st_uid, info.st_gid),
              "xattrs": xattrs}
    if kind == "file":
        twin = twins.setdefault((info.st_dev, info.st_ino), name) if info.st_nlink > 1 else name
        content = read(path)
        fields.update(size=info.st_size, digest=sha256(content), mtime=info.st_mtime_ns, twin=twin)
    return line(name, kind, **fields)


def manifest(roots):
    """Sorted by name, so that the first of several hard links stands for all."""
    paths = []
    for root in roots:
        paths.append(root)
        for top, directories, files in os.walk(root):
            paths += [os.path.join(top, name) for name in directories + files]
    twins = {}
    return [describe(path, twins) for path in sorted(paths)]


def finish(path, mode, owner, mtime):
    """What a write may take away is given back at the end."""
    os.chown(path, *owner)
    os.chmod(path, mode)
    if mtime is not None:
        os.utime(path, ns=(mtime, mtime))


def write_at(path, offset, content, truncate):
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if truncate else 0)
    file = os.open(path, flags, 0o600)
    try:
        os.pwrite(file, content, offset)
    finally:
        os.close(file)


def apply_one(verb, path, *rest):
    path = encode(path)
    if verb == "write":
        offset, seed, size, truncate, *end = rest
        write_at(path, offset, content_of(seed, size), truncate)
        finish(path, *end)
    elif verb == "truncate":
        size, *end = rest
        os.truncate(path, size)
        finish(path, *end)
    elif verb == "mkdir":
        os.mkdir(path)
        finish(path, *rest, None)
    elif verb == "finish":
        finish(path, *rest)
    elif verb == "fifo":
        os.mkfifo(path)
        finish(path, *rest, None)
    elif verb == "socket":
        # An address is short, a path need not be.
        os.chdir(os.path.dirname(path))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(b"s")
        os.rename(b"s", path)
        os.chdir("/")
        finish(path, *rest, None)
    elif verb == "symlink":
        os.symlink(encode(rest[0]), path)
        os.lchown(path, 0, 0)   # a directory may pass on its group
    elif verb == "link":
        os.link(encode(rest[0]), path)
    elif verb == "rename":
        os.rename(path, encode(rest[0]))
    elif verb == "setxattr":
        os.setxattr(path, rest[0], bytes.fromhex(rest[1]))
    elif verb == "removexattr":
        os.removexattr(path, rest[0])
    elif verb == "unlink":
        os.unlink(path)
    elif verb == "rmtree":
        shutil.rmtree(path)
    else:
        raise ValueError(verb)


def main():
    verb, *words = sys.argv[1:]
    if verb == "apply":
        with open(words[0]) as file:
            for change in json.load(file):
                apply_one(*change)
        return
    lines = manifest([encode(word) for word in words])
    print(sha256("\n".join(lines).encode()) if verb == "digest" else "\n".join(lines))


if __name__ == "__main__":
    main()
