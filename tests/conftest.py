"""Fixtures for the tests that run the shipped binaries.

One server serves a whole test run; what kills or restarts a server starts its own. A test that
fails still leaves nothing: sandboxes are deleted by their factory, servers by their own `stop`.
"""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness.contract import contract  # noqa: E402
from harness.server import ENVIRONMENT_SECRET, Server  # noqa: E402


def pytest_terminal_summary(terminalreporter):
    """How much of the contract this run has seen working."""
    everything = {operation["operationId"] for _, _, operation in contract().operations()}
    seen = contract().seen
    if seen:
        missing = sorted(everything - seen)
        terminalreporter.write_line(
            f"contract: {len(seen)} of {len(everything)} operations answered with success"
            + (f"; not: {', '.join(missing)}" if 0 < len(missing) <= 10 else ""))


@pytest.fixture(scope="session")
def server():
    os.environ["ATOLL_TEST_ENVIRONMENT_SECRET"] = ENVIRONMENT_SECRET
    running = Server()
    with running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    return server.client


@pytest.fixture
def create(client):
    """Creates sandboxes that live as long as the test."""
    made = []

    def make(**options):
        sandbox = client.create(**options)
        made.append(sandbox)
        return sandbox

    yield make
    for sandbox in made:
        client.call("DELETE", sandbox.path)


@pytest.fixture(scope="module")
def sandbox(client):
    """One sandbox shared by the tests of a file that do not disturb it."""
    shared = client.create()
    yield shared
    client.call("DELETE", shared.path)


@pytest.fixture
def create_volume(client):
    """Volumes that live as long as the test; put before `create`, they go after its sandboxes."""
    made = []

    def make(**body):
        volume = client.create_volume(**body)
        made.append(volume)
        return volume

    yield make
    for volume in made:
        client.call("DELETE", f"{volume.path}?force=true")
