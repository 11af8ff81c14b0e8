"""REPLs on a terminal: the aliases without a driver, and those a client defines itself."""
import base64
import os
import re
import shutil
import subprocess
import threading

import pytest

from harness.server import wait_until
from test_interpreters import Interpreter
from test_websocket import WebSocket


def install(sandbox, program):
    """Copies a program of this machine with its libraries: both are the same Debian."""
    source = shutil.which(program)
    if source is None:
        pytest.skip(f"this machine has no {program} (packaging/apt-test-deps.txt)")
    linked = subprocess.run(["ldd", source], capture_output=True, text=True, check=True).stdout
    for path in {source, *re.findall(r"=> (/\S+)", linked)}:
        if sandbox.run(["test", "-e", path])["exit_code"] != 0:
            with open(os.path.realpath(path), "rb") as file:
                sandbox.write(path, file.read(), user="root")
            sandbox.out(["chmod", "755", path], user="root")


@pytest.fixture(scope="module")
def sandbox(client):
    shared = client.create()
    for program in ("lua5.4", "sqlite3", "zsh"):
        install(shared, program)
    yield shared
    client.call("DELETE", shared.path)


@pytest.fixture
def repl(sandbox):
    made = []

    def make(alias=None, config=None, **fields):
        body = {"alias": alias} if config is None else {"repl_config": config}
        made.append(Interpreter(sandbox, None, **{"repl": body, **fields}))
        return made[-1]

    yield make
    for each in made:
        sandbox.client.call("DELETE", each.path)


PYTHON = {"name": "mypy", "candidates": [{"name": "no-such-python"},
                                         {"name": "python3", "args": ["-q", "-i"]}],
          "ready": {"mode": "prompt_token", "token": ">>> "}}
BASH = {"name": "mybash", "candidates": [{"name": "bash", "args": ["--norc", "--noediting", "-i"]}],
        "env": [{"name": "PS1", "value_from": "prompt"}, {"name": "WHICH", "value_from": "term"}],
        "default_term": "vt100"}


@pytest.mark.parametrize("alias,code,expected", [
    ("lua", "x = 20\nfor i = 1, 2 do\n  x = x + i\nend\nprint(x)\n\nx + 1", "23\n24\n"),
    ("lua5.4", "1 + 1", "2\n"),
    ("sqlite", "create table t(a);\ninsert into t\nvalues (1), (2);\nselect sum(a) from t;", "3\n"),
    ("zsh", "for i in a b; do\necho $i\ndone\necho no newline | tr -d '\\n'", "a\nb\nno newline"),
    ("perl", "$x = 41;\nsub f {\n  return $_[0] + 1;\n}\nprint f($x), \"\\n\";", "42\n")])
def test_builtin_repls_run_code_of_many_lines(repl, alias, code, expected):
    context = repl(alias)
    assert context.context["alias"] == alias and context.context["type"] == "repl"
    for _ in range(2):
        done = context.exec(code if alias != "sqlite" else code.replace("create table", "create table if not exists"))
        assert done["outcome"] == "completed" and done["status"] == "ok", done
        if alias != "sqlite":
            assert done["output_raw"] == done["stdout"] == expected, done
    if alias == "sqlite":
        assert context.exec("select sum(a) from t;")["output_raw"] == "6\n"


@pytest.mark.parametrize("alias,first,second,expected", [
    ("lua", "x = 5", "print(x)", "5\n"), ("zsh", "x=5; cd /usr", "echo $x $PWD", "5 /usr\n"),
    ("perl", "$x = 5; print 'a'", "print $x", "5")])
def test_state_stays_and_a_long_line_is_whole(repl, alias, first, second, expected):
    context = repl(alias)
    context.exec(first)
    assert context.exec(second)["output_raw"] == expected
    text = "y" * 20000
    quoted = {"lua": f'print("{text}")', "zsh": f"echo {text}", "perl": f'print "{text}\\n"'}[alias]
    assert context.exec(quoted)["output_raw"] == text + "\n"


