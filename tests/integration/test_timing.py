"""Where the time of a request goes: told on request, counted always."""
import re
import subprocess

from harness.client import Client

ASK = {"x-atoll-timing": "1"}


def steps(answer):
    told = answer.headers["x-atoll-timing"]
    found = {}
    for piece in told.split(", "):
        name, _, value = piece.partition(";us=")
        assert re.fullmatch("[a-z]+", name) and name not in found, told
        found[name] = int(value)
    return found


def test_a_create_tells_its_steps(server):
    answer = server.client.expect(201, "POST", "/api/v1/sandboxes", {"template": "default"},
                                  headers=ASK)
    try:
        told = steps(answer)
        assert {"read", "auth", "decode", "admit", "store", "encode", "total"} <= set(told)
        assert "node" in told or "pool" in told
        parts = sum(value for name, value in told.items() if name != "total")
        # Each is cut to whole microseconds.
        assert told["total"] - len(told) <= parts <= told["total"]
    finally:
        server.client.expect(202, "DELETE", f"/api/v1/sandboxes/{answer.data['sandbox_id']}")


def test_a_command_tells_its_steps(server, sandbox):
    path = f"{sandbox.path}/contexts"
    body = {"type": "cmd", "cmd": {"command": ["echo", "hi"]}, "wait_until_done": True}
    told = steps(server.client.expect(201, "POST", path, body, headers=ASK))
    assert {"ready", "connect", "spawn", "output", "exit"} <= set(told)
    body["cmd"]["command"] = ["true"]
    told = steps(server.client.expect(201, "POST", path, body, headers=ASK))
    assert "exit" in told and "output" not in told


def test_only_who_asks_is_told(server):
    answer = server.client.expect(200, "GET", "/api/v1/sandboxes")
    assert "x-atoll-timing" not in answer.headers


def test_strangers_are_not_told(server):
    stranger = Client(server.host, server.port, "atoll_" + "0" * 40)
    answer = stranger.expect(401, "GET", "/api/v1/sandboxes", headers=ASK)
    assert "x-atoll-timing" not in answer.headers


def test_failures_tell_too(server):
    answer = server.client.expect(404, "GET", "/api/v1/sandboxes/rs-none-0000000000", headers=ASK)
    assert "auth" in steps(answer)


def test_http2_tells_too(server):
    done = subprocess.run(
        ["curl", "-sS", "--http2-prior-knowledge", "-D", "-", "-o", "/dev/null", "--max-time", "30",
         "-H", f"Authorization: Bearer {server.key}", "-H", "x-atoll-timing: 1",
         f"{server.url()}/api/v1/sandboxes"], capture_output=True, timeout=60, check=True)
    assert b"\nx-atoll-timing: " in done.stdout.lower()


def test_e2b_routes_tell_too(server):
    key = server.key.replace("atoll_", "e2b_")
    done = subprocess.run(
        ["curl", "-sS", "-D", "-", "-o", "/dev/null", "--max-time", "30", "-H", f"X-API-Key: {key}",
         "-H", "x-atoll-timing: 1", f"{server.url()}/v2/sandboxes"],
        capture_output=True, timeout=60, check=True)
    assert b"x-atoll-timing: " in done.stdout.lower()


def test_steps_are_counted(server, sandbox):
    server.client.expect(201, "POST", f"{sandbox.path}/contexts",
                         {"type": "cmd", "cmd": {"command": ["true"]}, "wait_until_done": True})
    text = server.client.expect(200, "GET", "/metrics").body.decode()
    for operation, step in (("create", "store"), ("exec", "spawn"), ("exec", "exit")):
        assert re.search(f'atoll_http_step_seconds_count{{operation="{operation}",step="{step}"}}'
                         r" [1-9]", text), (operation, step)
