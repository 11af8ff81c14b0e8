"""Watching files over the WebSocket."""
from support import check, finish, sandbox_of


def event_about(events, path, kinds):
    """The first event about a path, of one of the kinds."""
    for event in events:
        assert event.type == "event", event
        if event.path == path and event.event in kinds:
            return event
    raise AssertionError(f"the watch ended before an event about {path}")


with sandbox_of() as sandbox:
    sandbox.mkdir("/workspace/w/below", recursive=True)

    @check("create and write")
    def _():
        stream = sandbox.watch_files("/workspace/w")
        events = stream.iter_events()
        sandbox.cmd("sh -c 'echo 1 >/workspace/w/file'")
        created = event_about(events, "/workspace/w/file", ["create"])
        assert created.watch_id == stream.watch_id
        event_about(events, "/workspace/w/file", ["write"])
        stream.unsubscribe()

    @check("removal")
    def _():
        sandbox.write_file("/workspace/w/gone", b"x")
        stream = sandbox.watch_files("/workspace/w")
        sandbox.delete_file("/workspace/w/gone")
        event_about(stream.iter_events(), "/workspace/w/gone", ["remove"])
        stream.close()

    @check("recursive, with directories made later")
    def _():
        stream = sandbox.watch_files("/workspace/w", recursive=True)
        events = stream.iter_events()
        sandbox.cmd("touch /workspace/w/below/one")
        event_about(events, "/workspace/w/below/one", ["create"])
        sandbox.cmd("sh -c 'mkdir -p /workspace/w/new/er && echo 2 >/workspace/w/new/er/two'")
        event_about(events, "/workspace/w/new/er/two", ["create", "write"])
        stream.close()

finish()