CUTTING_IRB = """#!/usr/bin/python3
import re, sys
main, more, text = "> ", "+ ", ""
while True:
    sys.stdout.write(main if text == "" else more)
    sys.stdout.flush()
    text += sys.stdin.buffer.readline(4096).decode()
    if not text:
        break
    if text.endswith("\\n"):
        found = re.search(r'prompt_i="(.*?)";conf.prompt_s=conf.prompt_c="(.*?)"', text)
        if found:
            main, more = found.groups()
        else:
            print(len(text) - 1)
        text = ""
"""


def test_a_program_that_takes_long_lines_in_pieces(repl, sandbox):
    """It asks for more in the middle of a line."""
    sandbox.write("/usr/local/bin/irb", CUTTING_IRB, user="root")
    sandbox.out(["chmod", "755", "/usr/local/bin/irb"], user="root")
    try:
        ruby = repl("ruby")
        assert ruby.exec("x" * 20000 + "\nshort")["output_raw"] == "20000\n5\n"
        assert ruby.exec("y")["output_raw"] == "1\n"
    finally:
        sandbox.out(["rm", "/usr/local/bin/irb"], user="root")


def test_output_may_look_like_a_prompt(repl):
    lua = repl("lua")
    done = lua.exec("io.write('_S0_> ')\nio.write('_S0_00000000> x')")
    assert done["output_raw"].replace("file (0x", "").startswith("_S0_> ")
    assert "_S0_00000000> x" in done["output_raw"]
    assert lua.exec("print(7)")["output_raw"] == "7\n"


def test_half_of_something_is_incomplete_and_goes_on(repl):
    lua = repl("lua")
    done = lua.exec("for i = 1, 2 do")
    assert done["status"] == "incomplete" and done["output_raw"] == "", done
    assert lua.exec("print(i)")["status"] == "incomplete"
    assert lua.exec("end")["output_raw"] == "1\n2\n"


@pytest.mark.parametrize("alias,forever,after,expected", [
    ("lua", "io.write('begun\\n') while true do end", "print(x)", "5\n"),
    ("zsh", "echo begun; sleep 1000", "echo $x", "5\n"),
    ("perl", "print \"begun\\n\"; while (1) {}", "print $x", "5")])
def test_timeout_interrupts_and_keeps_output_and_state(repl, alias, forever, after, expected):
    context = repl(alias)
    context.exec({"lua": "x = 5", "zsh": "x=5", "perl": "$x = 5;"}[alias])
    done = context.exec(forever, timeout_ms=700)
    assert done["outcome"] == "timed_out" and done["output_raw"].startswith("begun\n"), done
    assert done["status"] == "interrupted" and done["running"] is True
    assert context.exec(after)["output_raw"] == expected


def test_code_that_ignores_the_interrupt_does_not_spoil_the_next(repl):
    zsh = repl("zsh")
    done = zsh.exec("sh -c \"trap '' INT; echo begun; sleep 5; echo late\"", timeout_ms=500)
    assert done["outcome"] == "timed_out" and done["output_raw"].startswith("begun\n")
    waited = zsh.exec("echo never", timeout_ms=200)
    assert waited["outcome"] == "never_started"
    assert zsh.exec("echo next")["output_raw"] == "next\n"


def test_code_reads_what_input_sends(repl, sandbox):
    lua = repl("lua")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(lua.exec(
        "print('name?') name = io.read()\nprint('hello ' .. name)")))
    thread.start()
    wait_until(lambda: "name?" in sandbox.context(lua.context["id"])["output_raw"], 20, "asked")
    sandbox.client.expect(200, "POST", f"{lua.path}/input", {"data": "you\n"})
    thread.join(30)
    assert answers[0]["output_raw"] == "name?\nhello you\n"


def test_a_definition_with_its_own_token(repl):
    python = repl(config=PYTHON)
    assert python.context["alias"] == "mypy"
    assert python.exec("1 + 1")["output_raw"] == "2\n"
    done = python.exec("for i in range(2):\n  print(i)\n\nprint('end')")
    assert done["output_raw"].replace("... ", "") == "0\n1\nend\n", done
    assert python.exec("print('a >>> b')")["output_raw"] == "a >>> b\n"
    assert "ZeroDivisionError" in python.exec("1 / 0")["output_raw"]


