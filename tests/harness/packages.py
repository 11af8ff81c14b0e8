"""Packages of a registry, fetched by name into a cache outside the checkout and used again."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"),
                     "atoll-tests")


def fetched(name, install):
    """A directory of the cache, made by `install(directory)` when it is not there yet. Without a
    network the test is skipped: what cannot be had proves nothing either way."""
    found = CACHE / name
    if found.exists():
        return found
    CACHE.mkdir(parents=True, exist_ok=True)
    making = tempfile.mkdtemp(prefix=f"{name}-", dir=CACHE)
    done = subprocess.run(install(making), capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        shutil.rmtree(making)
        pytest.skip(f"the package registry gave no {name}: {done.stderr[-500:]}")
    try:
        os.rename(making, found)
    except OSError:  # somebody else was faster
        shutil.rmtree(making)
    return found
