"""What the network boundary costs: plain TCP, TLS that passes, and HTTP whose TLS is opened, against
no proxy at all and against nginx and mitmproxy doing the same job, in one run.

    egress.py BIN_DIR [--json FILE]

The server, its rivals and the load run in a network namespace; the upstreams are in another, behind
a cable (tests/boundary/world.py). Contestants take turns, what counts are the ratios. `loopback`
has its upstream on the same side of the cable, `direct` on the other.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests" / "boundary"), str(TOP / "bench")]

from clients import libraries  # noqa: E402
from harness.packages import fetched  # noqa: E402
from harness.server import Server  # noqa: E402
from world import NAME_SERVER, WEB, World, run  # noqa: E402
from suite import stats  # noqa: E402

MITMPROXY = "mitmproxy-11.0.2"
TCP_PORT, TLS_PORT = 7000, 443
STREAM, HTTP, TLS_STREAM, MITM = 7001, 7002, 7003, 7004
DOWNLOAD_BYTES = 256 << 20
ROUNDS = int(os.environ.get("EGRESS_ROUNDS", 6))  # fewer than five give no ratio
MOST_SECONDS = 300
IDLE = 2000

UPSTREAM = """
worker_processes 1; daemon off; pid {d}/up.pid; error_log {d}/up.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000; sendfile on;
  ssl_certificate {d}/good.crt; ssl_certificate_key {d}/good.key;
  client_body_temp_path {d}/t1; proxy_temp_path {d}/t2; fastcgi_temp_path {d}/t3;
  uwsgi_temp_path {d}/t4; scgi_temp_path {d}/t5;
  server {{ listen {web}:443 ssl http2; root {d}/www; }}
}}
"""
RIVAL = """
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
worker_processes 1; daemon off; pid {d}/rival.pid; error_log {d}/rival.log;
events {{ worker_connections 8192; }}
stream {{
  server {{ listen 127.0.0.1:{stream}; proxy_pass {web}:{tcp}; tcp_nodelay on; }}
  server {{ listen 127.0.0.1:{tls_stream}; proxy_pass {web}:443; tcp_nodelay on; }}
}}
http {{
  access_log {d}/rival-access.log; keepalive_requests 1000000;
  client_body_temp_path {d}/t6; proxy_temp_path {d}/t7; fastcgi_temp_path {d}/t8;
  uwsgi_temp_path {d}/t9; scgi_temp_path {d}/t10;
  upstream up {{ server {web}:443; keepalive 64; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{http} ssl http2; ssl_certificate {d}/good.crt; ssl_certificate_key {d}/good.key;
    location / {{
      proxy_pass https://up; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host www.harbour.com; proxy_ssl_name www.harbour.com;
      proxy_set_header Authorization "Bearer something"; proxy_ssl_server_name on;
      proxy_ssl_verify on; proxy_ssl_trusted_certificate {d}/ca.crt; proxy_ssl_session_reuse on;
    }}
  }}
}}
"""


class Bench:
    def __init__(self, bin_dir, world, ends):
        self.bin_dir, self.world, self.ends = pathlib.Path(bin_dir).resolve(), world, ends
        self.directory = pathlib.Path(world.directory)
        self.load = str(self.bin_dir / "atoll-load")
        # Many short connections one after another must not run out of ports.
        for setting in ("net.ipv4.ip_local_port_range=10000 65000", "net.ipv4.tcp_tw_reuse=1"):
            run("sysctl", "-qw", setting)
            run("sysctl", "-qw", setting, inside=world.namespace.pid)
        self.upstreams()
        self.rivals()
        self.server = ends.enter_context(Server(bin_dir=self.bin_dir, extra=[
            "--dns-upstream", f"{NAME_SERVER}:53", "--egress-connections", "4096",
            "--egress-roots", str(world.certificates.authority)]))
        self.sandbox = self.server.client.create()
        self.furnish()

    # Everybody ----------------------------------------------------------------------------------
    def upstreams(self):
        (self.directory / "www").mkdir()
        (self.directory / "www" / "small").write_text("x" * 512)
        with open(self.directory / "www" / "large", "wb") as large:
            large.truncate(DOWNLOAD_BYTES)
        self.world.spawn([self.load, "serve", WEB, str(TCP_PORT)])
        self.here([self.load, "serve", "127.0.0.1", str(TCP_PORT)])
        configuration = self.directory / "up.conf"
        configuration.write_text(UPSTREAM.format(d=self.directory, web=WEB))
        self.world.spawn(["/usr/sbin/nginx", "-p", str(self.directory), "-c", str(configuration)],
                         stderr=subprocess.DEVNULL)
        local = self.directory / "local.conf"
        local.write_text(UPSTREAM.format(d=self.directory, web="127.0.0.1").replace(
            "up.pid", "local.pid"))
        self.here(["/usr/sbin/nginx", "-p", str(self.directory), "-c", str(local)])

    def here(self, command):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.ends.callback(World.end, process)
        return process

    def rivals(self):
        configuration = self.directory / "rival.conf"
        configuration.write_text(RIVAL.format(d=self.directory, web=WEB, stream=STREAM, http=HTTP,
                                              tls_stream=TLS_STREAM, tcp=TCP_PORT))
        self.nginx = self.here(["/usr/sbin/nginx", "-p", str(self.directory), "-c",
                                str(configuration), "-g", "user root;"])
        packages = fetched(f"pypi-{MITMPROXY}", lambda directory: [])
        certificate = self.directory / "mitm.pem"
        certificate.write_text((self.directory / "good.key").read_text() +
                               (self.directory / "good.crt").read_text())
        program = ("import sys; sys.argv[0] = 'mitmdump'; "
                   "from mitmproxy.tools.main import mitmdump; mitmdump()")
        with open(self.directory / "mitm.log", "wb") as log:
            self.mitmproxy = subprocess.Popen(
                ["/usr/bin/python3", "-c", program, "-q", "--mode", f"reverse:https://{WEB}:443",
                 "--listen-host", "127.0.0.1", "--listen-port", str(MITM), "--certs",
                 str(certificate), "--set", f"ssl_verify_upstream_trusted_ca={self.directory}/ca.crt",
                 "--set", "confdir=" + str(self.directory / "mitm"), "--set",
                 "modify_headers=/~q/authorization/Bearer something", "--set",
                 "ssl_insecure=true"],
                env={**os.environ, "PYTHONPATH": str(packages)}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        self.ends.callback(World.end, self.mitmproxy)
        for port in (STREAM, HTTP, MITM):
            self.wait_for(port)

    @staticmethod
    def wait_for(port):
        deadline = time.monotonic() + 60
        while subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"],
                             capture_output=True).returncode != 0:
            assert time.monotonic() < deadline, f"nobody listens at {port}"
            time.sleep(0.1)

    def furnish(self):
        """The same load programs inside the sandbox."""
        h2load = shutil.which("h2load")
        self.sandbox.write("/tmp/atoll-load", pathlib.Path(self.load).read_bytes())
        self.sandbox.write("/tmp/h2load", pathlib.Path(h2load).resolve().read_bytes())
        self.sandbox.mkdir("/tmp/lib")
        for name, path in libraries(h2load):
            self.sandbox.write(f"/tmp/lib/{name}", pathlib.Path(path).resolve().read_bytes())
        self.sandbox.out("chmod 755 /tmp/atoll-load /tmp/h2load", user="root")

    def policy(self, **egress):
        self.server.client.expect(200, "PUT", f"{self.sandbox.path}/network", {
            "mode": "allow-all", "egress": egress})

    # Load ---------------------------------------------------------------------------------------
    def inside(self, command):
        done = self.sandbox.run(command, user="root", timeout_ms=300_000)
        assert done["exit_code"] == 0, done
        return done["stdout"]

    @staticmethod
    def outside(command):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=MOST_SECONDS)
        assert done.returncode == 0, done
        return done.stdout

    def tcp(self, words, key):
        """{contestant: its values}, in rounds in which they take turns."""
        where = {"loopback": (self.outside, self.load, "127.0.0.1", TCP_PORT),
                 "direct": (self.outside, self.load, WEB, TCP_PORT),
                 "nginx": (self.outside, self.load, "127.0.0.1", STREAM),
                 "atoll": (self.inside, "/tmp/atoll-load", WEB, TCP_PORT)}
        values = {name: [] for name in where}
        for _ in range(ROUNDS):
            for name, (place, program, address, port) in where.items():
                what, *more = words
                line = place(" ".join([program, what, address, str(port), *map(str, more)]))
                values[name].append(json.loads(line)[key])
        return values

    def passthrough(self):
        """MiB/s of one TLS download that nobody opens."""
        curl = ("curl -sk -o /dev/null -w '%{{speed_download}}' --http1.1 "
                "--connect-to www.harbour.com:443:{0} https://www.harbour.com/large")
        where = {"loopback": (self.outside, f"127.0.0.1:{TLS_PORT}"),
                 "direct": (self.outside, f"{WEB}:{TLS_PORT}"),
                 "nginx": (self.outside, f"127.0.0.1:{TLS_STREAM}"),
                 "atoll": (self.inside, f"{WEB}:{TLS_PORT}")}
        values = {name: [] for name in where}
        for _ in range(ROUNDS):
            for name, (place, target) in where.items():
                values[name].append(float(place(curl.format(target))) / (1 << 20))
        return values

    def opened(self, version):
        """Requests per second with TLS opened and a header put in."""
        h2load = (f"{{0}} {'--h1' if version == 1 else ''} -c 16 -t 1 -n {{2}} --connect-to={{1}} "
                  "https://www.harbour.com/small")
        inside = "LD_LIBRARY_PATH=/tmp/lib /tmp/h2load"
        where = {"loopback": (self.outside, "h2load", "127.0.0.1:443", 8000),
                 "direct": (self.outside, "h2load", f"{WEB}:443", 8000),
                 "nginx": (self.outside, "h2load", f"127.0.0.1:{HTTP}", 8000),
                 "mitmproxy": (self.outside, "h2load", f"127.0.0.1:{MITM}", 400),
                 "atoll": (self.inside, inside, f"{WEB}:443", 8000)}
        values = {name: [] for name in where}
        for _ in range(ROUNDS):
            for name, (place, program, target, count) in where.items():
                command = h2load.format(program, target, count)
                text = place(command)
                good = re.search(r"(\d+) 2xx", text)
                rate = re.search(r"finished in [^,]*, ([0-9.]+) req/s", text)
                assert good and int(good.group(1)) == count, (name, text)
                values[name].append(float(rate.group(1)))
        return values

    def idle_memory(self):
        """KiB of the proxy for each of many connections that say nothing."""
        def resident(pid):
            return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
                       .group(1))

        def worker():
            return int(subprocess.run(["pgrep", "-P", str(self.nginx.pid)], capture_output=True,
                                      text=True).stdout.split()[0])

        result = {}
        api = self.server.daemons()["api"]
        before = resident(api)
        context = self.sandbox.start(["/tmp/atoll-load", "idle", WEB, str(TCP_PORT), str(IDLE)],
                                     user="root", timeout_ms=300_000)["id"]
        for event in self.sandbox.stream(context):
            if event["type"] == "output":
                break
        result["atoll"] = (resident(api) - before) / IDLE
        self.sandbox.client.call("DELETE", f"{self.sandbox.path}/contexts/{context}")
        before = resident(worker())
        process = subprocess.Popen([self.load, "idle", "127.0.0.1", str(STREAM), str(IDLE)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        readable, _, _ = select.select([process.stdout], [], [], MOST_SECONDS)
        assert readable and json.loads(process.stdout.readline())["open"] == IDLE
        result["nginx"] = (resident(worker()) - before) / IDLE
        process.stdin.close()
        process.wait(timeout=MOST_SECONDS)
        return {name: [value] for name, value in result.items()}

    def mitm_alive(self):
        return self.mitmproxy.poll() is None


def show(title, values, unit, better="more"):
    print(f"\n  {title}")
    for name, each in values.items():
        note = ""
        if name != "atoll" and better == "more":
            note = f"   atoll / it: {over(values, name).text()}"
        elif name != "atoll":
            note = f"   atoll - it: {stats.median(values['atoll']) - stats.median(each):+.3f} {unit}"
        print(f"    {name:10} {stats.median(each):12.3f} {unit}{note}")


def over(values, name):
    """How many times as much Atoll does as another one, if who has nothing in between was steady."""
    return stats.ratio(values["atoll"], values[name], values.get("loopback", values[name]))


def prepare():
    """What registries give has to be there before this process leaves the machine's network."""
    fetched(f"pypi-{MITMPROXY}", lambda directory: [
        "/usr/bin/python3", "-m", "pip", "install", "--quiet", "--target", directory,
        MITMPROXY.replace("-", "==")])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir")
    parser.add_argument("--json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    prepare()
    with World(watch_wire=False) as world, contextlib.ExitStack() as ends:
        bench = Bench(options.bin_dir, world, ends)
        look = {"name": "look", "protocol": "http", "domains": ["www.harbour.com"],
                "tlsMode": "terminate-reoriginate", "http": {"methods": {"denied": ["DELETE"]}}}
        results = {}
        print("bench: the network boundary; medians of "
              f"{ROUNDS} rounds, contestants taking turns")
        bench.policy()
        results["tcp MiB/s"] = bench.tcp(["download", DOWNLOAD_BYTES], "mib_per_second")
        show("plain TCP, one download", results["tcp MiB/s"], "MiB/s")
        results["tcp connect ms"] = bench.tcp(["connections", 400], "p50_ms")
        show("plain TCP: connect, a byte there and back, p50", results["tcp connect ms"], "ms",
             "less")
        results["tcp connections/s"] = bench.tcp(["rate", 3, 16], "per_second")
        show("plain TCP: connections per second, 16 at a time", results["tcp connections/s"], "/s")
        results["passthrough MiB/s"] = bench.passthrough()
        show("TLS that passes, one download", results["passthrough MiB/s"], "MiB/s")
        bench.policy(protocolRules=[look])
        for version in (1, 2):
            name = f"opened http/{version} req/s"
            results[name] = bench.opened(version)
            show(f"TLS opened, HTTP/{version}: requests per second, 16 connections", results[name],
                 "/s")
        bench.policy()
        results["idle KiB"] = bench.idle_memory()
        show(f"memory for each of {IDLE} idle connections", results["idle KiB"], "KiB", "less")
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
        bench.server.client.call("DELETE", bench.sandbox.path)


if __name__ == "__main__":
    main()
