"""What changed: diffs of real sandboxes, held against a model of their trees."""
import base64
import hashlib
import io
import json
import os
import pathlib
import random
import tarfile
import time

import pytest

# Runs inside a sandbox: a seeded random tree below a directory, made or changed.
GROW = r'''
import os, random, shutil, socket, stat, sys
seed, root, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
r = random.Random(seed)
os.makedirs(root, exist_ok=True)
NAMES = ["a", "b", "c d", "e\nf", "ü", "\udcff\udcfe", ".hidden", "-dash", "long" * 40, "wh.x"]


def spots():
    found = [root]
    for top, directories, files in os.walk(root):
        found += [os.path.join(top, name) for name in directories + files]
    return found


def fresh(directory):
    return os.path.join(directory, r.choice(NAMES) + r.choice(["", str(r.randrange(30))]))


def directories():
    return [p for p in spots() if os.path.isdir(p) and not os.path.islink(p)]


def files():
    return [p for p in spots() if os.path.isfile(p) and not os.path.islink(p)]


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def content():
    return r.choice([b"", b"x", r.randbytes(r.randrange(5000)), r.randbytes(70000), bytes(20000)])


for step in range(steps):
    kind = r.randrange(15)
    path = fresh(r.choice(directories()))
    have = files()
    if kind < 4:
        remove(path)
        open(path, "wb").write(content())
        os.chmod(path, r.randrange(0o10000))
    elif kind == 4:
        remove(path)
        os.mkdir(path)
        os.chmod(path, 0o700 | r.randrange(0o10000))
    elif kind == 5:
        remove(path)
        os.symlink(r.choice(["/etc/passwd", "nowhere", "..", "/"]), path)
    elif kind == 6 and have:
        target = r.choice(have)
        remove(path)
        if os.path.exists(target):
            os.link(target, path)
    elif kind == 7:
        remove(path)
        os.mkfifo(path, 0o640)
    elif kind == 8:
        remove(path)
        with open(path, "wb") as f:
            f.truncate(r.randrange(1 << 22))
            f.seek(r.randrange(1 << 20))
            f.write(b"data")
    elif kind == 9 and have:
        os.setxattr(r.choice(have), "user.k%d" % r.randrange(3), r.randbytes(r.randrange(1, 50)))
    elif kind == 10 and have:
        with open(r.choice(have), "r+b") as f:
            f.seek(r.randrange(100))
            f.write(b"changed")
    elif kind == 11:
        victims = spots()[1:]
        if victims:
            remove(r.choice(victims))
    elif kind == 12:
        victim = r.choice(spots())
        os.chown(victim, r.randrange(5), r.randrange(5), follow_symlinks=False)
    elif kind == 13 and have:
        # Written again with what it had: no change but its time, which is put back.
        target = r.choice(have)
        status = os.stat(target)
        data = open(target, "rb").read()
        open(target, "r+b").write(data)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif kind == 14:
        # A directory made anew: what was below must not come back.
        victims = [p for p in directories() if p != root]
        if victims:
            victim = r.choice(victims)
            shutil.rmtree(victim)
            os.mkdir(victim)
            open(os.path.join(victim, "again"), "wb").write(b"again")
'''

# Runs inside a sandbox: everything below a directory as JSON lines.
WALK = r'''
import base64, hashlib, json, os, stat, sys
root = os.fsencode(sys.argv[1])


def kind(mode):
    return ("dir" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else
            "symlink" if stat.S_ISLNK(mode) else "fifo" if stat.S_ISFIFO(mode) else "other")


def tell(path):
    s = os.lstat(path)
    k = kind(s.st_mode)
    entry = {"path": base64.b64encode(path).decode(), "type": k, "mode": s.st_mode & 0o7777,
             "uid": s.st_uid, "gid": s.st_gid, "mtime": s.st_mtime_ns, "size": 0, "nlink": 1,
             "xattrs": {}}
    if k == "file":
        entry["size"], entry["nlink"] = s.st_size, s.st_nlink
        entry["content"] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    if k == "symlink":
        entry["target"] = base64.b64encode(os.readlink(path)).decode()
    if k in ("file", "dir"):
        entry["xattrs"] = {n: base64.b64encode(os.getxattr(path, n)).decode()
                           for n in os.listxattr(path) if n.startswith("user.")}
    print(json.dumps(entry))


for top, directories, files in os.walk(root):
    for name in directories + files:
        tell(os.path.join(top, name))
'''


@pytest.fixture
def sandbox(create):
    return create()


def put_tools(sandbox):
    sandbox.write("/root/grow.py", GROW, user="root")
    sandbox.write("/root/walk.py", WALK, user="root")


def as_root(sandbox, command):
    return sandbox.out(command, user="root")


def walk(sandbox, root):
    lines = as_root(sandbox, f"python3 /root/walk.py {root}").splitlines()
    entries = {}
    for line in lines:
        entry = json.loads(line)
        entries[base64.b64decode(entry.pop("path"))] = entry
    return entries


def snapshot(sandbox):
    return sandbox.client.expect(201, "POST", f"{sandbox.path}/snapshots", {}).data["id"]


def lines_of(client, path):
    answer = client.expect(200, "GET", path, timeout=120)
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.body.splitlines()]


def path_of(entry):
    if "path_base64" in entry:
        return base64.b64decode(entry["path_base64"])
    return entry["path"].encode()


def told(client, path, below):
    """change by path, of what is below a directory."""
    return {path_of(e): e for e in lines_of(client, path)
            if path_of(e).startswith(below.encode() + b"/")}


def parent(path):
    return path.rsplit(b"/", 1)[0]


def expected_changes(before, after):
    """What a diff must tell, from two walks."""
    changes = {}
    for path, entry in after.items():
        old = before.get(path)
        if old is None:
            changes[path] = "added"
            continue
        if entry["type"] == old["type"] == "dir":
            entry, old = {**entry, "mtime": 0}, {**old, "mtime": 0}
        if entry != old:
            changes[path] = "changed"
    for path in before.keys() - after.keys():
        # Only the topmost of what is gone, and not what a file took the place of.
        if parent(path) in after and after[parent(path)]["type"] != "dir":
            continue
        if parent(path) in before and parent(path) not in after:
            continue
        changes[path] = "removed"
    return changes


def apply_layer(before, archive, root):
    """The tree of a walk, changed by the tar of a diff."""
    tree = {path: dict(entry) for path, entry in before.items()}

    def forget(path):
        for other in [p for p in tree if p == path or p.startswith(path + b"/")]:
            del tree[other]

    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as tar:
        for member in tar:
            path = b"/" + os.fsencode(member.name)
            if not path.startswith(root.encode() + b"/"):
                continue
            name = path.rsplit(b"/", 1)[1]
            if name.startswith(b".wh."):
                forget(parent(path) + b"/" + name[4:])
                continue
            if not (member.isdir() and tree.get(path, {}).get("type") == "dir"):
                forget(path)
            if member.islnk():
                target = b"/" + os.fsencode(member.linkname)
                tree[path] = tree[target]
                continue
            kind = ("dir" if member.isdir() else "file" if member.isreg() else
                    "symlink" if member.issym() else "fifo")
            # A float cannot hold the nanoseconds.
            text = member.pax_headers.get("mtime", str(int(member.mtime)))
            seconds, _, rest = text.partition(".")
            entry = {"type": kind, "mode": member.mode, "uid": member.uid, "gid": member.gid,
                     "mtime": int(seconds) * 10**9 + int(rest.ljust(9, "0")[:9]), "size": 0,
                     "nlink": 1, "xattrs": {
                         key[len("SCHILY.xattr."):]: base64.b64encode(
                             value.encode("utf-8", "surrogateescape")).decode()
                         for key, value in member.pax_headers.items()
                         if key.startswith("SCHILY.xattr.")}}
            if kind == "file":
                data = tar.extractfile(member).read()
                entry["size"], entry["content"] = len(data), hashlib.sha256(data).hexdigest()
            if kind == "symlink":
                entry["target"] = base64.b64encode(os.fsencode(member.linkname)).decode()
                entry["mode"] = 0o777
            tree[path] = entry
    return tree


def without_links(tree):
    return {path: {key: value for key, value in entry.items() if key != "nlink"}
            for path, entry in tree.items()}


