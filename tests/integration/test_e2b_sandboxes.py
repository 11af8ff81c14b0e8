"""E2B's control plane and addressing, as raw HTTP: what the SDKs do not say, or hide."""
import re
import time
import urllib.parse

import pytest

from harness.client import Sandbox
from harness.e2b_wire import E2bClient, signed_path
from harness.server import wait_until


@pytest.fixture(scope="module")
def e2b(server):
    return E2bClient(server)


@pytest.fixture
def make(e2b):
    """Sandboxes that live as long as the test."""
    made = []

    def create(version="/v2", **fields):
        body = {"templateID": "default", "timeout": 120, **fields}
        answer = e2b.expect(201, "POST", f"{version}/sandboxes", body).json
        made.append(answer["sandboxID"])
        return answer

    create.also = made.append
    yield create
    for sandbox_id in made:
        e2b.call("DELETE", f"/sandboxes/{sandbox_id}")


def info(e2b, sandbox):
    return e2b.expect(200, "GET", f"/sandboxes/{sandbox['sandboxID']}").json


def seconds_left(detail):
    """Of endAt, by the server's own clock in startedAt."""
    from datetime import datetime
    parse = datetime.fromisoformat
    return (parse(detail["endAt"]) - parse(detail["startedAt"])).total_seconds()


def test_health_needs_no_key_and_everything_else_does(e2b):
    assert e2b.send("GET", "/health").status == 204
    for key in ({}, {"X-API-KEY": "e2b_" + "0" * 40}, {"Authorization": "Bearer nonsense"}):
        answer = e2b.send("GET", "/v2/sandboxes", headers=key)
        assert answer.status == 401 and answer.json["code"] == 401


def test_a_key_is_the_same_in_both_forms_and_headers(e2b, server):
    for headers in ({"X-API-KEY": server.key}, {"X-API-KEY": e2b.key},
                    {"Authorization": f"Bearer {e2b.key}"}):
        assert e2b.send("GET", "/v2/sandboxes", headers=headers).status == 200
    native = {"Authorization": f"Bearer {e2b.key}"}
    assert e2b.send("GET", "/api/v1/sandboxes", headers=native).status == 200
    team = e2b.expect(200, "GET", "/teams").json[0]
    assert team["apiKey"] == e2b.key and team["isDefault"] and team["teamID"]


def test_create_answers_what_clients_need(e2b, make, client):
    made = make(metadata={"purpose": "x"}, envVars={"GREETING": "hello"})
    assert re.fullmatch("i[a-z0-9]{20}", made["sandboxID"])
    assert made["envdVersion"] == "0.6.13"
    assert re.fullmatch("[0-9a-f]{64}", made["envdAccessToken"])
    assert made["domain"] is None and made["trafficAccessToken"] is None
    detail = info(e2b, made)
    assert detail["state"] == "running" and detail["metadata"] == {"purpose": "x"}
    assert detail["lifecycle"] == {"autoResume": False, "onTimeout": "kill"}
    assert detail["envdAccessToken"] == made["envdAccessToken"]
    assert detail["cpuCount"] >= 1 and detail["memoryMB"] > 0 and detail["diskSizeMB"] > 0
    assert 119 <= seconds_left(detail) < 180, "counted from readiness, not longer"
    # It is the same sandbox that Atoll's own API shows.
    assert Sandbox(client, made["sandboxID"]).out("echo $GREETING") == "hello\n"


def test_a_key_makes_one_sandbox(e2b, make):
    body = {"templateID": "default", "timeout": 60}
    headers = {"Idempotency-Key": f"once-{time.monotonic_ns()}"}
    first = e2b.expect(201, "POST", "/v2/sandboxes", body, headers).json
    make.also(first["sandboxID"])
    assert e2b.expect(201, "POST", "/v2/sandboxes", body, headers).json == first
    e2b.expect(409, "POST", "/v2/sandboxes", {**body, "timeout": 61}, headers)
    e2b.expect(204, "DELETE", f"/sandboxes/{first['sandboxID']}")
    e2b.expect(404, "POST", "/v2/sandboxes", body, headers)


