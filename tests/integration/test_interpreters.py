"""Interpreters: state, values, errors, output, interrupts, time limits, restart, idempotency."""
import json
import threading
import time

import pytest


class Interpreter:
    def __init__(self, sandbox, alias, **fields):
        self.sandbox, self.client = sandbox, sandbox.client
        self.context = self.client.expect(
            201, "POST", f"{sandbox.path}/contexts",
            {"type": "repl", **({"repl": {"alias": alias}} if alias else {}), **fields}).data
        self.path = f"{sandbox.path}/contexts/{self.context['id']}"

    def exec(self, code, **fields):
        return self.client.expect(200, "POST", f"{self.path}/exec", {"data": code, **fields}).data

    def delete(self):
        self.client.expect(200, "DELETE", self.path)


@pytest.fixture
def interpreter(sandbox):
    made = []

    def make(alias="python", **fields):
        made.append(Interpreter(sandbox, alias, **fields))
        return made[-1]

    yield make
    for each in made:
        sandbox.client.call("DELETE", each.path)


def has(sandbox, program):
    return sandbox.run(["sh", "-c", f"command -v {program}"])["exit_code"] == 0


@pytest.fixture
def node(sandbox, interpreter):
    if not has(sandbox, "node"):
        pytest.skip("the default image has no node")
    return interpreter("node")


def test_state_stays_between_executions(interpreter):
    python = interpreter()
    assert python.exec("x = 41\n")["output_raw"] == ""
    done = python.exec("print(x + 1)\n")
    assert done["output_raw"] == done["stdout"] == "42\n"
    assert done["outcome"] == "completed" and done["status"] == "ok"
    assert done["state"] == "running" and done["stderr"] == ""


def test_context_says_what_it_is(interpreter, sandbox):
    python = interpreter("python3", cwd="/usr", env_vars={"A": "b"})
    shown = sandbox.context(python.context["id"])
    for each in (python.context, shown):
        assert each["type"] == "repl" and each["alias"] == "python3" and each["running"] is True
        assert "command" not in each and "driver" not in str(each)
    assert python.exec("import os; (os.getcwd(), os.environ['A'])")["output_raw"] == \
        "('/usr', 'b')\n"


def test_value_of_the_last_expression(interpreter):
    done = interpreter().exec("print('p')\n6 * 7")
    assert done["output_raw"] == "p\n42\n" and done["stdout"] == "p\n"
    (result,) = done["results"]
    assert result["is_main"] is True and result["data"]["text/plain"] == "42"


def test_display_gives_more_than_text(interpreter):
    done = interpreter().exec("class T:\n def _repr_html_(self): return '<b>t</b>'\n"
                              " def __repr__(self): return 't'\ndisplay(T())\nT()")
    first, second = done["results"]
    assert first["is_main"] is False and second["is_main"] is True
    assert first["data"]["text/html"] == second["data"]["text/html"] == "<b>t</b>"


def test_error_has_a_traceback_and_state_stays(interpreter):
    python = interpreter()
    done = python.exec("y = 1\nprint('before')\n1 / 0")
    assert done["status"] == "error" and done["outcome"] == "completed"
    assert done["error"]["name"] == "ZeroDivisionError"
    assert "ZeroDivisionError" in done["output_raw"] and done["output_raw"].startswith("before\n")
    assert done["stderr"] == ""
    assert python.exec("y")["output_raw"] == "1\n"


def test_streams_are_apart_and_subprocesses_are_heard(interpreter):
    done = interpreter().exec("import os, sys\nprint('o')\nprint('e', file=sys.stderr)\n"
                              "os.system('echo sub; echo suberr >&2')\nNone")
    assert done["stdout"] == "o\nsub\n" and done["stderr"] == "e\nsuberr\n"


def test_binary_output_is_exact(interpreter):
    import base64
    done = interpreter().exec("import os\nos.write(1, bytes(range(256)))\nNone")
    assert base64.b64decode(done["stdout_base64"]) == bytes(range(256))


def test_much_output_is_not_lost(interpreter):
    done = interpreter().exec("for i in range(200000): print('line', i)")
    assert done["stdout"].count("\n") == 200000 and "truncated" not in done


@pytest.mark.parametrize("alias,forever,after,expected", [
    ("python", "print('begun')\nwhile True: pass", "x", "5\n"),
    ("python", "import time\nprint('begun')\ntime.sleep(1000)", "x", "5\n"),
    ("bash", "echo begun; while :; do :; done; echo never", "echo $x", "5\n"),
    ("bash", "echo begun; sleep 1000; echo never", "echo $x", "5\n")])
def test_timeout_interrupts_and_keeps_output_and_state(interpreter, alias, forever, after, expected):
    context = interpreter(alias)
    context.exec("x=5")
    done = context.exec(forever, timeout_ms=700)
    assert done["outcome"] == "timed_out" and done["stdout"] == "begun\n", done
    assert done["state"] == "running" and done["status"] == "interrupted"
    assert context.exec(after)["output_raw"] == expected


