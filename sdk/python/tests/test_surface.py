"""What needs no server: both surfaces match, generated files are current, types and wheel."""
import inspect
import pathlib
import subprocess
import sys
import zipfile

import pytest

import atoll_sandbox
from atoll_sandbox._async import audit, client, commands, contexts, files, process, sandbox, services, \
    state, templates, terminals, volumes

SDK = pathlib.Path(__file__).resolve().parents[1]


def public_methods(cls):
    return {name: member for name, member in inspect.getmembers(cls)
            if not name.startswith("_") and callable(member)}


@pytest.mark.parametrize("module", [audit, client, commands, contexts, files, process, sandbox, services, state,
                                    templates, terminals, volumes])
def test_sync_and_async_have_the_same_surface(module):
    other = __import__(module.__name__.replace("_async", "_sync"), fromlist=["x"])
    for name, cls in inspect.getmembers(module, inspect.isclass):
        if cls.__module__ != module.__name__:
            continue
        twin = getattr(other, name.removeprefix("Async"))
        ours, theirs = public_methods(cls), public_methods(twin)
        assert ours.keys() == theirs.keys()
        for method in ours:
            assert list(inspect.signature(ours[method]).parameters) == \
                list(inspect.signature(theirs[method]).parameters), f"{name}.{method}"
            assert ours[method].__doc__ is None or theirs[method].__doc__
            assert not inspect.iscoroutinefunction(theirs[method])


@pytest.mark.parametrize("tool", ["generate_models", "generate_sync"])
def test_generated_files_are_current(tool):
    subprocess.run([sys.executable, SDK / "tools" / tool, "--check"], check=True)


def test_exports_exist():
    for name in atoll_sandbox.__all__:
        assert hasattr(atoll_sandbox, name)


def test_types_are_strict():
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", "--cache-dir=/dev/null", "--strict",
         "atoll_sandbox", "tests/typed_usage.py"], cwd=SDK, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wheel_builds_and_imports(tmp_path):
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    # Debian's hatchling lacks a package that only editable installs need.
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check",
                    "--wheel", "--outdir", str(tmp_path), str(SDK)],
                   check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("atoll_sandbox-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert "atoll_sandbox/py.typed" in names and not any("tests" in name for name in names)
        archive.extractall(tmp_path / "site")
    subprocess.run([sys.executable, "-c", "import atoll_sandbox; atoll_sandbox.Sandbox.create"],
                   check=True, cwd=tmp_path / "site", env={"PYTHONPATH": str(tmp_path / "site")})
