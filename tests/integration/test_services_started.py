"""Services that we start: commands and functions."""
import asyncio
import concurrent.futures
import json
import time

import pytest
import websockets

from harness.services import DOMAIN, PROGRAM, Visitor, make, put, served, service


def test_commands_are_started_restarted_and_stopped(served, make):
    sandbox = make()
    sandbox.write("/home/user/server.py", PROGRAM)
    runtime = {"type": "cmd", "cwd": "/home/user", "env_vars": {"A": "1"},
               "command": ["python3", "server.py", "8000"]}
    body = service(runtime=runtime, resume=True)
    body["health_check"] = {"path": "/healthy"}
    view = put(sandbox, body)["services"][0]
    assert view["publishable"] is True and view["publish_blockers"] == []
    visitor = Visitor(served, sandbox)
    assert visitor.see()["method"] == "GET"
    context = f"{sandbox.path}/contexts/sandbox-service-web"
    env = sandbox.out("tr '\\0' '\\n' < /proc/$(pgrep -f '^python3 server.py')/environ")
    for line in ("A=1", "SANDBOX0_SERVICE_ID=web", "SANDBOX0_SERVICE_PORT=8000",
                 "SANDBOX0_SERVICE_RUNTIME=cmd", "ATOLL_SERVICE_ID=web"):
        assert line in env.splitlines()
    # Its files stay when its processes go; the first request starts it again.
    served.client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": False})
    assert visitor.see()["method"] == "GET"
    # A failure is not the end.
    sandbox.run("pkill -9 -f '^python3 server.py'")
    deadline = time.monotonic() + 60
    while (answer := visitor.call()).status != 200:
        assert answer.status in (502, 503) and time.monotonic() < deadline, answer.content
        time.sleep(0.1)
    put(sandbox)
    assert visitor.call().status == 404
    deadline = time.monotonic() + 30
    while served.client.call("GET", context).status != 404:
        assert time.monotonic() < deadline
        time.sleep(0.1)


FUNCTION = '''
import os, time
count = 0
def handler(request, ws=None):
    global count
    if ws is not None:
        return talk(ws)
    count += 1
    if request["path"].endswith("/events"):
        return {"headers": {"content-type": "text/event-stream"},
                "body": ("data: %d\\n\\n" % number for number in range(3))}
    if request["path"].endswith("/slow"):
        time.sleep(1000)
    if request["path"].endswith("/wait"):
        time.sleep(1)
    if request["path"].endswith("/fail"):
        raise ValueError("inside")
    return {"status": 201, "headers": {"x-pid": str(os.getpid())},
            "body": {"count": count, **request}}
async def talk(ws):
    async for message in ws:
        await ws.send("echo:" + message)
'''
SCRIPT = '''
let count = 0;
exports.handler = async (request, ws) => {
  if (ws) { for await (const message of ws) await ws.send("echo:" + message); return; }
  count++;
  if (request.path.endsWith("/events"))
    return {headers: {"content-type": "text/event-stream"},
            body: (function*() { for (let n = 0; n < 3; n++) yield `data: ${n}\\n\\n`; })()};
  if (request.path.endsWith("/slow")) await new Promise(() => {});
  if (request.path.endsWith("/wait")) await new Promise((done) => setTimeout(done, 1000));
  if (request.path.endsWith("/fail")) throw new Error("inside");
  return {status: 201, headers: {"x-pid": String(process.pid)}, body: {count, ...request}};
};
'''


def function(language, code, **options):
    return {"id": "hello",
            "runtime": {"type": "function", "function": {
                "runtime": language, "source": {"type": "inline", "code": code}, **options}},
            "ingress": {"public": True, "routes": [
                {"id": "hook", "path_prefix": "/hook", "timeout_seconds": 2, "resume": True}]}}


@pytest.mark.parametrize("language,code", [("python", FUNCTION), ("javascript", SCRIPT)])
def test_functions_answer_from_warm_workers(served, make, language, code):
    sandbox = make()
    if sandbox.run(f"command -v {'python3' if language == 'python' else 'node'}")["exit_code"]:
        pytest.skip("the template has no such interpreter")
    view = put(sandbox, function(language, code, max_concurrency=2))["services"][0]
    assert view["port"] == 49983 and view["publishable"] is True
    visitor = Visitor(served, sandbox, 49983)
    answer = visitor.call("POST", "/hook/x?a=1", b"\0body", {"X-A": "b"})
    assert answer.status == 201, answer.content
    seen = json.loads(answer.content)
    assert (seen["service_id"], seen["route_id"], seen["method"], seen["path"], seen["raw_query"],
            seen["body_base64"]) == ("hello", "hook", "POST", "/hook/x", "a=1", "AGJvZHk=")
    assert seen["headers"]["x-a"] == "b"
    again = visitor.call("GET", "/hook")
    assert again.headers["x-pid"] == answer.headers["x-pid"]  # the same interpreter
    assert json.loads(again.content)["count"] == 2
    assert visitor.call("GET", "/hook/events").content == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
    failed = visitor.call("GET", "/hook/fail")
    assert failed.status == 500 and b"inside" not in failed.content
    assert visitor.call("GET", "/hook/slow").status == 504
    assert visitor.call("POST", "/hook", b"x" * (8 << 20) + b"y").status == 413
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        statuses = [a.status for a in pool.map(lambda _: visitor.call("GET", "/hook/wait"), range(6))]
    assert 429 in statuses and 201 in statuses

    async def talk():
        host = f"{sandbox.id}--p49983.{DOMAIN}"
        async with websockets.connect(f"ws://{host}:{served.port}/hook", host=served.host,
                                      port=served.port) as peer:
            await peer.send("hello")
            assert await peer.recv() == "echo:hello"

    asyncio.run(asyncio.wait_for(talk(), 60))


def test_a_function_goes_on_after_its_memory_was_on_disk(served, make):
    sandbox = make()
    put(sandbox, function("python", FUNCTION))
    visitor = Visitor(served, sandbox, 49983)
    before = visitor.call("GET", "/hook")
    paused = served.client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": "disk"}).data
    if paused["memory"] != "disk":
        pytest.skip(f"this host cannot: {paused.get('reason')}")
    after = visitor.call("GET", "/hook")
    assert after.status == 201, after.content
    assert after.headers["x-pid"] == before.headers["x-pid"]
    assert json.loads(after.content)["count"] == 2
