"""Flows, usage, explanations and approvals of a server whose sandboxes sent nothing yet."""
import asyncio

import pytest

from atoll_sandbox import AsyncClient, AsyncSandbox, Client, NotFoundError, Sandbox


def test_flows(server):
    with Sandbox.create() as sandbox:
        assert [flow for flow in sandbox.flows.list(kind="flow")] == []
        assert sandbox.flows.usage().flows == 0
        why = sandbox.flows.why("169.254.169.254", 80)
        assert why.action == "deny" and why.origin == "class" and why.advice
    with Client() as client:
        assert client.flows.usage().bytes_out >= 0
        assert client.flows.list(outcome="denied", name="*.nowhere.example") == []
        with pytest.raises(ValueError):
            client.flows.why("example.com")


def test_approvals(server):
    with Client() as client:
        assert client.approvals.list() == []
        assert client.approvals.list(state="all") == []
        with pytest.raises(NotFoundError):
            client.approvals.allow("ap-1", session=True)
        with pytest.raises(NotFoundError):
            client.approvals.deny("ap-1")


def test_the_same_with_await(server):
    async def look():
        async with AsyncSandbox.create() as sandbox:
            assert await sandbox.flows.list(kind="flow") == []
        async with AsyncClient() as client:
            assert await client.approvals.list() == []
    asyncio.run(look())
