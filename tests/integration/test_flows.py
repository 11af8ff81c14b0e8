"""The audit of the network: what is kept of each flow, how it is asked for, followed and explained,
and what the command line makes of it."""
import json
import os
import signal
import subprocess

import pytest

from harness.boundary import boundary, limited
from harness.server import wait_until
from world import API

NAME = "api.harbour.com"
FETCH = f"curl -sS --max-time 20 http://{NAME}/hello?secret=1"


@pytest.fixture(scope="module")
def place():
    with boundary() as made:
        yield made


@pytest.fixture(autouse=True)
def clean(place):
    yield
    place.clean()


def atoll(place, *words, status=0):
    done = subprocess.run([place.server.bin_dir / "atoll", *words], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "ATOLL_API_URL": place.server.url(),
                                           "ATOLL_API_KEY": place.server.key})
    assert done.returncode == status, done
    return done.stdout


def ended(place, sandbox, count=1, **query):
    """Flows that have ended, so many at least; their end is told a moment after the client's."""
    def look():
        flows = [each for each in place.flows(sandbox, kind="flow", **query)
                 if each["outcome"] != "open"]
        return flows if len(flows) >= count else None
    return wait_until(look, 20, f"{count} flows that ended")


def test_a_flow_says_who_where_to_and_how_much(place):
    sandbox = place.sandbox()
    done = sandbox.run(FETCH)
    assert done["exit_code"] == 0, done
    flow, = ended(place, sandbox)
    assert (flow["name"], flow["outcome"], flow["protocol"]) == (NAME, "allowed", "http")
    assert flow["destination"].endswith(":80") and flow["dialled"] == f"{API}:80"
    assert flow["bytes_out"] > 50 and flow["bytes_in"] > 10
    assert "secret" not in json.dumps(flow)
    question = next(each for each in place.flows(sandbox, kind="dns") if each["name"] == NAME)
    assert question["outcome"] == "allowed"
    same = place.client.expect(200, "GET", f"/api/v1/network/flows/{flow['id']}").data
    assert same == flow
    assert place.client.call("GET", "/api/v1/network/flows/nothing").status == 404


def test_a_flow_says_which_process_opened_it(place):
    sandbox = place.sandbox()
    # One that is still there when it is looked for.
    context = sandbox.start(f"exec curl -sS --max-time 30 telnet://{NAME}:7 </dev/zero >/dev/null")
    wait_until(lambda: place.flows(sandbox, kind="flow"), 20, "a flow")
    # Its opener is looked for beside it, which takes a moment: a flow that came later has its own.
    sandbox.run(f"curl -sS --max-time 10 http://{NAME}/")
    later, = ended(place, sandbox)
    sandbox.client.expect(200, "POST", f"{sandbox.path}/contexts/{context['id']}/signal",
                          {"signal": "TERM"})
    flow, = (each for each in ended(place, sandbox, 2) if each["id"] != later["id"])
    assert flow["process"]["program"] == "curl", flow
    assert flow["process"]["context_id"] == context["id"]
    only = place.flows(sandbox, context_id=context["id"])
    assert [each["id"] for each in only] == [flow["id"]]


def test_a_refusal_is_kept_and_explained(place):
    sandbox = place.sandbox()
    place.set_policy(sandbox, limited("pay.harbour.com"))
    assert sandbox.run("curl -sS --fail --max-time 10 http://5.5.1.10/")["exit_code"] != 0
    flow = ended(place, sandbox, outcome="denied")[0]
    assert flow["rule"] == "mode" and flow["origin"] == "sandbox" and flow["reason"]
    why = place.client.expect(200, "GET", f"{sandbox.path}/network/why?host={NAME}&port=80").data
    assert why["action"] == "deny" and why["origin"] == "sandbox"
    assert any(NAME in line for line in why["advice"])
    good = place.client.expect(200, "GET", f"{sandbox.path}/network/why?host=pay.harbour.com").data
    assert good["action"] == "allow" and good["rule"] == "hosts" and not good["advice"]
    closed = place.client.expect(200, "GET", f"{sandbox.path}/network/why?host=169.254.169.254").data
    assert closed["origin"] == "class" and "metadata" in closed["reason"]
    assert place.client.call("GET", f"{sandbox.path}/network/why?host=a/b").status == 400


def test_filters_and_pages(place):
    sandbox = place.sandbox()
    sandbox.run(f"{FETCH}; {FETCH}; curl -sS --max-time 20 http://pay.harbour.com/")
    ended(place, sandbox, 3)
    assert {each["name"] for each in place.flows(sandbox, kind="flow", name="*.harbour.com")} == \
        {NAME, "pay.harbour.com"}
    assert len(place.flows(sandbox, kind="flow", name=NAME)) == 2
    assert place.flows(sandbox, outcome="denied") == []
    assert place.flows(sandbox, start_time="2100-01-01T00:00:00Z") == []
    seen, cursor = [], ""
    while True:
        page = place.client.expect(
            200, "GET", f"{sandbox.path}/network/flows?limit=2{cursor}").data
        seen += [each["id"] for each in page["flows"]]
        if "next_cursor" not in page:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == [each["id"] for each in place.flows(sandbox)] and len(seen) == len(set(seen))
    for bad in ("kind=x", "outcome=x", "limit=0", "limit=1001", "cursor=x", "unknown=1"):
        assert place.client.call("GET", f"{sandbox.path}/network/flows?{bad}").status == 400
    assert place.client.call("GET", "/api/v1/sandboxes/none/network/flows").status == 404


