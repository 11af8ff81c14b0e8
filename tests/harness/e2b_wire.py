"""A small client of the E2B dialect, close to the wire: what an SDK cannot say can be said here."""
import base64
import hashlib
import http.client
import json
import urllib.parse

ENVD_PORT = 49983
INTERPRETER_PORT = 49999


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


class E2bClient:
    def __init__(self, server, key=None):
        self.server = server
        self.key = key or "e2b_" + server.key.removeprefix("atoll_")

    def send(self, method, path, body=None, headers=None, timeout=60):
        """As it is: no key, no address."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.server.host, self.server.port,
                                                timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def call(self, method, path, body=None, headers=None, timeout=60):
        """The control plane."""
        return self.send(method, path, body, {"X-API-KEY": self.key, **(headers or {})}, timeout)

    def expect(self, status, method, path, body=None, headers=None, timeout=60):
        answer = self.call(method, path, body, headers, timeout)
        assert answer.status == status, (method, path, answer.status, answer.body)
        if answer.status >= 400:
            assert answer.json["code"] == status, answer.json
            assert answer.json["message"]
        return answer

    def envd(self, sandbox, method, path, body=None, headers=None, port=ENVD_PORT, token=True):
        """A port of a sandbox, addressed by headers. `sandbox`: what a create answered."""
        headers = {"E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": str(port),
                   **(headers or {})}
        if token and sandbox.get("envdAccessToken"):
            headers.setdefault("X-Access-Token", sandbox["envdAccessToken"])
        return self.send(method, path, body, headers)


def signed_path(sandbox, path, operation, user="user", expiration=None):
    """What `uploadUrl` and `downloadUrl` of an SDK end with."""
    text = f"{path}:{operation}:{user}:{sandbox['envdAccessToken']}"
    query = {"path": path, "username": user}
    if expiration is not None:
        text += f":{expiration}"
        query["signature_expiration"] = expiration
    digest = hashlib.sha256(text.encode()).digest()
    query["signature"] = "v1_" + base64.b64encode(digest).decode().rstrip("=")
    return "/files?" + urllib.parse.urlencode(query)
