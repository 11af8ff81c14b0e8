"""What is around a sandbox in E2B's words: its ports, its network, volumes, secrets. Raw HTTP."""
import asyncio
import http.client
import json
import pathlib
import subprocess
import threading

import pytest
import websockets

from harness.boundary import boundary
from harness.client import Sandbox
from harness.server import BIN_DIR, Server

DOMAIN = "box.test"
PROGRAM = pathlib.Path(__file__).with_name("service_server.py").read_text()
SECRET = "edge-test-secret-1f3a"
BROWSER = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)


class E2b:
    """A client of the control plane that knows no SDK; what it makes goes with it."""

    def __init__(self, server):
        self.server, self.made = server, []
        self.key = server.key.replace("atoll_", "e2b_")

    def send(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def call(self, method, path, body=None, status=None):
        answer = self.send(method, path, None if body is None else json.dumps(body),
                           {"X-API-KEY": self.key, "Content-Type": "application/json"})
        assert status in (None, answer.status), (method, path, answer.status, answer.body)
        if answer.status >= 400:
            assert answer.json["code"] == answer.status
        return answer

    def create(self, **options):
        body = {"templateID": "default", "timeout": 300, **options}
        made = self.call("POST", "/v2/sandboxes", body, 201).json
        self.made.append(made["sandboxID"])
        box = Sandbox(self.server.client, made["sandboxID"])
        box.answer = made
        return box

    def to(self, box, port, path="/", method="GET", body=None, by_host=False, **headers):
        """A request to a port of a sandbox."""
        names = ({"Host": f"{port}-{box.id}.{DOMAIN}"} if by_host else
                 {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": str(port)})
        return self.send(method, path, body, {**names, **headers})

    def clean(self):
        for sandbox in self.made:
            self.call("DELETE", f"/sandboxes/{sandbox}")
        self.made.clear()


@pytest.fixture(scope="module")
def served():
    with Server(extra=["--domain", DOMAIN]) as running:
        yield running


@pytest.fixture
def e2b(served):
    client = E2b(served)
    yield client
    client.clean()


def serve_in(box, port=8000, program=PROGRAM):
    box.write("/tmp/serve.py", program)
    context = box.start(["python3", "/tmp/serve.py", str(port)])
    for event in box.stream(context["id"]):
        assert event["type"] == "output", event
        return


@pytest.fixture(scope="module")
def web(served):
    client = E2b(served)
    box = client.create()
    serve_in(box)
    yield box
    client.clean()


def seen(answer):
    assert answer.status == 200, answer.body
    told = answer.json
    told["headers"] = {name.lower(): value for name, value in told["headers"]}
    return told


# --- ports -------------------------------------------------------------------------------------

@pytest.mark.parametrize("by_host", [True, False])
def test_a_port_is_open_without_being_declared(e2b, web, by_host):
    told = seen(e2b.to(web, 8000, "/a/b?c=d", "POST", b"body", by_host, **{"X-Own": "1"}))
    assert (told["method"], told["path"], told["bytes"]) == ("POST", "/a/b?c=d", 4)
    assert told["headers"]["x-own"] == "1"
    assert not {"e2b-sandbox-id", "e2b-sandbox-port"} & told["headers"].keys()


def test_nothing_of_ours_is_added_to_what_the_service_says(e2b, web):
    answer = e2b.to(web, 8000, "/", "OPTIONS", by_host=True, Origin="https://elsewhere.example",
                    **{"Access-Control-Request-Method": "PUT"})
    assert seen(answer)["method"] == "OPTIONS", "the preflight is the service's to answer"
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_the_agents_token_is_not_for_programs(e2b, web):
    token = web.answer["envdAccessToken"]
    assert "x-access-token" not in seen(e2b.to(web, 8000, **{"X-Access-Token": token}))["headers"]
    own = seen(e2b.to(web, 8000, **{"X-Access-Token": "the program's own"}))["headers"]
    assert own["x-access-token"] == "the program's own"


@pytest.mark.parametrize("by_host", [True, False])
def test_a_closed_port_is_told(e2b, web, by_host):
    answer = e2b.to(web, 8001, by_host=by_host)
    assert answer.status == 502
    told = answer.json
    assert (told["sandboxId"], told["code"], told["port"]) == (web.id, 502, 8001)
    page = e2b.to(web, 8001, by_host=by_host, **BROWSER)
    assert page.status == 502 and page.headers["content-type"].startswith("text/html")
    assert web.id.encode() in page.body


def test_no_sandbox_is_502(e2b):
    gone = type("Gone", (), {"id": "i" + "0" * 20})
    for by_host in True, False:
        answer = e2b.to(gone, 8000, by_host=by_host)
        assert answer.status == 502 and answer.json["sandboxId"] == gone.id


def test_a_server_that_is_about_to_listen_is_waited_for(e2b, web):
    got = []
    asking = threading.Thread(target=lambda: got.append(e2b.to(web, 8077)))
    asking.start()
    serve_in(web, 8077)
    asking.join()
    assert got[0].status == 200, got[0].body


def test_websocket(served, web):
    async def talk():
        headers = {"E2b-Sandbox-Id": web.id, "E2b-Sandbox-Port": "8000"}
        async with websockets.connect(f"ws://127.0.0.1:{served.port}/socket",
                                      extra_headers=headers) as socket:
            await socket.send("hello")
            return await socket.recv()
    assert asyncio.run(talk()) == "hello"


def test_native_sandboxes_open_what_services_declare_and_no_more(served, e2b):
    box = served.client.create()
    try:
        serve_in(box)
        for by_host in True, False:
            assert e2b.to(box, 8000, by_host=by_host).status == 404
        served.client.expect(200, "PUT", f"{box.path}/services", {"services": [
            {"id": "web", "port": 8000, "ingress": {"public": True, "routes": [{"id": "all"}]}}]})
        for by_host in True, False:
            assert e2b.to(box, 8000, by_host=by_host).status == 200
    finally:
        served.client.call("DELETE", box.path)


def test_private_traffic_needs_the_token_and_the_host_is_masked(e2b):
    box = e2b.create(network={"allowPublicTraffic": False, "maskRequestHost": "localhost:${PORT}"})
    token = box.answer["trafficAccessToken"]
    assert token and token != box.answer["envdAccessToken"]
    serve_in(box)
    for headers in {}, {"E2b-Traffic-Access-Token": "wrong"}, {
            "E2b-Traffic-Access-Token": box.answer["envdAccessToken"]}:
        answer = e2b.to(box, 8000, by_host=True, **headers)
        assert answer.status == 403 and answer.json["code"] == 403
    told = seen(e2b.to(box, 8000, by_host=True, **{"E2b-Traffic-Access-Token": token}))
    assert told["headers"]["host"] == "localhost:8000"
    assert told["headers"]["x-forwarded-host"] == f"8000-{box.id}.{DOMAIN}"
    assert "e2b-traffic-access-token" not in told["headers"]
    detail = e2b.call("GET", f"/sandboxes/{box.id}", status=200).json
    assert detail["network"] == {"allowPublicTraffic": False,
                                 "maskRequestHost": "localhost:${PORT}"}


def test_https_ports(e2b, tmp_path):
    subprocess.run([BIN_DIR / "atoll", "cert", "dev", "--dir", tmp_path], check=True,
                   capture_output=True, timeout=60)
    box = e2b.create(network={"httpsPorts": [8443]})
    for name in "server.crt", "server.key":
        box.write(f"/tmp/{name}", (tmp_path / name).read_bytes())
    program = PROGRAM.replace("    print(", """    import ssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/tmp/server.crt", "/tmp/server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(""", 1)
    serve_in(box, 8443, program)
    assert seen(e2b.to(box, 8443, "/tls"))["path"] == "/tls"


def test_traffic_wakes_whom_it_may(e2b):
    sleeper = e2b.create(autoPause=True, autoResume={"enabled": True})
    serve_in(sleeper)
    e2b.call("POST", f"/sandboxes/{sleeper.id}/pause", {}, 204)
    assert seen(e2b.to(sleeper, 8000, by_host=True))["method"] == "GET"
    assert e2b.call("GET", f"/sandboxes/{sleeper.id}").json["state"] == "running"
    e2b.call("POST", f"/sandboxes/{sleeper.id}/pause", {"memory": False}, 204)
    refused = e2b.to(sleeper, 8000)
    assert refused.status == 403 and refused.json["sandboxId"] == sleeper.id
    other = e2b.create(autoPause=True)
    e2b.call("POST", f"/sandboxes/{other.id}/pause", {}, 204)
    assert e2b.to(other, 8000).status == 502
    assert e2b.call("GET", f"/sandboxes/{other.id}").json["state"] == "paused"


# --- volumes -----------------------------------------------------------------------------------

@pytest.fixture
def volume(e2b):
    made = []

    def make(name):
        volume = e2b.call("POST", "/volumes", {"name": name}, 201).json
        made.append(volume["volumeID"])
        return volume

    yield make
    e2b.clean()
    for volume_id in made:
        e2b.call("DELETE", f"/volumes/{volume_id}")


def content(e2b, volume, method, what, token=None, body=None):
    return e2b.send(method, f"/volumecontent/{volume['volumeID']}/{what}", body,
                    {"Authorization": f"Bearer {token or volume['token']}"})


def test_volumes_by_name(e2b, volume):
    made = volume("Data_1")
    assert made["name"] == "Data_1" and made["token"] and made["domain"].startswith(DOMAIN)
    assert e2b.call("POST", "/volumes", {"name": "Data_1"}).status == 409
    assert e2b.call("POST", "/volumes", {"name": "no/slash"}).status == 400
    assert {"volumeID": made["volumeID"], "name": "Data_1"} in e2b.call("GET", "/volumes").json
    assert e2b.call("GET", f"/volumes/{made['volumeID']}", status=200).json["name"] == "Data_1"
    e2b.call("DELETE", f"/volumes/{made['volumeID']}", status=204)
    assert e2b.call("GET", f"/volumes/{made['volumeID']}").status == 404
    assert e2b.call("DELETE", f"/volumes/{made['volumeID']}").status == 404
    volume("Data_1")


def test_contents_of_volumes(e2b, volume):
    made = volume("contents")
    data = b"\0\1" * 70_000
    assert content(e2b, made, "PUT", "file?path=/deep/in/a.bin", body=data).status == 201
    answer = content(e2b, made, "GET", "file?path=/deep/in/a.bin")
    assert answer.status == 200 and answer.body == data
    entry = content(e2b, made, "GET", "path?path=/deep/in/a.bin").json
    assert (entry["name"], entry["type"], entry["size"]) == ("a.bin", "file", 140_000)
    changed = content(e2b, made, "PATCH", "path?path=/deep/in/a.bin",
                      body=b'{"uid": 7, "gid": 8, "mode": 384}').json
    assert (changed["uid"], changed["gid"], changed["mode"]) == (7, 8, 0o600)
    assert content(e2b, made, "POST", "dir?path=/a/b").status == 404
    folder = content(e2b, made, "POST", "dir?path=/a/b&force=true&uid=5&mode=448")
    assert folder.status == 201
    assert (folder.json["type"], folder.json["uid"], folder.json["mode"]) == ("directory", 5, 0o700)
    assert content(e2b, made, "POST", "dir?path=/a/b").status == 409

    def names(what):
        return {each["path"] for each in content(e2b, made, "GET", what).json}
    assert names("dir?path=/") == {"/a", "/deep"}
    assert names("dir?path=/&depth=3") == {"/a", "/a/b", "/deep", "/deep/in", "/deep/in/a.bin"}
    assert content(e2b, made, "GET", "dir?path=/none").status == 404
    assert content(e2b, made, "DELETE", "path?path=/deep").status == 204
    assert content(e2b, made, "DELETE", "path?path=/deep").status == 404
    assert content(e2b, made, "GET", "file?path=/deep/in/a.bin").status == 404
    assert content(e2b, made, "GET", "dir").status == 400


def test_the_token_is_for_one_volume(e2b, volume):
    made, other = volume("one"), volume("other")
    for token in other["token"], e2b.key, "x", made["token"] + "x":
        assert content(e2b, made, "GET", "dir?path=/", token).status == 401
    assert e2b.send("GET", f"/volumecontent/{made['volumeID']}/dir?path=/").status == 401


def test_volumes_are_mounted_by_name(e2b, volume):
    made = volume("shared")
    content(e2b, made, "PUT", "file?path=/before", body=b"written before")
    mounts = [{"name": "shared", "path": "/mnt/shared"}]
    boxes = [e2b.create(volumeMounts=mounts) for _ in range(2)]
    assert boxes[0].out("cat /mnt/shared/before") == "written before"
    boxes[0].run("echo from inside > /mnt/shared/inside")
    assert boxes[1].out("cat /mnt/shared/inside") == "from inside\n"
    assert content(e2b, made, "GET", "file?path=/inside").body == b"from inside\n"
    detail = e2b.call("GET", f"/sandboxes/{boxes[0].id}").json
    assert detail["volumeMounts"] == mounts
    assert e2b.call("DELETE", f"/volumes/{made['volumeID']}").status == 409
    for bad in ([{"name": "none", "path": "/mnt/x"}], [{"name": "shared", "path": "mnt"}],
                [{"name": "shared", "path": "/mnt/../etc"}], [{"name": "shared", "path": "/"}]):
        body = {"templateID": "default", "volumeMounts": bad}
        assert e2b.call("POST", "/v2/sandboxes", body).status in (400, 404), bad


# --- secrets and networks ----------------------------------------------------------------------

def test_secrets_are_written_and_never_read(e2b):
    made = e2b.call("POST", "/secrets", {"name": "Token", "value": SECRET,
                                         "metadata": {"owner": "me"}}, 201)
    try:
        secret = made.json
        assert secret["name"] == "token" and secret["currentVersion"] == 1
        assert secret["metadata"] == {"owner": "me"} and secret["secretID"].startswith("sec_")
        assert e2b.call("POST", "/secrets", {"name": "TOKEN", "value": "x"}).status == 409
        changed = e2b.call("POST", f"/secrets/{secret['secretID']}", {"value": "new"}, 200).json
        assert changed["currentVersion"] == 2 and changed["metadata"] == {"owner": "me"}
        assert e2b.call("GET", "/secrets/token", status=200).json == changed
        e2b.call("POST", "/secrets", {"name": "second", "value": "y"}, 201)
        page = e2b.call("GET", "/secrets?limit=1")
        assert len(page.json) == 1 and page.headers["X-Next-Token"]
        rest = e2b.call("GET", f"/secrets?limit=1&nextToken={page.headers['X-Next-Token']}")
        assert len(rest.json) == 1 and "X-Next-Token" not in rest.headers
        for answer in made, page, rest, e2b.call("GET", "/api/v1/credential-sources"):
            assert SECRET.encode() not in answer.body
        for bad in {"name": "sec_x", "value": "v"}, {"name": "a}b", "value": "v"}, {"name": "x"}:
            assert e2b.call("POST", "/secrets", bad).status == 400
    finally:
        for name in "token", "second":
            e2b.call("DELETE", f"/secrets/{name}")
    assert e2b.call("GET", "/secrets/token").status == 404
    assert e2b.call("DELETE", "/secrets/token").status == 404


@pytest.mark.parametrize("network, words", [
    ({"allowOut": ["a.example"]}, "0.0.0.0/0"),
    ({"denyOut": ["a.example"]}, "denyOut"),
    ({"rules": {f"{n}.example": [] for n in range(11)}}, "at most 10"),
    ({"rules": {"a.example": [{"transform": {"headers": {"Host": "x"}}}]}}, "Host"),
    ({"egressProxy": {"address": "nowhere"}}, "egressProxy"),
    ({"httpsPorts": [49983]}, "httpsPorts"),
    ({"maskRequestHost": "a b"}, "maskRequestHost"),
])
def test_wrong_networks_are_refused(e2b, network, words):
    answer = e2b.call("POST", "/v2/sandboxes", {"templateID": "default", "network": network})
    assert answer.status == 400 and words in answer.json["message"], answer.body


@pytest.fixture(scope="module")
def place():
    with boundary() as made:
        yield made


def fetch(box, url="https://api.harbour.com/hello"):
    return box.run(f"curl -sS --fail -m 30 {url}")["exit_code"] == 0


def test_networks_of_sandboxes(place):
    e2b = E2b(place.server)
    try:
        e2b.call("POST", "/secrets", {"name": "harbour", "value": SECRET}, 201)
        rules = {"api.harbour.com": [{"transform": {"headers": {
            "Authorization": "Bearer ${e2b.secrets.harbour}", "X-Literal": "plain-text-value"}}}]}
        box = e2b.create(network={"allowOut": ["api.harbour.com"], "denyOut": ["0.0.0.0/0"],
                                  "rules": rules})

        def arrived(name, header="authorization"):
            place.world.clear()
            assert fetch(box), name
            return place.world.seen().headers(header)

        assert arrived("with its secret") == [f"Bearer {SECRET}"]
        assert arrived("with a literal", "x-literal") == ["plain-text-value"]
        assert not fetch(box, "http://pay.harbour.com/")
        assert SECRET not in box.out("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
        detail = e2b.call("GET", f"/sandboxes/{box.id}")
        native = place.client.expect(200, "GET", f"{box.path}/network")
        for answer in detail, native:
            assert SECRET.encode() not in answer.body and b"plain-text-value" not in answer.body
        assert detail.json["network"]["allowOut"] == ["api.harbour.com"]
        e2b.call("POST", "/secrets/harbour", {"value": "rotated"}, 200)
        assert arrived("after it was changed") == ["Bearer rotated"]
        e2b.call("DELETE", "/secrets/harbour", status=204)
        assert not fetch(box), "without its secret nothing is sent"

        def update(body, status=204):
            e2b.call("PUT", f"/sandboxes/{box.id}/network", body, status)
        update({})
        place.world.clear()
        assert fetch(box, "http://api.harbour.com/") and fetch(box, "http://pay.harbour.com/")
        assert place.world.seen().headers("authorization") == []
        update({"allow_internet_access": False})
        assert not fetch(box, "http://api.harbour.com/")
        assert not fetch(box, "http://pay.harbour.com/")
        assert e2b.call("GET", f"/sandboxes/{box.id}").json["allowInternetAccess"] is False
        update({"allowPublicTraffic": False}, 400)
        assert e2b.call("PUT", f"/sandboxes/{'i' + '0' * 20}/network", {}).status == 404
    finally:
        e2b.clean()
        e2b.call("DELETE", "/secrets/harbour")
