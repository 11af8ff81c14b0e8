"""Buckets for tests: a real S3 server on loopback, and a proxy before it that breaks things."""
import http.client
import http.server
import json
import os
import pathlib
import socket
import subprocess
import threading

from harness.packages import fetched

MOTO = "moto-5.2.5"
PROGRAM = pathlib.Path(__file__).resolve().parent / "bucket_server.py"


class Buckets:
    """`call("keys", prefix="a/")` and so on do what somebody else does to the bucket."""

    def __init__(self, log):
        packages = fetched(f"pypi-{MOTO}", lambda directory: [
            "/usr/bin/python3", "-m", "pip", "install", "--quiet", "--target", directory,
            MOTO.replace("moto-", "moto[s3]=="), "flask", "flask-cors"])
        self.process = subprocess.Popen(
            ["/usr/bin/python3", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=log, text=True,
            env={**os.environ, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"})
        self.lock = threading.Lock()
        line = self.process.stdout.readline()
        assert line, "the S3 server did not start"
        self.about = json.loads(line)

    def call(self, name, **arguments):
        with self.lock:
            self.process.stdin.write(json.dumps([name, arguments]) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        assert line, f"the S3 server died of {name} {arguments}"
        return json.loads(line)

    def settings(self, prefix="", endpoint_url=None, **other):
        """Of a volume in the bucket."""
        about = self.about
        return {"backend": "s3", "s3": {
            "bucket": about["bucket"], "access_key": about["access_key"],
            "secret_key": about["secret_key"], "prefix": prefix,
            "endpoint_url": endpoint_url or f"http://{about['host']}:{about['port']}", **other}}

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class BrokenProxy:
    """Passes requests on, except those that a fault is planned for, in order:

    "cut" closes without asking the server, "lose" asks it and closes without its answer, "half"
    sends half of its answer, and a number is the status it answers itself. `only`: which requests
    count ("PUT /test-bucket/x")."""

    def __init__(self, host, port, tls=None):
        """`tls`: an ssl.SSLContext; then it speaks https."""
        proxy = self
        self.plan, self.only, self.seen, self.lock = [], "", [], threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fault = proxy.next_fault(f"{self.command} {self.path}")
                if fault == "cut":
                    return self.close_now()
                if isinstance(fault, int):
                    self.send_response(fault)
                    self.send_header("Content-Length", "0")
                    return self.end_headers()
                upstream = http.client.HTTPConnection(host, port, timeout=30)
                try:
                    upstream.putrequest(self.command, self.path, skip_host=True,
                                        skip_accept_encoding=True)
                    for name, value in self.headers.items():
                        upstream.putheader(name, value)
                    upstream.endheaders(body)
                    answer = upstream.getresponse()
                    content = answer.read()
                    status, headers = answer.status, answer.getheaders()
                finally:
                    upstream.close()
                if fault == "lose":
                    return self.close_now()
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                        self.send_header(name, value)
                length = len(content)
                if self.command == "HEAD":
                    length = dict((n.lower(), v) for n, v in headers).get("content-length", 0)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                if fault == "half":
                    self.wfile.write(content[:len(content) // 2])
                    return self.close_now()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

            def close_now(self):
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def next_fault(self, request):
        with self.lock:
            self.seen.append(request)
            if self.plan and request.startswith(self.only):
                return self.plan.pop(0)
        return None

    def faults(self, *plan, only=""):
        with self.lock:
            self.plan, self.only, self.seen = list(plan), only, []

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
