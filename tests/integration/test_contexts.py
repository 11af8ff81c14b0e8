"""Commands: waiting and not, output, exit, signals, time limits, input, users, reattaching."""
import base64
import threading
import time

import pytest

from harness import kernel


def test_waiting_gives_output_and_exit_code(sandbox):
    done = sandbox.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert done["stdout"] == "out\n" and done["stderr"] == "err\n"
    assert done["exit_code"] == 3 and done["state"] == "crashed"
    assert done["running"] is False and done["paused"] is False and done["type"] == "cmd"
    assert done["id"].startswith("ctx-") and done["created_at"]
    assert sorted(done["output_raw"].splitlines()) == ["err", "out"]


def test_success_is_stopped(sandbox):
    assert sandbox.run(["true"])["state"] == "stopped"


def test_argv_is_not_a_shell(sandbox):
    assert sandbox.out(["echo", "$HOME; ls", "a  b", "'q'"]) == "$HOME; ls a  b 'q'\n"


def test_not_waiting_returns_at_once_and_can_be_looked_up(sandbox):
    context = sandbox.start("echo begun; sleep 1; echo done; exit 4")
    assert context["running"] is True
    events = list(sandbox.stream(context["id"]))
    assert events[-1]["type"] == "exit" and events[-1]["exit_code"] == 4
    after = sandbox.context(context["id"])
    assert after["running"] is False and after["exit_code"] == 4
    assert after["stdout"] == "begun\ndone\n"


def test_missing_program_is_told(sandbox):
    answer = sandbox.client.call("POST", f"{sandbox.path}/contexts", {
        "type": "cmd", "cmd": {"command": ["no-such-program"]}, "wait_until_done": True})
    assert answer.status in (400, 404, 422), answer.body
    assert "no-such-program" in answer.error["message"]


def test_signal_is_reported(sandbox):
    done = sandbox.run("kill -TERM $$")
    assert done["exit_code"] == 128 + 15
    done = sandbox.run("kill -KILL $$")
    assert done["exit_code"] == 137 and done["state"] == "killed"


@pytest.mark.parametrize("name", ["TERM", "SIGTERM", "15"])
def test_signal_reaches_the_process_group(sandbox, name):
    context = sandbox.start("trap 'echo caught; exit 7' TERM; echo ready; sleep 60 & wait")
    for event in sandbox.stream(context["id"]):
        if event["type"] == "output":
            break
    data = sandbox.client.expect(200, "POST", f"{sandbox.path}/contexts/{context['id']}/signal",
                                 {"signal": name}).data
    assert data["signaled"] is True
    output, ending = sandbox.stream_bytes(context["id"])
    assert output == b"ready\ncaught\n" and ending["exit_code"] == 7


def test_bad_signal_is_refused(sandbox):
    context = sandbox.start(["sleep", "60"])
    for name in ("SIGNOTHING", "0", "65", ""):
        answer = sandbox.client.call("POST", f"{sandbox.path}/contexts/{context['id']}/signal",
                                     {"signal": name})
        assert answer.status == 400, (name, answer.body)
    sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{context['id']}")


