"""Fixtures of the SDK's tests: a real server, and the environment that points to it."""
import os
import pathlib
import sys

import pytest

SDK = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = SDK.parents[1]
sys.path[:0] = [str(SDK), str(REPOSITORY / "tests")]

from harness.server import Server  # noqa: E402

from atoll_sandbox import Sandbox  # noqa: E402


@pytest.fixture(scope="session")
def server():
    os.environ.pop("ATOLL_URL", None)
    with Server() as running:
        os.environ["ATOLL_API_URL"] = running.url()
        os.environ["ATOLL_API_KEY"] = running.key
        yield running


@pytest.fixture(scope="module")
def sandbox(server):
    """One for the tests of a file that do not disturb it."""
    with Sandbox.create() as shared:
        yield shared
