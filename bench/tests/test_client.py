"""The client ends what hangs: a server that never answers, a program that never ends."""
import os
import pathlib
import socket

import pytest

from suite.client import Client, Failed, step

BIN_DIR = pathlib.Path(os.environ.get("ATOLL_BIN_DIR", pathlib.Path(__file__).parents[2]
                                      / "build" / "bin"))


@pytest.fixture
def client():
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts by its backlog, says nothing
        made = Client(BIN_DIR, f"http://127.0.0.1:{listener.getsockname()[1]}", "key")
        made.silence_ms = 200
        yield made


@pytest.mark.parametrize("when", ["setup", "timed", "after", "teardown"])
def test_a_server_that_says_nothing(client, when):
    ask = [step("GET", "/")]
    plan = {"name": "silent", "url": client.url, "command": ["/bin/true"] if when != "timed" else [],
            "timed": [], when: ask}
    with pytest.raises(Failed, match="hangs"):
        client.run([plan], rounds=500, workers=2)


@pytest.mark.parametrize("script", ["sleep 600", "exec >/dev/null; sleep 600"])
def test_a_program_that_does_not_end(client, script):
    with pytest.raises(Failed, match="did nothing"):
        client.run([{"name": "stuck", "command": ["/bin/sh", "-c", script]}], rounds=500)


def test_a_floor_that_does_not_answer(client):
    with pytest.raises(Failed, match="did nothing"):
        client.run([{"name": "stuck", "floor": ["/bin/sleep", "600"]}], rounds=500)


def test_what_works_is_measured(client):
    series = client.run([{"name": "true", "command": ["/bin/true"]}], rounds=3)["true"]
    assert len(series.us) == 3 and series.failures == 0 and series.rated
