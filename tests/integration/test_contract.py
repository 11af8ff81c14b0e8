"""The contract: sound in itself, and served. That routes and answers keep to it is checked by a
unit test (routes) and by the harness in every test (answers)."""
import json
import re
import subprocess

import pytest
import yaml

from harness.client import Client
from harness.contract import FILE, Contract, ContractError, contract

PAGES = {"/openapi.json": "application/json", "/docs": "text/html; charset=utf-8",
         "/llms.txt": "text/plain; charset=utf-8", "/llms-full.txt": "text/plain; charset=utf-8"}


@pytest.fixture
def anonymous(server):
    return Client(server.host, server.port, None)


# The file --------------------------------------------------------------------------------------
def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_every_reference_leads_somewhere_and_every_object_is_used():
    document = contract().document
    used = set(references(document))
    for reference in used:
        contract().resolve({"$ref": reference})
    for kind, members in document["components"].items():
        for name in members:
            if kind != "securitySchemes":
                assert f"#/components/{kind}/{name}" in used, f"{kind}/{name} is not used"


def test_every_operation_is_described():
    ids = [operation["operationId"] for _, _, operation in contract().operations()]
    assert len(ids) == len(set(ids))
    for method, path, operation in contract().operations():
        item = contract().document["paths"][path]
        what = f"{method} {path}"
        assert operation["summary"] and operation["description"] and operation["tags"], what
        given = [contract().resolve(each)
                 for each in item.get("parameters", []) + operation.get("parameters", [])]
        in_path = {each["name"] for each in given if each["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", path)), what
        assert any(status < "300" for status in operation["responses"]), what
        if operation.get("security") != []:
            assert {"401", "403", "500"} <= set(operation["responses"]), what


def test_examples_fit_their_schemas():
    seen = 0
    for method, path, operation in contract().operations():
        pointer = ("paths", path, method)
        bodies = [(pointer + ("requestBody", "content", kind), media)
                  for kind, media in operation.get("requestBody", {}).get("content", {}).items()]
        bodies += [(pointer + ("responses", status, "content", kind), media)
                   for status, response in operation["responses"].items()
                   for kind, media in contract().resolve(response).get("content", {}).items()]
        for place, media in bodies:
            values = [each["value"] for each in media.get("examples", {}).values()]
            values += [media["example"]] if "example" in media else []
            for value in values:
                contract().judge(f"example of {method} {path}", place + ("schema",), value, True)
                seen += 1
    assert seen > 10


def test_the_judge_notices():
    """A judge that says yes to everything would make every test green."""
    class Said:
        def __init__(self, status, document, kind="application/json"):
            self.status, self.json, self.body = status, document, json.dumps(document).encode()
            self.headers = {"x-request-id": "a", "Content-Type": kind}

    judge = Contract()
    fine = {"success": True, "data": {"deleted": True}}
    where = ("DELETE", "/api/v1/sandboxes/a/contexts/b", {}, None)
    judge.check(*where, Said(200, fine))
    for wrong in (Said(201, fine), Said(200, fine, "text/plain"), Said(200, {"success": True}),
                  Said(200, {"success": True, "data": {"deleted": "yes"}}),
                  Said(200, {"success": True, "data": {"deleted": True, "more": 1}}),
                  Said(404, {"success": False, "error": {"code": "not_found"}})):
        with pytest.raises(ContractError):
            judge.check(*where, wrong)
    with pytest.raises(ContractError):
        judge.check("GET", "/api/v1/unheard-of", {}, None, Said(200, fine))
    exec_path = "/api/v1/sandboxes/a/contexts/b/signal"
    done = Said(200, {"success": True, "data": {"signaled": True}})
    judge.check("POST", exec_path, {}, '{"signal": "TERM"}', done)
    for body in ('{"signal": 15}', '{"signal": "TERM", "x": 1}', "{", None):
        with pytest.raises(ContractError):
            judge.check("POST", exec_path, {}, body, done)


# What is served --------------------------------------------------------------------------------
def test_the_served_contract_is_the_file(anonymous):
    answer = anonymous.expect(200, "GET", "/openapi.json")
    assert answer.json == yaml.safe_load(FILE.read_text())


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_cached_by_their_tag(anonymous, path):
    answer = anonymous.expect(200, "GET", path)
    assert answer.headers["Content-Type"] == PAGES[path]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "no-cache" in answer.headers["Cache-Control"]
    again = anonymous.expect(304, "GET", path, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.body == b"" and again.headers["ETag"] == answer.headers["ETag"]
    anonymous.expect(200, "GET", path, headers={"If-None-Match": '"another"'})


@pytest.mark.parametrize("path", ["/healthz", *PAGES])
def test_head_answers_like_get_without_a_body(anonymous, path):
    full = anonymous.expect(200, "GET", path)
    head = anonymous.expect(200, "HEAD", path)
    assert head.body == b""
    for name in ("Content-Type", "Content-Length", "ETag"):
        assert head.headers[name] == full.headers[name]
    # The connection is still in step.
    anonymous.expect(200, "GET", "/healthz")


def test_page_has_every_operation_and_asks_nobody_else(anonymous):
    answer = anonymous.expect(200, "GET", "/docs")
    page = answer.body.decode()
    for _, _, operation in contract().operations():
        assert f'id="{operation["operationId"]}"' in page
    for name in contract().document["components"]["schemas"]:
        assert f'id="schema-{name}"' in page
    targets = set(re.findall(r'href="#([\w-]+)"', page))
    assert targets <= set(re.findall(r'id="([\w-]+)"', page))
    assert not re.search(r'(src|href)="(https?:)?//', page)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy


def test_texts_for_models_name_every_route(anonymous):
    short = anonymous.expect(200, "GET", "/llms.txt").body.decode()
    full = anonymous.expect(200, "GET", "/llms-full.txt").body.decode()
    assert short.startswith("# Atoll\n") and len(short) < 16000
    for method, path, _ in contract().operations():
        assert f"{method.upper()} {path}" in short and f"{method.upper()} {path}" in full
    for name in contract().document["components"]["schemas"]:
        assert f"### {name}\n" in full


def test_the_page_works_in_a_browser(server, tmp_path):
    """The policy lets its own script run: it marks the page and shows the filter."""
    done = subprocess.run(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path}", "--dump-dom", f"{server.url()}/docs"],
        capture_output=True, text=True, timeout=120)
    assert '<html lang="en" class="js">' in done.stdout, done.stderr[-2000:]
    assert "Content Security Policy" not in done.stderr
    assert done.stdout.count('class="copy"') > 30
