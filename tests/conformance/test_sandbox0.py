"""The official Sandbox0 SDKs, unmodified, against a real server.

Each script in sandbox0/<language>/ drives one area through an SDK and prints how many checks
passed; the counts end the test run. The packages are fetched by name into a cache outside the
checkout and used again; without a network (and without the cache) the test is skipped, because a
client that cannot be had proves nothing either way.
"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness.images import CONFIG, Registry, busybox_layers, write_layout
from harness.packages import fetched

SCRIPTS = pathlib.Path(__file__).resolve().parent / "sandbox0"
AREAS = sorted((path.parent.name, path.stem) for path in SCRIPTS.glob("*/*.*")
               if path.suffix in (".mjs", ".py") and path.stem != "support")
COUNTS = pytest.StashKey()


@pytest.fixture(scope="module")
def javascript(tmp_path_factory):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    package = fetched("npm-sandbox0-0.9.5", lambda directory: [
        "npm", "install", "--no-audit", "--no-fund", "--prefix", directory, "sandbox0@0.9.5"])
    # A module finds packages beside itself only.
    place = tmp_path_factory.mktemp("javascript")
    shutil.copytree(SCRIPTS / "javascript", place, dirs_exist_ok=True)
    (place / "node_modules").symlink_to(package / "node_modules")
    return lambda area: (["node", place / f"{area}.mjs"], {})


@pytest.fixture(scope="module")
def python():
    def package(area):
        # 0.9.7 is the newest one that has volumes.
        version = "0.9.7" if area == "volumes" else "0.10.4"
        return fetched(f"pypi-sandbox0-{version}", lambda directory: [
            "/usr/bin/python3", "-m", "pip", "install", "--quiet", "--target", directory,
            f"sandbox0=={version}"])
    return lambda area: (["/usr/bin/python3", SCRIPTS / "python" / f"{area}.py"],
                         {"PYTHONPATH": str(package(area))})


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A small image in a registry on loopback."""
    layout = write_layout(tmp_path_factory.mktemp("image") / "layout", busybox_layers(), CONFIG)
    registry = Registry(tmp_path_factory.mktemp("registry"))
    try:
        registry.push(layout, "conformance:1")
        yield registry.reference("conformance:1")
    finally:
        registry.stop()


@pytest.mark.parametrize("language, area", AREAS)
def test_official_sdk(language, area, client, request):
    command, extra = request.getfixturevalue(language)(area)
    environment = {**os.environ, **extra, "SANDBOX0_TOKEN": client.key,
                   "SANDBOX0_BASE_URL": f"http://{client.host}:{client.port}"}
    if area == "templates":
        environment["SANDBOX0_IMAGE"] = request.getfixturevalue("image")
    before = set(client.list_ids())
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
        count = re.fullmatch(r"(\d+) checks passed\n", done.stdout)
        assert done.returncode == 0 and count, done.stdout + done.stderr
        request.config.stash[COUNTS].append((language, area, int(count.group(1))))
    finally:
        for sandbox in set(client.list_ids()) - before:
            client.call("DELETE", f"/api/v1/sandboxes/{sandbox}")
