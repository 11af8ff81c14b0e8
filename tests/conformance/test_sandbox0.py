"""The official Sandbox0 SDK, unmodified, against a real server.

It is fetched from its registry into a temporary directory; without a network the test is skipped,
because a client that cannot be had proves nothing either way.
"""
import os
import pathlib
import shutil
import subprocess

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parent / "sandbox0"


def fetch(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    if done.returncode != 0:
        pytest.skip(f"{command[0]} could not fetch the SDK: {done.stderr[-500:]}")


def environment(client):
    return {**os.environ, "SANDBOX0_TOKEN": client.key,
            "SANDBOX0_BASE_URL": f"http://{client.host}:{client.port}"}


def run(command, client, **options):
    done = subprocess.run(command, env=environment(client), capture_output=True, text=True,
                          timeout=120, **options)
    assert done.returncode == 0 and done.stdout == "conforms\n", done.stdout + done.stderr


def test_javascript_sdk(client, tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    fetch(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path),
           "sandbox0@0.9.5"])
    script = shutil.copy(SCRIPTS / "quickstart.mjs", tmp_path)
    run(["node", script], client, cwd=tmp_path)
