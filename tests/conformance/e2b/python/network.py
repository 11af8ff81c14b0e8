"""The network of a sandbox: what it may reach, what it says of it, and who reaches it. What really
leaves is looked at from the other side of a cable, in tests/boundary; here no packet leaves."""
from e2b import ALL_TRAFFIC, AsyncSandbox
from support import case, raises, run_cases, sandbox_of

NOWHERE = "192.0.2.1"  # for documentation: nobody is there


async def refused(sandbox):
    """Nobody answers. Connecting proves nothing: the boundary takes every connection, and judges."""
    result = await sandbox.commands.run(
        f"timeout 3 bash -c 'exec 3<>/dev/tcp/{NOWHERE}/80 && echo hello >&3 && head -c 1 <&3' "
        "2>/dev/null | wc -c")
    return result.stdout.strip() == "0"


@case("Sandbox.create(allow_internet_access): none at all")
async def _():
    async with sandbox_of(allow_internet_access=False) as sandbox:
        assert (await sandbox.get_info()).allow_internet_access is False
        assert await refused(sandbox)


@case("Sandbox.create(network): allow_out and deny_out, rules, public traffic", "2.45.0")
async def _():
    async with sandbox_of(network={
            "deny_out": [ALL_TRAFFIC], "allow_out": ["198.51.100.0/24", "api.example.com"],
            "allow_public_traffic": False, "rules": {"api.example.com": [
                {"transform": {"headers": {"Authorization": "Bearer a-hidden-value"}}}]}}) as sandbox:
        network = (await sandbox.get_info()).network
        assert network["deny_out"] == [ALL_TRAFFIC], network
        assert network["allow_out"] == ["198.51.100.0/24", "api.example.com"], network
        assert "a-hidden-value" not in repr(network)
        assert sandbox.traffic_access_token and await refused(sandbox)
    with raises(Exception, "400"):
        await AsyncSandbox.create(network={"allow_out": ["api.example.com"]})


@case("Sandbox.update_network: replaces, by object and by id", "2.45.0")
async def _():
    async with sandbox_of() as sandbox:
        await sandbox.update_network({"deny_out": [ALL_TRAFFIC], "allow_out": ["198.51.100.0/24"]})
        assert (await sandbox.get_info()).network["allow_out"] == ["198.51.100.0/24"]
        await AsyncSandbox.update_network(sandbox.sandbox_id, {"allow_internet_access": False})
        assert await refused(sandbox)
        await sandbox.update_network({})
        network = (await sandbox.get_info()).network or {}
        assert not network.get("allow_out") and not network.get("deny_out"), network


@case("Sandbox.create(iam): refused with the reason, for there is nobody to sign tokens", "2.63.0")
async def _():
    with raises(Exception):
        await AsyncSandbox.create(iam={"tokens": {"aws": {"audience": "sts", "token_type": "JWT-SVID"}}})


async def main():
    await run_cases()
