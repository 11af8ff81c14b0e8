"""The life of sandboxes, configuration, errors, retries."""
import http.server
import json
import threading

import pytest

import atoll_sandbox
from atoll_sandbox import (
    AuthenticationError,
    Client,
    ConfigurationError,
    ConflictError,
    ConnectionFailedError,
    InvalidRequestError,
    NotFoundError,
    ProtocolError,
    Sandbox,
)
from atoll_sandbox._config import resolve_config


def ids():
    return {each.id for each in Sandbox.list()}


def test_created_configured_and_gone(server):
    with Sandbox.create(labels={"owner": "me"}, env={"A": "b"}, ttl=600, memory="512Mi",
                        cpu=0.5) as sandbox:
        info = sandbox.info()
        assert info.metadata == {"owner": "me"} and info.status == "running"
        assert info.resources.memory == "512Mi" and 590 < (
            info.expires_at - info.created_at).total_seconds() < 610
        assert sandbox.commands.run("echo $A").stdout == "b\n"
        assert sandbox.id in ids() and sandbox.is_running()
    assert sandbox.id not in ids() and not sandbox.is_running() and not sandbox.kill()
    with pytest.raises(NotFoundError):
        sandbox.commands.run("true")
    sandbox.close()  # it had connected again


def test_an_exception_deletes_it_too(server):
    with pytest.raises(RuntimeError, match="mine"):
        with Sandbox.create() as sandbox:
            raise RuntimeError("mine")
    assert sandbox.id not in ids()


def test_connect_leaves_it_there(server):
    with Sandbox.create() as sandbox:
        with Sandbox.connect(sandbox.id) as again:
            again.files.write("/tmp/x", "1")
        assert sandbox.files.read("/tmp/x") == "1"
    with pytest.raises(NotFoundError):
        Sandbox.connect(sandbox.id)


def test_list_pages_and_filters(server, monkeypatch):
    monkeypatch.setattr("atoll_sandbox._sync.sandbox._PAGE", 2)
    made = Sandbox.create_many(5, labels={"batch": "pages"})
    try:
        listed = list(Sandbox.list(labels={"batch": "pages"}, status="running"))
        assert len(listed) == 5 and {each.id for each in listed} == {each.id for each in made}
        assert list(Sandbox.list(labels={"batch": "other"})) == []
        assert list(Sandbox.list(template="no-such-template")) == []
    finally:
        for each in made:
            with each:
                pass
    assert list(Sandbox.list(labels={"batch": "pages"})) == []


def test_names(server):
    with Sandbox.create(name="sdk-named") as sandbox:
        with pytest.raises(ConflictError):
            Sandbox.create(name="sdk-named")
        with Sandbox.get_or_create("sdk-named") as same:
            assert same.id == sandbox.id
        assert [each.id for each in Sandbox.list(name="sdk-named")] == [sandbox.id]
        assert [each.id for each in Sandbox.list(name_prefix="sdk-nam")] == [sandbox.id]
        assert sandbox.is_running()
    with Sandbox.get_or_create("sdk-named", env={"A": "b"}) as fresh:
        assert fresh.id != sandbox.id and fresh.commands.run("echo $A").stdout == "b\n"
    assert fresh.is_running() and fresh.kill()


def test_changes_while_it_runs(server):
    with Sandbox.create(memory="256Mi", ttl=60) as sandbox:
        changed = sandbox.update(memory="512Mi", labels={"a": "b"}, env={"NEW": "1"}, ttl=600)
        assert changed.resources.memory == "512Mi" and changed.metadata == {"a": "b"}
        assert sandbox.commands.run("echo $NEW").stdout == "1\n"
        before = sandbox.info().expires_at
        assert sandbox.refresh(ttl=1200).expires_at > before
        assert sandbox.update(ttl=0).expires_at is None
        sandbox.commands.run("head -c 1000 /dev/zero > /tmp/x")
        usage = sandbox.metrics()
        assert usage.current.memory_limit_bytes == 512 << 20 and usage.current.memory_bytes > 0
        assert usage.current.process_count >= 1


