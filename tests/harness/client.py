"""A small client of the native API, on the standard library only.

It stays close to the wire on purpose: tests see status codes, headers and the envelope as they are.
`Client.call` returns an Answer whatever the status; the shortcuts raise ApiError when it is not the
one a well-behaved server gives. Every exchange is held against the contract.
"""
import base64
import http.client
import json
import threading
import urllib.parse

from harness.contract import contract

# Of a stream, the first this many; a long one would take longer to judge than to make.
JUDGED_EVENTS = 100


class ApiError(AssertionError):
    def __init__(self, method, path, answer):
        super().__init__(f"{method} {path}: {answer.status} {answer.body[:2000]!r}")
        self.answer = answer


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def data(self):
        document = self.json
        assert document["success"] is True, document
        return document["data"]

    @property
    def error(self):
        document = self.json
        assert document["success"] is False, document
        return document["error"]


class Client:
    """Thread-safe: every thread keeps its own connection."""

    def __init__(self, host, port, key, timeout=60, tls=None):
        self.host, self.port, self.key, self.timeout, self.tls = host, port, key, timeout, tls
        self._local = threading.local()

    def connection(self, timeout=None):
        timeout = timeout or self.timeout
        if self.tls is not None:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout,
                                               context=self.tls)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def headers(self, extra=None):
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {**headers, **(extra or {})}

    def call(self, method, path, body=None, headers=None, timeout=None):
        """One request. A dict or list becomes JSON; a kept-alive connection that the server closed
        in the meantime is replaced once, as every HTTP client does."""
        headers = self.headers(headers)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        for attempt in (1, 2):
            connection = getattr(self._local, "connection", None)
            reused = connection is not None and connection.sock is not None
            if connection is None:
                connection = self._local.connection = self.connection()
            if timeout is not None and connection.sock is not None:
                connection.sock.settimeout(timeout)
            elif timeout is not None:
                connection.timeout = timeout
            try:
                try:
                    connection.request(method, path, body=body, headers=headers)
                except (BrokenPipeError, ConnectionResetError):
                    if reused:
                        raise
                    # The server refused while we were still sending: its answer is waiting.
                response = connection.getresponse()
                answer = Answer(response.status, response.headers, response.read())
                if timeout is not None:
                    self.forget_connection()
                contract().check(method, path, headers, body, answer)
                return answer
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.forget_connection()
                if not reused or attempt == 2:
                    raise
            except Exception:
                self.forget_connection()
                raise
        raise AssertionError("not reached")

    def forget_connection(self):
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def expect(self, status, method, path, body=None, headers=None, timeout=None):
        answer = self.call(method, path, body, headers, timeout)
        if answer.status != status:
            raise ApiError(method, path, answer)
        return answer

    def create(self, template="default", memory=None, disk=None, cpu=None, mounts=None, **config):
        resources = {name: value for name, value in
                     (("memory", memory), ("disk", disk), ("cpu", cpu)) if value is not None}
        if resources:
            config["resources"] = resources
        body = {"template": template}
        if mounts:
            body["mounts"] = [{"sandboxvolume_id": volume.id, "mount_point": path}
                              for path, volume in mounts.items()]
        if config:
            body["config"] = config
        data = self.expect(201, "POST", "/api/v1/sandboxes", body).data
        return Sandbox(self, data["sandbox_id"])

    def create_volume(self, **body):
        return Volume(self, self.expect(201, "POST", "/api/v1/sandboxvolumes", body).data["id"])

    def list_ids(self):
        ids, offset = [], 0
        while True:
            page = self.expect(200, "GET", f"/api/v1/sandboxes?limit=200&offset={offset}").data
            ids += [each["id"] for each in page["sandboxes"]]
            offset += len(page["sandboxes"])
            if not page["has_more"] or not page["sandboxes"]:
                return ids