def test_version_1_is_open_unless_it_asks_to_be_secure(make):
    assert "envdAccessToken" not in make("")
    assert "envdAccessToken" in make("", secure=True)


def test_old_clients_append_an_id_of_theirs(e2b, make):
    made = make()
    old = f"{made['sandboxID']}-{made['clientID']}"
    assert e2b.expect(200, "GET", f"/sandboxes/{old}").json["sandboxID"] == made["sandboxID"]
    answer = e2b.envd({**made, "sandboxID": old}, "GET", "/health")
    assert answer.status == 204


@pytest.mark.parametrize("body", [
    {}, {"templateID": "default", "timeout": 0}, {"templateID": "default", "timeout": 10**9},
    {"templateID": "default", "autoPauseMemory": False},
    {"templateID": "default", "autoPause": True, "autoPauseMemory": False,
     "autoResume": {"enabled": True}},
    {"templateID": "default", "iam": {"tokens": {"a": {"audience": "b", "tokenType": "x"}}}},
    {"templateID": "default", "metadata": {"a": 1}},
], ids=str)
def test_create_refuses(e2b, body):
    e2b.expect(400, "POST", "/v2/sandboxes", body)


def test_unknown_templates_and_mcp(e2b):
    e2b.expect(404, "POST", "/v2/sandboxes", {"templateID": "nobody-has-this"})
    answer = e2b.expect(404, "POST", "/v2/sandboxes",
                        {"templateID": "mcp-gateway", "mcp": {"exa": {}}})
    assert "mcp-gateway" in answer.json["message"]


def test_unknown_routes_are_told_in_e2bs_words_and_logged(e2b, server):
    answer = e2b.expect(404, "GET", "/v7/flying-sandboxes",
                        headers={"User-Agent": "e2b-js-sdk/9.9.9"})
    assert "/v7/flying-sandboxes" in answer.json["message"]
    wait_until(lambda: "e2b-js-sdk/9.9.9" in server.log(), 5, "the request in the log")
    e2b.expect(404, "PATCH", "/sandboxes/x")


def test_timeouts_set_refresh_connect(e2b, make):
    made = make()
    path = f"/sandboxes/{made['sandboxID']}"

    def left():
        return seconds_left(info(e2b, made))

    e2b.expect(204, "POST", f"{path}/timeout", {"timeout": 1000})
    assert left() > 900
    e2b.expect(204, "POST", f"{path}/timeout", {"timeout": 60})
    assert left() < 200, "a timeout may shorten"
    e2b.expect(204, "POST", f"{path}/refreshes", {"duration": 600})
    assert left() > 500
    e2b.expect(204, "POST", f"{path}/refreshes", {"duration": 5})
    assert left() > 500, "a refresh never shortens"
    e2b.expect(400, "POST", f"{path}/refreshes", {"duration": 3601})
    again = e2b.expect(200, "POST", f"/v2{path}/connect").json
    assert again["envdAccessToken"] == made["envdAccessToken"]
    assert left() > 500, "nor does a connect"
    e2b.expect(200, "POST", f"{path}/connect", {"timeout": 2000})
    assert left() > 1900
    e2b.expect(400, "POST", f"{path}/connect", {})
    e2b.expect(400, "POST", f"/v2{path}/connect", {"timeout": -1})
    e2b.expect(400, "POST", f"{path}/timeout", {"timeout": -1})
    for verb in ("timeout", "connect"):
        e2b.expect(404, "POST", f"/sandboxes/{'i' + 'z' * 20}/{verb}", {"timeout": 5})


def test_time_over_kills_or_pauses(e2b, make, client):
    killed = make(timeout=1)
    paused = make(timeout=1, autoPause=True)
    files = make(timeout=1, autoPause=True, autoPauseMemory=False)
    gone = f"/sandboxes/{killed['sandboxID']}"
    wait_until(lambda: e2b.call("GET", gone).status == 404, 30, "the sandbox is killed")
    for each in (paused, files):
        wait_until(lambda: info(e2b, each)["state"] == "paused", 30, "the sandbox is paused")
        assert info(e2b, each)["lifecycle"]["onTimeout"] == "pause"
    e2b.expect(404, "DELETE", gone)
    resumed = client.expect(200, "POST", f"/api/v1/sandboxes/{files['sandboxID']}/resume")
    assert resumed.data["restored"] == "filesystem"
    resumed = client.expect(200, "POST", f"/api/v1/sandboxes/{paused['sandboxID']}/resume")
    assert resumed.data["restored"] == "memory"


