"""What somebody gets who uses E2B's own JavaScript SDK: creation, code, forks, pauses; over plain HTTP
and over TLS, where the SDK speaks HTTP/2.

    e2b.py BIN_DIR [--rounds 200] [--json FILE]

One client process, one server, requests one after another where it does not say otherwise.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests" / "conformance")]

from e2b_releases import RELEASES  # noqa: E402
from harness.server import Server  # noqa: E402


def measure(server, place, rounds, authority=None):
    # A new server does not have it; where no archive is cached, it is made now.
    server.client.call("POST", "/api/v1/templates/code-interpreter-v1/pull", timeout=1200)
    environment = {**os.environ, "E2B_API_KEY": server.key.replace("atoll_", "e2b_"),
                   "E2B_API_URL": server.url(), "E2B_SANDBOX_URL": server.url()}
    if authority:
        environment["NODE_EXTRA_CA_CERTS"] = str(authority)
    done = subprocess.run(["node", place / "e2b.mjs", str(rounds)], env=environment,
                          stdout=subprocess.PIPE, text=True, timeout=1500)
    if done.returncode != 0:
        raise SystemExit(f"bench: the SDK failed; log of the server:\n{server.log()}")
    return json.loads(done.stdout)


def show(results):
    for transport, values in results.items():
        print(f"\n  {transport}")
        for name, value in values.items():
            print(f"    {name:40} p50 {value['p50']:9.1f} ms   p90 {value['p90']:9.1f} ms   "
                  f"p99 {value['p99']:9.1f} ms   "
                  f"({value['count']} times)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json")
    options = parser.parse_args()
    newest = RELEASES[0]
    packages = newest.installed()
    results = {}
    with contextlib.ExitStack() as ends:
        place = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="atoll-bench-")))
        shutil.copy(TOP / "bench" / "e2b.mjs", place)
        (place / "node_modules").symlink_to(packages / "node_modules")
        print(f"bench: the E2B SDK for JavaScript, e2b {newest.version}")
        with Server(bin_dir=options.bin_dir) as server:
            results["plain HTTP"] = measure(server, place, options.rounds)
        subprocess.run([pathlib.Path(options.bin_dir) / "atoll", "cert", "dev", "--dir", place,
                        "--name", "127.0.0.1"], check=True, capture_output=True)
        certificate = next(each for each in place.glob("*.crt") if each.name != "ca.crt")
        with Server(bin_dir=options.bin_dir, authority=place / "ca.crt", extra=[
                "--tls-cert", str(certificate), "--tls-key",
                str(certificate.with_suffix(".key"))]) as server:
            results["TLS and HTTP/2"] = measure(server, place, options.rounds, place / "ca.crt")
    show(results)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
