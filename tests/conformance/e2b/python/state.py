"""State: pauses, resumes, forks, snapshots, and what is measured."""
import datetime
import os

import e2b
from e2b import AsyncSandbox, SandboxException, SandboxQuery
from support import (NotApplicable, case, is_about, raises, run_cases, sandbox_of, since, until)

NOBODY = "i0123456789abcdefghij"
SNAPSHOTS = []


async def out(sandbox, command):
    return (await sandbox.commands.run(command)).stdout.strip()


async def everything(paginator):
    items = []
    while paginator.has_next:
        items += await paginator.next_items()
    return items


@case("Sandbox.pause, Sandbox.connect(timeout): memory and files stay")
async def _(sandbox):
    await sandbox.files.write("kept", "file")
    handle = await sandbox.commands.run("exec -a remembered sleep 600", background=True, timeout=0)
    await sandbox.pause()
    assert await sandbox.is_running() is False
    assert (await AsyncSandbox.get_info(sandbox.sandbox_id)).state == e2b.SandboxState.PAUSED
    listed = await everything(AsyncSandbox.list(
        query=SandboxQuery(state=[e2b.SandboxState.PAUSED])))
    assert any(each.sandbox_id == sandbox.sandbox_id for each in listed)
    again = await AsyncSandbox.connect(sandbox.sandbox_id, timeout=200)
    assert await again.files.read("kept") == "file"
    assert any(each.pid == handle.pid for each in await again.commands.list())
    assert await out(again, "pgrep -cf '^remembered'") == "1"
    assert is_about((await again.get_info()).end_at, 200)


@case("Sandbox.pause, Sandbox.beta_pause: again is false, and of nobody")
async def _(sandbox):
    assert await sandbox.beta_pause() is True
    assert await AsyncSandbox.pause(sandbox.sandbox_id) is False
    assert await AsyncSandbox.beta_pause(sandbox.sandbox_id) is False
    await sandbox.connect(timeout=300)
    with raises(SandboxException):
        await AsyncSandbox.pause(NOBODY)


@case("Sandbox.pause(keep_memory): files stay, processes do not", "2.45.0")
async def _(sandbox):
    await sandbox.files.write("kept2", "on disk")
    await sandbox.pause(keep_memory=False)
    await sandbox.connect(timeout=300)
    assert await sandbox.files.read("kept2") == "on disk"
    assert await out(sandbox, "pgrep -cf '^remembered' || true") == "0"


@case("Sandbox.pause(mode, strict), Sandbox.beta_pause(mode, keep_memory), "
      "Sandbox.connect(on_resume): the newer words for it", "2.63.0")
async def _(sandbox):
    await sandbox.commands.run("exec -a forgotten sleep 600", background=True, timeout=0)
    await sandbox.pause(mode="full", strict=True)
    await sandbox.connect(timeout=300, on_resume="restore")
    assert await out(sandbox, "pgrep -cf '^forgotten'") == "1"
    await sandbox.pause(mode="filesystem")
    await sandbox.connect(timeout=300)
    assert await out(sandbox, "pgrep -cf '^forgotten' || true") == "0"
    await sandbox.commands.run("exec -a forgotten sleep 600", background=True, timeout=0)
    await sandbox.beta_pause(keep_memory=True)
    await sandbox.connect(timeout=300, on_resume="reboot")
    assert await out(sandbox, "pgrep -cf '^forgotten' || true") == "0"


@case("Sandbox.fork(timeout, count): the same state, each on its own")
async def _(sandbox):
    await sandbox.files.write("shared", "before")
    await sandbox.commands.run("exec -a forked sleep 600", background=True, timeout=0)
    forks = await sandbox.fork(timeout=120, count=2)
    more = await AsyncSandbox.fork(sandbox.sandbox_id)
    try:
        assert len(forks) == 2 and len(more) == 1
        for number, fork in enumerate([*forks, *more]):
            assert not isinstance(fork, Exception), fork
            assert await fork.files.read("shared") == "before"
            assert await out(fork, "pgrep -cf '^forked'") == "1"
            await fork.files.write("shared", str(number))
        assert await sandbox.files.read("shared") == "before"
        assert is_about((await forks[0].get_info()).end_at, 120)
    finally:
        for fork in [*forks, *more]:
            await fork.kill()