def test_a_definition_that_takes_our_prompt(repl):
    bash = repl(config=BASH)
    assert bash.exec("echo $WHICH; x=1")["output_raw"] == "vt100\n"
    assert bash.exec("echo $x\nfalse; echo $?")["output_raw"] == "1\n1\n"
    done = bash.exec("for i in 1 2; do sleep 0.1; done; echo slow\necho fast")
    assert done["output_raw"] == "slow\nfast\n"


def test_a_definition_that_waits_for_silence(repl):
    shell = repl(config={"name": "quiet", "candidates": [{"name": "sh"}],
                         "env": [{"name": "PS1", "value": ""}],
                         "ready": {"mode": "startup_delay", "startup_delay_ms": 400}})
    assert shell.exec("echo one")["output_raw"] == "one\n"


def test_restart_and_automatic_restart(repl, sandbox):
    bash = repl(config=BASH, env_vars={"KEPT": "yes"})
    bash.exec("x=1")
    again = sandbox.client.expect(200, "POST", f"{bash.path}/restart").data
    assert again["id"] == bash.context["id"] and again["alias"] == "mybash"
    assert bash.exec("echo $x$KEPT")["output_raw"] == "yes\n"
    done = bash.exec("echo last; exit 3")
    assert done["running"] is False and done["exit_code"] == 3 and "last\n" in done["output_raw"]
    done = bash.exec("echo back $KEPT")
    assert done["output_raw"] == "back yes\n" and done["restarted"] is True
    assert "restarted" not in bash.exec("echo again")


def test_resize_is_seen_by_the_program(repl, sandbox):
    bash = repl(config=BASH, pty_size={"rows": 33, "cols": 101})
    assert bash.exec("stty size")["output_raw"] == "33 101\n"
    bash.exec("trap 'echo winch' WINCH")
    sandbox.client.expect(200, "POST", f"{bash.path}/resize", {"rows": 44, "cols": 55})
    assert bash.exec("stty size")["output_raw"].endswith("44 55\n")
    for rows, cols in ((0, 80), (24, 10001), (-1, 5), ("24", 80), (24, None)):
        sandbox.client.expect(400, "POST", f"{bash.path}/resize", {"rows": rows, "cols": cols})
    default = repl("zsh")
    assert default.exec("stty size")["output_raw"] == "100 500\n"


@pytest.mark.parametrize("alias,code", [
    ("python", "import shutil; print(*shutil.get_terminal_size())"),
    ("bash", "echo $COLUMNS $LINES"),
    ("node", "console.log(process.stdout.columns || process.env.COLUMNS, process.env.LINES)")])
def test_a_driver_is_told_its_size(sandbox, alias, code):
    driver = Interpreter(sandbox, alias, pty_size={"rows": 33, "cols": 101})
    assert driver.exec(code)["stdout"] == "101 33\n"
    sandbox.client.expect(200, "POST", f"{driver.path}/resize", {"rows": 44, "cols": 55})
    # Told to the driver beside the code it is given, so the next line may be sooner.
    wait_until(lambda: driver.exec(code)["stdout"] == "55 44\n", 20, "the new size is known")
    driver.delete()


def test_a_signal_reaches_the_foreground_job_of_a_terminal(sandbox):
    context = sandbox.start(["bash", "--norc", "-i"], pty_size={"rows": 24, "cols": 80})
    path = f"{sandbox.path}/contexts/{context['id']}"
    sandbox.client.expect(200, "POST", f"{path}/input", {
        "data": "sh -c 'trap \"exit 42\" INT; echo u''p; while :; do sleep 0.1; done'; "
                "echo code $?; exit 7\n"})
    wait_until(lambda: "up\r\n" in sandbox.context(context["id"])["output_raw"], 20, "running")
    sandbox.client.expect(200, "POST", f"{path}/signal", {"signal": "INT"})
    ended = wait_until(lambda: (c := sandbox.context(context["id"])) and not c["running"] and c,
                       20, "ended")
    assert "code 42" in ended["output_raw"] and ended["exit_code"] == 7
    sandbox.client.expect(200, "DELETE", path)


