"""One large file through the API and through E2B's, taking turns with what else moves bytes here.

The peers: cat through a pipe, which copies every byte twice and touches no disk (it also tells how
quiet the machine was), nginx with sendfile to the same client, and cp, whose disk is that of the
uploads. Times are of the whole client program, as a user sees them. Downloads go to /dev/null, so that
the disk of the client is not in them. Beside the times: the processor time of the API process, which
carries all requests of everybody on one thread, and its system calls, counted in a transfer of their
own because counting slows it down. What comes back is compared with what was sent.
"""
import contextlib
import os
import re
import shutil
import socket
import subprocess
import time

from harness.e2b_wire import ENVD_PORT, E2bClient
from suite import host, stats
from suite.client import Failed
from suite.tables import table

TITLE = "One large file"
ROUNDS = 6
MOST_SECONDS = 900
COUNTED_MIB = 64
PIPE, COPY, NGINX = "cat through a pipe", "cp on the host", "download from nginx, sendfile"
INSIDE = "cp in the sandbox"


# What was tried, with the figures that decided it: 512 MiB on two cores, processor seconds of all
# processes that are ours, the same program in the same run (copied / spliced / passed).
NOTES = [
    "Downloads: the guest passes the open file and the API process calls sendfile on a thread "
    "(io/file_sender.h). When the bytes went through the guest, a unix socket and the loop (four "
    "copies), a GiB took the loop 0.34 s and 12 system calls per MiB; now it takes 0.1 s of other "
    "threads and 3.5 calls. From 64 KiB on that is also sooner than the bytes are.",
    "Tried and left out, for downloads: splicing the guest's socket into the client's, which needs "
    "no descriptor of a sandbox. 512 MiB cost guest and API 0.13 to 0.17 s of processor time; copied "
    "0.22 s, passed 0.04 s.",
    "Tried and left out, for uploads: splicing the client's socket through a pipe into the guest's and "
    "from there into the file. 512 MiB cost 0.39 to 0.60 s of processor time for client, API and guest, "
    "copied 0.57 to 0.65 s, and took as long: the disk is what is waited for. The pages of a client's "
    "packets would lie in a socket of the sandbox that counts their bytes and not their pages. A socket "
    "buffer for whole pieces brought the system calls from 18.6 to 9 per MiB instead.",
]


class Transfers:
    """A sandbox, a file in it, and the commands that move it."""

    def __init__(self, place, source):
        server = place.server
        e2b = E2bClient(server)
        made = e2b.expect(201, "POST", "/sandboxes", {"templateID": "base", "timeout": 3600,
                                                      "secure": True}).json
        self.id, self.server = made["sandboxID"], server
        self.path = f"/api/v1/sandboxes/{self.id}"
        self.source = source
        self.native = self.curl(f"{server.url()}{self.path}/files?path=/tmp/bench&user=root",
                                {"Authorization": f"Bearer {server.key}"})
        self.e2b = self.curl(f"{server.url()}/files?path=/tmp/bench&username=root", {
            "E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(ENVD_PORT),
            "X-Access-Token": made["envdAccessToken"]})

    @staticmethod
    def curl(url, headers):
        named = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
        return ["curl", "-sSf", "--max-time", str(MOST_SECONDS), *named, "-H", "Expect:", url]

    def upload(self, curl, source=None):
        return [*curl, "-X", "POST", "-T", source or self.source, "-o", os.devnull, "-H",
                "Content-Type: application/octet-stream"]

    @staticmethod
    def download(curl, target=os.devnull):
        return [*curl, "-o", target]

    def inside(self, command):
        done = self.server.client.call("POST", f"{self.path}/contexts", {
            "type": "cmd", "wait_until_done": True, "user": "root",
            "cmd": {"command": ["sh", "-c", command]}}, timeout=MOST_SECONDS).json["data"]
        if done["exit_code"] != 0:
            raise Failed(f"{command} in the sandbox: {done['stderr']}")

    def steps(self):
        """{name: command, or words for a shell in the sandbox}"""
        return {"upload": self.upload(self.native), "upload, E2B": self.upload(self.e2b),
                "download": self.download(self.native), "download, E2B": self.download(self.e2b)}


