"""Services: the rules of their routes, and what is hostile on either side."""
import concurrent.futures
import hashlib
import http.client
import json

import pytest

from harness.server import wait_until
from harness.services import Visitor, make, put, served, service, start_server, web


# Rules of routes ---------------------------------------------------------------------------------
def test_longest_prefix_methods_and_rewriting(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    routes = [{"id": "api", "path_prefix": "/api", "methods": ["GET"]},
              {"id": "deep", "path_prefix": "/api/v2/", "rewrite_prefix": "/new"},
              {"id": "root", "path_prefix": "/site", "rewrite_prefix": "/"}]
    put(sandbox, {"id": "web", "port": 8000, "ingress": {"public": True, "routes": routes}})
    visitor = Visitor(served, sandbox)
    assert visitor.see("GET", "/api/x")["path"] == "/api/x"
    assert visitor.see("POST", "/api/v2/y?z=1")["path"] == "/new/y?z=1"
    assert visitor.see("GET", "/site/page")["path"] == "/page"
    assert visitor.see("GET", "/site")["path"] == "/"
    refused = visitor.call("POST", "/api/x")
    assert (refused.status, refused.headers["allow"]) == (405, "GET")
    for path in ("/", "/apix", "/other"):
        assert visitor.call("GET", path).status == 404, path
    # What a server might read as another route's path is refused.
    for path in ("/site/../api/x", "/site/%2e%2e/api/v2/y", "/api%2fv2", "//api/x"):
        assert visitor.call("GET", path).status == 400, path


def test_credentials_are_asked_for_and_stay_with_us(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    digest = hashlib.sha256(b"s3cret").hexdigest()
    visitor = Visitor(served, sandbox)
    put(sandbox, service(auth={"mode": "bearer", "bearer_token_sha256": digest}))
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"},
                    {"Authorization": f"Bearer {digest}"}):
        answer = visitor.call(headers=headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    seen = visitor.see(headers={"Authorization": "Bearer s3cret"})
    assert "s3cret" not in json.dumps(seen)
    put(sandbox, service(auth={"mode": "header", "header_name": "X-Key",
                               "header_value_sha256": digest}))
    assert visitor.call(headers={"Authorization": "Bearer s3cret"}).status == 401
    assert "s3cret" not in json.dumps(visitor.see(headers={"X-Key": "s3cret"}))
    assert "s3cret" not in served.log(1 << 20)


def test_cross_origin_rules(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    digest = hashlib.sha256(b"s3cret").hexdigest()
    put(sandbox, service(methods=["POST"], auth={"mode": "bearer", "bearer_token_sha256": digest},
                         cors={"allowed_origins": ["https://app.example"],
                               "allowed_methods": ["POST"], "allowed_headers": ["authorization"],
                               "expose_headers": ["x-a"], "allow_credentials": True,
                               "max_age_seconds": 60}))
    visitor = Visitor(served, sandbox)
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    answer = visitor.call("OPTIONS", "/", headers=asked)
    assert answer.status == 204
    fields = {name.lower(): value for name, value in answer.headers.items()}
    assert fields["access-control-allow-origin"] == "https://app.example"
    assert fields["access-control-allow-credentials"] == "true"
    assert fields["access-control-max-age"] == "60"
    assert visitor.call("OPTIONS", "/", headers={**asked, "Origin": "https://evil"}).status == 403
    answer = visitor.call("POST", "/", b"", {"Origin": "https://app.example",
                                             "Authorization": "Bearer s3cret"})
    assert answer.headers["access-control-expose-headers"] == "x-a"
    # Also a refusal can be read by the page.
    answer = visitor.call("POST", "/", b"", {"Origin": "https://app.example"})
    assert answer.status == 401
    assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_rate_limits_say_when_to_come_again(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    put(sandbox, service(rate_limit={"rps": 1, "burst": 3}))
    answers = [Visitor(served, sandbox).call() for _ in range(5)]
    assert [a.status for a in answers[:3]] == [200] * 3
    assert answers[-1].status == 429 and int(answers[-1].headers["retry-after"]) >= 1


def test_timeouts_end_in_504(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    put(sandbox, service(timeout_seconds=1))
    visitor = Visitor(served, sandbox)
    assert visitor.call("GET", "/hang").status == 504
    assert visitor.see()["method"] == "GET"


def test_a_paused_sandbox_is_resumed_once_for_all(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    put(sandbox, service(resume=False))
    pause = f"{sandbox.path}/pause"
    served.client.expect(200, "POST", pause)
    assert Visitor(served, sandbox).call().status == 503
    assert sandbox.get()["status"] == "paused"
    put(sandbox, service(resume=True))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: Visitor(served, sandbox).call(), range(16)))
    assert {a.status for a in answers} == {200}
    assert sandbox.get()["status"] == "running"


def test_each_request_is_in_the_audit_without_its_query(served, make):
    sandbox = make()
    start_server(sandbox, 8000)
    put(sandbox, service(auth={"mode": "header", "header_name": "x-key", "header_value_sha256":
                               hashlib.sha256(b"k").hexdigest()}))
    visitor = Visitor(served, sandbox)
    assert visitor.call("POST", "/in?secret=1", b"12345", {"X-Key": "k"}).status == 200
    assert visitor.call("GET", "/out").status == 401

    def flows():
        page = served.client.expect(200, "GET", f"{sandbox.path}/network/flows?kind=ingress").data
        return {each["operations"][0]: each for each in page["flows"]}

    found = wait_until(lambda: len(flows()) == 2 and flows(), 30, "both requests are recorded")
    allowed, denied = found["POST /in 200"], found["GET /out 401"]
    assert (allowed["outcome"], denied["outcome"]) == ("allowed", "denied")
    assert allowed["rule"] == "web/all" and allowed["bytes_in"] == 5
    assert "secret" not in json.dumps(found)


def test_an_upload_that_breaks_off_ends_the_request(served, web):
    visitor = Visitor(served, web)
    # Not chunked as it says: refused, although the service still waits for the rest.
    answer = visitor.raw(b"POST /up HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nnot")
    assert answer.startswith(b"HTTP/1.1 4"), answer
    answer = visitor.raw(b"POST /up HTTP/1.1\r\nHost: HOST\r\nContent-Length: 10\r\n\r\nhalf")
    assert b" 200 " not in answer


# What is hostile ---------------------------------------------------------------------------------
def test_services_that_answer_wrongly_are_502(served, web):
    visitor = Visitor(served, web)
    for path in ("/garbage", "/split", "/both", "/headers", "/close"):
        answer = visitor.call("GET", path)
        assert answer.status == 502, (path, answer.status, answer.content)
    with pytest.raises(http.client.IncompleteRead):
        visitor.call("GET", "/half")
    assert visitor.see()["method"] == "GET"


def test_nothing_listening_is_502(served, make):
    sandbox = make()
    put(sandbox, service(9999))
    assert Visitor(served, sandbox, 9999).call().status == 502


def test_requests_that_can_be_read_in_two_ways_never_reach_a_service(served, web):
    visitor = Visitor(served, web)
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n"
    for request in (
            b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
            b"POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
            b"POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
            b"GET / HTTP/1.1\r\nHost: HOST\r\nHost: other\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: HOST\r\n X: folded\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: HOST@x\r\n\r\n",
            b"GET http://HOST/ HTTP/1.1\r\nHost: other\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: HOST\r\nX: " + b"y" * 200_000 + b"\r\n\r\n"):
        answer = visitor.raw(request)
        assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")), (request[:80], answer[:200])
        assert b"smuggled" not in answer
    # Fields that belong to the connection, or that only we may say, do not pass.
    seen = visitor.see(headers={"Connection": "close, X-Hop", "X-Hop": "1", "TE": "trailers",
                                "Proxy-Authorization": "x", "X-Atoll-Route": "x", "Keep-Alive": "1"})
    names = {name.lower() for name, _ in seen["headers"]}
    assert not names & {"x-hop", "te", "proxy-authorization", "x-atoll-route", "keep-alive",
                        "connection"}