def test_code_that_ignores_the_interrupt_does_not_spoil_the_next(interpreter):
    python = interpreter()
    done = python.exec("import time\nend = time.time() + 6\nprint('first')\nwhile time.time() < end:\n"
                       "  try: time.sleep(0.2)\n  except KeyboardInterrupt: print('no')",
                       timeout_ms=500)
    assert done["outcome"] == "timed_out" and done["stdout"].startswith("first\n")
    assert python.exec("print('second')")["stdout"] == "second\n"


def test_a_time_limit_does_not_undo_a_pause(create):
    sandbox = create()
    python = Interpreter(sandbox, "python")
    answers = []
    code = "open('/tmp/begun', 'w').close()\nwhile True: pass"
    thread = threading.Thread(target=lambda: answers.append(python.exec(code, timeout_ms=2500)))
    thread.start()
    while sandbox.run(["test", "-e", "/tmp/begun"])["exit_code"] != 0:
        time.sleep(0.02)
    sandbox.client.expect(200, "POST", f"{sandbox.path}/pause", {})
    thread.join()
    assert answers[0]["outcome"] == "timed_out"
    assert sandbox.get()["status"] == "paused"
    # The interrupt reaches the code when it moves again.
    assert python.exec("6 * 7", timeout_ms=20000)["output_raw"] == "42\n"


def test_interrupt(interpreter, sandbox):
    python = interpreter()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(python.exec("while True: pass")))
    thread.start()
    while not answers:
        sandbox.client.expect(200, "POST", f"{python.path}/interrupt")
        thread.join(0.3)
    assert answers[0]["status"] == "interrupted" and answers[0]["outcome"] == "completed"
    assert answers[0]["error"]["name"] == "KeyboardInterrupt"


def test_executions_take_turns(interpreter):
    python = interpreter()
    python.exec("n = 0")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(
        python.exec("n += 1\nimport time; time.sleep(0.05)\nprint(n)")["stdout"]))
        for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=int) == [f"{i}\n" for i in range(1, 9)]


def test_waiting_longer_than_the_limit_never_starts(interpreter):
    python = interpreter()
    first = threading.Thread(target=lambda: python.exec("import time; time.sleep(2)"))
    first.start()
    time.sleep(0.5)
    done = python.exec("print('late')", timeout_ms=200)
    first.join()
    assert done["outcome"] == "never_started" and done["stdout"] == ""


def test_interpreter_that_is_killed(interpreter, sandbox):
    python = interpreter()
    done = python.exec("import os, signal\nprint('last')\nos.kill(os.getpid(), signal.SIGKILL)")
    assert done["outcome"] == "killed" and done["signal"] == 9 and done["stdout"] == "last\n"
    assert done["running"] is False
    again = python.exec("1 + 1")
    assert again["output_raw"] == "2\n" and again["restarted"] is True
    assert "restarted" not in python.exec("1")


def test_interpreter_that_reached_its_ttl_stays_ended(interpreter, sandbox):
    python = interpreter(ttl_sec=1)
    done = python.exec("import time; time.sleep(100)")
    assert done["outcome"] == "killed" and done["running"] is False
    answer = sandbox.client.call("POST", f"{python.path}/exec", {"data": "1"})
    assert answer.status == 410, answer.body


def test_restart_keeps_the_id_and_forgets_the_state(interpreter, sandbox):
    python = interpreter(env_vars={"KEPT": "yes"})
    python.exec("x = 1")
    again = sandbox.client.expect(200, "POST", f"{python.path}/restart").data
    assert again["id"] == python.context["id"] and again["running"] is True
    assert python.exec("x")["error"]["name"] == "NameError"
    assert python.exec("import os; os.environ['KEPT']")["output_raw"] == "'yes'\n"


def test_closed_stdout_deleted_directory_and_exit(interpreter):
    python = interpreter()
    python.exec("import os, tempfile\nd = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)")
    python.exec("import sys; sys.stdout.close(); os.close(1)")
    assert python.exec("print('back')")["stdout"] == "back\n"
    assert python.exec("raise SystemExit(3)")["error"]["name"] == "SystemExit"
    assert python.exec("1 + 1")["output_raw"] == "2\n"


def test_channel_cannot_be_used_to_lie_to_others(interpreter):
    """Code can write to the channel; it harms nobody but its own answer."""
    python = interpreter()
    python.exec("import os\nos.write(903, b'garbage\\n{\"op\":\"done\",\"id\":\"x\"}\\n' + b'x' * 100000)"
                "\nos.write(903, b'\\n[1]\\n{\"op\":\"result\",\"id\":7}\\n')\nNone")
    assert python.exec("print('fine')")["stdout"] == "fine\n"


def test_bash_keeps_variables_and_tells_the_exit_code(interpreter):
    bash = interpreter("bash")
    bash.exec("cd /usr; v=hello; f() { echo f:$1; }")
    assert bash.exec("echo $v; pwd; f 1")["output_raw"] == "hello\n/usr\nf:1\n"
    done = bash.exec("echo err >&2; false")
    assert done["exit_code"] == 1 and done["status"] == "error" and done["stderr"] == "err\n"
    done = bash.exec("exit 3")
    assert done["running"] is False and done["exit_code"] == 3 and done["state"] == "crashed"