def test_timeout_kills_grandchildren(sandbox):
    marker = "timeout-grandchild"
    begin = time.monotonic()
    child = f"bash -c 'exec -a {marker} sleep 100'"
    done = sandbox.run(f"{child} & {child}", timeout_ms=500)
    assert time.monotonic() - begin < 30
    assert done["exit_code"] != 0 and done["running"] is False
    listing = sandbox.out("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert marker + " 100" not in listing.replace("cat", "")


def test_delete_ends_and_forgets(sandbox):
    context = sandbox.start(["sleep", "1000"])
    data = sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{context['id']}").data
    assert data["deleted"] is True
    sandbox.client.expect(404, "GET", f"{sandbox.path}/contexts/{context['id']}")
    assert "sleep\x001000" not in sandbox.out("cat /proc/[0-9]*/cmdline")


def test_delete_kills_what_ignores_term(sandbox):
    context = sandbox.start("trap '' TERM; echo ready; while :; do sleep 1; done")
    for event in sandbox.stream(context["id"]):
        if event["type"] == "output":
            break
    sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{context['id']}")
    sandbox.client.expect(404, "GET", f"{sandbox.path}/contexts/{context['id']}")


def test_list_shows_contexts_until_deleted(create):
    sandbox = create()
    first = sandbox.run(["true"])["id"]
    second = sandbox.start(["sleep", "100"])["id"]
    listed = {each["id"]: each for each in
              sandbox.client.expect(200, "GET", f"{sandbox.path}/contexts").data["contexts"]}
    assert listed[second]["running"] is True
    assert listed[first]["running"] is False
    sandbox.client.expect(200, "DELETE", f"{sandbox.path}/contexts/{first}")
    listed = sandbox.client.expect(200, "GET", f"{sandbox.path}/contexts").data["contexts"]
    assert [each["id"] for each in listed] == [second]


def test_binary_output_is_exact(sandbox):
    context = sandbox.start(["python3", "-c", "import sys; "
                             "sys.stdout.buffer.write(bytes(range(256)) * 4096); "
                             "sys.stderr.buffer.write(b'\\xff\\x00')"])
    output, ending = sandbox.stream_bytes(context["id"])
    assert output == bytes(range(256)) * 4096 and ending["exit_code"] == 0
    assert sandbox.stream_bytes(context["id"], "stderr")[0] == b"\xff\x00"


def test_invalid_utf8_does_not_break_the_answer(sandbox):
    done = sandbox.run(["printf", "a\\xffb\\n"])
    assert done["exit_code"] == 0 and done["stdout"].startswith("a") and "b" in done["stdout"]


def test_reattaching_reads_from_the_start_after_the_end(sandbox):
    context = sandbox.start("for i in $(seq 1000); do echo line $i; done")
    first, _ = sandbox.stream_bytes(context["id"])
    second, ending = sandbox.stream_bytes(context["id"])
    assert first == second == "".join(f"line {i}\n" for i in range(1, 1001)).encode()
    assert ending["exit_code"] == 0


def test_stream_from_an_offset(sandbox):
    context = sandbox.start(["printf", "0123456789"])
    list(sandbox.stream(context["id"]))
    outputs = [event for event in sandbox.stream(context["id"], start=4)
               if event["type"] == "output"]
    assert b"".join(base64.b64decode(event["data_base64"]) for event in outputs) == b"456789"


def test_detached_process_goes_on_without_its_client(sandbox):
    context = sandbox.start("echo one; sleep 1; echo two > /tmp/detached; echo three")
    for event in sandbox.stream(context["id"]):
        break   # hang up after the first line
    output, ending = sandbox.stream_bytes(context["id"])
    assert output == b"one\nthree\n" and ending["exit_code"] == 0
    assert sandbox.read("/tmp/detached") == b"two\n"


def test_slow_reader_loses_nothing(sandbox):
    """More than any buffer between: the process is held back, not the output dropped."""
    size = 8 << 20
    # It begins when the reader is there: what nobody reads is kept only as far as the journal goes.
    context = sandbox.start(["sh", "-c", "until [ -e /tmp/reader ]; do sleep 0.05; done; "
                             f"head -c {size} /dev/zero | tr '\\0' x"])
    threading.Timer(0.5, lambda: sandbox.write("/tmp/reader", b"")).start()
    total = 0
    for index, event in enumerate(sandbox.stream(context["id"])):
        if event["type"] == "output":
            total += len(base64.b64decode(event["data_base64"]))
            if index < 5:
                time.sleep(0.2)
    assert total == size


def test_stdin_text(sandbox):
    assert sandbox.out(["tr", "a-z", "A-Z"], stdin="hello\n") == "HELLO\n"


def test_no_stdin_is_empty(sandbox):
    assert sandbox.out(["wc", "-c"]).strip() == "0"


def test_stdin_by_pieces(sandbox):
    context = sandbox.start(["bash", "-c", "read a; read b; echo $b $a"], stdin_open=True)
    for line in ("first\n", "second\n"):
        data = sandbox.client.expect(200, "POST", f"{sandbox.path}/contexts/{context['id']}/input",
                                     {"data": line}).data
        assert data["written"] is True
    output, _ = sandbox.stream_bytes(context["id"])
    assert output == b"second first\n"


def test_input_to_a_finished_process_is_refused(sandbox):
    context = sandbox.run(["true"])
    answer = sandbox.client.call("POST", f"{sandbox.path}/contexts/{context['id']}/input",
                                 {"data": "x"})
    assert answer.status in (409, 410), answer.body


def test_environment_precedence(create):
    sandbox = create(env_vars={"A": "sandbox", "B": "sandbox"})
    done = sandbox.out("echo $A $B $C $HOME $USER $PATH", env_vars={"B": "context", "C": "context"})
    words = done.split()
    assert words[:3] == ["sandbox", "context", "context"]
    assert words[3:5] == ["/home/user", "user"] and "/usr/bin" in words[5]


def test_working_directory(sandbox):
    assert sandbox.out(["pwd"], cwd="/usr/lib") == "/usr/lib\n"
    answer = sandbox.client.call("POST", f"{sandbox.path}/contexts", {
        "type": "cmd", "cmd": {"command": ["pwd"]}, "cwd": "/no/such", "wait_until_done": True})
    assert answer.status in (400, 404) and "/no/such" in answer.error["message"]


@pytest.mark.parametrize("user,expected", [(None, "1000:1000"), ("user", "1000:1000"),
                                           ("root", "0:0"), ("1000", "1000:1000"),
                                           ("nobody", "65534:65534"), ("1234:5678", "1234:5678")])
def test_user(sandbox, user, expected):
    fields = {} if user is None else {"user": user}
    assert sandbox.out("echo $(id -u):$(id -g)", **fields) == expected + "\n"


def test_unknown_user_is_told(sandbox):
    answer = sandbox.client.call("POST", f"{sandbox.path}/contexts", {
        "type": "cmd", "cmd": {"command": ["true"]}, "user": "stranger"})
    assert answer.status in (400, 404) and "stranger" in answer.error["message"]


BAD_CONTEXTS = [({}, "cmd"), ({"type": "cmd"}, "cmd"), ({"type": "cmd", "cmd": {}}, "command"),
                ({"type": "cmd", "cmd": {"command": []}}, "command"),
                ({"type": "cmd", "cmd": {"command": "ls"}}, "command"),
                ({"type": "cmd", "cmd": {"command": ["ls", 1]}}, "command"),
                ({"type": "dance", "cmd": {"command": ["ls"]}}, "type"),
                ({"type": "cmd", "cmd": {"command": ["ls"]}, "timeout_ms": -5}, "timeout_ms"),
                ({"type": "cmd", "cmd": {"command": ["ls"]}, "cwd": 3}, "cwd"),
                ({"type": "cmd", "cmd": {"command": ["ls"]}, "wiat_until_done": True},
                 "wiat_until_done"),
                ({"type": "cmd", "cmd": {"command": ["a\x00b"]}}, "argument")]


@pytest.mark.parametrize("body,named", BAD_CONTEXTS,
                         ids=[str(each[0])[:50] for each in BAD_CONTEXTS])
def test_bad_context_is_told_what_to_change(sandbox, body, named):
    answer = sandbox.client.expect(400, "POST", f"{sandbox.path}/contexts", body)
    assert answer.error["code"] in ("bad_request", "invalid_request")
    assert named in answer.error["message"], answer.error


def test_unknown_context_is_not_found(sandbox):
    for method, verb in (("GET", ""), ("DELETE", ""), ("POST", "/signal"), ("GET", "/stream")):
        answer = sandbox.client.expect(404, method, f"{sandbox.path}/contexts/ctx-00000000{verb}",
                                       {"signal": "TERM"} if verb == "/signal" else None)
        assert answer.error["code"] in ("context_not_found", "not_found")


def test_orphans_are_reaped(sandbox):
    sandbox.out("for i in $(seq 50); do (setsid sh -c 'exit 0' &); done; sleep 0.3")
    states = sandbox.out("cat /proc/[0-9]*/stat 2>/dev/null | awk '{print $3}'")
    assert "Z" not in states.split()


def test_large_captured_output(sandbox):
    done = sandbox.run(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' y"])
    assert done["stdout"] == "y" * 3000000


def test_agent_stays_small(create, server):
    """The idle agent's own memory after it has done something; the target is 400 KiB."""
    sandbox = create()
    assert sandbox.run(["true"])["exit_code"] == 0
    (guest,) = server.cell_processes(sandbox.id)
    rollup = kernel.read(f"/proc/{guest}/smaps_rollup")
    private = sum(int(line.split()[1]) for line in rollup.splitlines()
                  if line.startswith(("Private_Clean", "Private_Dirty")))
    assert 0 < private <= 400, f"{private} KiB"


def test_finished_contexts_make_room_for_new_ones(create):
    sandbox = create()
    for _ in range(1030):
        sandbox.client.expect(201, "POST", sandbox.path + "/contexts",
                              {"type": "cmd", "cmd": {"command": ["true"]}, "wait_until_done": True})


def test_input_without_standard_input_is_refused(create):
    sandbox = create()
    context = sandbox.start(["sleep", "30"])
    answer = sandbox.client.call("POST", f"{sandbox.path}/contexts/{context['id']}/input", {"data": "x"})
    assert answer.status == 409, answer.body


def test_terminal_is_resized(sandbox):
    context = sandbox.start(["sh", "-c", "read go; stty size"], pty_size={"rows": 24, "cols": 80})
    path = f"{sandbox.path}/contexts/{context['id']}"
    sandbox.client.expect(200, "POST", f"{path}/resize", {"rows": 41, "cols": 113})
    sandbox.client.expect(200, "POST", f"{path}/input", {"data": "\n"})
    output, ending = sandbox.stream_bytes(context["id"], "pty")
    assert b"41 113" in output and ending["exit_code"] == 0
    for wrong in ({"rows": 0, "cols": 1}, {"rows": 1}, {"rows": 1, "cols": 10_001}):
        sandbox.client.expect(400, "POST", f"{path}/resize", wrong)