def test_pause_and_connect_keep_processes(e2b, make, client):
    made = make()
    path = f"/sandboxes/{made['sandboxID']}"
    inside = Sandbox(client, made["sandboxID"])
    inside.out("sleep 1000 & echo $! > /tmp/pid")
    boot = inside.out("cat /proc/$(cat /tmp/pid)/stat | cut -d' ' -f22")
    e2b.expect(204, "POST", f"{path}/pause", {})
    e2b.expect(409, "POST", f"{path}/pause")
    assert info(e2b, made)["state"] == "paused"
    e2b.expect(404, "POST", f"{path}/timeout", {"timeout": 5})
    e2b.expect(409, "POST", f"{path}/fork", {})
    assert e2b.envd(made, "GET", "/health").status == 502
    assert e2b.expect(201, "POST", f"/v2{path}/connect", {"timeout": 50}).json == made
    assert inside.out("cat /proc/$(cat /tmp/pid)/stat | cut -d' ' -f22") == boot
    assert e2b.envd(made, "GET", "/health").status == 204
    e2b.expect(409, "POST", f"{path}/resume", {"timeout": 5})
    # Files alone, twice: by the pause, and by the connect that wants no memory.
    e2b.expect(204, "POST", f"{path}/pause", {"memory": False})
    e2b.expect(201, "POST", f"{path}/resume", {"timeout": 60, "autoPause": True})
    assert inside.run("grep -qx sleep /proc/$(cat /tmp/pid)/comm")["exit_code"] != 0
    assert info(e2b, made)["lifecycle"]["onTimeout"] == "pause"
    inside.out("sleep 1000 & echo $! > /tmp/pid")
    e2b.expect(204, "POST", f"{path}/pause", {"memory": True})
    e2b.expect(201, "POST", f"{path}/connect", {"timeout": 60, "memory": False})
    assert inside.run("grep -qx sleep /proc/$(cat /tmp/pid)/comm")["exit_code"] != 0


def test_traffic_wakes_whoever_asked_for_that(e2b, make):
    sleepy = make(timeout=60, autoPause=True)
    alert = make(timeout=60, autoPause=True, autoResume={"enabled": True})
    for each in (sleepy, alert):
        e2b.expect(204, "POST", f"/sandboxes/{each['sandboxID']}/pause", {})
    refused = e2b.envd(sleepy, "GET", "/health")
    assert refused.status == 502 and refused.json["sandboxId"] == sleepy["sandboxID"]
    assert info(e2b, sleepy)["state"] == "paused"
    assert e2b.envd(alert, "GET", "/health").status == 204
    assert info(e2b, alert)["state"] == "running"
    assert seconds_left(info(e2b, alert)) > 290, "at least five minutes"
    e2b.expect(204, "POST", f"/sandboxes/{alert['sandboxID']}/pause", {"memory": False})
    assert e2b.envd(alert, "GET", "/health").status == 502, "files alone are woken by hand"


