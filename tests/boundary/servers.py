"""Real servers on the witness's side of the cable."""
import os
import pathlib
import subprocess
import time

from clients import python_packages
from harness.packages import fetched
from world import GRPC, HERE, MCP, POSTGRES, REDIS, WEB

MCP_PACKAGE = "mcp-2.3.0"
REDIS_PASSWORD = "redis-secret-5f1e"
POSTGRES_PASSWORD = "postgres-secret-77ab"
LATEST_POSTGRES = "/usr/lib/postgresql"

NGINX = """
worker_processes 1; daemon off; pid {directory}/nginx.pid; error_log {directory}/nginx-error.log;
events {{ worker_connections 512; }}
http {{
  access_log {directory}/nginx-access.log combined;
  types {{ text/html html; application/octet-stream bin; }}
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  ssl_certificate {directory}/good.crt; ssl_certificate_key {directory}/good.key;
  log_format seen '$server_protocol $request_method $request_uri $http_authorization';
  server {{
    listen {web}:80; listen {web}:443 ssl http2; server_name www.harbour.com;
    root {directory}/www; autoindex on;
    access_log {directory}/web.log seen;
    location /private/ {{ if ($http_authorization != "Bearer {token}") {{ return 401; }} }}
  }}
  server {{
    listen {mcp}:443 ssl http2; server_name mcp.harbour.com;
    location / {{ proxy_pass http://127.0.0.1:8000; proxy_http_version 1.1;
                  proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
"""


def wait_until_listening(address, port, world, log):
    """Asked inside the witness's namespace, so that it leaves no packet on the cable."""
    deadline = time.monotonic() + 40
    while True:
        done = subprocess.run(["nsenter", "--net", "--target", str(world.namespace.pid),
                               "/usr/bin/python3", "-c", "import socket, sys; "
                               f"socket.create_connection(({address!r}, {port}), 1)"],
                              capture_output=True)
        if done.returncode == 0:
            return
        assert time.monotonic() < deadline, f"{address}:{port} does not listen: {log()}"
        time.sleep(0.1)


class Servers:
    """Started when first asked for; they end with the world."""

    def __init__(self, world, token):
        self.world, self.token = world, token
        self.directory = pathlib.Path(world.directory)
        self.running = set()
        self.calls_path = self.directory / "calls.log"

    def start(self, name, command, address, port, **options):
        log_path = self.directory / f"{name}.out"
        with open(log_path, "wb") as log:
            self.world.spawn(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        wait_until_listening(address, port, self.world,
                             lambda: log_path.read_text()[-2000:])
        self.running.add(name)

    def web(self):
        """nginx: files below www/, and /private/ for who has the token."""
        if "nginx" in self.running:
            return self.directory / "www"
        (self.directory / "www" / "private").mkdir(parents=True, exist_ok=True)
        (self.directory / "www" / "hello").write_text("hello from nginx\n")
        (self.directory / "www" / "private" / "hello").write_text("private hello from nginx\n")
        configuration = self.directory / "nginx.conf"
        configuration.write_text(NGINX.format(directory=self.directory, web=WEB, mcp=MCP,
                                              token=self.token))
        self.start("nginx", ["/usr/sbin/nginx", "-c", str(configuration), "-p",
                             str(self.directory)], WEB, 443)
        return self.directory / "www"

    def web_log(self):
        path = self.directory / "web.log"
        return path.read_text().splitlines() if path.exists() else []

    def mcp(self):
        if "mcp" in self.running:
            return
        self.web()
        packages = mcp_packages()
        self.start("mcp", ["/usr/bin/python3", str(HERE / "mcp_server.py"), "8000",
                           str(self.calls_path)], "127.0.0.1", 8000,
                   env={**os.environ, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"})

    def redis(self):
        if "redis" not in self.running:
            self.start("redis", ["redis-server", "--bind", REDIS, "--port", "6379", "--save", "",
                                 "--requirepass", REDIS_PASSWORD, "--dir", str(self.directory)],
                       REDIS, 6379)

    def postgres(self):
        """With SCRAM; its files belong to its user."""
        if "postgres" in self.running:
            return
        binaries = sorted(pathlib.Path(LATEST_POSTGRES).glob("*/bin"))[-1]
        data = self.directory / "postgres"
        data.mkdir()
        subprocess.run(["chown", "postgres", str(data)], check=True)
        password = self.directory / "postgres-password"
        password.write_text(POSTGRES_PASSWORD)
        os.chmod(password, 0o644)
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        subprocess.run([*user, str(binaries / "initdb"), "-D", str(data), "-A", "scram-sha-256",
                        "-U", "agent", f"--pwfile={password}"], check=True, capture_output=True)
        with open(data / "pg_hba.conf", "a") as rules:
            rules.write("host all all 0.0.0.0/0 scram-sha-256\n")
        self.start("postgres", [*user, str(binaries / "postgres"), "-D", str(data), "-h", POSTGRES,
                                "-k", "", "-c", "fsync=off"], POSTGRES, 5432)

    def grpc(self):
        if "grpc" not in self.running:
            self.start("grpc", ["/usr/bin/python3", str(HERE / "programs" / "grpc_server.py"), GRPC,
                                str(self.directory / "good.crt"), str(self.directory / "good.key")],
                       GRPC, 443, env={**os.environ, "PYTHONPATH": str(python_packages()),
                                       "PYTHONDONTWRITEBYTECODE": "1"})


def mcp_packages():
    return fetched(f"pypi-{MCP_PACKAGE}", lambda directory: [
        "/usr/bin/python3", "-m", "pip", "install", "--quiet", "--target", directory,
        MCP_PACKAGE.replace("-", "==")])


