"""Commands and terminals: outcomes, order, input, background, reconnects, clean-up."""
import signal
import threading
import time

import pytest

from atoll_sandbox import CommandError, InvalidRequestError, NotFoundError, Sandbox


def running_commands(sandbox):
    return [each for each in sandbox.commands.list() if each.type == "cmd" and each.running]


def test_result_has_everything(sandbox):
    done = sandbox.commands.run("echo out; echo err >&2; exit 3")
    assert (done.outcome, done.exit_code, done.stdout, done.stderr) == \
        ("completed", 3, "out\n", "err\n")
    assert not done.ok
    with pytest.raises(CommandError, match="exited with code 3:\nerr") as caught:
        done.check()
    assert caught.value.result is done


def test_a_list_is_no_shell_and_a_string_is_one(sandbox):
    assert sandbox.commands.run(["echo", "$HOME"], check=True).stdout == "$HOME\n"
    assert sandbox.commands.run("echo ${A[1]}; A=(x y); echo ${A[1]}").stdout == "\ny\n"


def test_cwd_env_and_user(sandbox):
    done = sandbox.commands.run("pwd; echo $GREETING; id -un", cwd="/usr", user="root",
                                env={"GREETING": "hello"}, check=True)
    assert done.stdout == "/usr\nhello\nroot\n"


def test_outcomes_are_typed(sandbox):
    timed_out = sandbox.commands.run("echo begun; sleep 1000", timeout=0.5)
    assert timed_out.outcome == "timed_out" and timed_out.stdout == "begun\n"
    assert timed_out.exit_code is None
    killed = sandbox.commands.run("kill -SEGV $$; sleep 100")
    assert killed.outcome == "killed" and killed.signal == signal.SIGSEGV
    with pytest.raises(CommandError, match="signal 11"):
        killed.check()
    with pytest.raises(InvalidRequestError) as caught:
        sandbox.commands.run(["no-such-program"])
    assert caught.value.reason == "command_not_found" and caught.value.request_id


def test_callbacks_come_in_order_and_while_it_runs(sandbox):
    seen, times = [], []

    def on_stdout(text):
        seen.append(text)
        times.append(time.monotonic())
        if "go?" in text:
            sandbox.files.write("/tmp/callback-go", "x")

    # It ends only when the callback has acted: output came before the end.
    done = sandbox.commands.run(
        "echo 'go?'; while [ ! -e /tmp/callback-go ]; do sleep 0.02; done; "
        "for i in $(seq 1000); do echo $i; done", on_stdout=on_stdout, timeout=60, check=True)
    assert "".join(seen) == done.stdout == "go?\n" + "".join(f"{i}\n" for i in range(1, 1001))


def test_characters_are_never_cut(sandbox):
    seen = []
    done = sandbox.commands.run(r"printf '\xe2\x82'; sleep 0.2; printf '\xac\n'; printf '\xff'",
                                on_stdout=seen.append)
    assert "".join(seen) == done.stdout == "€\n�"
    assert done.stdout_bytes == "€\n".encode() + b"\xff"


@pytest.mark.parametrize("content", ["text ä\n", b"\x00\xff\xfe" * 10, bytes(range(256)) * 8000])
def test_input(sandbox, content):
    done = sandbox.commands.run(["cat"], stdin=content, check=True)
    assert done.stdout_bytes == (content.encode() if isinstance(content, str) else content)
    assert not [each for each in sandbox.files.list("/tmp") if "atoll-input" in each.name]


def test_much_output_is_complete(sandbox):
    size = 0

    def count(text):
        nonlocal size
        size += len(text)

    done = sandbox.commands.run("head -c 40000000 /dev/zero | tr '\\0' x", on_stdout=count,
                                capture=False, check=True)
    assert size == 40_000_000 and done.stdout == "" and not done.truncated


def test_background_process(sandbox):
    with sandbox.commands.start("while read line; do echo got $line; done; exit 5",
                                stdin=True) as process:
        process.send_stdin("one\n")
        events = iter(process)
        assert next(events).text == "got one\n"
        process.send_stdin(b"two\n")
        process.close_stdin()
        done = process.wait()
    assert done.stdout == "got two\n" and done.exit_code == 5 and process.ended


def test_signals(sandbox):
    with sandbox.commands.start("trap 'echo usr1; exit 0' USR1; echo ready; "
                                "while :; do sleep 0.05; done") as process:
        assert next(iter(process)).text == "ready\n"
        process.signal("USR1")
        assert process.wait().stdout == "usr1\n"
        process.terminate()  # nothing to end any more, and no error
    with sandbox.commands.start(["sleep", "1000"]) as process:
        process.kill()
        assert process.wait().outcome == "killed"


def test_leaving_the_block_ends_the_process(sandbox):
    with pytest.raises(RuntimeError, match="mine"):
        with sandbox.commands.start(["sleep", "1000"]):
            assert running_commands(sandbox)
            raise RuntimeError("mine")
    assert not running_commands(sandbox)


def test_an_exception_in_a_callback_ends_the_command(sandbox):
    def fail(text):
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match="begun"):
        sandbox.commands.run("echo begun; sleep 1000", on_stdout=fail)
    assert not running_commands(sandbox)


def test_found_again_from_a_cursor(sandbox):
    process = sandbox.commands.start("echo one; read x; echo two; echo three", stdin=True)
    assert next(iter(process)).text == "one\n"
    process.detach()
    with sandbox.commands.connect(process.id, process.cursor) as again:
        again.send_stdin("\n")
        assert again.wait().stdout == "two\nthree\n"
        assert sandbox.commands.connect(process.id).wait().stdout == "one\ntwo\nthree\n"
    with pytest.raises(NotFoundError):
        sandbox.commands.connect(process.id)


def test_terminal(sandbox):
    with sandbox.pty.create(["bash", "--norc"], rows=30, cols=100, env={"PS1": "> "}) as terminal:
        terminal.send_stdin("tty; stty size\n")
        shown = ""
        for event in terminal:
            shown += event.text
            if "30 100" in shown:
                break
        assert "/dev/pts/" in shown
        terminal.resize(40, 120)
        terminal.send_stdin("stty size; exit 7\n")
        done = terminal.wait()
    assert "40 120" in done.stdout and done.exit_code == 7


def test_threads_share_a_sandbox(sandbox):
    answers = {}

    def work(number):
        answers[number] = (sandbox.commands.run(["echo", str(number)]).stdout,
                           sandbox.run_code(f"{number} * 2").text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == {number: (f"{number}\n", str(number * 2)) for number in range(12)}
    assert len(sandbox.contexts.list()) == 1  # eleven did not make an interpreter of their own


def test_lost_when_the_sandbox_goes(server):
    with Sandbox.create() as sandbox:
        with sandbox.commands.start("echo here; sleep 1000") as process:
            assert next(iter(process)).text == "here\n"
            assert sandbox.kill()
            assert process.wait().outcome in ("lost", "killed")
