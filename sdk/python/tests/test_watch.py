"""Watches: changes of files as they happen."""
import asyncio

import pytest

from atoll_sandbox import AsyncSandbox


def test_changes_are_seen(sandbox):
    sandbox.files.mkdir("/tmp/w")
    with sandbox.files.watch("/tmp/w") as watch:
        sandbox.commands.run("mkdir -p /tmp/w/a; echo 1 > /tmp/w/a/f; mv /tmp/w/a/f /tmp/w/a/g; "
                             "rm /tmp/w/a/g; touch /tmp/w/last", check=True)
        seen = []
        for event in watch:
            seen.append((event.event, event.path))
            if event.path == "/tmp/w/last":
                break
    assert ("create", "/tmp/w/a") in seen and ("create", "/tmp/w/a/g") in seen
    assert seen.index(("create", "/tmp/w/a/f")) < seen.index(("remove", "/tmp/w/a/g"))


def test_what_is_not_there(sandbox):
    with pytest.raises(FileNotFoundError):
        sandbox.files.watch("/no/such/place")


def test_watching_beside_other_work(server):
    async def main():
        async with AsyncSandbox.create() as sandbox:
            async with sandbox.files.watch("/tmp", recursive=False) as watch:
                async def until(path):
                    async for event in watch:
                        if event.path == path:
                            return event.event
                task = asyncio.create_task(until("/tmp/new"))
                await sandbox.files.write("/tmp/new", "x")
                assert await asyncio.wait_for(task, 30) == "create"
                waiting = asyncio.create_task(until("/tmp/never"))
                await asyncio.sleep(0.1)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
    asyncio.run(main())