@contextlib.contextmanager
def nginx(place, source):
    """The URL of the file at an nginx that uses sendfile, or None where there is none."""
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None:
        yield None
        return
    work = place.work / "nginx"
    work.mkdir(exist_ok=True)
    os.chmod(work, 0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    configuration = work / "nginx.conf"
    temporary = "".join(f"{kind}_temp_path {work}/{kind}; " for kind in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    configuration.write_text(
        f"daemon off; worker_processes 1; pid {work}/pid; error_log {work}/log; user root; "
        f"events {{}} http {{ access_log off; sendfile on; {temporary}"
        f"server {{ listen 127.0.0.1:{port}; root {source.parent}; }} }}")
    process = subprocess.Popen([program, "-p", str(work), "-c", str(configuration)],
                               stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}/{source.name}" if answers(process, port) else None
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(process, port):
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            return True
        time.sleep(0.02)
    return False


def run(command):
    subprocess.run(command, check=True, timeout=MOST_SECONDS, stdin=subprocess.DEVNULL)


def count_calls(pid, command):
    """System calls of a process while a command runs; None without strace."""
    if shutil.which("strace") is None:
        return None
    counter = subprocess.Popen(["strace", "-f", "-c", "-qq", "-p", str(pid)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(0.5)  # strace does not say when it has attached
        run(command)
    finally:
        counter.terminate()
        try:
            _, told = counter.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            counter.kill()  # it must not stay attached to the server
            counter.communicate()
            raise
    total = re.search(r"^100\.00 +[\d.]+ +\d+ +(\d+) .*total$", told, re.MULTILINE)
    return int(total.group(1)) if total else None


def take_turns(place, transfers, steps, api):
    """{name: [seconds]}, and the processor seconds of the API process."""
    seconds = {name: [] for name in steps}
    spent = {name: [] for name in steps}
    copy = str(place.work / "copy")
    for turn in range(ROUNDS + 1):  # the first one warms up
        for name, command in steps.items():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(copy)
            if name == INSIDE:
                transfers.inside("rm -f /tmp/copy")
            if name in (COPY, INSIDE) or name.startswith("upload"):
                os.sync()  # what others left to be written is not ours to wait for
            cpu, begin = host.cpu_seconds(api), time.monotonic()
            run(command) if isinstance(command, list) else transfers.inside(command)
            if turn > 0:
                seconds[name].append(time.monotonic() - begin)
                spent[name].append(host.cpu_seconds(api) - cpu)
    return seconds, spent


def counted(place, transfers, api):
    """System calls of the API process for each MiB, by step."""
    small = place.work / "counted"
    run(["dd", "if=/dev/urandom", f"of={small}", "bs=1M", f"count={COUNTED_MIB}", "status=none"])
    found = {}
    for name, curl in (("", transfers.native), (", E2B", transfers.e2b)):
        for kind, command in (("upload", transfers.upload(curl, str(small))),
                              ("download", transfers.download(curl))):
            calls = count_calls(api, command)
            if calls is not None:
                found[kind + name] = round(calls / COUNTED_MIB, 1)
    small.unlink()
    return found


def measure(place):
    place.start_server()
    mebibytes = place.options.file_mib
    source, copy = place.work / "source", str(place.work / "copy")
    run(["dd", "if=/dev/urandom", f"of={source}", "bs=1M", f"count={mebibytes}", "status=none"])
    api = place.server.daemons()["api"]
    transfers = Transfers(place, str(source))
    with nginx(place, source) as url:
        steps = {PIPE: ["sh", "-c", f"cat {source} | cat > /dev/null"],
                 COPY: ["cp", "--reflink=never", str(source), copy], **transfers.steps(),
                 INSIDE: "cp --reflink=never /tmp/bench /tmp/copy"}
        if url:
            steps[NGINX] = ["curl", "-sSf", "--max-time", str(MOST_SECONDS), "-o", os.devnull, url]
        seconds, spent = take_turns(place, transfers, steps, api)
    run(transfers.download(transfers.native, copy))
    run(["cmp", str(source), copy])
    calls = counted(place, transfers, api)
    for path in (source, copy):
        os.unlink(path)
    rows, figures = [], {}
    for name, each in seconds.items():
        told = stats.summary([1e6 * one for one in each])
        relation = stats.ratio(each, seconds[PIPE], seconds[PIPE])
        middle = stats.median(each)
        ours = name in transfers.steps()
        figures[name] = {**told, "mib_per_s": round(mebibytes / middle),
                         "over_pipe": relation.json()}
        if ours:
            figures[name] |= {"api_cpu_s_per_gib": round(
                stats.median(spent[name]) * 1024 / mebibytes, 3),
                "api_calls_per_mib": calls.get(name)}
        if NGINX in seconds and name.startswith("download"):
            figures[name]["over_nginx"] = stats.ratio(each, seconds[NGINX], seconds[PIPE]).json()
        rows.append([name, *(f"{told[key] / 1e3:.2f}" for key in ("p50_ms", "p90_ms", "p99_ms",
                                                                  "min_ms")), told["spread"],
                     f"{mebibytes / middle:.0f}",
                     f"{figures[name]['api_cpu_s_per_gib']:.2f}" if ours else "",
                     calls.get(name, "") if ours else "",
                     "1" if name == PIPE else relation.text()])
    return {"tables": [table(f"{mebibytes} MiB, {ROUNDS} rounds", [
        "", "p50 s", "p90 s", "p99 s", "min s", "spread", "MiB/s", "API: processor s per GiB",
        "API: system calls per MiB", f"p50 / {PIPE}"], rows)], "figures": figures, "notes": NOTES}
