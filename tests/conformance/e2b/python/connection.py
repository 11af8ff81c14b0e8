"""How a client says who it is and where the server is, and what it is told when that is wrong."""
import os

import e2b
from e2b import AsyncSandbox, AuthenticationException, ConnectionConfig
from support import API_URL, SYNC, NotApplicable, case, raises, run_cases, sandbox_of, since

KEY = os.environ["E2B_API_KEY"]
WRONG = "e2b_" + "0" * 40


@case("Sandbox.create(api_key), Sandbox.list(api_key): a wrong one, and none")
async def _():
    with raises(AuthenticationException):
        await AsyncSandbox.create(api_key=WRONG)
    with raises(AuthenticationException):
        await AsyncSandbox.list(api_key=WRONG).next_items()
    del os.environ["E2B_API_KEY"]
    try:
        with raises(AuthenticationException):
            await AsyncSandbox.create()
    finally:
        os.environ["E2B_API_KEY"] = KEY


@case("Sandbox.create(api_key, api_url, sandbox_url, validate_api_key, domain): said in the call")
async def _():
    names = ("E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL")
    saved = {name: os.environ.pop(name) for name in names}
    extra = {"validate_api_key": False} if since("2.45.0") else {}
    try:
        async with sandbox_of(api_key=KEY, api_url=API_URL, sandbox_url=API_URL,
                              domain="sandboxes.example", **extra) as sandbox:
            assert (await sandbox.commands.run("echo here")).stdout == "here\n"
    finally:
        os.environ.update(saved)


@case("Sandbox.create(headers, api_headers, request_timeout, retries): are no trouble")
async def _():
    extra = {"api_headers": {"X-Other": "2"}, "retries": 1} if since("2.63.0") else {}
    async with sandbox_of(headers={"X-Mine": "1"}, request_timeout=30, **extra) as sandbox:
        assert await sandbox.is_running()


@case("E2B.Sandbox: a client with its own settings")
async def _():
    if not hasattr(e2b, "E2B"):
        raise NotApplicable("this version has no E2B")
    client = e2b.E2B(api_key=KEY, api_url=API_URL, sandbox_url=API_URL)
    kind = client.Sandbox if SYNC else client.AsyncSandbox
    sandbox = await kind.create(timeout=60)
    try:
        assert (await sandbox.commands.run("echo mine")).stdout == "mine\n"
    finally:
        await sandbox.kill()


@case("ConnectionConfig.get_host, ConnectionConfig.get_sandbox_url, "
      "ConnectionConfig.get_sandbox_direct_url, ConnectionConfig.get_request_timeout, "
      "ConnectionConfig.get_api_params: local rules")
async def _():
    config = ConnectionConfig()
    assert config.get_host("i1", "d.example", 80) == "80-i1.d.example"
    assert config.get_sandbox_url("i1", "d.example") == API_URL
    assert config.get_request_timeout(5) == 5


async def main():
    await run_cases()
