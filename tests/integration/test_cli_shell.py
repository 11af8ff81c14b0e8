"""`atoll shell` in a real terminal."""
import hashlib
import os
import shutil
import signal
import subprocess

import pytest

from harness.command import Command
from harness.server import BIN_DIR, Server, wait_until


@pytest.fixture(scope="module")
def atoll(server):
    return Command(server)


PROMPT = r"[$#] ?$"


def test_keys_output_and_status(atoll, sandbox):
    with atoll.terminal(f"shell {sandbox.id}") as terminal:
        terminal.wait_for(PROMPT)
        terminal.line("echo $((6 * 7)) is-a-tty-$(tty | cut -c1-8) $TERM")
        terminal.wait_for("^42 is-a-tty-/dev/pts (tmux|screen)")
        terminal.line("exit 7")
        assert terminal.status() == 7
        assert terminal.modes_are_back()
    # The context has gone with its shell.
    listed = sandbox.client.call("GET", sandbox.path + "/contexts").data["contexts"]
    assert listed == []


def test_window_size_follows(atoll, sandbox):
    with atoll.terminal(f"shell {sandbox.id}", columns=90, rows=25) as terminal:
        terminal.wait_for(PROMPT)
        terminal.line("stty size")
        terminal.wait_for("^25 90$")
        terminal.line("trap 'echo resized to $(stty size)' WINCH; echo trap-is-set")
        terminal.wait_for("^trap-is-set$")
        terminal.resize(120, 40)
        terminal.key("Enter")
        terminal.wait_for("resized to 40 120$")
        terminal.line("exit")
        assert terminal.status() == 0


def test_ctrl_c_and_ctrl_d_belong_to_the_shell(atoll, sandbox):
    with atoll.terminal(f"shell {sandbox.id}") as terminal:
        terminal.wait_for(PROMPT)
        terminal.line("echo begin; sleep 1000; echo not-reached")
        terminal.wait_for("^begin$")
        terminal.key("C-c")
        terminal.line("echo status=$?")
        terminal.wait_for("^status=130$")
        terminal.key("C-d")
        assert terminal.status() == 0


def test_a_signal_that_ends_the_shell(atoll, sandbox):
    with atoll.terminal(f"shell {sandbox.id}") as terminal:
        terminal.wait_for(PROMPT)
        terminal.line("kill -9 $$")
        assert terminal.status() == 137
        assert terminal.modes_are_back()


def test_a_temporary_sandbox_goes_and_a_kept_one_stays(atoll, client):
    before = set(client.list_ids())
    with atoll.terminal("shell -- sh -c 'echo ready; read x; exit 3'") as terminal:
        terminal.wait_for("^ready")
        assert len(set(client.list_ids()) - before) == 1
        terminal.key("Enter")
        assert terminal.status() == 3
    assert set(client.list_ids()) == before
    with atoll.terminal("shell --keep -- true") as terminal:
        assert terminal.status() == 0
        kept = set(client.list_ids()) - before
        assert len(kept) == 1 and kept.copy().pop() in terminal.screen()
    atoll("rm", *kept)


def test_a_large_paste_arrives_whole(atoll, sandbox):
    text = "".join(f"line {number} {'x' * 60}\n" for number in range(4000))
    with atoll.terminal(f"shell {sandbox.id} -- sh -c 'stty -echo; echo go; sha256sum; read x'",
                        ) as terminal:
        terminal.wait_for("^go")
        terminal.paste(text)
        terminal.key("C-d")
        terminal.wait_for(hashlib.sha256(text.encode()).hexdigest())
        terminal.key("Enter")
        terminal.status()