# The list ---------------------------------------------------------------------------------------
def test_against_the_template(client, sandbox):
    sandbox.out("cd /workspace && mkdir d && echo hello > d/new && ln -s d link")
    as_root(sandbox, "rm /etc/issue; chmod 600 /etc/motd; rm -rf /usr/share/doc; echo x >> /etc/fstab")
    data = client.expect(200, "GET", f"{sandbox.path}/diff").data
    found = {e["path"]: e for e in data["changes"]}
    assert not data["truncated"] and data["count"] == len(data["changes"])
    assert found["/workspace/d"]["change"] == "added" and found["/workspace/d"]["type"] == "dir"
    assert found["/workspace/d/new"]["size"] == 6
    assert found["/workspace/link"] | {"mod_time": ""} == {
        "change": "added", "path": "/workspace/link", "type": "symlink", "size": 0, "mode": "0777",
        "uid": found["/workspace/link"]["uid"], "gid": found["/workspace/link"]["gid"],
        "mod_time": "", "link_target": "d"}
    assert found["/etc/issue"]["change"] == "removed" and found["/etc/issue"]["size"] > 0
    assert found["/usr/share/doc"]["change"] == "removed"
    assert not any(path.startswith("/usr/share/doc/") for path in found)
    assert found["/etc/motd"]["change"] == "changed"
    assert (found["/etc/motd"]["old_mode"], found["/etc/motd"]["mode"]) == ("0644", "0600")
    assert found["/etc/fstab"]["size"] == found["/etc/fstab"]["old_size"] + 2
    assert "/workspace" not in found and "/etc" not in found
    paths = [e["path"] for e in data["changes"]]
    assert len(set(paths)) == len(paths)
    # A part of it says so.
    part = client.expect(200, "GET", f"{sandbox.path}/diff?limit=2").data
    assert part["truncated"] and part["changes"] == data["changes"][:2]


def test_untouched_files_are_no_change(client, sandbox):
    sandbox.write("/workspace/kept", b"x" * 100_000)
    first = snapshot(sandbox)
    assert client.expect(200, "GET",
                         f"/api/v1/sandbox-rootfs-snapshots/{first}/diff?from={first}"
                         ).data["changes"] == []
    sandbox.out("touch -r /workspace/kept /tmp/t && cat /workspace/kept > /workspace/other && "
                "mv /workspace/other /workspace/kept && touch -r /tmp/t /workspace/kept && rm /tmp/t")
    second = snapshot(sandbox)
    changes = client.expect(200, "GET",
                            f"/api/v1/sandbox-rootfs-snapshots/{second}/diff?from={first}").data
    assert [e for e in changes["changes"] if e["path"].startswith("/workspace")] == []


@pytest.mark.parametrize("seed", [random.SystemRandom().randrange(10**6), 4])
def test_random_trees_against_a_model(client, sandbox, seed):
    print("seed", seed)
    put_tools(sandbox)
    root = "/srv/tree"
    as_root(sandbox, f"python3 /root/grow.py {seed} {root} 120")
    first, before = snapshot(sandbox), walk(sandbox, root)
    as_root(sandbox, f"python3 /root/grow.py {seed + 1} {root} 80")
    second, after = snapshot(sandbox), walk(sandbox, root)
    url = f"/api/v1/sandbox-rootfs-snapshots/{second}/diff?from={first}&format="
    changes = told(client, url + "ndjson", root)
    assert {path: e["change"] for path, e in changes.items()} == expected_changes(before, after)
    for path, entry in changes.items():
        real = (before if entry["change"] == "removed" else after)[path]
        assert (entry["type"], entry["size"], int(entry["mode"], 8), entry["uid"]) == (
            real["type"], real["size"], real["mode"], real["uid"]), path
    # The other way round it is the same, mirrored.
    back = told(client, f"/api/v1/sandbox-rootfs-snapshots/{first}/diff?from={second}"
                        "&format=ndjson", root)
    assert {path: e["change"] for path, e in back.items()} == expected_changes(after, before)
    # And the archive of it makes one of the other.
    archive = client.expect(200, "GET", url + "tar", timeout=120).body
    assert without_links(apply_layer(before, archive, root)) == without_links(after)
    again = client.expect(200, "GET", url + "tar", timeout=120).body
    assert archive == again
    for snapshot_id in (first, second):
        client.expect(200, "DELETE", f"/api/v1/sandbox-rootfs-snapshots/{snapshot_id}")


