"""A real browser on a page of another origin: what fetch may do, and what it sees of streams."""
import http.server
import json
import os
import queue
import signal
import subprocess
import threading

import pytest

# Runs in the page; its result is posted back to where the page came from.
SCRIPT = """
const [api, key, sandbox, context] = %s;
const authorized = {Authorization: `Bearer ${key}`};
const result = {};
async function run() {
  let answer = await fetch(`${api}/healthz`);
  result.health = (await answer.json()).status;
  answer = await fetch(`${api}/api/v1/sandboxes/${sandbox}`, {headers: authorized});
  result.sandbox = (await answer.json()).data.id;
  result.requestId = answer.headers.get("x-request-id");
  answer = await fetch(`${api}/api/v1/sandboxes/${sandbox}/files?path=/tmp/from-browser`, {
    method: "POST", headers: authorized, body: new Uint8Array([0, 255, 10])});
  result.written = (await answer.json()).data.size;
  answer = await fetch(`${api}/api/v1/sandboxes/${sandbox}/contexts`, {
    method: "POST", headers: {...authorized, "Content-Type": "application/json",
                              "Idempotency-Key": "from-a-browser"},
    body: JSON.stringify({type: "cmd", cmd: {command: ["echo", "hi"]}, wait_until_done: true})});
  result.output = (await answer.json()).data.stdout;
  for (const kind of ["application/x-ndjson", "text/event-stream"]) {
    answer = await fetch(`${api}/api/v1/sandboxes/${sandbox}/contexts/${context}/stream`, {
      headers: {...authorized, Accept: kind}});
    const reader = answer.body.getReader();
    const first = new TextDecoder().decode((await reader.read()).value);
    result[kind] = {type: answer.headers.get("content-type"), first};
    await reader.cancel();
  }
  answer = await fetch(`${api}/api/v1/sandboxes/${sandbox}/files?path=/tmp/from-browser`, {
    method: "DELETE", headers: authorized});
  result.deleted = answer.status;
  answer = await fetch(`${api}/api/v1/sandboxes`, {headers: {Authorization: "Bearer wrong"}});
  result.refused = [answer.status, (await answer.json()).error.code];
}
run().catch((error) => { result.error = String(error); })
     .finally(() => fetch("/result", {method: "POST", body: JSON.stringify(result)}));
"""


@pytest.fixture
def page():
    """Serves one page on an origin of its own and takes what it posts."""
    posted = queue.Queue()
    script = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"<!doctype html><script src='/script.js'></script>"
            kind = "text/html"
            if self.path == "/script.js":
                body, kind = script["text"].encode(), "text/javascript"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            posted.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_address[1]}/", script, posted
        web.shutdown()


@pytest.fixture
def browser(tmp_path):
    started = []

    def visit(url):
        with open(tmp_path / "log", "wb") as log:
            started.append(subprocess.Popen(
                ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                 f"--user-data-dir={tmp_path}/profile", "--remote-debugging-port=0", url],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True))

    yield visit
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)  # its own session: the browser and its helpers
        process.wait()


def test_fetch_from_another_origin(server, sandbox, page, browser):
    url, script, posted = page
    context = sandbox.start("echo first; sleep 1000")
    arguments = [server.url(), server.key, sandbox.id, context["id"]]
    script["text"] = SCRIPT % json.dumps(arguments)
    try:
        browser(url)
        result = posted.get(timeout=90)
    finally:
        sandbox.client.call("DELETE", f"{sandbox.path}/contexts/{context['id']}")
    assert "error" not in result, result
    assert result["health"] == "ok" and result["sandbox"] == sandbox.id
    assert result["requestId"] and result["written"] == 3 and result["output"] == "hi\n"
    assert result["deleted"] == 200 and result["refused"] == [401, "unauthorized"]
    for kind in ("application/x-ndjson", "text/event-stream"):
        assert result[kind]["type"] == kind
        # What was printed so far has arrived, although the command goes on.
        assert "Zmlyc3QK" in result[kind]["first"]