def test_list_filters_and_pages(e2b, make):
    mark = f"mark-{time.monotonic_ns()}"
    odd = {"key &%": "välue &=% +"}
    made = [make(metadata={"mark": mark, **(odd if i == 1 else {})}) for i in range(3)]
    ids = [each["sandboxID"] for each in made]
    e2b.expect(204, "POST", f"/sandboxes/{ids[0]}/pause", {})

    def metadata(pairs):
        once = urllib.parse.urlencode(
            {urllib.parse.quote(k, safe=""): urllib.parse.quote(v, safe="")
             for k, v in pairs.items()})
        return urllib.parse.quote(once, safe="")

    def listed(extra="", pairs=None, path="/v2/sandboxes"):
        answer = e2b.expect(200, "GET", f"{path}?metadata={metadata(pairs or {'mark': mark})}{extra}")
        return [each["sandboxID"] for each in answer.json], answer.headers

    found, headers = listed()
    assert found == ids[::-1] and headers["X-Total-Running"] == "2"
    assert "X-Next-Token" not in headers
    assert listed("&order=asc")[0] == ids
    assert listed("&state=running")[0] == [ids[2], ids[1]]
    assert listed("&state=paused,running")[0] == ids[::-1]
    paused, headers = listed("&state=paused")
    assert paused == [ids[0]] and "X-Total-Running" not in headers
    assert listed(pairs={"mark": mark, **odd})[0] == [ids[1]]
    assert listed(pairs={"mark": "nobody's"})[0] == []
    assert listed("&template=default")[0] == ids[::-1]
    assert listed("&template=other")[0] == []
    assert listed(path="/sandboxes")[0] == [ids[2], ids[1]]
    started = info(e2b, made[1])["startedAt"]
    assert listed(f"&startedAfter={urllib.parse.quote(started)}")[0] == [ids[2], ids[1]]
    pages, token = [], ""
    for _ in range(3):
        page, headers = listed(f"&limit=1{token}")
        pages += page
        token = f"&nextToken={headers['X-Next-Token']}" if "X-Next-Token" in headers else None
    assert pages == ids[::-1] and token is None
    _, headers = listed("&limit=1")
    e2b.expect(400, "GET", f"/v2/sandboxes?order=asc&nextToken={headers['X-Next-Token']}")
    for bad in ("limit=0", "limit=101", "nextToken=x", "state=dead", "order=up",
                "startedAfter=soon"):
        e2b.expect(400, "GET", f"/v2/sandboxes?{bad}")


def test_forks_take_processes_along(e2b, make, client):
    made = make(metadata={"a": "b"}, timeout=500)
    inside = Sandbox(client, made["sandboxID"])
    inside.out("echo deep > /tmp/file; sleep 1000 > /dev/null 2>&1 < /dev/null & echo $! > /tmp/pid")
    path = f"/sandboxes/{made['sandboxID']}/fork"
    results = e2b.expect(201, "POST", path, {"count": 2, "timeout": 100}, timeout=120).json
    for each in results:
        make.also(each["sandbox"]["sandboxID"])
    assert len(results) == 2 and all("error" not in each for each in results)
    assert len({each["sandbox"]["envdAccessToken"] for each in results} |
               {made["envdAccessToken"]}) == 3, "everyone has a token of its own"
    memory = client.expect(200, "GET", "/metadata").data["capabilities"]["memory_dump"]
    for each in results:
        child = Sandbox(client, each["sandbox"]["sandboxID"])
        assert child.out("cat /tmp/file") == "deep\n"
        assert (child.run("grep -qx sleep /proc/$(cat /tmp/pid)/comm")["exit_code"] == 0) == memory
        detail = info(e2b, each["sandbox"])
        assert detail["metadata"] == {"a": "b"} and 90 < seconds_left(detail) < 200
        assert re.fullmatch("i[a-z0-9]{20}", detail["sandboxID"])
    assert info(e2b, made)["state"] == "running"
    for body in ({"count": 0}, {"count": 101}, {"timeout": 0}):
        e2b.expect(400, "POST", path, body)