def test_refusals_say_what_to_change(server):
    with pytest.raises(AuthenticationError, match="ATOLL_API_KEY") as caught:
        Sandbox.create(api_key="wrong")
    assert caught.value.status == 401 and caught.value.request_id
    with pytest.raises(InvalidRequestError, match="memory"):
        Sandbox.create(memory="much")
    with pytest.raises(NotFoundError, match="no-such-template"):
        Sandbox.create("no-such-template")


def test_configuration(tmp_path):
    (tmp_path / "admin.key").write_text("local-key\n")
    env = {"ATOLL_DATA_DIR": str(tmp_path)}
    config = resolve_config(environ=env)
    assert config.url == "http://127.0.0.1:7070" and config.api_key == "local-key"
    assert "local-key" not in repr(config)
    # The key of this machine is for this machine.
    with pytest.raises(ConfigurationError, match="ATOLL_API_KEY"):
        resolve_config(url="https://atoll.example", environ=env)
    assert resolve_config(environ={**env, "ATOLL_API_KEY": "k"}).api_key == "k"
    assert resolve_config("http://h:1/", "mine", environ=env).url == "http://h:1"
    for url in ("127.0.0.1:7070", "ftp://x", "http://user:pass@h"):
        with pytest.raises(ConfigurationError):
            resolve_config(url, "k", environ={})


def test_nobody_there(monkeypatch):
    monkeypatch.setattr("atoll_sandbox._wire.RECONNECT_SECONDS", 0.3)
    with pytest.raises(ConnectionError, match="is `atoll serve` running") as caught:
        Sandbox.create(url="http://127.0.0.1:1", api_key="k")
    assert isinstance(caught.value, ConnectionFailedError)


class Scripted:
    """A server that answers as told: failures a real one does not give on request."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.requests.append((self.command, self.path, dict(self.headers), body))
                status, text = outer.answers.pop(0)
                if status == "hang up":
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_DELETE = do_GET = do_POST

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def client(self):
        return Client(f"http://127.0.0.1:{self.server.server_port}", "k", timeout=10)


def failure(status, code, message="no"):
    return status, json.dumps(
        {"success": False, "error": {"code": code, "message": message}}).encode()


CLAIM = (201, json.dumps({"success": True, "data": {
    "sandbox_id": "rs-x", "status": "running", "pod_name": "rs-x", "template": "default",
    "cluster_id": "default", "bootstrap_mounts": []}}).encode())


def test_creation_is_repeated_with_the_same_key():
    script = [("hang up", b""), failure(503, "unavailable"), failure(409, "template_not_ready"),
              CLAIM]
    with Scripted(*script) as fake:
        assert Sandbox.create(client=fake.client()).id == "rs-x"
        keys = {headers["Idempotency-Key"] for _, _, headers, _ in fake.requests}
        assert len(fake.requests) == 4 and len(keys) == 1


def test_what_may_have_happened_is_not_repeated():
    with Scripted(("hang up", b"")) as fake:
        sandbox = Sandbox(fake.client(), "rs-x")
        with pytest.raises(ConnectionFailedError):
            sandbox.files.move("/a", "/b")
        assert len(fake.requests) == 1


def test_a_restore_is_not_repeated_for_a_lost_answer():
    with Scripted(("hang up", b""), ("hang up", b"")) as fake:
        with pytest.raises(ConnectionFailedError):
            Sandbox(fake.client(), "rs-x").restore("snap-x", force=True)
        assert len(fake.requests) == 1
        with pytest.raises(ConnectionFailedError):
            atoll_sandbox.Volume(fake.client(), "vol-x").restore("snap-x")
        assert len(fake.requests) == 2


def test_repeating_ends():
    with Scripted(*[failure(503, "unavailable", "busy")] * 100) as fake:
        client = Client(fake.client().url, "k", timeout=0.5)
        with pytest.raises(atoll_sandbox.UnavailableError, match="busy"):
            Sandbox.create(client=client)
        assert 2 <= len(fake.requests) < 10


def test_answers_of_something_else():
    with Scripted((200, b"<html>"), (502, b"<html>"), (200, b'{"success":true,"data":{}}')) as fake:
        sandbox = Sandbox(fake.client(), "rs-x")
        for _ in range(3):
            with pytest.raises(ProtocolError):
                sandbox.info()
