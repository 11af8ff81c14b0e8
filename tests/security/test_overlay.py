"""The overlay below the sandbox: its layers are shared by all, so nobody may change them."""
import pytest

from security_values import refused


@pytest.mark.parametrize("path", ["/etc/passwd", "/usr/bin/env", "/etc/sudoers.d/user"])
def test_changed_layer_file_is_changed_for_nobody_else(fresh_attack, neighbour, path):
    before = neighbour.out(["sha256sum", path], user="root")
    attack = fresh_attack()
    got = attack("""
        os.chmod(PATH, 0o777)
        with open(PATH, 'a') as file:
            file.write('evil')
        got['text'] = open(PATH, 'rb').read()[-4:].decode()
    """, PATH=path)
    assert got["text"] == "evil"
    assert neighbour.out(["sha256sum", path], user="root") == before


def test_deleted_layer_tree_is_deleted_for_nobody_else(fresh_attack, neighbour, create):
    attack = fresh_attack()
    attack.sandbox.run(["rm", "-rf", "/usr/lib/python3", "/etc/ssl", "/home"], user="root")
    assert neighbour.run(["ls", "/usr/lib/python3", "/etc/ssl", "/home/user"])["exit_code"] == 0
    assert create().run(["ls", "/usr/lib/python3", "/etc/ssl", "/home/user"])["exit_code"] == 0


def test_whiteout_nodes_hide_nothing_and_open_nothing(attack):
    """A character device 0/0 is how an overlay marks "deleted"."""
    got = attack("""
        os.makedirs('/tmp/white', exist_ok=True)
        got['made'] = attempt(os.mknod, '/tmp/white/hole', stat.S_IFCHR | 0o666, 0)
        got['opened'] = attempt(os.open, '/tmp/white/hole', os.O_RDWR | os.O_NONBLOCK)
        got['over'] = attempt(os.mknod, '/etc/whiteout', stat.S_IFCHR | 0o666, 0)
        rename = libc.renameat2(-100, b'/etc/hosts', -100, b'/etc/hosts.moved', 4)  # WHITEOUT
        got['rename'] = rename
        got['hosts'] = os.path.exists('/etc/hosts') or os.path.exists('/etc/hosts.moved')
        if os.path.exists('/etc/hosts.moved'):
            os.rename('/etc/hosts.moved', '/etc/hosts')
    """)
    assert refused(got["opened"]) and got["hosts"]


@pytest.mark.parametrize("namespace", ["trusted.overlay", "user.overlay"])
@pytest.mark.parametrize("name,value", [("redirect", "/proc/1/root"), ("redirect", "../../../.."),
                                        ("opaque", "y"), ("metacopy", ""), ("origin", "x"),
                                        ("whiteout", "y"), ("upper", "x")],
                         ids=["redirect absolute", "redirect up", "opaque", "metacopy", "origin",
                              "whiteout", "upper"])
def test_overlay_attributes_expose_nothing(attack, namespace, name, value):
    """Attributes the overlay itself uses to find lower files, set by an attacker's hand."""
    got = attack("""
        import shutil
        shutil.rmtree('/tmp/trick', ignore_errors=True)
        os.makedirs('/tmp/trick/directory')
        open('/tmp/trick/file', 'w').write('mine')
        got['set'] = [attempt(os.setxattr, path, f'{NAMESPACE}.{NAME}', VALUE.encode())
                      for path in ('/tmp/trick/directory', '/tmp/trick/file', '/tmp/trick')]
        got['listing'] = sorted(os.listdir('/tmp/trick/directory'))
        got['texts'] = [read('/tmp/trick/directory' + CANARY), read('/tmp/trick/file' + CANARY)]
        got['text'] = read('/tmp/trick/file')
    """, NAMESPACE=namespace, NAME=name, VALUE=value)
    assert all(refused(text) for text in got["texts"])
    assert got["listing"] == [] and got["text"] in ("mine", "!ENOENT")
    if namespace == "trusted.overlay":
        assert all(refused(result) for result in got["set"])


def test_forged_overlay_attributes_do_not_survive_as_such(attack):
    """What an attacker stores must not be what the next mount of this upper believes."""
    got = attack("""
        import shutil
        shutil.rmtree('/tmp/forge', ignore_errors=True)
        os.makedirs('/tmp/forge')
        got['set'] = attempt(os.setxattr, '/tmp/forge', 'user.overlay.redirect', b'/etc')
        os.rename('/tmp/forge', '/tmp/forge2') if not os.path.exists('/tmp/forge2') else None
        got['listing'] = os.listdir('/tmp/forge2')
    """)
    assert got["listing"] == []


def test_layers_and_work_directory_have_no_path(attack):
    """Upper, work and lower directories lie outside the root the sandbox has."""
    got = attack("""
        got['found'] = [path for path in ('/l0', '/u', '/root/u', '/s', '/work', '/upper', '/.old')
                        if os.path.exists(path)]
        got['options'] = [line for line in read('/proc/self/mountinfo').splitlines()
                          if ' overlay ' in line]
    """)
    assert got["found"] == []
    assert all("lowerdir=/" not in line and "upperdir=/" not in line for line in got["options"])


def test_file_of_the_neighbour_is_invisible(attack, neighbour):
    neighbour.write("/tmp/private", "the neighbour's own")
    got = attack("got['text'] = read('/tmp/private')")
    assert got["text"] == "!ENOENT"
    assert neighbour.read("/tmp/private") == b"the neighbour's own"
