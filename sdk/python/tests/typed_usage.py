"""Never run: what a program's author writes must be right for mypy --strict."""
from typing import List, Optional

from atoll_sandbox import AsyncSandbox, CommandResult, Execution, FileInfo, Sandbox


def everyday() -> Optional[str]:
    with Sandbox.create(memory="1Gi", cpu=0.5, env={"A": "b"}, ttl=60) as sandbox:
        done: CommandResult = sandbox.commands.run(["true"], timeout=5, check=True)
        with sandbox.commands.start("cat", stdin=True) as process:
            process.send_stdin(b"x")
            for event in process:
                print(event.text, event.offset)
        with sandbox.create_context("bash") as context:
            execution: Execution = context.run("echo hi", on_stdout=print)
        entries: List[FileInfo] = sandbox.files.list("/")
        with sandbox.files.watch("/tmp") as watch:
            changed = [event.path for event in watch]
        print(changed, sandbox.files.grep("x").matches[0].line, sandbox.metrics().current)
        for piece in sandbox.files.stream("/etc/hosts"):
            print(len(piece), done.exit_code, execution.ok, entries[0].mod_time.year)
        return sandbox.run_code("1").text


async def awaited() -> Optional[str]:
    async def show(text: str) -> None:
        print(text)

    async with AsyncSandbox.create() as sandbox:
        process = await sandbox.commands.start("cat", stdin=True)
        await process.close_stdin()
        async with sandbox.commands.start(["true"]) as other:
            async for event in other:
                print(event.source)
        await sandbox.commands.run("true", on_stdout=show)
        async for info in AsyncSandbox.list(status="running"):
            print(info.created_at.year)
        return (await sandbox.run_code("1")).text