def test_websocket_says_done_and_shows_no_prompts(repl, client):
    lua = repl("lua")
    with WebSocket(client, f"{lua.path}/ws") as socket:
        socket.send({"type": "input", "data": "x = 6\nprint(x * 7)\n", "requestId": "a"})
        socket.send({"type": "input", "data": "print('second')\n", "request_id": "b"})
        text, done = "", []
        while len(done) < 2:
            message = socket.json()
            if message["type"] == "output":
                assert message["source"] == "pty"
                text += message["data"]
            elif message["type"] == "done":
                done.append((message["request_id"], "42\n" in text))
        assert [each[0] for each in done] == ["a", "b"] and done[0][1]
        assert text.endswith("42\nsecond\n") and "_S0_" not in text


def test_input_during_creation(sandbox):
    done = sandbox.client.expect(201, "POST", f"{sandbox.path}/contexts", {
        "repl": {"alias": "lua", "input": "print(1)\n2"}, "wait_until_done": True}).data
    assert done["output_raw"] == "1\n2\n" and done["running"] is True
    sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{done['id']}")


def test_output_comes_line_by_line_when_asked(repl, client):
    from test_lines import lines_of
    lua = repl("lua")
    events = list(lines_of(client, f"{lua.path}/exec", {"data": "for i = 1, 3 do print(i) end"}))
    text = b"".join(base64.b64decode(each["data_base64"]) for each in events[:-1])
    assert text == b"1\n2\n3\n" and events[-1]["outcome"] == "completed"


@pytest.mark.parametrize("alias,package", [
    ("ruby", "ruby"), ("r", "r-base-core"), ("php", "php-cli"), ("redis-cli", "redis-tools"),
    ("luajit", "luajit"), ("lua5.1", "lua5.1"), ("swift", "swiftlang"), ("kotlin", "kotlin")])
def test_a_program_that_the_image_lacks(sandbox, alias, package):
    error = sandbox.client.expect(400, "POST", f"{sandbox.path}/contexts",
                                  {"type": "repl", "repl": {"alias": alias}}).error
    assert alias in error["message"] and f"apt-get install {package}" in error["message"]
    assert error["details"]["reason"] == "command_not_found"


@pytest.mark.parametrize("config,word", [
    ({}, "name"), ({"name": "x"}, "candidates"), ({"name": "x", "candidates": []}, "candidates"),
    ({"name": "x", "candidates": [{"args": []}]}, "name"),
    ({"name": "x", "candidates": [{"name": "sh"}], "ready": {"mode": "magic"}}, "ready.mode"),
    ({"name": "x", "candidates": [{"name": "sh"}], "ready": {"token": "a\nb"}}, "prompt"),
    ({"name": "x", "candidates": [{"name": "sh"}], "env": [{"name": "A", "value_from": "b"}]},
     "value_from"),
    ({"name": "x" * 65, "candidates": [{"name": "sh"}]}, "name"),
    ({"name": "x", "candidates": [{"name": "sh"}], "promptt": {}}, "promptt")])
def test_definitions_that_are_wrong(sandbox, config, word):
    error = sandbox.client.expect(400, "POST", f"{sandbox.path}/contexts",
                                  {"type": "repl", "repl": {"repl_config": config}}).error
    assert word in error["message"]


def test_a_repl_that_ends_instead_of_starting(sandbox):
    error = sandbox.client.expect(409, "POST", f"{sandbox.path}/contexts", {
        "type": "repl", "repl": {"repl_config": {
            "name": "bad", "candidates": [{"name": "sh", "args": ["-c", "echo why; exit 1"]}]}}}).error
    assert "why" in error["message"] and error["details"]["reason"] == "interpreter_failed"
