"""Network policies and credentials through the SDK."""
import pytest

from atoll_sandbox import Client, ConflictError, InvalidRequestError, NotFoundError, Sandbox


def policy(source):
    return {"mode": "block-all",
            "egress": {"credentialRules": [{
                "credentialRef": "r", "protocol": "https", "domains": ["api.example"],
                "tlsMode": "terminate-reoriginate"}]},
            "credentialBindings": [{"ref": "r", "sourceRef": source, "projection": {
                "type": "http_headers", "httpHeaders": {"headers": [
                    {"name": "Authorization", "valueTemplate": "Bearer {{ .token }}"}]}}}]}


def test_network_and_credentials(server):
    client = Client()
    made = client.credentials.create("sdk-python", {"token": "secret"})
    try:
        assert (made.name, made.current_version, made.status) == ("sdk-python", 1, "active")
        assert client.credentials.rotate("sdk-python", {"token": "next"}).current_version == 2
        assert client.credentials.get("sdk-python").resolver_kind == "static_headers"
        assert "sdk-python" in [each.name for each in client.credentials.list()]
        with Sandbox.create(client=client, network=policy("sdk-python")) as sandbox:
            assert sandbox.network()["mode"] == "block-all"
            with pytest.raises(ConflictError):
                client.credentials.delete("sdk-python")
            with pytest.raises(InvalidRequestError, match="network.mode"):
                sandbox.set_network({"mode": "maybe"})
            answer = sandbox.set_network({"mode": "allow-all", "credentialBindings": []})
            assert answer == sandbox.network() == {"mode": "allow-all"}
    finally:
        client.credentials.delete("sdk-python")
    with pytest.raises(NotFoundError):
        client.credentials.get("sdk-python")
