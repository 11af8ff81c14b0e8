"""Rules that ask: what is parked, answered, timed out and withdrawn, and what arrived outside."""
import os
import subprocess

import pytest

from harness.boundary import boundary
from harness.server import wait_until
from world import API

NAME = "api.harbour.com"
FETCH = f"curl -sS --fail --max-time 60 http://{NAME}/hello"
ASKS = {"mode": "block-all", "egress": {"trafficRules": [
    {"name": "ask-first", "action": "ask", "domains": [NAME]}]}}


@pytest.fixture(scope="module")
def place():
    with boundary() as made:
        yield made


@pytest.fixture
def sandbox(place):
    made = place.sandbox()
    place.set_policy(made, ASKS)
    place.world.clear()
    yield made
    place.clean()


def pending(place, sandbox):
    return place.client.expect(200, "GET", f"/api/v1/approvals?sandbox_id={sandbox.id}"
                               ).data["approvals"]


def asked(place, sandbox):
    return wait_until(lambda: pending(place, sandbox), 30, "a question")[0]


def result(sandbox, context):
    def look():
        now = sandbox.context(context["id"])
        return None if now["running"] else now
    return wait_until(look, 40, "the end of the command")


def answer(place, question, decision, **more):
    return place.client.expect(200, "POST", f"/api/v1/approvals/{question['id']}",
                               {"decision": decision, **more}).data


def arrived(place):
    return len(place.world.seen().requests(API))


def test_nothing_leaves_before_the_answer(place, sandbox):
    context = sandbox.start(FETCH)
    question = asked(place, sandbox)
    assert question["rule"] == "ask-first" and NAME in question["what"]
    assert question["state"] == "pending" and question["expires_at"] > question["asked_at"]
    assert arrived(place) == 0
    done = answer(place, question, "allow")
    assert done["state"] == "allowed" and done["answered_by"] and done["remember"] == "once"
    assert result(sandbox, context)["exit_code"] == 0
    assert arrived(place) == 1
    assert place.client.call("POST", f"/api/v1/approvals/{question['id']}",
                             {"decision": "allow"}).status == 404
    # Once was once.
    context = sandbox.start(FETCH)
    question = asked(place, sandbox)
    answer(place, question, "deny")
    assert result(sandbox, context)["exit_code"] != 0
    assert arrived(place) == 1
    kept = place.client.expect(
        200, "GET", f"/api/v1/approvals?state=all&sandbox_id={sandbox.id}").data["approvals"]
    assert [each["state"] for each in kept] == ["denied", "allowed"]
    # Flows are written a batch at a time.
    path = f"/api/v1/network/flows/{question['flow_id']}"
    wait_until(lambda: place.client.call("GET", path).status == 200, 20, "the flow of the question")
    flow = place.client.expect(200, "GET", path).data
    assert flow["outcome"] == "denied" and flow["rule"] == "ask-first"


def test_an_answer_for_the_session_and_a_sandbox_that_goes(place, sandbox):
    context = sandbox.start(FETCH)
    answer(place, asked(place, sandbox), "allow", remember="session")
    assert result(sandbox, context)["exit_code"] == 0
    assert sandbox.run(FETCH)["exit_code"] == 0
    assert pending(place, sandbox) == []
    other = place.sandbox()
    place.set_policy(other, ASKS)
    other.start(FETCH)
    question = asked(place, other)
    other.delete()
    wait_until(lambda: not pending(place, other), 20, "a question that is withdrawn")
    kept = place.client.expect(200, "GET", "/api/v1/approvals?state=withdrawn").data["approvals"]
    assert question["id"] in [each["id"] for each in kept]


def test_following_and_the_command_line(place, sandbox):
    lines = place.lines(f"/api/v1/approvals?follow=true&sandbox_id={sandbox.id}", "Approval")
    next(lines)
    context = sandbox.start(FETCH)
    question = next(lines)
    assert question["state"] == "pending"

    def atoll(*words):
        done = subprocess.run(
            [place.server.bin_dir / "atoll", "approvals", *words], capture_output=True, text=True,
            timeout=60, env={**os.environ, "ATOLL_API_URL": place.server.url(),
                             "ATOLL_API_KEY": place.server.key})
        assert done.returncode == 0, done
        return done.stdout
    assert atoll("ls", "-q", "--sandbox", sandbox.id).strip() == question["id"]
    atoll("allow", question["id"])
    assert next(lines)["state"] == "allowed"
    lines.close()
    assert result(sandbox, context)["exit_code"] == 0


def test_bad_answers(place):
    for body in ({}, {"decision": "maybe"}, {"decision": "allow", "remember": "always"},
                 {"decision": "allow", "more": 1}):
        assert place.client.call("POST", "/api/v1/approvals/ap-1", body).status == 400
    assert place.client.call("GET", "/api/v1/approvals?state=x").status == 400


def test_nobody_answers():
    with boundary("--approval-timeout", "1") as place:
        sandbox = place.sandbox()
        place.set_policy(sandbox, ASKS)
        assert sandbox.run(FETCH)["exit_code"] != 0
        assert arrived(place) == 0
        kept = place.client.expect(
            200, "GET", "/api/v1/approvals?state=timed_out").data["approvals"]
        assert kept and not kept[0].get("answered_by")
