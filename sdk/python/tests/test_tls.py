"""Over TLS: certificates are checked, and a local authority is given with ca_file."""
import subprocess

import pytest

from harness.server import BIN_DIR, Server

from atoll_sandbox import Client, ConnectionFailedError, Sandbox


def test_certificates_count(tmp_path, monkeypatch):
    subprocess.run([BIN_DIR / "atoll", "cert", "dev", "--dir", tmp_path / "cert"], check=True,
                   capture_output=True, timeout=60)
    files = {path.name: path for path in (tmp_path / "cert").iterdir()}
    options = ["--tls-cert", files["server.crt"], "--tls-key", files["server.key"]]
    with Server(extra=options) as server:
        url = server.url()
        assert url.startswith("https://")
        with Client(url, server.key, ca_file=str(files["ca.crt"])) as client:
            with Sandbox.create(client=client) as sandbox:
                assert sandbox.commands.run("echo safe").stdout == "safe\n"
        monkeypatch.setattr("atoll_sandbox._wire.RECONNECT_SECONDS", 0.1)
        with pytest.raises(ConnectionFailedError, match="(?i)certificate"):
            Sandbox.create(url=url, api_key=server.key)
