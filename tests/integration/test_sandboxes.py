"""Sandboxes through the API: claim, get, list, status, delete; envelope, codes and messages."""
import re
import threading

import pytest

RFC3339 = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


def test_claim_answers_with_the_sandbox(client, create):
    answer = client.expect(201, "POST", "/api/v1/sandboxes", {"template": "default"})
    data = answer.data
    try:
        assert data["status"] == "running" and data["template"] == "default"
        assert data["pod_name"] and re.fullmatch(r"[a-z0-9-]{1,55}", data["sandbox_id"])
        assert answer.headers["Content-Type"].startswith("application/json")
        assert answer.headers["x-request-id"]
    finally:
        client.expect(202, "DELETE", f"/api/v1/sandboxes/{data['sandbox_id']}")


def test_get_shows_all_fields(create):
    sandbox = create(memory="256Mi", disk="1Gi", cpu="500m", ttl=300, hard_ttl=600)
    data = sandbox.get()
    assert data["id"] == sandbox.id and data["template_id"] == "default"
    assert data["status"] == "running" and data["paused"] is False
    assert data["team_id"] and data["pod_name"]
    assert data["runtime_generation"] == 1
    assert data["resources"]["memory"] == "256Mi" and data["resources"]["disk"] == "1Gi"
    assert data["resources"]["cpu"] == "500m"
    for field in ("created_at", "updated_at", "claimed_at", "expires_at", "hard_expires_at"):
        assert RFC3339.match(data[field]), (field, data[field])
    assert isinstance(data["auto_resume"], bool)


def test_disabled_expiry_is_null(create):
    data = create().get()
    assert data["hard_expires_at"] is None


def test_status_is_short(create):
    sandbox = create()
    data = sandbox.client.expect(200, "GET", sandbox.path + "/status").data
    assert data["sandbox_id"] == sandbox.id and data["status"] == "running"
    assert data["template_id"] == "default"


def test_base_is_another_name_of_default(create):
    sandbox = create(template="base")
    assert sandbox.out(["echo", "alias"]) == "alias\n"


def test_list_pages(client, create):
    made = {create().id for _ in range(3)}
    first = client.expect(200, "GET", "/api/v1/sandboxes?limit=2").data
    assert len(first["sandboxes"]) == 2 and first["has_more"] is True
    assert made <= set(client.list_ids())
    entry = first["sandboxes"][0]
    assert {"id", "template_id", "status", "paused", "runtime_generation", "created_at",
            "updated_at", "expires_at", "hard_expires_at"} <= set(entry)


def test_list_filters(client, create):
    sandbox = create()
    running = client.expect(200, "GET", "/api/v1/sandboxes?status=running&limit=200").data
    assert sandbox.id in [each["id"] for each in running["sandboxes"]]
    paused = client.expect(200, "GET", "/api/v1/sandboxes?status=paused").data
    assert sandbox.id not in [each["id"] for each in paused["sandboxes"]]
    other = client.expect(200, "GET", "/api/v1/sandboxes?template_id=other").data
    assert other["sandboxes"] == [] and other["count"] == 0


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "offset=-1", "status=dancing",
                                   "paused=maybe"])
def test_list_refuses_bad_queries(client, query):
    answer = client.expect(400, "GET", f"/api/v1/sandboxes?{query}")
    assert answer.error["code"] == "bad_request"
    assert query.split("=")[0] in answer.error["message"]


def test_deleted_sandbox_is_gone(client):
    sandbox = client.create()
    assert sandbox.delete()["message"]
    for method, path in (("GET", ""), ("GET", "/status"), ("GET", "/contexts"), ("DELETE", ""),
                         ("GET", "/files?path=/etc/passwd")):
        answer = client.expect(404, method, sandbox.path + path)
        assert answer.error["code"] == "not_found"
    assert sandbox.id not in client.list_ids()


