"""The TypeScript SDK: built, checked and run against a real server.

Its own tests are in sdk/typescript/test (node:test). They run on a copy beside the build, so that
nothing is written into the source tree. The compiler comes from the npm registry, by the versions in
package-lock.json; without a network the tests are skipped, because they could not be built.
"""
import os
import pathlib
import shutil
import subprocess

import pytest

from harness.server import BIN_DIR, REPOSITORY

SOURCE = REPOSITORY / "sdk" / "typescript"
STAGE = BIN_DIR.parent / "sdk_typescript"
PACKAGE = STAGE / "sdk" / "typescript"
SUITES = sorted(path.name for path in (SOURCE / "test").glob("*.test.mjs"))


def run(command, seconds, **options):
    return subprocess.run(command, cwd=PACKAGE, text=True, timeout=seconds,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def install():
    """What package-lock.json names, unless it is there from an earlier run."""
    lock = PACKAGE / "package-lock.json"
    installed = PACKAGE / "node_modules" / ".installed"
    if installed.exists() and installed.read_bytes() == lock.read_bytes():
        return
    done = run(["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"], 300)
    if done.returncode != 0:
        pytest.skip(f"the npm registry cannot be reached: {done.stdout[-500:]}")
    shutil.copy(lock, installed)


@pytest.fixture(scope="session")
def package():
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    modules = PACKAGE / "node_modules"
    kept = STAGE / "node_modules"
    if modules.exists():
        modules.rename(kept)
    shutil.rmtree(PACKAGE, ignore_errors=True)
    shutil.copytree(SOURCE, PACKAGE,
                    ignore=shutil.ignore_patterns("node_modules", "dist", "LICENSE", "*.tgz"))
    if kept.exists():
        kept.rename(modules)
    # The package finds these two by their place in the repository.
    shutil.copytree(REPOSITORY / "api", STAGE / "api", dirs_exist_ok=True)
    shutil.copy(REPOSITORY / "LICENSE", STAGE)
    install()
    built = run(["npm", "run", "build"], 180)
    assert built.returncode == 0, built.stdout
    return PACKAGE


@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite, package, server):
    environment = {**os.environ, "ATOLL_URL": server.url(), "ATOLL_API_KEY": server.key}
    command = ["node", "--test", "--test-reporter=spec", pathlib.Path("test", suite)]
    try:
        done = run(command, 240, env=environment)
    except subprocess.TimeoutExpired as late:
        # The tests before the one that hangs, and what the server saw of it.
        pytest.fail(f"{(late.output or b'').decode()[-20000:]}\nserver:\n{server.log()}")
    assert done.returncode == 0, f"{done.stdout[-20000:]}\nserver:\n{server.log()}"


def test_nothing_is_left(package, server):
    assert server.client.list_ids() == []
