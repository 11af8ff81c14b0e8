"""files/glob and files/grep: what they find, what bounds them, and that they end."""
import json
import urllib.parse

import pytest

from harness.server import wait_until


@pytest.fixture(scope="module", autouse=True)
def tree(sandbox):
    sandbox.write("/tmp/s/main.py", "import os\n\ndef main():\n    print('Hello')\n\nmain()\n")
    sandbox.write("/tmp/s/lib/util.py", "def helper(x):\n    return x * 2  # hello\n")
    sandbox.write("/tmp/s/lib/deep/a.ts", "export const hello = 1;\n")
    sandbox.write("/tmp/s/README.md", "Hello, reader.\n")
    sandbox.write("/tmp/s/node_modules/x/index.js", "hello();\n")
    sandbox.write("/tmp/s/binary", b"hello\0hello\n")
    sandbox.write("/tmp/s/latin1", b"hello \xe9\n")
    return "/tmp/s"


def glob(sandbox, status=200, **query):
    query = urllib.parse.urlencode({"path": "/tmp/s", **query}, doseq=True)
    answer = sandbox.client.call("GET", f"{sandbox.path}/files/glob?{query}")
    assert answer.status == status, answer.body
    return answer.data if status == 200 else answer.error


def grep(sandbox, status=200, **fields):
    answer = sandbox.client.call("POST", f"{sandbox.path}/files/grep", {"path": "/tmp/s", **fields})
    assert answer.status == status, answer.body
    return answer.data if status == 200 else answer.error


def lines(data):
    return sorted((match["path"].removeprefix("/tmp/s/"), match["line"]) for match in data["matches"])


@pytest.mark.parametrize("pattern, expected", [
    ("**/*.py", {"main.py", "lib/util.py"}),
    ("*.py", {"main.py"}),
    ("lib/**", {"lib", "lib/util.py", "lib/deep", "lib/deep/a.ts"}),
    ("**/[a-l]*.{py}", set()),
    ("**/d??p", {"lib/deep"}),
    ("/tmp/s/*.md", {"README.md"}),
])
def test_glob(sandbox, pattern, expected):
    data = glob(sandbox, pattern=pattern)
    assert {entry["path"].removeprefix("/tmp/s/") for entry in data["entries"]} == expected
    assert data["truncated"] is False


def test_glob_tells_types_and_sizes_and_leaves_out(sandbox):
    entries = glob(sandbox, pattern="**", exclude=["node_modules", "*.md"])["entries"]
    kinds = {entry["path"]: (entry["type"], entry["size"]) for entry in entries}
    assert kinds["/tmp/s/latin1"] == ("file", 8) and kinds["/tmp/s/lib"][0] == "dir"
    assert not [path for path in kinds if "node_modules" in path or path.endswith(".md")]


def test_glob_with_several_kinds(sandbox):
    entries = glob(sandbox, pattern="**", include=["*.py", "*.ts"])["entries"]
    assert {entry["path"].rsplit(".", 1)[1] for entry in entries} == {"py", "ts"}


def test_glob_is_bounded(sandbox):
    data = glob(sandbox, pattern="**", max_results=3)
    assert len(data["entries"]) == 3 and data["truncated"] is True
    assert glob(sandbox, pattern="**", max_results=0, status=400)
    assert "pattern" in glob(sandbox, status=400)["message"]


def test_grep(sandbox):
    data = grep(sandbox, pattern=r"^def \w+\(")
    assert lines(data) == [("lib/util.py", 1), ("main.py", 3)]
    match = next(each for each in data["matches"] if each["path"].endswith("main.py"))
    assert match == {"path": "/tmp/s/main.py", "line": 3, "text": "def main():"}
    assert data["truncated"] is False and data["timed_out"] is False


def test_grep_by_get(sandbox):
    query = urllib.parse.urlencode({"path": "/tmp/s", "pattern": "hello", "include": ["*.py", "*.ts"],
                                    "ignore_case": "true"}, doseq=True)
    data = sandbox.client.expect(200, "GET", f"{sandbox.path}/files/grep?{query}").data
    assert lines(data) == [("lib/deep/a.ts", 1), ("lib/util.py", 2), ("main.py", 4)]


def test_grep_case_and_binary_files(sandbox):
    exact = {path for path, _ in lines(grep(sandbox, pattern="Hello"))}
    assert exact == {"main.py", "README.md"}
    folded = {path for path, _ in lines(grep(sandbox, pattern="(?i)HELLO"))}
    assert folded == {"main.py", "README.md", "lib/util.py", "lib/deep/a.ts", "latin1",
                      "node_modules/x/index.js"}


def test_grep_includes_and_excludes(sandbox):
    found = lines(grep(sandbox, pattern="hello", ignore_case=True, exclude=["node_modules", "lib/deep"],
                       include=["*.py", "*.js", "lib/**"]))
    assert found == [("lib/util.py", 2), ("main.py", 4)]


