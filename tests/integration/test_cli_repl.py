"""`atoll repl` in a real terminal and from a pipe."""
import json
import os
import struct
import zlib

import pytest

from harness.command import Command


@pytest.fixture(scope="module")
def atoll(server):
    return Command(server)


def png(width, height):
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    rows = b"".join(b"\0" + b"\0\0\0" * width for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


PICTURE = """
class Picture:
    def _repr_png_(self):
        return bytes.fromhex('%s')
Picture()
""" % png(64, 48).hex()


def test_state_values_errors_and_the_end(atoll, sandbox):
    with atoll.terminal(f"repl {sandbox.id}") as terminal:
        terminal.wait_for("^>>> ")
        terminal.line("x = 20 + 1")
        terminal.line("x * 2")
        terminal.wait_for("^42$")
        terminal.line("import sys; print('to-stderr', file=sys.stderr)")
        terminal.wait_for("^to-stderr$")
        terminal.line("1 / 0")
        terminal.wait_for("ZeroDivisionError")
        terminal.line("x")
        terminal.wait_for("^21$")
        terminal.key("C-d")
        assert terminal.status() == 0
        assert terminal.modes_are_back()


def test_several_lines(atoll, sandbox):
    with atoll.terminal(f"repl {sandbox.id}") as terminal:
        terminal.wait_for("^>>> ")
        terminal.line("def twice(value):")
        terminal.wait_for(r"^\.\.\. ")
        terminal.line("    return value * 2")
        terminal.line("")
        terminal.line("twice('ab')")
        terminal.wait_for("^'abab'$")
        terminal.line("[1,")
        terminal.line(" 2]")
        terminal.wait_for(r"^\[1, 2\]$")
        terminal.paste("for i in range(3):\n    print('pasted', i)\n\nprint('end of paste')\n",
                       bracketed=True)
        terminal.wait_for("^end of paste$")
        assert "pasted 2" in terminal.screen()
        terminal.key("C-d")
        terminal.status()


def test_editing_and_history(atoll, sandbox):
    with atoll.terminal(f"repl {sandbox.id}", columns=40) as terminal:
        terminal.wait_for("^>>> ")
        terminal.type("'acd'")
        terminal.key("Home", "Right", "Right")
        terminal.type("b")
        terminal.key("Enter")
        terminal.wait_for("^'abcd'$")
        terminal.key("Up", "BSpace")
        terminal.type("e' + 'ü'")
        terminal.key("Enter")
        terminal.wait_for("^'abcdeü'$")
        terminal.type("wrong")
        terminal.key("C-u")
        terminal.line(f"len('{'y' * 100}')")  # longer than the window
        terminal.wait_for("^100$")
        terminal.key("C-d")
        terminal.status()


def test_ctrl_c_interrupts_the_code_and_keeps_state(atoll, sandbox):
    with atoll.terminal(f"repl {sandbox.id}") as terminal:
        terminal.wait_for("^>>> ")
        terminal.line("kept = 'still here'")
        terminal.line("while not print('looping', flush=True): import time; time.sleep(1)")
        terminal.wait_for("^looping")
        terminal.key("C-c")
        terminal.wait_for("KeyboardInterrupt")
        terminal.line("kept")
        terminal.wait_for("^'still here'$")
        terminal.type("half a line")
        terminal.key("C-c")
        terminal.line("'a new line'")
        terminal.wait_for("^'a new line'$")
        terminal.key("C-d")
        assert terminal.status() == 0


@pytest.mark.parametrize("language,code,shown", [
    ("javascript", "[1, 2].map(x => x + 1)", "[ 2, 3 ]"),
    ("bash", "echo $((40 + 2)); cd /tmp; pwd", "42\n/tmp"),
    ("python", "print('a'); 6 * 7", "a\n42"),
    ("perl", "print 6 * 7", "42"),  # on a terminal in the sandbox, without a driver
])
def test_piped_code(atoll, sandbox, language, code, shown):
    done = atoll("repl", "-q", sandbox.id, "-l", language, stdin=code)
    assert done.stdout.strip() == shown


def test_piped_errors_are_the_status(atoll, sandbox):
    done = atoll("repl", sandbox.id, stdin="print('before'); raise ValueError('reason')", check=1)
    assert done.stdout == "before\n" and "ValueError: reason" in done.stderr
    done = atoll("repl", sandbox.id, "--timeout", "1", stdin="while True: pass", check=124)
    assert "--timeout" in done.stderr
    done = atoll("repl", sandbox.id, "-l", "cobol", stdin="", check=125)
    assert "cobol" in done.stderr


def test_json(atoll, sandbox):
    done = json.loads(atoll("repl", "-o", "json", sandbox.id, stdin="print('x'); 6 * 7").stdout)
    assert done["stdout"] == "x\n" and done["status"] == "ok"
    assert done["results"][0]["data"]["text/plain"] == "42"


def test_pictures(atoll, sandbox, tmp_path):
    shown = atoll("repl", sandbox.id, stdin=PICTURE).stdout
    assert "[image/png 64x48]" in shown
    directory = tmp_path / "plots"
    for number in (1, 2):  # nothing is overwritten
        shown = atoll("repl", sandbox.id, "--save-images", str(directory), stdin=PICTURE).stdout
        assert f"[image/png 64x48 -> {directory}/image-{number}.png]" in shown
    assert (directory / "image-1.png").read_bytes() == png(64, 48)


def test_a_temporary_sandbox_goes(atoll, client):
    before = set(client.list_ids())
    assert atoll("repl", stdin="print(1)").stdout == "1\n"
    assert set(client.list_ids()) == before


def test_big_output_of_a_cell(atoll, sandbox):
    done = atoll("repl", sandbox.id, stdin="import sys; sys.stdout.write('z' * 5_000_000)\nNone")
    assert done.stdout.count("z") == 5_000_000


def test_the_interpreters_exit_is_ours(atoll, sandbox):
    atoll("repl", sandbox.id, stdin="import os; os._exit(9)", check=9)