def test_snapshots_by_id_and_by_name(e2b, make, client):
    made = make()
    inside = Sandbox(client, made["sandboxID"])
    inside.out("echo one > /tmp/file; sleep 1000 > /dev/null 2>&1 < /dev/null & echo $! > /tmp/pid")
    path = f"/sandboxes/{made['sandboxID']}/snapshots"
    name = f"state-{time.monotonic_ns()}"
    taken = []
    try:
        for body in ({}, {"name": name}):
            taken.append(e2b.expect(201, "POST", path, body, timeout=120).json)
        assert taken[0]["names"] == []
        assert taken[1]["names"] == [taken[1]["snapshotID"]]
        assert taken[1]["snapshotID"].endswith(f"/{name}:default")
        listed = e2b.expect(200, "GET", f"/snapshots?sandboxID={made['sandboxID']}&limit=1")
        assert listed.json == [taken[1]], "newest first"
        token = listed.headers["X-Next-Token"]
        rest = e2b.expect(200, "GET",
                          f"/snapshots?sandboxID={made['sandboxID']}&limit=1&nextToken={token}")
        assert rest.json == [taken[0]] and "X-Next-Token" not in rest.headers
        assert e2b.expect(200, "GET", f"/snapshots?name={name}").json == [taken[1]]
        memory = client.expect(200, "GET", "/metadata").data["capabilities"]["memory_dump"]
        inside.out("echo two > /tmp/file")
        for template in (taken[0]["snapshotID"], taken[1]["snapshotID"], name):
            child = make(templateID=template)
            within = Sandbox(client, child["sandboxID"])
            assert within.out("cat /tmp/file") == "one\n"
            assert (within.run("grep -qx sleep /proc/$(cat /tmp/pid)/comm")["exit_code"] == 0) == memory
        e2b.expect(400, "POST", path, {"name": "not a name"})
        taken.append(e2b.expect(201, "POST", path, {"memory": False}).json)
        within = Sandbox(client, make(templateID=taken[-1]["snapshotID"])["sandboxID"])
        assert within.out("cat /tmp/file") == "two\n"
        assert within.run("grep -qx sleep /proc/$(cat /tmp/pid)/comm")["exit_code"] != 0
    finally:
        for each in taken:
            quoted = urllib.parse.quote(each["snapshotID"], safe="")
            e2b.expect(204, "DELETE", f"/templates/{quoted}")
            e2b.expect(404, "DELETE", f"/templates/{quoted}")


def test_metrics_every_five_seconds(e2b, make):
    made = make()
    path = f"/sandboxes/{made['sandboxID']}/metrics"
    first = e2b.expect(200, "GET", path).json
    assert first, "there is a sample at once"
    wait_until(lambda: len(e2b.expect(200, "GET", path).json) >= 4, 60, "samples are collected")
    samples = e2b.expect(200, "GET", path).json
    gaps = [b["timestampUnix"] - a["timestampUnix"] for a, b in zip(samples, samples[1:-1])]
    assert all(4 <= gap <= 15 for gap in gaps), gaps
    for each in samples:
        assert 0 <= each["cpuUsedPct"] <= 100
        assert 0 < each["memUsed"] < each["memTotal"] and each["memCache"] >= 0
        assert 0 <= each["diskUsed"] < each["diskTotal"] and each["cpuCount"] >= 1
    before = samples[0]["timestampUnix"] - 3600
    assert e2b.expect(200, "GET", f"{path}?start={before - 60}&end={before}").json == []
    e2b.expect(400, "GET", f"{path}?start=2&end=1")
    many = e2b.expect(200, "GET", f"/sandboxes/metrics?sandbox_ids={made['sandboxID']},iunknown")
    assert set(many.json["sandboxes"]) == {made["sandboxID"]}


def test_logs_say_what_happened(e2b, make):
    made = make()
    assert e2b.envd(made, "GET", "/envs").status == 200
    path = f"/sandboxes/{made['sandboxID']}/logs"
    logs = e2b.expect(200, "GET", path).json
    assert len(logs["logs"]) == len(logs["logEntries"]) >= 2
    assert any("running" in each["line"] for each in logs["logs"])
    messages = [each["message"] for each in logs["logEntries"]]
    assert "GET /envs" in messages
    found = e2b.expect(200, "GET", f"/v2{path}?search=envs&direction=backward&limit=1").json["logs"]
    assert [each["message"] for each in found] == ["GET /envs"]
    assert found[0]["level"] == "info" and found[0]["fields"]["logger"] == "envd"
    assert e2b.expect(200, "GET", f"/v2{path}?level=error").json["logs"] == []
    e2b.expect(400, "GET", f"/v2{path}?direction=sideways")