def test_sandboxes_are_created_at_the_same_time(client):
    made, failures = [], []

    def work():
        try:
            made.append(client.create())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert not failures, failures
        assert len({sandbox.id for sandbox in made}) == 8
        assert all(sandbox.out(["echo", sandbox.id]).strip() == sandbox.id for sandbox in made)
    finally:
        for sandbox in made:
            client.call("DELETE", sandbox.path)


def test_ttl_ends_a_sandbox(client):
    sandbox = client.create(ttl=1, hard_ttl=2)
    try:
        from harness.server import wait_until
        wait_until(lambda: client.call("GET", sandbox.path).status == 404
                   or client.call("GET", sandbox.path).data["status"] != "running",
                   30, "the sandbox ends after its hard ttl")
    finally:
        client.call("DELETE", sandbox.path)


# body, what the message must name
BAD_CLAIMS = [
    ({}, "template"),
    ({"template": ""}, "template"),
    ({"template": 7}, "template"),
    ({"template": "default", "tempalte": "x"}, "tempalte"),
    ({"template": "default", "config": []}, "config"),
    ({"template": "default", "config": {"ttl": "soon"}}, "ttl"),
    ({"template": "default", "config": {"ttl": -1}}, "ttl"),
    ({"template": "default", "config": {"ttl": 100, "hard_ttl": 50}}, "ttl"),
    ({"template": "default", "config": {"tll": 5}}, "tll"),
    ({"template": "default", "config": {"env_vars": {"A": 1}}}, "env_vars"),
    ({"template": "default", "config": {"env_vars": ["A=1"]}}, "env_vars"),
    ({"template": "default", "config": {"env_vars": {"A=B": "1"}}}, "env_vars"),
    ({"template": "default", "config": {"resources": {"memory": "lots"}}}, "memory"),
    ({"template": "default", "config": {"resources": {"memory": "1Ki"}}}, "memory"),
    ({"template": "default", "config": {"resources": {"memory": "900Ti"}}}, "memory"),
    ({"template": "default", "config": {"resources": {"cpu": "-1"}}}, "cpu"),
    ({"template": "default", "config": {"resources": {"disk": "0"}}}, "disk"),
    ({"template": "default", "config": {"resources": {"memroy": "1Gi"}}}, "memroy"),
]


@pytest.mark.parametrize("body,named", BAD_CLAIMS, ids=[str(body)[:60] for body, _ in BAD_CLAIMS])
def test_bad_claim_is_told_what_to_change(client, body, named):
    before = set(client.list_ids())
    answer = client.expect(400, "POST", "/api/v1/sandboxes", body)
    assert answer.error["code"] == "bad_request"
    assert named in answer.error["message"], answer.error
    assert set(client.list_ids()) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{\"template\":}", "\"default\"",
                                  "{\"template\":\"default\"} trailing",
                                  "{\"template\":\"\\ud800\"}",
                                  "[" * 5000, "{\"a\":" * 2000])
def test_body_that_is_not_a_json_object_is_refused(client, text):
    answer = client.expect(400, "POST", "/api/v1/sandboxes", text.encode(),
                           {"Content-Type": "application/json"})
    assert answer.error["code"] == "bad_request" and answer.error["message"]


def test_huge_body_is_refused_without_being_read_into_memory(client):
    """The refusal comes while the client still sends; it must be able to read it."""
    client.forget_connection()
    answer = client.expect(413, "POST", "/api/v1/sandboxes",
                           b'{"template":"' + b"x" * (32 << 20) + b'"}',
                           {"Content-Type": "application/json"})
    assert answer.error["message"]


def test_unknown_template_is_named(client):
    answer = client.expect(404, "POST", "/api/v1/sandboxes", {"template": "no-such"})
    assert answer.error["code"] == "not_found" and "no-such" in answer.error["message"]


@pytest.mark.parametrize("name", ["no-such", "a" * 300, "..", "%2e%2e%2f", "x'; drop table"])
def test_unknown_sandbox_is_not_found(client, name):
    import urllib.parse
    answer = client.call("GET", "/api/v1/sandboxes/" + urllib.parse.quote(name, safe="%"))
    assert answer.status in (400, 404)
    assert answer.error["code"] in ("not_found", "bad_request")
