"""A tree as it should be: changed by the same list of changes as the real one, and described in the
same words (tree_tool.py). Knows nothing of disks.
"""
import copy
import json
import posixpath

import tree_tool

OWNERS = [(0, 0), (1000, 1000), (12345, 54321)]
ODD_NAMES = ["plain", "-rf", "two words", "new\nline", "tab\there", "quo'te\"s", "back\\slash", "*",
             "é", "e\u0301", "日本語", "🏝", "a" * 255, "\udcff\udcfe", ".hidden", "...", "\x01",
             "%2e%2e", "$HOME", "con"]


class Node:
    """Several paths share one when they are hard links of each other."""

    def __init__(self, kind, mode=0, owner=(0, 0), content=b"", mtime=0, target="", fixed=None):
        self.kind, self.mode, self.owner = kind, mode, tuple(owner)
        self.content, self.mtime, self.target, self.xattrs = content, mtime, target, {}
        self.fixed = fixed   # (size, digest) of a file whose content we were never told
        self.given = fixed is not None   # came with the template


class TreeModel:
    def __init__(self, roots, described):
        """Begins as what was there before anybody changed it."""
        self.roots, self.nodes, twins = list(roots), {}, {}
        for text in described:
            path, kind, mode, owner, twin, size, digest, mtime, xattrs, target = json.loads(text)
            if kind == "file" and twin in twins:
                self.nodes[path] = twins[twin]
                continue
            node = Node(kind, mode, owner, mtime=mtime, target=target, fixed=(size, digest))
            node.xattrs = {name: value for name, value in xattrs}
            self.nodes[path] = twins[path] = node

    def copy(self):
        return copy.deepcopy(self)

    def manifest(self):
        paths = sorted(self.nodes, key=tree_tool.encode)
        first, lines = {}, []
        for path in paths:
            node = self.nodes[path]
            if node.kind == "link":
                lines.append(tree_tool.line(path, "link", owner=node.owner, target=node.target))
                continue
            fields = {"mode": node.mode, "owner": node.owner, "xattrs": node.xattrs.items()}
            if node.kind == "file":
                size, digest = node.fixed or (len(node.content), tree_tool.sha256(node.content))
                fields.update(size=size, digest=digest, mtime=node.mtime,
                              twin=first.setdefault(id(node), path))
            lines.append(tree_tool.line(path, node.kind, **fields))
        return lines

    def digest(self):
        return tree_tool.sha256("\n".join(self.manifest()).encode())

    # Changes --------------------------------------------------------------------------------------
    def of_kind(self, *kinds):
        return sorted(path for path, node in self.nodes.items()
                      if node.kind in kinds and path not in self.roots)

    def below(self, path):
        return [each for each in self.nodes if each == path or each.startswith(path + "/")]

    def new_path(self, generator):
        directory = generator.choice(self.roots + self.of_kind("directory"))
        for _ in range(20):
            path = posixpath.join(directory, generator.choice(ODD_NAMES))
            if path not in self.nodes and len(tree_tool.encode(path)) < 3000:
                return path
        return posixpath.join(directory, f"n{generator.randrange(1 << 60)}")

    def changes(self, generator, count):
        """A list for tree_tool.apply, made real here."""
        made = []
        while len(made) < count:
            verb = generator.choice(CHANGES)
            change = verb(self, generator)
            if change:
                made.append(change)
        return made


def end_of(node, generator):
    node.mtime = generator.randrange(10 ** 18, 2 * 10 ** 18)
    return [node.mode, list(node.owner), node.mtime]


def some_mode(generator):
    return generator.choice([0o644, 0o000, 0o7777, 0o4755, 0o1777, generator.randrange(0o10000)])


def new_file(model, generator):
    path = model.new_path(generator)
    size = generator.choice([0, 1, 100, 4096, 70_000])
    offset = generator.choice([0, 0, 0, 5_000_000])   # sparse
    seed = generator.randrange(1 << 30)
    node = Node("file", some_mode(generator), generator.choice(OWNERS))
    node.content = bytes(offset) * bool(size) + tree_tool.content_of(seed, size)
    model.nodes[path] = node
    return ["write", path, offset, seed, size, True, *end_of(node, generator)]


def known_file(model, generator):
    files = [path for path in model.of_kind("file") if not model.nodes[path].fixed]
    return generator.choice(files) if files else None


