"""Sandboxes: how they are made, found, told about, kept alive, and ended."""
import datetime
import os
import time

import e2b
from e2b import AsyncSandbox, NotFoundException, SandboxException, SandboxQuery
from support import NotApplicable, case, is_about, raises, run_cases, sandbox_of, since, until

MARK = f"{os.getpid()}-{time.time_ns()}"
NOBODY = "i0123456789abcdefghij"
OTHERS = []
BETWEEN = []


async def everything(paginator):
    items = []
    while paginator.has_next:
        items += await paginator.next_items()
    return items


async def found(**options):
    query = SandboxQuery(metadata=options.pop("metadata", {"mark": MARK}), **options)
    return [each.sandbox_id for each in await everything(AsyncSandbox.list(query=query))]


@case("Sandbox.create(metadata, timeout), Sandbox.get_info(request_timeout): everything it tells")
async def _(sandbox):
    info = await sandbox.get_info(request_timeout=20)
    assert info.sandbox_id == sandbox.sandbox_id
    assert info.metadata == {"mark": MARK, "with space": "ä & = % +"}, info.metadata
    assert (str(info.state.value), info.name, info.envd_version) == ("running", "base", "0.6.13"), info
    assert is_about(info.started_at, 0, 120) and is_about(info.end_at, 300)
    assert info.cpu_count >= 1 and info.memory_mb >= 128 and info.template_id


@case("Sandbox.create(envs): in every command, below its own")
async def _(sandbox):
    assert (await sandbox.commands.run("echo $FROM")).stdout == "sandbox\n"
    assert (await sandbox.commands.run("echo $FROM", envs={"FROM": "call"})).stdout == "call\n"


@case("Sandbox.get_info: by id, and of nobody")
async def _(sandbox):
    assert (await AsyncSandbox.get_info(sandbox.sandbox_id)).sandbox_id == sandbox.sandbox_id
    with raises(SandboxException):
        await AsyncSandbox.get_info(NOBODY)


@case("Sandbox.set_timeout(timeout, request_timeout): longer and shorter, by object and by id")
async def _(sandbox):
    await sandbox.set_timeout(1000, request_timeout=20)
    assert is_about((await sandbox.get_info()).end_at, 1000)
    await AsyncSandbox.set_timeout(sandbox.sandbox_id, 200)
    assert is_about((await sandbox.get_info()).end_at, 200)
    with raises(SandboxException):
        await AsyncSandbox.set_timeout(NOBODY, 100)


@case("Sandbox.connect(timeout): extends, never shortens")
async def _(sandbox):
    again = await AsyncSandbox.connect(sandbox.sandbox_id, timeout=60)
    assert again.sandbox_id == sandbox.sandbox_id
    assert is_about((await sandbox.get_info()).end_at, 200, 60)
    await again.files.write("through-connect", "1")
    assert await sandbox.files.read("through-connect") == "1"
    await sandbox.connect(timeout=400)
    assert is_about((await sandbox.get_info()).end_at, 400, 60)
    with raises(SandboxException):
        await AsyncSandbox.connect(NOBODY)


@case("Sandbox.get_host, Sandbox.get_mcp_url, Sandbox.is_running(request_timeout), "
      "Sandbox.sandbox_id, Sandbox.sandbox_domain, Sandbox.traffic_access_token, "
      "Sandbox.envd_api_url, Sandbox.envd_direct_url, Sandbox.connection_config: what it knows")
async def _(sandbox):
    assert sandbox.get_host(3000).startswith(f"3000-{sandbox.sandbox_id}.")
    assert sandbox.get_mcp_url().startswith(f"https://50005-{sandbox.sandbox_id}.")
    assert await sandbox.is_running(request_timeout=20) is True
    assert sandbox.sandbox_domain and not sandbox.traffic_access_token


@case("Sandbox.create(template): two more")
async def _(sandbox):
    BETWEEN.append(datetime.datetime.now(datetime.timezone.utc))
    for number in (1, 2):
        OTHERS.append(await AsyncSandbox.create("base", timeout=300,
                                                metadata={"mark": MARK, "number": str(number)}))


@case("Sandbox.list(query): by metadata, all of it")
async def _(sandbox):
    ids = [each.sandbox_id for each in (sandbox, *OTHERS)]
    assert sorted(await found()) == sorted(ids)
    assert await found(metadata={"mark": MARK, "number": "2"}) == [ids[2]]
    assert await found(metadata={"mark": MARK, "with space": "ä & = % +"}) == [ids[0]]
    assert await found(metadata={"mark": "x"}) == []


