"""The same with await: what is different about it, above all being cancelled."""
import asyncio
import time

import pytest

from atoll_sandbox import AsyncClient, AsyncSandbox, NotFoundError, Sandbox


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))


async def settled(condition, what):
    deadline = time.monotonic() + 30
    while not await condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


def test_everyday(server):
    async def main():
        async with AsyncSandbox.create() as sandbox:
            assert (await sandbox.run_code("1 + 1")).text == "2"
            done = await sandbox.commands.run("echo hi; exit 2")
            assert done.stdout == "hi\n" and done.exit_code == 2
            await sandbox.files.write("/tmp/x", "y")
            assert await sandbox.files.read("/tmp/x") == "y"
            pieces = [piece async for piece in sandbox.files.stream("/tmp/x")]
            assert b"".join(pieces) == b"y"
            assert sandbox.id in {each.id async for each in AsyncSandbox.list()}
            async with sandbox.commands.start("cat", stdin=True) as process:
                await process.send_stdin("ping\n")
                async for event in process:
                    assert event.text == "ping\n"
                    break
            async with sandbox.create_context("bash") as context:
                assert (await context.run("echo $((1+2))")).stdout == "3\n"
        with pytest.raises(NotFoundError):
            await sandbox.info()
        await sandbox.close()  # it had connected again
    run(main())


def test_awaited_without_a_block(server):
    async def main():
        sandbox = await AsyncSandbox.create()
        try:
            process = await sandbox.commands.start(["echo", "x"])
            assert (await process.wait()).stdout == "x\n"
        finally:
            assert await sandbox.kill()
            await sandbox.close()
    run(main())


def test_callbacks_may_be_coroutines(server):
    async def main():
        seen = []

        async def show(text):
            await asyncio.sleep(0)
            seen.append(text)

        async with AsyncSandbox.create() as sandbox:
            await sandbox.commands.run("echo a; echo b", on_stdout=show)
            await sandbox.run_code("print('c')", on_stdout=show)
        assert "".join(seen) == "a\nb\nc\n"
    run(main())


def test_many_at_once(server):
    async def main():
        async with AsyncSandbox.create() as sandbox:
            results = await asyncio.gather(
                *(sandbox.commands.run(["echo", str(number)]) for number in range(30)))
            assert [each.stdout for each in results] == [f"{number}\n" for number in range(30)]
            both = await asyncio.gather(sandbox.commands.run("sleep 0.5; date +%s%N"),
                                        sandbox.commands.run("date +%s%N"))
            assert int(both[1].stdout) < int(both[0].stdout)  # not one after the other
    run(main())


def test_a_cancelled_command_is_ended(server):
    async def main():
        async with AsyncSandbox.create() as sandbox:
            begun = asyncio.Event()
            task = asyncio.create_task(sandbox.commands.run(
                "echo begun; sleep 1000", on_stdout=lambda text: begun.set()))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [each for each in await sandbox.commands.list() if each.running] == []
    run(main())


def test_cancelled_at_any_moment_nothing_is_left(server):
    """Also while the request that starts it is under way."""
    async def main():
        async with AsyncSandbox.create() as sandbox:
            for step in range(12):
                task = asyncio.create_task(sandbox.commands.run("exec sleep 1000"))
                await asyncio.sleep(step * 0.001)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

            async def quiet():
                return not [each for each in await sandbox.commands.list() if each.running]
            await settled(quiet, "commands are left")
    run(main())


def test_a_cancelled_creation_leaves_no_sandbox(server):
    async def main():
        before = {each.id for each in Sandbox.list()}
        for step in range(6):
            task = asyncio.create_task(make())
            await asyncio.sleep(step * 0.004)
            task.cancel()
            try:
                await (await task).kill()
            except asyncio.CancelledError:
                pass

        async def same():
            return {each.id for each in Sandbox.list()} == before
        await settled(same, "sandboxes are left")

    async def make():
        return await AsyncSandbox.create()
    run(main())


def test_cancelled_code_is_interrupted_and_state_stays(server):
    async def main():
        async with AsyncSandbox.create() as sandbox:
            await sandbox.run_code("kept = 7")
            begun = asyncio.Event()
            task = asyncio.create_task(sandbox.run_code(
                "print('begun', flush=True)\nwhile True: pass",
                on_stdout=lambda text: begun.set()))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await sandbox.run_code("kept", timeout=30)).text == "7"
    run(main())


def test_clients_are_shared(server):
    async def main():
        async with AsyncClient() as client:
            async with AsyncSandbox.create(client=client) as one:
                async with AsyncSandbox.create(client=client) as two:
                    assert one.id != two.id
                assert await one.is_running()
    run(main())
