"""What the scripts share: checks that count themselves, and a sandbox that goes away.

The scripts are written for the asynchronous SDK. `run.py` takes the words `async` and `await` out
of them for the synchronous one, where `AsyncSandbox` is `Sandbox` and so on; where the two differ in
more than that, a script asks `SYNC`.

A check's name says what it is about as Class.method(option, option), with the names of the
synchronous SDK: the driver reads these names to see that no public method is forgotten.
"""
import asyncio
import contextlib
import importlib.metadata
import json
import os
import re
import sys
import time
import traceback

import e2b

SYNC = os.environ.get("E2B_MODE") == "sync"
VERSION = importlib.metadata.version("e2b")
WHOLE = os.environ.get("E2B_WHOLE") == "1"
API_URL = os.environ["E2B_API_URL"]
MODULES = [e2b]  # packages built on `e2b` add theirs
FIELDS = {"Commands": "commands", "Filesystem": "files", "Pty": "pty", "Git": "git"}
_passed = 0
_failed = 0


class NotApplicable(Exception):
    """Raise it in a check to leave the rest of it out."""


def since(version):
    def numbers(text):
        return [int(each) for each in text.split(".")]
    return numbers(VERSION) >= numbers(version)


def _note(check, outcome, reason):
    if path := os.environ.get("E2B_CHECKS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"check": check, "outcome": outcome, "reason": reason}) + "\n")


def _owner(name):
    for module in MODULES:
        if found := getattr(module, name if SYNC else f"Async{name}", getattr(module, name, None)):
            return found
    if name in FIELDS:
        field = getattr(e2b.Sandbox if SYNC else e2b.AsyncSandbox, FIELDS[name], None)
        # A property whose getter is annotated with the class.
        return getattr(field, "fget", None) and field.fget.__annotations__.get("return")
    return None


def _absent(name):
    for owner, method in re.findall(r"\b([A-Z]\w*)\.(\w+)", name):
        found = _owner(owner)
        if found is None and owner not in ("Volume", "Secret", "Git"):
            continue
        if not isinstance(found, str) and not hasattr(found, method):
            return f"{owner}.{method}"
    return None


async def check(name, body, since_version=None):
    """Runs a function; one that fails is told and does not stop the others."""
    global _passed, _failed
    absent = _absent(name)
    if absent or (since_version and not since(since_version)):
        _note(name, "not applicable",
              f"this version has no {absent}" if absent else f"needs {since_version}")
        return
    try:
        await body()
        _passed += 1
        _note(name, "passed", "")
    except NotApplicable as reason:
        _note(name, "not applicable", str(reason))
    except Exception as error:  # noqa: BLE001: any failure of the SDK or of an assertion counts
        _failed += 1
        _note(name, "failed", (str(error) or type(error).__name__).split("\n")[0])
        print(f"FAILED {name}: {traceback.format_exc()}", file=sys.stderr)


_cases = []


def case(name, since_version=None):
    """Marks a function that `run_cases` checks, in the order of the file."""
    def keep(body):
        _cases.append((name, body, since_version))
        return body
    return keep


async def run_cases(*arguments):
    for name, body, since_version in _cases:
        async def bound(body=body):
            await body(*arguments)
        await check(name, bound, since_version)


def finish():
    """The last line of every script."""
    print(f"{_passed} checks passed", flush=True)
    # What the SDK keeps running in the background does not hold up the end.
    os._exit(1 if _failed else 0)


@contextlib.asynccontextmanager
async def sandbox_of(template=None, of=e2b.AsyncSandbox, **options):
    options.setdefault("timeout", 300)
    sandbox = await of.create(template, **options)
    try:
        yield sandbox
    finally:
        await sandbox.kill()


@contextlib.contextmanager
def raises(kind, said=""):
    """The body must fail like this."""
    try:
        yield
    except kind as error:
        assert said in str(error), error
    else:
        raise AssertionError(f"it succeeded instead of {kind}")


async def until(condition, what, seconds=30):
    """Polls for a fact that nothing announces."""
    end = time.monotonic() + seconds
    while True:
        value = await condition()
        if value:
            return value
        assert time.monotonic() < end, f"still not so after {seconds} s: {what}"
        await asyncio.sleep(0.05)


def is_about(moment, seconds, slack=30):
    """That many seconds from now, `slack` more or less."""
    return abs(moment.timestamp() - time.time() - seconds) < slack