class Sandbox:
    def __init__(self, client, sandbox_id):
        self.client = client
        self.id = sandbox_id
        self.path = f"/api/v1/sandboxes/{sandbox_id}"

    def get(self):
        return self.client.expect(200, "GET", self.path).data

    def delete(self):
        return self.client.expect(202, "DELETE", self.path).data

    # Commands -----------------------------------------------------------------------------------
    def start(self, command, **fields):
        if isinstance(command, str):
            command = ["bash", "-c", command]
        body = {"type": "cmd", "cmd": {"command": command}, **fields}
        timeout = max(self.client.timeout, fields.get("timeout_ms", 0) / 1000 + 20)
        return self.client.expect(201, "POST", f"{self.path}/contexts", body, timeout=timeout).data

    def run(self, command, **fields):
        """Waits for the end: the context with stdout, stderr, exit_code and state."""
        fields.setdefault("timeout_ms", 60_000)
        return self.start(command, wait_until_done=True, **fields)

    def out(self, command, **fields):
        """Standard output of a command that must succeed."""
        result = self.run(command, **fields)
        assert result["exit_code"] == 0, result
        return result["stdout"]

    def context(self, context_id):
        return self.client.expect(200, "GET", f"{self.path}/contexts/{context_id}").data

    def stream(self, context_id, start=0, timeout=60):
        """Yields the events of .../stream as dictionaries."""
        connection = self.client.connection(timeout)
        try:
            connection.request("GET", f"{self.path}/contexts/{context_id}/stream?from={start}",
                               headers=self.client.headers())
            response = connection.getresponse()
            if response.status != 200:
                raise ApiError("GET", "stream", Answer(response.status, response.headers,
                                                       response.read()))
            for number, line in enumerate(response):
                if line.strip():
                    event = json.loads(line)
                    if number < JUDGED_EVENTS or event.get("type") != "output":
                        contract().judge_schema("StreamEvent", event)
                    yield event
            contract().seen.add("streamContext")
        finally:
            connection.close()

    def stream_bytes(self, context_id, source="stdout"):
        """All bytes of one output stream, and the exit event."""
        output, ending = b"", None
        for event in self.stream(context_id):
            if "data_base64" in event:
                if event["source"] == source:
                    output += base64.b64decode(event["data_base64"])
            else:
                ending = event
        return output, ending

    # Files --------------------------------------------------------------------------------------
    def file_path(self, path, verb="", **query):
        query = urllib.parse.urlencode({"path": path, **query}, quote_via=urllib.parse.quote)
        return f"{self.path}/files{verb}?{query}"

    def write(self, path, content, **query):
        if isinstance(content, str):
            content = content.encode()
        return self.client.expect(200, "POST", self.file_path(path, **query), content,
                                  {"Content-Type": "application/octet-stream"}).data

    def read(self, path, **query):
        return self.client.expect(200, "GET", self.file_path(path, **query)).body

    def stat(self, path, **query):
        return self.client.expect(200, "GET", self.file_path(path, "/stat", **query)).data

    def list(self, path, **query):
        answer = self.client.expect(200, "GET", self.file_path(path, "/list", **query))
        return answer.data["entries"]

    def mkdir(self, path, recursive=False):
        query = {"mkdir": "true", **({"recursive": "true"} if recursive else {})}
        return self.client.expect(201, "POST", self.file_path(path, **query), b"").data

    def remove(self, path):
        return self.client.expect(200, "DELETE", self.file_path(path)).data

    def move(self, source, destination):
        return self.client.expect(200, "POST", f"{self.path}/files/move",
                                  {"source": source, "destination": destination}).data


class Volume(Sandbox):
    """Its file routes are those of a sandbox."""

    def __init__(self, client, volume_id):
        super().__init__(client, volume_id)
        self.path = f"/api/v1/sandboxvolumes/{volume_id}"

    def delete(self, force=False):
        return self.client.expect(200, "DELETE", self.path + ("?force=true" if force else "")).data

    def fork(self, **body):
        data = self.client.expect(201, "POST", f"{self.path}/fork", body).data
        return Volume(self.client, data["id"])

    def snapshot(self, name="moment", **body):
        return self.client.expect(201, "POST", f"{self.path}/snapshots",
                                  {"name": name, **body}).data

    def restore(self, snapshot_id, force=False):
        return self.client.expect(200, "POST", f"{self.path}/snapshots/{snapshot_id}/restore",
                                  {"force": force}).data
