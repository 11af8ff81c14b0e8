"""Watching directories: the synchronous SDK asks for events, the asynchronous one is called."""
from e2b import FilesystemEventType, FileType, NotFoundException
from support import SYNC, case, raises, run_cases, sandbox_of, until


class Watch:
    """Either way of it, as one."""

    def __init__(self):
        self.events, self.handle, self.ended = [], None, []

    async def start(self, sandbox, path, **options):
        if SYNC:
            self.handle = sandbox.files.watch_dir(path, **options)
        else:
            self.handle = await sandbox.files.watch_dir(
                path, on_event=self.events.append, on_exit=self.ended.append, timeout=0, **options)
        return self

    async def has(self, kind, name):
        async def found():
            if SYNC:
                self.events += self.handle.get_new_events(request_timeout=20)
            return next((each for each in self.events
                         if each.type == kind and each.name == name), None)
        return await until(found, f"{kind} {name} among {self.events}")

    async def stop(self):
        await self.handle.stop()


@case("Filesystem.watch_dir(on_event), WatchHandle.get_new_events(request_timeout), "
      "WatchHandle.stop(request_timeout): create, write, chmod, rename, remove")
async def _(sandbox):
    await sandbox.files.make_dir("w")
    watch = await Watch().start(sandbox, "w")
    await sandbox.files.write("w/new", "1")
    await watch.has(FilesystemEventType.CREATE, "new")
    await watch.has(FilesystemEventType.WRITE, "new")
    await sandbox.commands.run("chmod 600 w/new")
    await watch.has(FilesystemEventType.CHMOD, "new")
    await sandbox.files.rename("w/new", "w/renamed")
    await watch.has(FilesystemEventType.RENAME, "new")
    await sandbox.files.remove("w/renamed")
    await watch.has(FilesystemEventType.REMOVE, "renamed")
    if SYNC:
        watch.handle.stop(request_timeout=20)
        with raises(Exception):
            watch.handle.get_new_events()
    else:
        await watch.stop()
        count = len(watch.events)
        await sandbox.files.write("w/unheard", "1")
        await sandbox.commands.run("sleep 0.3")
        assert len(watch.events) == count


@case("Filesystem.watch_dir(recursive): also what is made later")
async def _(sandbox):
    await sandbox.files.make_dir("r/old")
    watch = await Watch().start(sandbox, "r", recursive=True)
    await sandbox.files.write("r/old/file", "1")
    await watch.has(FilesystemEventType.CREATE, "old/file")
    await sandbox.files.make_dir("r/young/deep")
    await watch.has(FilesystemEventType.CREATE, "young")
    await sandbox.commands.run("sleep 0.2; echo 1 >r/young/deep/file; echo 2 >>r/young/deep/file")
    await watch.has(FilesystemEventType.WRITE, "young/deep/file")
    await watch.stop()


@case("Filesystem.watch_dir(include_entry): what it is now", "2.45.0")
async def _(sandbox):
    await sandbox.files.make_dir("e")
    watch = await Watch().start(sandbox, "e", include_entry=True)
    await sandbox.files.write("e/file", "12345")
    event = await watch.has(FilesystemEventType.WRITE, "file")
    assert (event.entry.name, event.entry.type, event.entry.path) == \
        ("file", FileType.FILE, "/home/user/e/file"), event
    await watch.stop()


@case("Filesystem.watch_dir(user, request_timeout, allow_network_mounts): accepted", "2.45.0")
async def _(sandbox):
    watch = await Watch().start(sandbox, "/root", user="root", request_timeout=20,
                                allow_network_mounts=True)
    await sandbox.files.write("/root/seen", "1", user="root")
    await watch.has(FilesystemEventType.CREATE, "seen")
    await watch.stop()


@case("Filesystem.watch_dir(timeout, on_exit): ends by itself")
async def _(sandbox):
    if SYNC:
        return
    ended = []
    await sandbox.files.make_dir("w")
    await sandbox.files.watch_dir("w", on_event=ended.append, on_exit=ended.append, timeout=1)

    async def told():
        return ended
    await until(told, "on_exit was called")


@case("Filesystem.watch_dir: not there, or not a directory")
async def _(sandbox):
    with raises(NotFoundException):
        await Watch().start(sandbox, "/none")
    await sandbox.files.write("plain", "x")
    with raises(Exception):
        await Watch().start(sandbox, "plain")


async def main():
    async with sandbox_of() as sandbox:
        await run_cases(sandbox)