@case("Sandbox.list(limit, next_token), SandboxPaginator.next_items, SandboxPaginator.has_next, "
      "SandboxPaginator.next_token: page by page")
async def _(sandbox):
    query = SandboxQuery(metadata={"mark": MARK})
    paginator = AsyncSandbox.list(query=query, limit=2)
    first = await paginator.next_items()
    assert len(first) == 2 and paginator.has_next
    rest = AsyncSandbox.list(query=query, limit=2, next_token=paginator.next_token)
    second = await paginator.next_items()
    assert len(second) == 1 and not paginator.has_next and not paginator.next_token
    assert [each.sandbox_id for each in await rest.next_items()] == [second[0].sandbox_id]
    with raises(Exception):
        await paginator.next_items()


@case("Sandbox.list(order): by their start")
async def _(sandbox):
    if not since("2.45.0"):
        raise NotApplicable("needs 2.45.0")
    query = SandboxQuery(metadata={"mark": MARK})
    up = [each.sandbox_id for each in await everything(AsyncSandbox.list(query=query, order="asc"))]
    down = [each.sandbox_id for each in await everything(
        AsyncSandbox.list(query=query, order="desc", limit=1))]
    assert up == [each.sandbox_id for each in (sandbox, *OTHERS)] and down == up[::-1], (up, down)


@case("Sandbox.list(query): by start, template and state")
async def _(sandbox):
    ids = sorted(each.sandbox_id for each in OTHERS)
    assert sorted(await found(started_after=BETWEEN[0])) == ids
    assert len(await found(template="base")) == 3 and await found(template="other") == []
    assert len(await found(state=[e2b.SandboxState.RUNNING])) == 3
    assert await found(state=[e2b.SandboxState.PAUSED]) == []


@case("Sandbox.kill(request_timeout): by object and by id, true and then false")
async def _(sandbox):
    assert await OTHERS[0].kill(request_timeout=30) is True
    assert await AsyncSandbox.kill(OTHERS[1].sandbox_id) is True
    assert await AsyncSandbox.kill(OTHERS[1].sandbox_id) is False
    assert await OTHERS[0].is_running() is False
    with raises(SandboxException):
        await OTHERS[0].commands.run("true")


@case("Sandbox.create(timeout): then it is gone")
async def _(sandbox):
    short = await AsyncSandbox.create(timeout=2)

    async def gone():
        return not await short.is_running()
    await until(gone, "it is gone")


@case("Sandbox.create(template, timeout): refused")
async def _(sandbox):
    with raises((NotFoundException, SandboxException), "404"):
        await AsyncSandbox.create("no-such-template")
    if since("2.51.0"):  # older ones take no time for the usual time
        with raises(SandboxException, "400"):
            await AsyncSandbox.create(timeout=0)


@case("Sandbox.create(idempotency_key): twice is once", "2.63.0")
async def _(sandbox):
    key = f"conformance-{os.getpid()}-{time.time_ns()}"
    first = await AsyncSandbox.create(timeout=60, idempotency_key=key)
    second = await AsyncSandbox.create(timeout=60, idempotency_key=key)
    try:
        assert first.sandbox_id == second.sandbox_id
    finally:
        await first.kill()
        await second.kill()


@case("Sandbox.create(secure): not, where it can be asked for")
async def _(sandbox):
    if since("2.51.0"):
        raise NotApplicable("every sandbox is secured from 2.51 on")
    opened = await AsyncSandbox.create(secure=False, timeout=60)
    try:
        assert (await opened.commands.run("echo open")).stdout == "open\n"
        assert "signature" not in opened.download_url("/etc/hostname")
    finally:
        await opened.kill()


@case("Sandbox.create(mcp), Sandbox.get_mcp_token: says what is missing")
async def _(sandbox):
    with raises(Exception, "mcp-gateway"):
        await AsyncSandbox.create(mcp={"exa": {"apiKey": "x"}}, timeout=60)


@case("Sandbox.create(logger): hears of the requests", "2.45.0")
async def _(sandbox):
    if not since("2.63.0"):
        raise NotApplicable("needs 2.63.0")
    import logging
    heard = []
    logger = logging.Logger("conformance", logging.DEBUG)
    logger.addHandler(type("Ear", (logging.Handler,), {"emit": lambda self, said: heard.append(said)})())
    made = await AsyncSandbox.create(timeout=60, logger=logger)
    await made.kill()
    assert heard


async def main():
    async with sandbox_of(metadata={"mark": MARK, "with space": "ä & = % +"},
                          envs={"FROM": "sandbox"}) as sandbox:
        await run_cases(sandbox)
