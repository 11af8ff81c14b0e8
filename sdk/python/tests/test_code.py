"""Code: values, errors, streams, contexts, interrupts."""
import pathlib
import re
import threading

import pytest

from atoll_sandbox import CodeError, InvalidRequestError

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"


def examples():
    """Every Python block of the README, with its heading."""
    heading, found = "", []
    for block in re.split(r"(?m)^(#+ .*)$", README.read_text()):
        if block.startswith("#"):
            heading = block.lstrip("# ")
        for number, code in enumerate(re.findall(r"(?s)```python\n(.*?)```", block)):
            found.append(pytest.param(code, id=f"{heading}-{number}"))
    return found


@pytest.mark.parametrize("code", examples())
def test_readme(server, code, tmp_path, monkeypatch):
    """Literally as it stands; blocks that need preparation bring it with them."""
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})


def test_quick_start_prints_the_answer(server, capsys):
    code = re.search(r"(?s)```python\n(.*?)```", README.read_text()).group(1)
    assert len(code.strip().splitlines()) <= 6
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "2\n"


def test_state_value_and_output(sandbox):
    sandbox.run_code("x = 20")
    done = sandbox.run_code("print('p')\nx + 1", check=True)
    assert done.text == "21" and done.stdout == "p\n" and done.ok
    assert sandbox.run_code("x = 1").text is None


def test_errors_have_a_traceback(sandbox):
    done = sandbox.run_code("print('before')\n1 / 0")
    assert done.error.name == "ZeroDivisionError" and "line 2" in done.error.traceback
    assert done.stdout == "before\n" and done.outcome == "completed" and done.status == "error"
    with pytest.raises(CodeError, match="division by zero") as caught:
        sandbox.run_code("1 / 0", check=True)
    assert caught.value.execution.error.value == "division by zero"


def test_rich_results(sandbox, tmp_path):
    done = sandbox.run_code(
        "import base64\n"
        "class Rich:\n"
        "  def __repr__(self): return 'plain'\n"
        "  def _repr_html_(self): return '<b>html</b>'\n"
        "  def _repr_png_(self): return b'\\x89PNG'\n"
        "display(Rich())\nRich()")
    first, main = done.results
    assert not first.is_main and main is done.result
    assert main.text == "plain" and main.html == "<b>html</b>" and main.png == b"\x89PNG"
    assert main._repr_html_() == "<b>html</b>" and main._repr_png_() == b"\x89PNG"
    assert "image/png" in main._repr_mimebundle_() and main.jpeg is None
    assert main.save(tmp_path / "x.png").read_bytes() == b"\x89PNG"


def test_output_comes_while_code_runs(sandbox):
    seen = []

    def on_stdout(text):
        seen.append(text)
        if "go?" in text:
            sandbox.files.write("/tmp/code-go", "x")

    errors = []
    done = sandbox.run_code(
        "import os, sys, time\nprint('go?', flush=True)\n"
        "while not os.path.exists('/tmp/code-go'): time.sleep(0.02)\n"
        "print('€uro')\nprint('warn', file=sys.stderr)\n'value'",
        on_stdout=on_stdout, on_stderr=errors.append, timeout=60)
    assert "".join(seen) == done.stdout == "go?\n€uro\n" and done.text == "'value'"
    assert "".join(errors) == done.stderr == "warn\n"


@pytest.mark.parametrize("follow", [False, True])
def test_timeout_keeps_state(sandbox, follow):
    sandbox.run_code("kept = 5")
    callbacks = {"on_stdout": lambda text: None} if follow else {}
    done = sandbox.run_code("print('begun')\nwhile True: pass", timeout=0.5, **callbacks)
    assert done.outcome == "timed_out" and done.stdout == "begun\n" and not done.ok
    assert sandbox.run_code("kept").text == "5"


def test_interpreter_that_ends_is_replaced(sandbox):
    sandbox.run_code("gone = 1")
    assert not sandbox.run_code("import os; os._exit(3)").running
    again = sandbox.run_code("'gone' in globals()")
    assert again.text == "False" and again.restarted


def test_contexts_are_apart(sandbox):
    with sandbox.create_context("python", cwd="/usr", env={"A": "b"}) as one, \
            sandbox.create_context("bash") as two:
        assert one.run("import os; v = 1; os.getcwd(), os.environ['A']").text == "('/usr', 'b')"
        assert two.run("v=2; echo $v").stdout == "2\n" and two.language == "bash"
        assert sandbox.run_code("v", context=one).text == "1"
        assert sandbox.contexts.connect(one.id).run("v").text == "1"
        one.restart()
        assert one.run("v").error.name == "NameError"
        assert {one.id, two.id} <= {each.id for each in sandbox.contexts.list()}
    assert not {one.id, two.id} & {each.id for each in sandbox.contexts.list()}


def test_interrupt(sandbox):
    with sandbox.create_context() as context:
        answers = []
        thread = threading.Thread(target=lambda: answers.append(context.run("while True: pass")))
        thread.start()
        while thread.is_alive():
            context.interrupt()
            thread.join(0.2)
        assert answers[0].status == "interrupted"


def test_languages(sandbox):
    assert sandbox.run_code("echo $((6 * 7))", language="bash").stdout == "42\n"
    assert sandbox.run_code("6 * 7", language="javascript").text == "42"
    seen = []
    sandbox.run_code('print "$_\\n" for 1..3;', language="perl", on_stdout=seen.append)
    assert "".join(seen) == "1\n2\n3\n"
    with sandbox.create_context(repl_config={
            "name": "mine", "candidates": [{"name": "sh"}],
            "env": [{"name": "PS1", "value_from": "prompt"}]}) as context:
        assert context.language == "mine" and context.run("echo $((1 + 2))").stdout == "3\n"
    with pytest.raises(InvalidRequestError, match="cobol"):
        sandbox.run_code("x", language="cobol")
