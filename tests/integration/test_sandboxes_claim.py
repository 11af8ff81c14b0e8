"""Claims by name, in numbers, at most once; and lists with filters and pages."""
import secrets
import threading
import urllib.parse

import pytest

ALL = "/api/v1/sandboxes"


def in_parallel(count, work):
    results, failures = [None] * count, []

    def run(index):
        try:
            results[index] = work(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return results


@pytest.fixture
def claim(client):
    """Claims with any body; what is made lives as long as the test."""
    made = set()

    def make(body, status=201, headers=None):
        answer = client.call("POST", ALL, {"template": "default", **body}, headers)
        data = answer.json.get("data") or {}
        for each in data.get("sandboxes", [data]):
            if "sandbox_id" in each:
                made.add(each["sandbox_id"])
        assert status is None or answer.status == status, answer.body
        return answer

    yield make
    for sandbox_id in made:
        client.call("DELETE", f"{ALL}/{sandbox_id}")


def listed(client, **query):
    pairs = [(key, each) for key, value in query.items()
             for each in (value if isinstance(value, list) else [value])]
    data = client.expect(200, "GET", f"{ALL}?{urllib.parse.urlencode(pairs)}").data
    return {each["id"] for each in data["sandboxes"]}


def unique(prefix):
    return f"{prefix}-{secrets.token_hex(4)}"


def test_claim_answers_what_the_python_client_needs(claim):
    data = claim({}).data
    assert data["runtime_id"] == data["sandbox_id"] + "-1"
    assert data["cluster_id"] == "default" and data["name"] is None


def test_a_name_belongs_to_one_sandbox_until_it_is_deleted(client, claim):
    name = unique("box")
    first = claim({"name": name}).data["sandbox_id"]
    assert claim({"name": name}, 409).error["details"]["reason"] == "name_taken"
    assert listed(client, name=name) == {first}
    assert client.expect(200, "GET", f"{ALL}/{first}").data["name"] == name
    client.expect(404, "GET", f"{ALL}/{name}")
    client.expect(202, "DELETE", f"{ALL}/{first}")
    assert claim({"name": name}).data["sandbox_id"] != first


def test_many_who_get_or_create_one_name_get_one_sandbox(claim, client):
    body = {"name": unique("shared"), "get_or_create": True}
    answers = in_parallel(10, lambda _: claim(body, None))
    assert sorted(answer.status for answer in answers) == [200] * 9 + [201]
    assert len({answer.data["sandbox_id"] for answer in answers}) == 1
    assert len(listed(client, name=body["name"])) == 1


def test_a_batch_is_many_sandboxes_that_work(client, claim):
    data = claim({"count": 5, "config": {"metadata": {"batch": "b"}}}).data
    ids = [each["sandbox_id"] for each in data["sandboxes"]]
    assert data["count"] == 5 and len(set(ids)) == 5 and data["failures"] == []
    from harness.client import Sandbox
    assert Sandbox(client, ids[-1]).out(["echo", "hi"]) == "hi\n"


@pytest.mark.parametrize("body,named", [
    ({"count": 0}, "count"), ({"count": 101}, "count"), ({"count": "2"}, "count"),
    ({"name": "a b"}, "name"), ({"name": ""}, "name"), ({"name": "a", "count": 2}, "name"),
    ({"get_or_create": True}, "name"), ({"config": {"metadata": {"a": 1}}}, "metadata"),
    ({"config": {"idle_ttl": -1}}, "idle_ttl"),
])
def test_bad_claims_name_the_field(claim, body, named):
    assert named in claim(body, 400).error["message"]


def test_filters(client, claim):
    app = unique("app")
    a = claim({"name": app + "-1", "config": {"metadata": {"app": app, "env": "x=y z"}}}).data
    b = claim({"name": app + "-2", "config": {"metadata": {"app": app}}}).data
    a, b = a["sandbox_id"], b["sandbox_id"]
    assert listed(client, label=f"app={app}") == {a, b}
    assert listed(client, label=[f"app={app}", "env=x=y z"]) == {a}
    assert listed(client, **{"metadata.app": app, "metadata.env": "x=y z"}) == {a}
    assert listed(client, name_prefix=app) == {a, b}
    assert listed(client, name_prefix=app, state="paused") == set()
    assert listed(client, name_prefix=app, template="default", status="running") == {a, b}
    assert listed(client, name_prefix=app, paused="false") == {a, b}


@pytest.mark.parametrize("query", ["labels=a=b", "label=a", "cursor=nonsense", "limit=0",
                                   "limit=201", "state=up", "cursor=1.rs-a&offset=1"])
def test_a_list_never_ignores_what_it_does_not_understand(client, query):
    assert client.expect(400, "GET", f"{ALL}?{query}").error["code"] == "bad_request"


def test_pages_are_stable_while_sandboxes_come_and_go(client, claim):
    """Sandboxes that were there all the time are seen exactly once."""
    app = unique("pages")
    config = {"config": {"metadata": {"app": app}}}
    made = [each["sandbox_id"] for each in claim({"count": 9, **config}).data["sandboxes"]]
    order = [each["id"] for each in client.expect(
        200, "GET", f"{ALL}?label=app={app}&limit=200").data["sandboxes"]]
    assert set(order) == set(made)
    victims, stay = [order[2], order[5], order[8]], set(order) - {order[2], order[5], order[8]}
    seen, cursor = [], ""
    while True:
        page = client.expect(200, "GET", f"{ALL}?label=app={app}&limit=2{cursor}").data
        seen += [each["id"] for each in page["sandboxes"]]
        assert page["count"] == len(page["sandboxes"])
        if not page["has_more"]:
            assert page["next_cursor"] is None
            break
        cursor = "&cursor=" + urllib.parse.quote(page["next_cursor"])
        claim(config)
        if victims:
            client.expect(202, "DELETE", f"{ALL}/{victims.pop()}")
    assert len(seen) == len(set(seen)) and stay <= set(seen)


def test_a_key_claims_once(client, claim):
    headers = {"Idempotency-Key": unique("key")}
    answers = in_parallel(6, lambda _: claim({}, 201, headers))
    assert len({answer.data["sandbox_id"] for answer in answers}) == 1
    assert sum(answer.headers.get("Idempotent-Replayed") == "true" for answer in answers) == 5
    conflict = claim({"config": {"ttl": 60}}, 409, headers)
    assert conflict.error["code"] == "idempotency_conflict"
    # The answer is what was answered, also when the sandbox is gone.
    first = answers[0].data["sandbox_id"]
    client.expect(202, "DELETE", f"{ALL}/{first}")
    assert claim({}, 201, headers).data["sandbox_id"] == first


def test_a_claim_that_failed_may_be_tried_again_with_its_key(claim):
    headers = {"Idempotency-Key": unique("key")}
    claim({"template": "no-such"}, 404, headers)
    assert claim({}, 201, headers).headers.get("Idempotent-Replayed") is None


def test_a_batch_with_a_key_is_answered_again(claim):
    headers = {"Idempotency-Key": unique("key")}
    first = claim({"count": 3}, 201, headers)
    assert claim({"count": 3}, 201, headers).data == first.data
