"""Templates as E2B's clients build them, call by call."""
import hashlib
import http.client
import io
import json
import tarfile
import time
import urllib.parse

from harness.client import Sandbox


def archive_of(files, mode="w:gz"):
    """{path: content, or ("link", target)}, as the SDKs pack what a COPY names."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.mode = 0o644
            if isinstance(content, tuple):
                info.type, info.linkname = tarfile.SYMTYPE, content[1]
                tar.addfile(info)
            else:
                info.size = len(content.encode())
                tar.addfile(info, io.BytesIO(content.encode()))
    return out.getvalue()


class Builder:
    """One team's templates, and everything it made."""

    def __init__(self, client):
        self.client = client
        self.made = set()
        self.sandboxes = []

    def call(self, method, path, body=None, status=None):
        connection = http.client.HTTPConnection(self.client.host, self.client.port, timeout=120)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"X-API-KEY": self.client.key,
                                                    "Content-Type": "application/json"})
            response = connection.getresponse()
            raw = response.read()
            self.headers = response.headers
            answer = json.loads(raw) if raw else None
        finally:
            connection.close()
        if status is not None:
            assert response.status == status, (method, path, response.status, answer)
        if response.status >= 400:
            assert answer["code"] == response.status, answer
        return answer

    def request(self, name, status=202, **more):
        answer = self.call("POST", "/v3/templates", {"name": name, **more}, status)
        if status == 202:
            self.made.add(answer["templateID"])
        return answer

    def upload(self, template, files, hash=None):
        data = archive_of(files)
        hash = hash or hashlib.sha256(data).hexdigest()
        link = self.call("GET", f"/templates/{template}/files/{hash}", status=201)
        if not link["present"]:
            assert self.put(link["url"], data) == 200
        return hash

    def put(self, url, data, **headers):
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
        try:
            connection.request("PUT", f"{parts.path}?{parts.query}", data, headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def start(self, asked, status=202, **body):
        steps = [dict(zip(("type", "args", "filesHash"), step), force=False)
                 for step in body.pop("steps", [])]
        return self.call("POST", f"/v2/templates/{asked['templateID']}/builds/{asked['buildID']}",
                         {"steps": steps, **body}, status)

    def status(self, asked, offset=0):
        return self.call("GET", f"/templates/{asked['templateID']}/builds/{asked['buildID']}/status"
                         f"?logsOffset={offset}", status=200)

    def wait(self, asked, seconds=120):
        """The last status, with every entry of the log."""
        entries = []
        deadline = time.monotonic() + seconds
        while True:
            status = self.status(asked, len(entries))
            entries += status["logEntries"]
            if status["status"] in ("ready", "error") and not status["logEntries"]:
                return {**status, "logEntries": entries}
            assert time.monotonic() < deadline, status
            time.sleep(0.05)

    def build(self, name, steps=(), request=None, **body):
        asked = self.request(name, **(request or {}))
        if "fromImage" not in body:
            body.setdefault("fromTemplate", "base")
        self.start(asked, steps=list(steps), **body)
        return asked, self.wait(asked)

    def must_build(self, name, steps=(), **body):
        asked, status = self.build(name, steps, **body)
        assert status["status"] == "ready", status
        return asked

    def sandbox(self, template, status=201, **more):
        answer = self.call("POST", "/v2/sandboxes",
                           {"templateID": template, "timeout": 300, **more}, status)
        if status != 201:
            return answer
        made = Sandbox(self.client, answer["sandboxID"])
        made.answer = answer
        self.sandboxes.append(made)
        return made

    def end(self):
        for sandbox in self.sandboxes:
            self.call("DELETE", f"/sandboxes/{sandbox.id}")
        for template in self.made:
            self.call("DELETE", f"/templates/{template}")