def test_envd_wants_the_token_and_the_right_address(e2b, make):
    made = make()
    assert e2b.envd(made, "GET", "/envs").status == 200
    assert e2b.envd(made, "GET", "/envs", token=False).status == 401
    other = make()
    assert e2b.envd({**made, "envdAccessToken": other["envdAccessToken"]},
                    "GET", "/envs").status == 401
    assert e2b.envd(made, "GET", "/health", token=False).status == 204
    one = e2b.send("GET", "/health", headers={"E2b-Sandbox-Id": made["sandboxID"]})
    assert one.status == 400 and one.json["code"] == 400
    gone = e2b.envd({"sandboxID": "i" + "z" * 20}, "GET", "/health")
    assert gone.status == 502
    assert gone.json == {"sandboxId": "i" + "z" * 20, "code": 502,
                         "message": "The sandbox was not found"}


def test_signed_urls_find_their_sandbox(e2b, make):
    made, other = make(), make()
    now = int(time.time())
    written = e2b.send("POST", signed_path(made, "/tmp/signed", "write", expiration=now + 60),
                       b"mine", {"Content-Type": "application/octet-stream"})
    assert written.status == 200, written.body
    read = e2b.send("GET", signed_path(made, "/tmp/signed", "read"))
    assert (read.status, read.body) == (200, b"mine")
    assert e2b.send("GET", signed_path(other, "/tmp/signed", "read")).status == 404
    late = e2b.send("GET", signed_path(made, "/tmp/signed", "read", expiration=now - 60))
    assert late.status == 401 and late.json["message"] == "signature is already expired"
    for changed in (signed_path(made, "/tmp/signed", "write"),
                    signed_path(made, "/tmp/signed", "read").replace("signed", "other"),
                    signed_path({"envdAccessToken": "0" * 64}, "/tmp/signed", "read")):
        assert e2b.send("GET", changed).status == 401
    e2b.expect(204, "POST", f"/sandboxes/{made['sandboxID']}/pause", {})
    assert e2b.send("GET", signed_path(made, "/tmp/signed", "read")).status == 502


def test_pages_of_any_origin_may_ask(e2b, make):
    made = make()
    page = {"Origin": "https://page.example"}
    asked = {**page, "Access-Control-Request-Method": "POST",
             "Access-Control-Request-Headers": "e2b-sandbox-id,e2b-sandbox-port,x-access-token"}
    for path in ("/process.Process/Start", "/sandboxes"):
        allowed = e2b.send("OPTIONS", path, headers=asked)
        assert allowed.status == 204
        assert allowed.headers["access-control-allow-origin"] == "*"
        assert "x-access-token" in allowed.headers["access-control-allow-headers"]
        assert allowed.headers["access-control-max-age"] == "7200"
    answer = e2b.envd(made, "GET", "/health", headers=page)
    assert answer.headers["access-control-allow-origin"] == "*"
    listed = e2b.expect(200, "GET", "/v2/sandboxes", headers=page)
    assert listed.headers["access-control-expose-headers"] == "*"


def test_sandboxes_of_the_native_api_can_be_used(e2b, create):
    native = create()
    found = e2b.expect(200, "POST", f"/v2/sandboxes/{native.id}/connect", {}).json
    assert found["sandboxID"] == native.id
    assert e2b.envd(found, "GET", "/envs").status == 200
    assert e2b.envd(found, "GET", "/envs", token=False).status == 401
    # Nobody said that its interpreters are for the public.
    traffic = {"E2b-Traffic-Access-Token": found["trafficAccessToken"]}
    for headers, token, status in (({}, False, 401), ({}, True, 200), (traffic, False, 200),
                                   ({"X-Access-Token": "wrong", **traffic}, False, 401)):
        assert e2b.envd(found, "GET", "/contexts", headers=headers, port=49999,
                        token=token).status == status
    # A stranger wakes nothing, whatever it asks for.
    e2b.expect(204, "POST", f"/sandboxes/{native.id}/pause", {})
    for path, port in ("/health", 49983), ("/envs", 49983), ("/contexts", 49999):
        assert e2b.envd(found, "GET", path, port=port, token=False).status == 502
    assert native.get()["status"] == "paused"
    assert e2b.envd(found, "GET", "/envs").status == 200
