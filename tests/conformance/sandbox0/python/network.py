"""Network policies and credential sources: written, bound, replaced, deleted."""
from sandbox0.apispec.models.credential_source_write_request import CredentialSourceWriteRequest
from sandbox0.apispec.models.sandbox_network_policy import SandboxNetworkPolicy

from support import check, client, finish, refused, sandbox_of

NAME = "conformance-python"


def request(token):
    return CredentialSourceWriteRequest.from_dict({
        "name": NAME, "resolverKind": "static_headers",
        "spec": {"staticHeaders": {"values": {"token": token}}}})


POLICY = {
    "mode": "block-all",
    "egress": {
        "trafficRules": [{"name": "api", "action": "allow", "domains": ["api.example"],
                          "ports": [{"port": 443, "protocol": "tcp"}]}],
        "credentialRules": [{"credentialRef": "gh", "protocol": "https",
                             "tlsMode": "terminate-reoriginate", "domains": ["api.example"],
                             "httpMatch": {"methods": ["GET"], "pathPrefixes": ["/repos/"]}}],
        "protocolRules": [{"protocol": "mcp", "domains": ["mcp.example"],
                           "tlsMode": "terminate-reoriginate",
                           "mcp": {"tools": {"denied": ["delete_repo"]}}}]},
    "credentialBindings": [{"ref": "gh", "sourceRef": NAME, "projection": {
        "type": "http_headers", "httpHeaders": {"headers": [
            {"name": "Authorization", "valueTemplate": "Bearer {{ .token }}"}]}}}],
}

try:
    @check("make, read, list")
    def _():
        made = client.create_credential_source(request("secret"))
        assert (made.name, made.current_version) == (NAME, 1), made
        assert client.get_credential_source(NAME).resolver_kind == "static_headers"
        assert NAME in [each.name for each in client.list_credential_sources()]
        with refused(409):
            client.create_credential_source(request("secret"))

    @check("a new version")
    def _():
        assert client.update_credential_source(NAME, request("next")).current_version == 2

    @check("policies of sandboxes")
    def _():
        with sandbox_of() as sandbox:
            assert sandbox.get_network_policy().mode == "allow-all"
            policy = sandbox.update_network_policy(SandboxNetworkPolicy.from_dict(POLICY))
            assert policy.mode == "block-all"
            found = sandbox.get_network_policy().to_dict()
            assert found["credentialBindings"][0]["sourceRef"] == NAME
            assert found["egress"]["protocolRules"][0]["mcp"]["tools"]["denied"] == ["delete_repo"]
            with refused(409):
                client.delete_credential_source(NAME)
            # What was left out of from_dict this SDK sends as an empty list, which clears.
            sandbox.update_network_policy(SandboxNetworkPolicy.from_dict({"mode": "allow-all"}))
            assert not sandbox.get_network_policy().to_dict().get("credentialBindings")

    @check("a policy of the claim")
    def _():
        with sandbox_of(network={"mode": "block-all"}) as sandbox:
            assert sandbox.get_network_policy().mode == "block-all"
finally:
    @check("delete")
    def _():
        client.delete_credential_source(NAME)
        with refused(404):
            client.get_credential_source(NAME)

finish()
