"""The contract against the specification of OpenAPI 3.1, by a validator of others.

It is fetched from its registry into a temporary directory; without a network the test is skipped.
"""
import pathlib
import subprocess
import sys

import pytest

FILE = pathlib.Path(__file__).resolve().parents[2] / "api" / "openapi.yaml"


def test_contract_is_valid_openapi(tmp_path):
    venv = tmp_path / "venv"
    steps = [[sys.executable, "-m", "venv", str(venv)],
             [venv / "bin" / "pip", "install", "-q", "openapi-spec-validator==0.7.1"]]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip(f"the validator could not be fetched: {done.stdout[-300:]}"
                        f"{done.stderr[-500:]}")
    done = subprocess.run([venv / "bin" / "openapi-spec-validator", "--schema", "3.1", str(FILE)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "OK" in done.stdout, done.stdout + done.stderr