def overwrite(model, generator):
    path = known_file(model, generator)
    if not path:
        return None
    node = model.nodes[path]
    seed, size = generator.randrange(1 << 30), generator.choice([1, 4096, 10_000])
    offset = generator.randrange(len(node.content) + 1)
    piece = tree_tool.content_of(seed, size)
    node.content = node.content[:offset] + piece + node.content[offset + size:]
    return ["write", path, offset, seed, size, False, *end_of(node, generator)]


def replace(model, generator):
    """Also of files that came with the template."""
    files = model.of_kind("file")
    if not files:
        return None
    path = generator.choice(files)
    node = model.nodes[path]
    seed, size = generator.randrange(1 << 30), generator.randrange(20_000)
    node.content, node.fixed = tree_tool.content_of(seed, size), None
    return ["write", path, 0, seed, size, True, *end_of(node, generator)]


def truncate(model, generator):
    path = known_file(model, generator)
    if not path:
        return None
    node = model.nodes[path]
    size = generator.randrange(len(node.content) + 1)
    node.content = node.content[:size]
    return ["truncate", path, size, *end_of(node, generator)]


def change_mode(model, generator):
    paths = model.of_kind("file", "directory")
    path = generator.choice(paths)
    node = model.nodes[path]
    node.mode, node.owner = some_mode(generator), generator.choice(OWNERS)
    end = end_of(node, generator)
    return ["finish", path, *(end if node.kind == "file" else [*end[:2], None])]


def special(kind, verb):
    def make(model, generator):
        path = model.new_path(generator)
        node = model.nodes[path] = Node(kind, some_mode(generator), generator.choice(OWNERS))
        return [verb, path, node.mode, list(node.owner)]
    return make


def symlink(model, generator):
    path = model.new_path(generator)
    target = generator.choice(["/nowhere", "..", "é\n", "x" * 900, generator.choice(list(model.nodes))])
    model.nodes[path] = Node("link", target=target)
    return ["symlink", path, target]


def hard_link(model, generator):
    """Not of a file that came with the template: an overlay shows the two as different files."""
    files = [path for path in model.of_kind("file") if not model.nodes[path].given]
    if not files:
        return None
    source = generator.choice(files)
    path = model.new_path(generator)
    model.nodes[path] = model.nodes[source]
    return ["link", path, source]


def rename(model, generator):
    paths = model.of_kind("file", "fifo", "socket", "link", "directory")
    if not paths:
        return None
    path = generator.choice(paths)
    target = model.new_path(generator)
    if target.startswith(path + "/") or (model.nodes[path].kind == "directory"
                                         and model.nodes[path].given):
        return None   # the kernel refuses to move a directory that came with the template
    for each in model.below(path):
        model.nodes[target + each[len(path):]] = model.nodes.pop(each)
    return ["rename", path, target]


def set_xattr(model, generator):
    paths = model.of_kind("file", "directory")
    path = generator.choice(paths)
    name, value = f"user.x{generator.randrange(3)}", generator.randbytes(generator.randrange(60)).hex()
    model.nodes[path].xattrs[name] = value
    return ["setxattr", path, name, value]


def remove_xattr(model, generator):
    paths = [path for path in model.of_kind("file", "directory") if model.nodes[path].xattrs]
    if not paths:
        return None
    path = generator.choice(paths)
    name = generator.choice(sorted(model.nodes[path].xattrs))
    del model.nodes[path].xattrs[name]
    return ["removexattr", path, name]


def unlink(model, generator):
    paths = model.of_kind("file", "fifo", "socket", "link")
    if not paths:
        return None
    path = generator.choice(paths)
    del model.nodes[path]
    return ["unlink", path]


def remove_tree(model, generator):
    paths = model.of_kind("directory")
    if not paths or generator.random() < 0.6:   # trees shall grow
        return None
    path = generator.choice(paths)
    for each in model.below(path):
        del model.nodes[each]
    return ["rmtree", path]


make_directory = special("directory", "mkdir")
CHANGES = [new_file, new_file, new_file, overwrite, replace, truncate, change_mode, make_directory,
           make_directory, special("fifo", "fifo"), special("socket", "socket"), symlink, hard_link,
           rename, set_xattr, remove_xattr, unlink, remove_tree]