def test_grep_fixed_text(sandbox):
    assert lines(grep(sandbox, pattern="main():", fixed=True)) == [("main.py", 3)]
    assert lines(grep(sandbox, pattern="x * 2", fixed=True)) == [("lib/util.py", 2)]


def test_grep_context(sandbox):
    matches = grep(sandbox, pattern="print", include=["main.py"], context=1)["matches"]
    assert [(each["line"], each.get("context", False)) for each in matches] == [
        (3, True), (4, False), (5, True)]


def test_lines_that_are_no_text(sandbox):
    (match,) = grep(sandbox, pattern="hello", include=["latin1"])["matches"]
    assert match["text"] == "hello \ufffd" and match["text_base64"] == "aGVsbG8g6Q=="


def test_grep_is_bounded(sandbox):
    sandbox.out("mkdir -p /tmp/lots && cd /tmp/lots && yes 'a line that matches' | head -20000 > f")
    data = grep(sandbox, path="/tmp/lots", pattern="matches", max_results=100)
    assert len(data["matches"]) == 100 and data["truncated"] is True
    # By bytes too: lines are cut, and the whole answer has a limit.
    sandbox.out("cd /tmp/lots && python3 -c \"\nfor i in range(9000): print('x' * 5000)\" > f")
    data = grep(sandbox, path="/tmp/lots", pattern="x", max_results=10_000)
    assert data["truncated"] is True and 0 < len(data["matches"]) < 9000
    assert len(data["matches"][0]["text"]) == 4096


@pytest.mark.parametrize("fields, text", [
    ({"pattern": r"(a)\1"}, "back references"), ({"pattern": "(?=a)"}, "look-around"),
    ({"pattern": "(a"}, "parenthesis"), ({"pattern": "a**"}, "repeat"), ({"pattern": ""}, "pattern"),
    ({}, "pattern"), ({"pattern": "a", "context": 1000}, "context"),
    ({"pattern": "a", "colour": True}, "colour"), ({"pattern": "a", "max_results": 10**9}, "max_results"),
])
def test_mistakes_are_told(sandbox, fields, text):
    assert text in grep(sandbox, status=400, **fields)["message"]


def test_missing_and_forbidden_places(sandbox):
    assert grep(sandbox, path="/tmp/nowhere", pattern="x", status=404)["code"] == "file_not_found"
    data = grep(sandbox, path="/root", pattern="x", status=403)
    assert data["code"] == "permission_denied"
    assert grep(sandbox, path="/etc", pattern="root", include=["shadow"])["skipped_files"] >= 1


CATASTROPHIC = ["(a+)+$", "(a|a)*b", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*x",
                "(x+x+)+y", "((a{0,50}){0,20})b"]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_no_pattern_is_catastrophic(sandbox, pattern):
    """Each would take a backtracking matcher longer than the universe has. Here the search ends
    by itself, or at the time it was given, and the sandbox's agent still answers."""
    sandbox.write("/tmp/evil/text", ("a" * 200 + "!\n") * 20)
    data = grep(sandbox, path="/tmp/evil", pattern=pattern, timeout_ms=15_000)
    assert data["timed_out"] is False
    assert sandbox.out("echo alive") == "alive\n"


@pytest.fixture(scope="module")
def endless(sandbox):
    """A file and an expression that take minutes together."""
    sandbox.out("mkdir -p /tmp/endless && cd /tmp/endless && printf 'needle\\n' > a && "
                "head -c 30M /dev/zero | tr '\\0' 'x' | fold -w 1000 > b")
    yield {"path": "/tmp/endless", "pattern": "needle|(x?){200}y"}
    sandbox.out("rm -rf /tmp/endless")


def test_a_search_has_a_time_limit(sandbox, endless):
    """What was found until then is told."""
    data = grep(sandbox, **endless, timeout_ms=500)
    assert data["timed_out"] is True and data["truncated"] is True


def test_a_client_that_leaves_ends_the_search(sandbox, server, endless):
    def workers():
        return len(server.cell_processes(sandbox.id))

    wait_until(lambda: workers() == 1, 10, "only the agent is left")
    connection = server.client.connection()
    connection.request("POST", f"{sandbox.path}/files/grep",
                       json.dumps({**endless, "timeout_ms": 120_000}),
                       server.client.headers({"Content-Type": "application/json"}))
    wait_until(lambda: workers() == 2, 10, "the search runs")
    connection.close()
    wait_until(lambda: workers() == 1, 20, "the search has ended")


def test_relative_paths_and_the_default(sandbox):
    sandbox.write("proj/x.txt", "needle in workspace\n")
    for query in ({"path": "proj"}, {"path": "./proj/../proj"}, {"path": "."}, {}):
        answer = sandbox.client.expect(200, "POST", f"{sandbox.path}/files/grep",
                                       {"pattern": "needle in", **query})
        assert [each["path"] for each in answer.data["matches"]] == ["/workspace/proj/x.txt"]
