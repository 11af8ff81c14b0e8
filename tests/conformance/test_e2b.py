"""The official E2B SDKs, unmodified, against a real server.

Each script in e2b/<language>/ drives one area through the packages of a release (e2b_releases.py)
and writes down every check: passed, failed, or not applicable to that version and why. The packages
are fetched by name into a cache outside the checkout and used again; without a network (and without
the cache) the test is skipped, because a client that cannot be had proves nothing either way.

`make test` tries the newest releases and an old one; `make conformance` all of them, in full size,
and writes docs/conformance.md. One area: `pytest tests/conformance/test_e2b.py -k "js-2.51 and files"`.
"""
import contextlib
import json
import os
import re
import shutil
import subprocess

import pytest

from e2b_releases import RELEASES, SCRIPTS, WHOLE, areas
from harness.images import CONFIG, Registry, busybox_layers, write_layout
from harness.server import Server

# What an area may take; the others are done in a fraction of that.
LIMIT_SECONDS = 1800 if WHOLE else 600
CHECKS = pytest.StashKey()
# Areas that take long and are the same for every release: `make test` tries the newest alone.
ONCE = {"charts", "cli_sandboxes", "cli_templates", "concurrency", "desktop", "git", "large",
        "templates"}
# Builtin templates that an area needs and a new server does not have: made once per machine.
TEMPLATE_OF_AREA = {"interpreter": "code-interpreter-v1", "charts": "code-interpreter-v1",
                    "desktop": "desktop"}
TEMPLATE_SECONDS = 1200


def is_first(release, mode):
    same = [each for each in RELEASES if each.language == release.language]
    return release is same[0] and mode == release.modes[0]


def cases():
    for release in RELEASES:
        if not (WHOLE or release.quick):
            continue
        for mode in release.modes:
            for area in areas(release.language):
                if area in ONCE and not WHOLE and not is_first(release, mode):
                    continue
                if release.package(area) is not None:
                    name = "-".join(filter(None, (str(release), mode, area)))
                    yield pytest.param(release, mode, area, id=name)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Where the JavaScript of a release is: a module finds packages beside itself only."""
    made = {}

    def place(release):
        if release not in made:
            packages = release.installed()
            made[release] = tmp_path_factory.mktemp(str(release))
            shutil.copytree(SCRIPTS / "javascript", made[release], dirs_exist_ok=True)
            (made[release] / "node_modules").symlink_to(packages / "node_modules")
        return made[release]
    return place


@pytest.fixture(scope="module")
def pulled(e2b_server):
    """Brings a builtin template, which takes minutes where no archive of it is cached."""
    client, made = e2b_server.client, set()

    def pull(name):
        if name is not None and name not in made:
            client.call("POST", f"/api/v1/templates/{name}/pull", timeout=TEMPLATE_SECONDS)
            made.add(name)
    return pull


def command(release, mode, area, places):
    if release.language == "javascript":
        return ["node", places(release) / f"{area}.mjs"], {}
    return (["/usr/bin/python3", SCRIPTS / "python" / "run.py", mode, area],
            {"PYTHONPATH": str(release.installed()), "PYTHONDONTWRITEBYTECODE": "1"})


@pytest.fixture(scope="module")
def e2b_server():
    """Sandboxes have names of hosts below a domain, which nothing here resolves."""
    with Server(extra=["--domain", "sandboxes.test"]) as running:
        yield running


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A small image in a registry on loopback, and in another one that wants a password."""
    password = "a word of the registry"
    layout = write_layout(tmp_path_factory.mktemp("image") / "layout", busybox_layers(), CONFIG)
    with contextlib.ExitStack() as ends:
        registry = Registry(tmp_path_factory.mktemp("registry"))
        ends.callback(registry.stop)
        registry.push(layout, "conformance:1")
        private = Registry(tmp_path_factory.mktemp("private"), password)
        ends.callback(private.stop)
        private.push(layout, "conformance:1", f"someone:{password}")
        yield {"E2B_IMAGE": registry.reference("conformance:1"),
               "E2B_PRIVATE_IMAGE": private.reference("conformance:1"),
               "E2B_REGISTRY_LOGIN": f"someone:{password}"}


def environment(server):
    """What somebody sets who has a server on plain HTTP."""
    return {"E2B_API_KEY": server.key.replace("atoll_", "e2b_"), "E2B_API_URL": server.url(),
            "E2B_SANDBOX_URL": server.url(), "E2B_VOLUME_API_URL": server.url()}


def read_checks(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("release, mode, area", cases())
def test_e2b(release, mode, area, e2b_server, places, pulled, tmp_path, request):
    client = e2b_server.client
    pulled(TEMPLATE_OF_AREA.get(area))
    words, extra = command(release, mode, area, places)
    path = tmp_path / "checks"
    settings = {**os.environ, **environment(e2b_server), **extra, "E2B_CHECKS": str(path),
                # Large things are the server's matter: one release is enough for their full size.
                "E2B_WHOLE": "1" if WHOLE and release == RELEASES[0] else "0"}
    if area.endswith("templates"):
        settings.update(request.getfixturevalue("images"))
    before = set(client.list_ids())
    try:
        try:
            done = subprocess.run(words, env=settings, capture_output=True, text=True,
                                  timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(words, 1, "",
                                               f"it did not end within {LIMIT_SECONDS} s")
        checks = read_checks(path)
        ended = re.search(r"^(\d+) checks passed$", done.stdout, re.MULTILINE)
        if not ended:
            checks.append({"check": f"the script {area} to its end", "outcome": "failed",
                           "reason": (done.stderr.strip() or "no words").splitlines()[-1]})
        request.config.stash[CHECKS].append((release, mode, area, checks))
        failed = [each for each in checks if each["outcome"] == "failed"]
        assert done.returncode == 0 and ended and not failed, done.stdout + done.stderr
    finally:
        for sandbox in set(client.list_ids()) - before:
            client.call("DELETE", f"/api/v1/sandboxes/{sandbox}")