def test_node(node):
    assert node.exec("const x = 41")["output_raw"] == ""
    done = node.exec("console.log(x + 1); ({a: x})")
    assert done["stdout"] == "42\n" and done["output_raw"] == "42\n{ a: 41 }\n"
    assert node.exec("await Promise.resolve(7)")["output_raw"] == "7\n"
    assert node.exec("throw new TypeError('no')")["error"]["name"] == "TypeError"
    done = node.exec("console.log('begun'); for (;;) {}", timeout_ms=700)
    assert done["outcome"] == "timed_out" and done["stdout"] == "begun\n"
    assert node.exec("x")["output_raw"] == "41\n"


def test_node_imports_and_names(node):
    assert node.exec("const fs = require('fs'); const CHANNEL = 1, main = 2")["status"] == "ok"
    assert node.exec("import path, { join } from 'path'")["output_raw"] == ""
    assert node.exec("[join('a', 'b'), path.sep, (await import('os')).EOL]")["output_raw"] == \
        "[ 'a/b', '/', '\\n' ]\n"
    assert node.exec("\"import x from 'y'\" + ' import(1)'")["output_raw"] == \
        "\"import x from 'y' import(1)\"\n"
    assert "cell-5.js:3:" in node.exec("\n\nthrow new Error('x')")["error"]["traceback"]


def test_typescript_without_a_compiler_says_what_to_install(sandbox):
    if not has(sandbox, "node") or has(sandbox, "esbuild"):
        pytest.skip("the default image has esbuild or no node")
    answer = sandbox.client.call("POST", f"{sandbox.path}/contexts",
                                 {"type": "repl", "repl": {"alias": "typescript"}})
    assert answer.status == 409 and "apt-get install esbuild" in answer.error["message"]


def test_input_during_creation(sandbox):
    done = sandbox.client.expect(201, "POST", f"{sandbox.path}/contexts", {
        "type": "repl", "repl": {"alias": "python", "input": "print('hi')\n1"},
        "wait_until_done": True}).data
    assert done["output_raw"] == "hi\n1\n" and done["running"] is True
    sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{done['id']}")


def test_interpreters_that_do_not_exist(sandbox):
    answer = sandbox.client.expect(400, "POST", f"{sandbox.path}/contexts",
                                   {"type": "repl", "repl": {"alias": "klingon"}})
    assert "klingon" in answer.error["message"]


def test_a_command_is_no_interpreter(sandbox):
    context = sandbox.start(["sleep", "100"])
    answer = sandbox.client.call("POST", f"{sandbox.path}/contexts/{context['id']}/exec",
                                 {"data": "1"})
    assert answer.status == 409, answer.body
    sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{context['id']}")


def test_idle_timeout_ends_a_context(sandbox):
    context = sandbox.start(["sleep", "1000"], idle_timeout_sec=1)
    _, ending = sandbox.stream_bytes(context["id"])
    assert ending["idle_timed_out"] is True and ending["state"] == "killed"


def test_idempotency_key(sandbox, interpreter):
    python = interpreter()
    python.exec("n = 0")
    headers = {"Idempotency-Key": "key-1"}
    body = {"data": "n += 1\nn"}
    first = sandbox.client.expect(200, "POST", f"{python.path}/exec", body, headers)
    second = sandbox.client.expect(200, "POST", f"{python.path}/exec", body, headers)
    assert first.data["output_raw"] == "1\n" and second.body == first.body
    assert second.headers["Idempotent-Replayed"] == "true"
    other = sandbox.client.expect(409, "POST", f"{python.path}/exec", {"data": "n"}, headers)
    assert "Idempotency-Key" in other.error["message"]
    assert python.exec("n")["output_raw"] == "1\n"


def test_a_connection_lost_under_a_key_does_not_run_the_code_twice(sandbox, interpreter):
    python = interpreter()
    headers = {"Idempotency-Key": "lost", "Content-Type": "application/json"}
    body = {"data": "import os, time\nn = globals().get('n', 0) + 1\nopen('/tmp/begun', 'w').close()\n"
                    "while not os.path.exists('/tmp/may-end'): time.sleep(0.02)\nn"}
    connection = sandbox.client.connection()
    connection.request("POST", f"{python.path}/exec", json.dumps(body),
                       sandbox.client.headers(headers))
    while sandbox.run(["test", "-e", "/tmp/begun"])["exit_code"] != 0:
        time.sleep(0.02)
    connection.close()
    sandbox.write("/tmp/may-end", "")
    again = sandbox.client.expect(200, "POST", f"{python.path}/exec", body, headers)
    assert again.data["output_raw"] == "1\n" and again.headers["Idempotent-Replayed"] == "true"
    assert python.exec("n")["output_raw"] == "1\n"


def test_idempotent_claim(client):
    headers = {"Idempotency-Key": "claim-1"}
    body = {"template": "default"}
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(
        client.expect(201, "POST", "/api/v1/sandboxes", body, headers).data["sandbox_id"]))
        for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4 and len(set(answers)) == 1
    client.expect(202, "DELETE", f"/api/v1/sandboxes/{answers[0]}")
