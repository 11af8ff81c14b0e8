"""What the scripts share: a client of the official SDK, and checks that count themselves."""
import datetime
import os
import sys
import traceback
from contextlib import contextmanager

from sandbox0 import APIError, Client
from sandbox0.apispec.models.sandbox_config import SandboxConfig

BASE_URL = os.environ["SANDBOX0_BASE_URL"]
client = Client(token=os.environ["SANDBOX0_TOKEN"], base_url=BASE_URL, timeout=60)
_checks = []


def check(what):
    """Runs a function at once; one that fails is told and does not stop the others."""
    def run(body):
        try:
            body()
            _checks.append(True)
        except Exception:  # noqa: BLE001: any failure of the SDK or of an assertion counts
            _checks.append(False)
            print(f"FAILED {what}: {traceback.format_exc()}", file=sys.stderr)
    return run


def finish():
    """The last line of every script."""
    print(f"{sum(_checks)} checks passed")
    client.close()
    sys.exit(0 if all(_checks) else 1)


@contextmanager
def sandbox_of(template="default", **config):
    config.setdefault("hard_ttl", 600)
    with client.sandboxes.open(template, config=SandboxConfig.from_dict(config)) as sandbox:
        yield sandbox


@contextmanager
def refused(status, code=None, said=""):
    """The body must raise an APIError of this kind. Where the SDK knows no error but 401 for a
    route, it keeps the whole answer as the message instead of decoding it: `said` is in there."""
    try:
        yield
    except APIError as error:
        assert error.status_code == status, error
        assert code is None or error.code == code, error
        assert error.message and said in error.message, error
    else:
        raise AssertionError(f"it succeeded instead of {status} {code}")


def is_about(moment, seconds):
    """That many seconds from now, a minute more or less."""
    left = (moment - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    return abs(left - seconds) < 60


def heard(stream):
    """All output of a stream by source, until the process has ended."""
    pieces = {}
    for output in stream.iter_outputs():
        pieces.setdefault(output.source, []).append(output.data)
    return {source: "".join(each) for source, each in pieces.items()}


class Reader:
    """Reads outputs until their text contains what is wanted; the rest stays for the next call."""

    def __init__(self, stream):
        self.outputs = stream.iter_outputs()
        self.text = ""

    def until(self, wanted):
        while wanted not in self.text:
            self.text += next(self.outputs).data
        self.text = self.text[self.text.index(wanted) + len(wanted):]