def test_following(place):
    sandbox = place.sandbox()
    lines = place.lines(f"{sandbox.path}/network/flows?follow=true&kind=flow", "Flow")
    next(lines)
    sandbox.run(FETCH)
    flow = next(lines)
    while flow["outcome"] == "open":
        flow = next(lines)
    assert (flow["name"], flow["outcome"]) == (NAME, "allowed")
    lines.close()
    # After a break it goes on from the last line.
    sandbox.run(FETCH)
    ended(place, sandbox, 2)
    again = place.lines(
        f"{sandbox.path}/network/flows?follow=true&kind=flow&cursor={flow['cursor']}", "Flow")
    next(again)
    assert next(again)["id"] != flow["id"]
    again.close()
    team = place.lines("/api/v1/network/flows?follow=true&kind=flow&start_time=2020-01-01T00:00:00Z",
                       "Flow")
    next(team)
    assert next(team)["id"]
    team.close()


def test_flows_and_bytes_outlive_the_sandbox_and_the_api_process(place):
    sandbox = place.sandbox()
    sandbox.run(FETCH)
    flow, = ended(place, sandbox)
    usage = place.client.expect(200, "GET", f"{sandbox.path}/network/usage").data
    assert usage["bytes_out"] >= flow["bytes_out"] and usage["flows"] == 1
    metrics = place.client.expect(200, "GET", f"{sandbox.path}/metrics").data
    assert metrics["network"] == usage
    team = place.client.expect(200, "GET", "/api/v1/network/usage").data
    assert team["bytes_in"] >= usage["bytes_in"]
    text = place.client.expect(200, "GET", "/metrics").body.decode()
    assert 'atoll_network_flows_total{outcome="allowed"}' in text
    # One that is open when the process is killed is closed as failed.
    sandbox.start(f"exec 3<>/dev/tcp/{API}/7; sleep 1000")
    wait_until(lambda: place.flows(sandbox, outcome="open", kind="flow"), 20, "an open flow")
    os.kill(place.server.daemons()["api"], signal.SIGKILL)
    def back():
        try:
            return place.client.call("GET", "/healthz").status == 200
        except OSError:
            return False
    wait_until(back, 30, "the next API process")
    wait_until(lambda: place.flows(sandbox, outcome="failed", kind="flow"), 20, "a closed flow")
    assert place.flows(sandbox, outcome="allowed", kind="flow")[0]["id"] == flow["id"]
    after = place.client.expect(200, "GET", f"{sandbox.path}/network/usage").data
    assert after["bytes_in"] >= usage["bytes_in"]
    sandbox.delete()
    assert any(each["id"] == flow["id"] for each in place.flows(sandbox))


def test_the_command_line_learns_tests_and_explains(place, tmp_path):
    sandbox = place.sandbox()
    sandbox.run(FETCH)
    ended(place, sandbox)
    assert f"{NAME}:80" in atoll(place, "net", "flows", sandbox.id)
    policy = tmp_path / "policy.json"
    policy.write_text(atoll(place, "net", "learn", sandbox.id))
    assert json.loads(policy.read_text())["mode"] == "block-all"
    # What was learned lets it do again what it did, and nothing else.
    place.set_policy(sandbox, json.loads(policy.read_text()))
    assert sandbox.run(FETCH)["exit_code"] == 0
    assert sandbox.run("curl -sS --max-time 10 http://pay.harbour.com/")["exit_code"] != 0
    atoll(place, "net", "test", str(policy), "--against", sandbox.id)
    closed = tmp_path / "closed.json"
    closed.write_text('{"mode": "block-all"}')
    assert "allowed -> deny" in atoll(place, "net", "test", str(closed), "--against", sandbox.id,
                                      status=1)
    log = tmp_path / "flows.json"
    log.write_text(atoll(place, "net", "flows", sandbox.id, "-o", "json"))
    atoll(place, "net", "test", str(closed), "--against", str(log), status=1)
    assert "hint:" in atoll(place, "why", sandbox.id, "pay.harbour.com:80", status=1)
    assert "allow" in atoll(place, "why", sandbox.id, f"{NAME}:80", "--protocol", "http")
    flow = ended(place, sandbox)[0]
    assert NAME in atoll(place, "why", flow["id"])


def test_watching_on_the_command_line(place):
    sandbox = place.sandbox()
    watch = subprocess.Popen(
        [place.server.bin_dir / "atoll", "net", "watch", sandbox.id, "--kind", "flow", "-o", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "ATOLL_API_URL": place.server.url(), "ATOLL_API_KEY": place.server.key})
    try:
        # Nothing says when the watch is set: something is fetched until it is seen.
        for _ in range(20):
            sandbox.run(FETCH)
            if os.get_blocking(watch.stdout.fileno()):
                os.set_blocking(watch.stdout.fileno(), False)
            line = watch.stdout.readline()
            if line:
                break
        assert json.loads(line)["name"] == NAME
    finally:
        watch.send_signal(signal.SIGINT)
        watch.wait(20)
