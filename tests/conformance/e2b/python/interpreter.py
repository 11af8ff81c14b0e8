"""The code interpreter: languages, contexts, results, environment, interrupts."""
import asyncio
import base64

import e2b_code_interpreter
from e2b import NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import AsyncSandbox
from support import MODULES, case, raises, run_cases, sandbox_of

MODULES.insert(0, e2b_code_interpreter)
EVERYTHING = '''
class Rich:
    def __repr__(self): return "plain"
    def _repr_html_(self): return "<b>html</b>"
    def _repr_markdown_(self): return "**markdown**"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"png"
    def _repr_jpeg_(self): return b"jpeg"
    def _repr_pdf_(self): return b"pdf"
    def _repr_latex_(self): return "$x$"
    def _repr_json_(self): return {"a": [1, None]}
    def _repr_javascript_(self): return "run()"
    def _repr_mimebundle_(self, **_): return {"application/x-own": "own"}
Rich()'''


@case("Sandbox.run_code, Execution.text: value, output, count, state")
async def _(sandbox):
    execution = await sandbox.run_code(
        "import sys; print('out'); print('err', file=sys.stderr); 'va' + 'lue'")
    assert execution.text == "value", execution
    assert "".join(execution.logs.stdout) == "out\n" and "".join(execution.logs.stderr) == "err\n"
    following = await sandbox.run_code("kept = 41")
    assert following.execution_count == execution.execution_count + 1, following
    assert (await sandbox.run_code("kept + 1")).text == "42"


@case("Sandbox.run_code(on_stdout, on_stderr, on_result, on_error, request_timeout): as it comes")
async def _(sandbox):
    seen = []
    execution = await sandbox.run_code(
        "import sys\nprint('a')\ndisplay('b')\nprint('c', file=sys.stderr)\n1 / 0",
        on_stdout=lambda message: seen.append(("out", message.line, message.timestamp)),
        on_stderr=lambda message: seen.append(("err", message.line)),
        on_result=lambda result: seen.append(("result", result.text)),
        on_error=lambda error: seen.append(("error", error.name)), request_timeout=30)
    assert execution.error.name == "ZeroDivisionError" and "1 / 0" in execution.error.traceback
    assert ("err", "c\n") in seen and ("result", "b") in seen and seen[-1][0] == "error", seen
    assert any(each[0] == "out" and each[2] > 1_700_000_000 * 10**9 for each in seen), seen


@case("Sandbox.run_code: every format of a result")
async def _(sandbox):
    result = (await sandbox.run_code(EVERYTHING)).results[0]

    def encoded(text):
        return base64.b64encode(text).decode()
    assert (result.text, result.html, result.markdown, result.svg, result.png, result.jpeg,
            result.pdf, result.latex, result.json, result.javascript, result.extra) == (
        "plain", "<b>html</b>", "**markdown**", "<svg/>", encoded(b"png"), encoded(b"jpeg"),
        encoded(b"pdf"), "$x$", {"a": [1, None]}, "run()", {"application/x-own": "own"}), result


@case("Result.formats: names them")
async def _(sandbox):
    code = "import pandas\npandas.DataFrame({'a': [1, 2], 'b': ['x', None]})"
    result = (await sandbox.run_code(code)).results[0]
    assert result.data == {"a": [1, 2], "b": ["x", None]}, result.data
    assert sorted(result.formats()) == ["data", "html", "text"], list(result.formats())


@case("Sandbox.run_code(language): of the others")
async def _(sandbox):
    for language, code, expected in (
            ("javascript", "const x = await Promise.resolve(41); x + 1", "42"),
            ("ts", "const n: number = 6; n * 7", "42"), ("bash", "echo 42", "42"),
            ("r", "cat(6 * 7)", "42")):
        execution = await sandbox.run_code(code, language=language)
        shown = execution.text or "".join(execution.logs.stdout).strip()
        assert shown == expected, (language, execution)
    with raises(SandboxException, "jshell"):
        await sandbox.run_code("1", language="java")


@case("Sandbox.run_code(envs): for one piece of code")
async def _(sandbox):
    code = "import os; os.getenv('ONE')"
    assert (await sandbox.run_code(code, envs={"ONE": "it's 1"})).text == "it's 1"
    assert (await sandbox.run_code(code)).text is None
    assert (await sandbox.run_code("os.environ['OF_SANDBOX'] + os.getcwd()")).text == "yes/home/user"


@case("Sandbox.create_code_context(cwd, language, request_timeout), Sandbox.list_code_contexts, "
      "Sandbox.run_code(context), Sandbox.remove_code_context, Sandbox.restart_code_context: kept apart")
async def _(sandbox):
    context = await sandbox.create_code_context(cwd="/tmp", language="python", request_timeout=30)
    assert (context.language, context.cwd) == ("python", "/tmp"), context
    assert (await sandbox.run_code("import os; os.getcwd()", context=context)).text == "/tmp"
    listed = await sandbox.list_code_contexts()
    assert context.id in [each.id for each in listed]
    assert {"python", "javascript"} <= {each.language for each in listed}, listed
    await sandbox.restart_code_context(context)
    assert (await sandbox.run_code("os", context=context)).error.name == "NameError"
    await sandbox.remove_code_context(context)
    with raises(NotFoundException):
        await sandbox.run_code("1", context=context)


@case("Sandbox.run_code(timeout): who leaves interrupts")
async def _(sandbox):
    with raises(TimeoutException):
        await sandbox.run_code("while True: pass", timeout=1)
    assert (await sandbox.run_code("kept", timeout=20)).text == "41"


async def main():
    async with sandbox_of("code-interpreter-v1", of=AsyncSandbox,
                          envs={"OF_SANDBOX": "yes"}) as sandbox:
        await run_cases(sandbox)
    await asyncio.sleep(0)
