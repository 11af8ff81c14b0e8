"""Credentials that are fetched when they are needed, and ones that change: what the other side of a
request gets is what was right at that moment, and nothing of it is in the sandbox."""
import http.server
import json
import os
import pathlib
import tempfile
import threading

import pytest

from harness.server import Server
from world import API, NAME_SERVER

SOURCES = "/api/v1/credential-sources"


class TokenServer:
    """Hands out another token each time, and another refresh token."""

    def __init__(self):
        self.asked, self.status = [], 200
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                owner.asked.append(body)
                number = len(owner.asked)
                answer = json.dumps({"access_token": f"fetched-{number}-token", "expires_in": 3600,
                                     "refresh_token": f"refresh-{number}"}).encode()
                self.send_response(owner.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/token"


@pytest.fixture(scope="module")
def tokens(world):
    server = TokenServer()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture(scope="module")
def place(world, tokens):
    """A server that may ask ours for tokens, and run one program."""
    with tempfile.TemporaryDirectory(prefix="atoll-commands-") as directory:
        os.chmod(directory, 0o755)
        program = pathlib.Path(directory, "issue")
        program.write_text('#!/bin/sh\nprintf \'{"values": {"token": "printed-for-%s"}}\' '
                           '"$ATOLL_CREDENTIAL"\n')
        program.chmod(0o755)
        with Server(extra=["--dns-upstream", f"{NAME_SERVER}:53", "--egress-roots",
                           str(world.certificates.authority), "--allow-credential-endpoint",
                           "127.0.0.1", "--credential-commands", directory]) as server:
            yield Place(world, server)


class Place:
    def __init__(self, world, server):
        self.world, self.server, self.client = world, server, server.client
        self.sandbox = self.client.create()

    def source(self, name, kind, spec, status=201, method="POST"):
        path = SOURCES if method == "POST" else f"{SOURCES}/{name}"
        self.client.expect(status, method, path, {"name": name, "resolverKind": kind, "spec": spec})

    def bind(self, name, template):
        self.client.expect(200, "PUT", f"{self.sandbox.path}/network", {
            "mode": "block-all",
            "egress": {
                "trafficRules": [{"action": "allow", "domains": ["api.harbour.com"]}],
                "credentialRules": [{"credentialRef": "r", "protocol": "https",
                                     "tlsMode": "terminate-reoriginate",
                                     "domains": ["api.harbour.com"]}]},
            "credentialBindings": [{"ref": "r", "sourceRef": name, "projection": {
                "type": "http_headers", "httpHeaders": {"headers": [
                    {"name": "Authorization", "valueTemplate": template}]}}}]})

    def call(self, answered=True):
        """What arrived as Authorization when the sandbox asked without one."""
        self.world.clear()
        done = self.sandbox.run("curl -sS --fail -m 30 https://api.harbour.com/hello")
        assert (done["exit_code"] == 0) == answered, done
        return self.world.seen().headers("authorization", API)


def test_a_token_is_fetched_kept_and_fetched_again_for_a_new_version(place, tokens):
    spec = {"tokenUrl": tokens.url(), "clientId": "id", "clientSecret": "client-secret-value"}
    place.source("client", "oauth2_client_credentials", {"oauth2ClientCredentials": spec})
    place.bind("client", "Bearer {{ .access_token }}")
    tokens.asked.clear()
    assert place.call() == ["Bearer fetched-1-token"]
    assert place.call() == ["Bearer fetched-1-token"] and len(tokens.asked) == 1
    place.source("client", "oauth2_client_credentials", {"oauth2ClientCredentials": spec},
                 200, "PUT")
    assert place.call() == ["Bearer fetched-2-token"]


def test_a_replaced_refresh_token_is_used_after_a_restart(place, tokens):
    spec = {"tokenUrl": tokens.url(), "clientId": "id", "refreshToken": "refresh-0"}
    place.source("user", "oauth2_refresh_token", {"oauth2RefreshToken": spec})
    place.bind("user", "Bearer {{ .access_token }}")
    tokens.asked.clear()
    assert place.call() == ["Bearer fetched-1-token"]
    assert "refresh_token=refresh-0" in tokens.asked[0]
    place.server.stop()
    place.server.start()
    place.client = place.sandbox.client = place.server.client
    assert place.call() == ["Bearer fetched-2-token"]
    assert "refresh_token=refresh-1" in tokens.asked[1]


def test_without_its_token_nothing_is_sent(place, tokens):
    spec = {"tokenUrl": tokens.url(), "clientId": "id", "clientSecret": "client-secret-value"}
    place.source("refused", "oauth2_client_credentials", {"oauth2ClientCredentials": spec})
    place.bind("refused", "Bearer {{ .access_token }}")
    tokens.status = 403
    try:
        assert place.call(answered=False) == []
        assert not place.world.seen().requests(API)
    finally:
        tokens.status = 200
    assert "client-secret-value" not in pathlib.Path(place.server.log_path).read_text()


def test_a_program_prints_it(place):
    place.source("printed", "command", {"command": {"name": "issue"}})
    place.bind("printed", "Bearer {{ .token }}")
    assert place.call() == ["Bearer printed-for-printed"]


def test_a_rotated_value_is_in_the_next_request(place):
    def spec(token):
        return {"staticHeaders": {"values": {"token": token}}}

    place.source("static", "static_headers", spec("first-static-value"))
    place.bind("static", "Bearer {{ .token }}")
    assert place.call() == ["Bearer first-static-value"]
    place.source("static", "static_headers", spec("second-static-value"), 200, "PUT")
    assert place.call() == ["Bearer second-static-value"]
    # A value that the template does not find is a reason to send nothing.
    place.source("static", "static_headers", {"staticHeaders": {"values": {"other": "x"}}}, 200,
                 "PUT")
    assert place.call(answered=False) == []
    everything = place.sandbox.out("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
    assert "static-value" not in everything
