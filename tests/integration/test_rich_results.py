"""Rich results and TypeScript in the template code-interpreter-v1."""
import base64
import struct

import pytest

from harness.client import Sandbox
from test_interpreters import Interpreter

TEMPLATE = "code-interpreter-v1"


@pytest.fixture(scope="module")
def sandbox(client):
    # From the cache of this machine, or built from packages; without either there is nothing to try.
    client.call("POST", f"/api/v1/templates/{TEMPLATE}/pull", timeout=900)
    answer = client.call("POST", "/api/v1/sandboxes", {"template": TEMPLATE})
    if answer.status != 201:
        pytest.skip(f"the template {TEMPLATE} cannot be had here: {answer.body[:300]}")
    shared = Sandbox(client, answer.data["sandbox_id"])
    yield shared
    client.call("DELETE", shared.path)


@pytest.fixture(scope="module")
def python(sandbox):
    return Interpreter(sandbox, "python")


@pytest.fixture(scope="module")
def typescript(sandbox):
    return Interpreter(sandbox, "typescript")


def only(done, main=True):
    assert done["status"] == "ok", done
    (result,) = done["results"]
    assert result["is_main"] is main
    return result["data"]


def png_size(text):
    image = base64.b64decode(text)
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", image[16:24])


def test_value_and_history(python):
    assert only(python.exec("6 * 7"))["text/plain"] == "42"
    assert only(python.exec("_ + 1"))["text/plain"] == "43"
    assert python.exec("x = 1")["results"] == []
    assert python.exec("await __import__('asyncio').sleep(0, 5)")["output_raw"] == "5\n"


def test_figures_left_open_are_shown_as_png(python):
    done = python.exec("import matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(2, 1))\n"
                       "ax.plot([1, 2])\nplt.show()")
    width, height = png_size(only(done, main=False)["image/png"])
    assert width > 50 and height > 20
    # Closed by then: not shown a second time.
    assert python.exec("1")["results"][0]["data"]["text/plain"] == "1"
    data = only(python.exec("fig"))
    assert png_size(data["image/png"]) and "Figure" in data["text/plain"]


def test_figures_as_svg_and_pdf_when_asked(python):
    python.exec("from matplotlib_inline.backend_inline import set_matplotlib_formats\n"
                "set_matplotlib_formats('svg', 'pdf')")
    data = only(python.exec("plt.plot([1, 2]); plt.show()"), main=False)
    assert "<svg" in data["image/svg+xml"] and "image/png" not in data
    assert base64.b64decode(data["application/pdf"]).startswith(b"%PDF")
    python.exec("set_matplotlib_formats('png')")
    assert png_size(only(python.exec("plt.plot([1]); None"), main=False)["image/png"])


def test_frames_are_tables(python):
    data = only(python.exec("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})"))
    assert "<table" in data["text/html"] and "a  b" in data["text/plain"]


def test_formulas_are_latex(python):
    data = only(python.exec("import sympy\ns = sympy.Symbol('s')\ns**2 / 2"))
    assert "\\frac{s^{2}}{2}" in data["text/latex"]


@pytest.mark.parametrize("code,mime,expected", [
    ("Markdown('# m')", "text/markdown", "# m"), ("HTML('<i>h</i>')", "text/html", "<i>h</i>"),
    ("JSON({'a': [1, 2]})", "application/json", {"a": [1, 2]}),
    ("Latex('$l$')", "text/latex", "$l$"), ("Javascript('1')", "application/javascript", "1"),
    ("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "image/svg+xml",
     '<svg xmlns="http://www.w3.org/2000/svg"/>')])
def test_display_objects(python, code, mime, expected):
    python.exec("from IPython.display import *")
    assert only(python.exec(code))[mime] == expected
    done = python.exec(f"print('before')\ndisplay({code})\nprint('after')")
    assert only(done, main=False)[mime] == expected and done["stdout"] == "before\nafter\n"


def test_pictures(python):
    python.exec("import io\nfrom PIL import Image as Picture\nfrom IPython.display import Image\n"
                "buffer = io.BytesIO(); Picture.new('RGB', (5, 7)).save(buffer, 'JPEG')")
    data = only(python.exec("Image(buffer.getvalue(), format='jpeg')"))
    assert base64.b64decode(data["image/jpeg"]).startswith(b"\xff\xd8\xff")
    assert png_size(only(python.exec("Picture.new('RGB', (5, 7))"))["image/png"]) == (5, 7)


def test_own_bundles_and_vendor_types(python):
    data = only(python.exec("display({'application/vnd.x+json': {'k': 1}, 'text/plain': 'p'}, raw=True)"),
                main=False)
    assert data == {"application/vnd.x+json": {"k": 1}, "text/plain": "p"}


def test_magics_and_errors(python):
    done = python.exec("%%capture c\nprint('hidden')")
    assert done["stdout"] == ""
    assert python.exec("c.stdout")["output_raw"] == "'hidden\\n'\n"
    done = python.exec("def f():\n    return 1 / 0\n\nf()")
    assert done["error"]["name"] == "ZeroDivisionError" and "line 2" in done["error"]["traceback"]
    done = python.exec("x = (")
    assert done["error"]["name"] == "SyntaxError" and done["status"] == "error"


def test_typescript_keeps_state_and_types_are_only_types(typescript):
    assert typescript.exec("interface P { x: number }\nenum E { A = 1, B }\n"
                           "let p: P = { x: E.B }")["output_raw"] == ""
    assert typescript.exec("p.x as number")["output_raw"] == "2\n"
    assert typescript.exec("const id = <T,>(v: T): T => v\nid<string>('k')")["output_raw"] == "'k'\n"
    assert typescript.exec("let p: string = 'again'\nconsole.log(p)")["stdout"] == "again\n"


def test_typescript_imports_and_await(typescript, sandbox):
    assert typescript.exec("import { join, basename as base } from 'path'\n"
                           "import * as os from 'os'")["output_raw"] == ""
    assert typescript.exec("[join('a', 'b'), base('/c/d'), typeof os.cpus]")["output_raw"] == \
        "[ 'a/b', 'd', 'function' ]\n"
    assert typescript.exec("await Promise.resolve<number>(7)")["output_raw"] == "7\n"
    sandbox.write("/tmp/module.mjs", "export const v = 9; export default 3")
    assert typescript.exec("import three, { v } from '/tmp/module.mjs'\nthree + v")["output_raw"] == \
        "12\n"
    assert typescript.exec("(await import('fs')).existsSync('/tmp')")["output_raw"] == "true\n"


def test_typescript_errors_name_the_line_that_was_written(typescript):
    done = typescript.exec("// a comment\n\ninterface Q { y: string }\n\nfunction fail(q: Q): never {\n"
                           "  throw new TypeError('bad ' + q.y)\n}\nfail({ y: 'z' })")
    assert done["error"]["name"] == "TypeError" and done["error"]["value"] == "bad z"
    lines = [each.rsplit(":", 2)[1] for each in done["error"]["traceback"].splitlines()[1:]]
    assert lines == ["6", "8"], done["error"]
    done = typescript.exec("const fine = 1\nlet z: number = ;")
    assert done["error"]["name"] == "SyntaxError" and ":2:" in done["error"]["traceback"]
    assert typescript.exec("typeof fine")["output_raw"] == "'undefined'\n"
    done = typescript.exec("for (;;) {}", timeout_ms=500)
    assert done["outcome"] == "timed_out" and typescript.exec("1 + 1")["output_raw"] == "2\n"