def test_bytes_pass_both_ways_untouched(atoll, sandbox):
    # Every byte but those of the escapes, through a raw terminal inside.
    program = ("import os,sys,tty,hashlib; tty.setraw(0); os.write(1, b'go\\r\\n'); data = b'';\n"
               "while len(data) < 65536: data += os.read(0, 65536)\n"
               "os.write(1, hashlib.sha256(data).hexdigest().encode())")
    data = bytes(range(256)) * 256
    master, slave = os.openpty()
    process = subprocess.Popen([BIN_DIR / "atoll", "shell", "--no-escape", sandbox.id, "--",
                                "python3", "-c", program], stdin=slave, stdout=slave, env=atoll.env)
    os.close(slave)
    try:
        seen = b""
        while b"go" not in seen:
            seen += os.read(master, 65536)
        rest = data
        while rest:
            rest = rest[os.write(master, rest[:2048]):]
        while hashlib.sha256(data).hexdigest().encode() not in seen:
            piece = os.read(master, 65536)
            assert piece, seen
            seen += piece
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_detach_and_attach(atoll, sandbox):
    with atoll.terminal(f"shell {sandbox.id}") as terminal:
        terminal.wait_for(PROMPT)
        terminal.line("secret=word-$((40 + 2)); echo before")
        terminal.wait_for("^before$")
        terminal.type("~.")
        assert terminal.status() == 0
        assert terminal.modes_are_back()
        context = terminal.wait_for("--attach (ctx-[0-9a-f]+)").group(1)
    with atoll.terminal(f"shell {sandbox.id} --attach {context}") as terminal:
        terminal.wait_for("^before$")  # what was on the screen is shown again
        terminal.line("echo again-$secret")
        terminal.wait_for("^again-word-42$")
        terminal.line("exit 4")
        assert terminal.status() == 4


def test_a_tilde_is_only_special_after_a_newline(atoll, sandbox):
    with atoll.terminal(f"shell {sandbox.id}") as terminal:
        terminal.wait_for(PROMPT)
        terminal.line("echo a~.b")
        terminal.wait_for(r"^a~\.b$")
        terminal.line("~~ 2>&1 | head -c 0; echo one-tilde")
        terminal.wait_for("^one-tilde$")
        terminal.type("~?")
        terminal.wait_for("detach: the shell goes on")
        terminal.line("exit")
        terminal.status()


@pytest.mark.parametrize("number,status", [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_us_restores_the_terminal(atoll, sandbox, number, status):
    with atoll.terminal(f"shell {sandbox.id}") as terminal:
        terminal.wait_for(PROMPT)
        os.kill(terminal.child("atoll"), number)
        assert terminal.status() == status
        assert terminal.modes_are_back()
    assert sandbox.client.call("GET", sandbox.path + "/contexts").data["contexts"] == []


def test_without_a_terminal_it_says_what_to_use(atoll, sandbox):
    done = atoll("shell", sandbox.id, check=125)
    assert "must be a terminal" in done.stderr and "atoll exec" in done.stderr
    assert "exec -o json" in atoll("shell", "-o", "json", sandbox.id, check=125).stderr


def test_a_missing_sandbox_and_a_missing_server(atoll):
    with atoll.terminal("shell sb-00000000") as terminal:
        assert terminal.status() == 125
        terminal.wait_for("sb-00000000")
        assert terminal.modes_are_back()
    with atoll.terminal("--api-url http://127.0.0.1:1 shell") as terminal:
        assert terminal.status() == 125
        terminal.wait_for("atoll serve")


def test_a_killed_server_loses_nothing(atoll):
    """The API process dies under an open shell: the supervisor brings it back, and every line that
    was printed meanwhile is there, once."""
    with Server() as server:
        atoll = Command(server)
        sandbox = server.client.create()
        with atoll.terminal(f"shell {sandbox.id}", columns=60) as terminal:
            terminal.wait_for(PROMPT)
            terminal.line("stty -echo; for i in $(seq 400); do echo n$i; sleep 0.01; done; echo all")
            terminal.wait_for("^n50$", history=True)
            os.kill(server.daemons()["api"], signal.SIGKILL)
            # Keys that the dying process still took are gone with it; those typed from here on wait.
            terminal.wait_for("the connection broke", history=True)
            terminal.type("echo typed-meanwhile\n")
            terminal.wait_for("^all$", seconds=120)
            terminal.wait_for("^typed-meanwhile$")
            seen = [line for line in terminal.screen(history=True).split("\n")
                    if line.startswith("n") and line[1:].isdigit()]
            assert seen == [f"n{number}" for number in range(1, 401)]
            terminal.line("exit 5")
            assert terminal.status() == 5
            assert terminal.modes_are_back()


def test_expect_drives_it_too(atoll, sandbox, tmp_path):
    assert shutil.which("expect"), "install expect (packaging/apt-test-deps.txt)"
    script = tmp_path / "script"
    script.write_text(f"""
set timeout 60
spawn atoll shell {sandbox.id} -- python3 -q
expect ">>> "
send "6 * 7\\r"
expect "42"
expect ">>> "
send "\\004"
expect eof
catch wait result
exit [lindex $result 3]
""")
    done = subprocess.run(["expect", str(script)], env=atoll.env, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout
