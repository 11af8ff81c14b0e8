"""Previews: links to one port, and certificates of whole domains."""
import asyncio
import ssl
import subprocess

import pytest
import websockets

from harness.server import BIN_DIR, Server
from harness.services import DOMAIN, Visitor, make, plain, put, served, service, start_server


@pytest.mark.parametrize("form", ["{id}--p{port}", None], ids=["host", "path"])
def test_previews_open_one_port_for_whoever_has_the_link(request, served, make, form):
    if form is None:
        plain = request.getfixturevalue("plain")
        check_preview(plain, plain.client.create(), form)
    else:
        check_preview(served, make(), form)


def check_preview(served, sandbox, form):
    start_server(sandbox, 3000)
    client = served.client
    made = client.expect(201, "POST", f"{sandbox.path}/previews",
                         {"port": 3000, "path": "/page?x=1", "ttl_seconds": 60}).data
    assert made["runtime_generation"] == sandbox.get()["runtime_generation"]
    visitor = Visitor(served, sandbox, 3000, form)
    assert visitor.call().status == 404  # nobody else gets in
    link = made["url"].split(str(served.port), 1)[1].removeprefix(visitor.prefix)
    opened = visitor.call("GET", link)
    assert opened.status == 303 and opened.headers["location"] == f"{visitor.prefix}/page?x=1"
    assert opened.headers["cache-control"] == "no-store"
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie and f"Path={visitor.prefix or '/'};" in cookie
    assert visitor.call("GET", link).status == 401  # good once
    pair = {"Cookie": "other=1; " + cookie.split(";")[0]}
    seen = visitor.see("GET", "/page", headers=pair)
    assert dict(seen["headers"])["cookie"] == "other=1"  # the key stays with us
    fields = visitor.call("GET", "/fields", headers=pair).headers
    assert fields["x-frame-options"] is None
    assert fields["content-security-policy"] == "default-src 'self'"
    token = {"X-Sandbox0-Preview": made["access_token"]}
    assert visitor.see(headers=token)["method"] == "GET"
    # Not for another port, not after it was taken back.
    assert Visitor(served, sandbox, 3001, form).call(headers=pair).status == 404
    renewed = client.expect(200, "PUT", f"{sandbox.path}/previews/{made['id']}",
                            {"ttl_seconds": 3600}).data
    assert renewed["expires_at"] > made["expires_at"]
    client.expect(200, "DELETE", f"{sandbox.path}/previews/{made['id']}")
    assert visitor.call(headers=pair).status == 404
    assert visitor.call(headers=token).status == 404
    client.expect(404, "DELETE", f"{sandbox.path}/previews/{made['id']}")


def test_previews_of_ports_that_speak_tls(served, make, tmp_path):
    subprocess.run([BIN_DIR / "atoll", "cert", "dev", "--dir", tmp_path, "--name", "own.test"],
                   check=True, capture_output=True, timeout=60)
    (key,) = [path for path in tmp_path.glob("*.key") if path.stem != "ca"]
    sandbox = make()
    sandbox.write("/tmp/server.pem", key.with_suffix(".crt").read_bytes() + key.read_bytes())
    context = sandbox.start(["python3", "-u", "-c", """
import http.server, ssl
server = http.server.HTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/server.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready")
server.serve_forever()"""])
    next(sandbox.stream(context["id"]))
    made = served.client.expect(201, "POST", f"{sandbox.path}/previews",
                                {"port": 8443, "protocol": "https"}).data
    token = {"X-Sandbox0-Preview": made["access_token"]}
    assert Visitor(served, sandbox, 8443).call(headers=token).status == 200


def test_a_preview_ends_with_the_processes_it_was_for(served, make):
    sandbox = make()
    start_server(sandbox, 3000)
    made = served.client.expect(201, "POST", f"{sandbox.path}/previews", {"port": 3000}).data
    token = {"X-Sandbox0-Preview": made["access_token"]}
    visitor = Visitor(served, sandbox, 3000)
    assert visitor.call(headers=token).status == 200
    served.client.expect(200, "POST", f"{sandbox.path}/pause")
    assert [visitor.call(headers=token).status for _ in range(2)] == [200, 200]  # the same ones
    served.client.expect(200, "POST", f"{sandbox.path}/pause", {"memory": False})
    served.client.expect(200, "POST", f"{sandbox.path}/resume")
    assert visitor.call(headers=token).status == 404


def test_a_wildcard_certificate_serves_api_services_and_previews(tmp_path):
    subprocess.run([BIN_DIR / "atoll", "cert", "dev", "--dir", tmp_path, "--name",
                    f"*.{DOMAIN},127.0.0.1"], check=True, capture_output=True, timeout=60)
    (key,) = [path for path in tmp_path.glob("*.key") if path.stem != "ca"]
    with Server(extra=["--tls-cert", key.with_suffix(".crt"), "--tls-key", key, "--domain", DOMAIN],
                authority=tmp_path / "ca.crt") as secure:
        sandbox = secure.client.create()
        start_server(sandbox, 8000)
        (view,) = put(sandbox, service())["services"]
        host = f"{sandbox.id}--p8000.{DOMAIN}"
        assert view["public_url"] == f"https://{host}:{secure.port}"

        def curl(url, *words):
            done = subprocess.run(
                ["curl", "-sS", "--cacert", tmp_path / "ca.crt", "--resolve",
                 f"{host}:{secure.port}:{secure.host}", "-D", "-", *words, url],
                capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done
            return done.stdout

        answer = curl(view["public_url"] + "/x")
        assert answer.startswith("HTTP/2 200") and '"x-forwarded-proto", "https"' in answer
        assert curl(view["public_url"] + "/x", "--http1.1").startswith("HTTP/1.1 200")
        made = secure.client.expect(201, "POST", f"{sandbox.path}/previews", {"port": 8000}).data
        opened = curl(made["url"])
        (cookie,) = [line for line in opened.splitlines() if line.startswith("set-cookie: ")]
        assert cookie.startswith("set-cookie: __Host-sandbox0-preview=pv-")
        assert cookie.endswith("; Path=/; Secure; HttpOnly; SameSite=None; Partitioned")

        async def talk():
            context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
            async with websockets.connect(f"wss://{host}:{secure.port}/socket", host=secure.host,
                                          port=secure.port, ssl=context) as peer:
                await peer.send("hello")
                assert await peer.recv() == "hello"

        asyncio.run(asyncio.wait_for(talk(), 60))