def test_what_cannot_be_compared_is_refused(client, sandbox):
    for query, status in (("from=snap-nothere", 404), ("from=sb-nothere", 404), ("format=zip", 400),
                          ("limit=0", 400), ("form=tar", 400)):
        assert client.call("GET", f"{sandbox.path}/diff?{query}").status == status, query
    assert client.call("GET", "/api/v1/sandboxes/nobody/diff").status == 404
    assert client.call("GET", "/api/v1/sandbox-rootfs-snapshots/snap-no/diff").status == 404


# Hostile trees ----------------------------------------------------------------------------------
def test_links_lead_nowhere(client, sandbox):
    sandbox.out("cd /workspace && ln -s / root && ln -s /views up && ln -s ../../.. out && "
                "ln -s loop loop && mkdir x && ln -s ../x x/x")
    entries = told(client, f"{sandbox.path}/diff?format=ndjson", "/workspace")
    assert sorted(entries) == [b"/workspace/" + name for name in
                               (b"loop", b"out", b"root", b"up", b"x", b"x/x")]


def test_names_of_all_kinds(client, sandbox):
    sandbox.out(["python3", "-c",
                 "import os\nos.chdir(b'/workspace')\n"
                 "for n in (b'new\\nline', b'\\xff\\xfe', 'ü€'.encode(), b'quote\"', b'tab\\t', "
                 "b'n' * 255):\n    open(n, 'w').close()"])
    entries = told(client, f"{sandbox.path}/diff?format=ndjson", "/workspace")
    assert sorted(entries) == sorted(b"/workspace/" + name for name in (
        b"new\nline", b"\xff\xfe", "ü€".encode(), b'quote"', b"tab\t", b"n" * 255))


def test_a_tree_that_is_too_deep_is_an_error(client, sandbox):
    sandbox.out(["python3", "-c",
                 "import os\nos.chdir('/workspace')\n"
                 "for i in range(400):\n    os.mkdir('d')\n    os.chdir('d')"])
    refused = client.call("GET", f"{sandbox.path}/diff")
    assert refused.status == 409 and "deeper" in refused.error["message"]
    # Nobody else is hurt, and it goes on when the tree is gone.
    sandbox.out("rm -rf /workspace/d")
    client.expect(200, "GET", f"{sandbox.path}/diff")


def test_a_name_that_means_something_else_in_a_layer(client, sandbox):
    sandbox.write("/workspace/.wh.x", b"")
    assert client.expect(200, "GET", f"{sandbox.path}/diff").data["count"] >= 1
    refused = client.call("GET", f"{sandbox.path}/export?layer_only=true")
    assert refused.status == 409 and refused.error["details"]["reason"] == "unrepresentable_name"


def test_many_files(client, sandbox):
    count = 100_000
    sandbox.out(["python3", "-c",
                 "import os\nos.makedirs('/workspace/many')\nos.chdir('/workspace/many')\n"
                 f"for i in range({count}):\n    os.mknod(str(i))"], timeout_ms=120_000)
    data = client.expect(200, "GET", f"{sandbox.path}/diff?limit=10").data
    assert data["truncated"] and data["count"] == 10
    connection = client.connection(120)
    try:
        connection.request("GET", f"{sandbox.path}/diff?format=ndjson", headers=client.headers())
        response = connection.getresponse()
        assert response.status == 200
        assert sum(1 for line in response if b'"/workspace/many/' in line) == count
    finally:
        connection.close()


def test_a_client_that_leaves_takes_the_cell_with_it(client, server, sandbox):
    sandbox.out("head -c 50000000 /dev/urandom > /workspace/big")
    connection = client.connection(60)
    connection.request("GET", f"{sandbox.path}/diff?format=tar", headers=client.headers())
    response = connection.getresponse()
    assert response.status == 200 and len(response.read(1000)) == 1000
    response.close()
    connection.close()
    assert client.expect(200, "GET", f"{sandbox.path}/diff").data["count"] > 0
    # Neither its cell stays nor the moment of the sandbox it looked at.
    records = pathlib.Path(server.data_dir, "cells")
    deadline = time.monotonic() + 30
    while any(name.startswith("build-") for name in os.listdir(records)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