@case("Sandbox.create_snapshot(name), Sandbox.create(template): a sandbox from it")
async def _(sandbox):
    await sandbox.files.write("in-snapshot", "then")
    SNAPSHOTS.append((await sandbox.create_snapshot()).snapshot_id)
    extra = {"name": f"conformance-{os.getpid()}"} if since("2.45.0") else {}
    SNAPSHOTS.append((await AsyncSandbox.create_snapshot(sandbox.sandbox_id, **extra)).snapshot_id)
    await sandbox.files.write("in-snapshot", "now")
    async with sandbox_of(SNAPSHOTS[0]) as copy:
        assert await copy.files.read("in-snapshot") == "then"
        assert await out(copy, "pgrep -cf '^forked'") == "1"


@case("Sandbox.create_snapshot(mode): of the files alone", "2.63.0")
async def _(sandbox):
    SNAPSHOTS.append((await sandbox.create_snapshot(mode="filesystem")).snapshot_id)
    async with sandbox_of(SNAPSHOTS[-1]) as copy:
        assert await copy.files.read("in-snapshot") == "now"
        assert await out(copy, "pgrep -cf '^forked' || true") == "0"


@case("Sandbox.list_snapshots(limit, next_token, name), SnapshotPaginator.next_items, "
      "SnapshotPaginator.has_next, SnapshotPaginator.next_token: page by page")
async def _(sandbox):
    listed = [each.snapshot_id for each in await everything(sandbox.list_snapshots())]
    assert sorted(listed) == sorted(SNAPSHOTS), (listed, SNAPSHOTS)
    paginator = sandbox.list_snapshots(limit=1)
    first = await paginator.next_items()
    rest = await everything(sandbox.list_snapshots(limit=1, next_token=paginator.next_token))
    assert [each.snapshot_id for each in [*first, *rest]] == listed
    if since("2.51.0"):
        named = await everything(AsyncSandbox.list_snapshots(name=f"conformance-{os.getpid()}"))
        assert [each.snapshot_id for each in named] == [SNAPSHOTS[1]]


@case("Sandbox.delete_snapshot(snapshot_id): true, then false, then no template")
async def _(sandbox):
    for snapshot in SNAPSHOTS:
        assert await AsyncSandbox.delete_snapshot(snapshot) is True
        assert await AsyncSandbox.delete_snapshot(snapshot) is False
    with raises(Exception, "404"):
        await AsyncSandbox.create(SNAPSHOTS[0])
    assert await everything(sandbox.list_snapshots()) == []


@case("Sandbox.get_metrics(start, end): sampled by itself")
async def _(sandbox):
    async def some():
        return await sandbox.get_metrics()
    last = (await until(some, "a first sample"))[-1]
    assert last.cpu_count >= 1 and last.cpu_used_pct >= 0
    assert 0 < last.mem_used <= last.mem_total and last.disk_total > 0
    now = datetime.datetime.now(datetime.timezone.utc)
    hour = datetime.timedelta(hours=1)
    assert await AsyncSandbox.get_metrics(sandbox.sandbox_id, start=now - 2 * hour,
                                          end=now - hour) == []


@case("Sandbox.create(lifecycle): paused by its timeout; woken by traffic", "2.45.0")
async def _(sandbox):
    made = await AsyncSandbox.create(timeout=3, lifecycle={"on_timeout": "pause",
                                                           "auto_resume": True})
    try:
        info = await made.get_info()
        assert info.lifecycle["on_timeout"] == "pause" and info.lifecycle["auto_resume"], info
        await made.commands.run("exec -a survivor sleep 600", background=True, timeout=0)

        async def paused():
            return (await made.get_info()).state == e2b.SandboxState.PAUSED
        await until(paused, "it is paused")
        assert await out(made, "pgrep -cf '^survivor'") == "1"
    finally:
        await made.kill()


@case("Sandbox.kill: of a paused one")
async def _(sandbox):
    made = await AsyncSandbox.create(timeout=60)
    await made.pause()
    assert await made.kill() is True
    with raises(SandboxException):
        await AsyncSandbox.connect(made.sandbox_id)


async def main():
    if not hasattr(AsyncSandbox, "pause"):
        raise NotApplicable("this version cannot pause")
    async with sandbox_of() as sandbox:
        await run_cases(sandbox)
