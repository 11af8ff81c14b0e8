"""files/watch with a real WebSocket client: the contract's frames, and nothing lost in silence."""
import asyncio
import json
import socket

import pytest
import websockets

from harness.server import wait_until

QUIET_SECONDS = 0.3


class Watcher:
    """One connection of files/watch. SDKs want `subscribed` as the very first frame."""

    def __init__(self, connection):
        self.socket = connection

    async def send(self, **frame):
        await self.socket.send(json.dumps(frame))

    async def receive(self, seconds=10):
        return json.loads(await asyncio.wait_for(self.socket.recv(), seconds))

    async def subscribe(self, path, **fields):
        await self.send(action="subscribe", path=path, **fields)
        answer = await self.receive()
        assert answer["type"] == "subscribed" and answer["path"] == path, answer
        assert answer["watch_id"].startswith("watch-") and len(answer["watch_id"]) == 14
        return answer["watch_id"]

    async def until(self, event, path):
        """All (event, path) up to the wanted one."""
        seen = []
        while (event, path) not in seen:
            frame = await self.receive()
            assert frame["type"] == "event", frame
            seen.append((frame["event"], frame["path"]))
        return seen


@pytest.fixture
def watch(sandbox, server):
    """Runs a coroutine with a fresh connection."""
    def run(scenario, query=""):
        async def go():
            url = f"ws://{server.host}:{server.port}{sandbox.path}/files/watch{query}"
            headers = {"Authorization": f"Bearer {server.key}"}
            async with websockets.connect(url, extra_headers=headers, max_size=None) as connection:
                return await scenario(Watcher(connection))
        return asyncio.run(go())
    return run


def in_thread(function, *arguments):
    return asyncio.get_running_loop().run_in_executor(None, function, *arguments)


def test_every_kind_of_event(sandbox, watch):
    async def scenario(watcher):
        watch_id = await watcher.subscribe("/tmp/kinds")
        await in_thread(sandbox.out, "cd /tmp/kinds && echo 1 > a && echo 2 >> a && chmod 600 a "
                                     "&& mv a b && rm b && mkdir done")
        seen = await watcher.until("create", "/tmp/kinds/done")
        return watch_id, seen

    sandbox.out("mkdir -p /tmp/kinds")
    watch_id, seen = watch(scenario)
    a, b = "/tmp/kinds/a", "/tmp/kinds/b"
    for wanted in [("create", a), ("write", a), ("chmod", a), ("rename", a), ("create", b),
                   ("remove", b)]:
        assert wanted in seen, seen
    assert seen.index(("create", a)) < seen.index(("rename", a)) < seen.index(("remove", b))


def test_a_missing_directory_is_made(sandbox, watch):
    async def scenario(watcher):
        await watcher.subscribe("made/by/watch")
        await in_thread(sandbox.write, "made/by/watch/file", "x")
        await watcher.until("create", "/workspace/made/by/watch/file")

    watch(scenario)
    assert sandbox.out("stat -c %U /workspace/made/by/watch") == "user\n"


def test_only_the_directory_itself_unless_recursive(sandbox, watch):
    """New directories are told in both cases; what is in them only when recursive."""
    async def scenario(watcher):
        flat = await watcher.subscribe("/tmp/depth")
        deep = await watcher.subscribe("/tmp/depth", recursive=True)
        await in_thread(sandbox.out, "cd /tmp/depth && mkdir -p new/deeper && echo x > "
                                     "new/deeper/file && sync && touch last")
        seen = {flat: [], deep: []}
        while not all(("create", "/tmp/depth/last") in each for each in seen.values()):
            frame = await watcher.receive()
            seen[frame["watch_id"]].append((frame["event"], frame["path"]))
        return seen[flat], seen[deep]

    sandbox.out("mkdir -p /tmp/depth")
    flat, deep = watch(scenario)
    assert ("create", "/tmp/depth/new") in flat and ("create", "/tmp/depth/new") in deep
    assert not [path for _, path in flat if path.startswith("/tmp/depth/new/")]
    assert ("create", "/tmp/depth/new/deeper") in deep
    assert ("create", "/tmp/depth/new/deeper/file") in deep


def test_unsubscribe_with_and_without_an_id(sandbox, watch):
    async def scenario(watcher):
        first = await watcher.subscribe("/tmp/un/a")
        second = await watcher.subscribe("/tmp/un/b")
        third = await watcher.subscribe("/tmp/un/c")
        await watcher.send(action="unsubscribe", watch_id=first)
        assert await watcher.receive() == {"type": "unsubscribed", "watch_id": first}
        await in_thread(sandbox.out, "touch /tmp/un/a/silent /tmp/un/b/heard")
        frame = await watcher.receive()
        assert (frame["watch_id"], frame["path"]) == (second, "/tmp/un/b/heard")
        while True:
            try:
                await watcher.receive(QUIET_SECONDS)
            except asyncio.TimeoutError:
                break
        await watcher.send(action="unsubscribe")
        ended = [await watcher.receive() for _ in range(2)]
        assert {each["watch_id"] for each in ended} == {second, third}
        assert {each["type"] for each in ended} == {"unsubscribed"}
        # The connection goes on.
        await watcher.subscribe("/tmp/un/b")

    sandbox.out("mkdir -p /tmp/un/a /tmp/un/b /tmp/un/c")
    watch(scenario)


@pytest.mark.parametrize("frame, text", [
    ("not json", "JSON"),
    ('{"action":"dance"}', "subscribe"),
    ('{"action":"subscribe"}', "path"),
    ('{"action":"subscribe","path":"/tmp","recursive":"yes"}', "recursive"),
    ('{"action":"subscribe","path":"/tmp","surprise":1}', "surprise"),
    ('{"action":"unsubscribe","watch_id":"watch-00000000"}', "watch-00000000"),
    ('{"action":"subscribe","path":"/root/x"}', "permission"),
    ('{"action":"subscribe","path":"/etc/hostname/x"}', "not a directory"),
])
def test_mistakes_are_told_and_the_connection_goes_on(sandbox, watch, frame, text):
    async def scenario(watcher):
        await watcher.socket.send(frame)
        answer = await watcher.receive()
        assert answer["type"] == "error" and text.lower() in answer["error"].lower(), answer
        await watcher.subscribe("/tmp")

    watch(scenario)


def test_rights_are_the_users(sandbox, watch):
    async def scenario(watcher):
        await watcher.subscribe("/root")

    watch(scenario, "?user=root")


def test_a_single_file_can_be_watched_through_replacements(sandbox, watch):
    async def scenario(watcher):
        await watcher.subscribe("/tmp/single")
        for number in range(3):
            await in_thread(sandbox.write, "/tmp/single", f"version {number}")
            await watcher.until("create", "/tmp/single")

    sandbox.write("/tmp/single", "first")
    watch(scenario)


def test_watches_per_connection_are_bounded(sandbox, watch):
    async def scenario(watcher):
        for _ in range(32):
            await watcher.subscribe("/tmp")
        await watcher.send(action="subscribe", path="/tmp")
        answer = await watcher.receive()
        assert answer["type"] == "error" and "32" in answer["error"]

    watch(scenario)


def test_closing_releases_the_guest(sandbox, server, watch):
    """Also when the client vanishes without a goodbye."""
    def workers():
        return len(server.cell_processes(sandbox.id))

    wait_until(lambda: workers() == 1, 10, "only the agent is left of the tests before")

    async def leave(watcher):
        for _ in range(5):
            await watcher.subscribe("/tmp", recursive=True)
        assert workers() == 6

    async def vanish(watcher):
        await leave(watcher)
        watcher.socket.transport.abort()

    for scenario in (leave, vanish):
        watch(scenario)
        wait_until(lambda: workers() == 1, 10, "the watchers are gone")


def test_a_slow_reader_is_told_what_it_missed(sandbox, server):
    """A client that does not read at first gets what fits into the buffers on the way and then an
    overflow event, which says that it must look again; afterwards the watch works."""
    count = 100_000
    a, b = "a" * 200, "b" * 200

    async def scenario():
        small = socket.create_connection((server.host, server.port))
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        url = f"ws://{server.host}:{server.port}{sandbox.path}/files/watch"
        async with websockets.connect(url, sock=small, max_queue=1, read_limit=1024,
                                      extra_headers={"Authorization": f"Bearer {server.key}"},
                                      ping_interval=None) as connection:
            watcher = Watcher(connection)
            await watcher.subscribe("/tmp/flood")
            await in_thread(sandbox.out, f"cd /tmp/flood && python3 -c '\nimport os\n"
                            f"for i in range({count}):\n"
                            f"    os.chmod(\"{a}\", 0o600 + i % 2)\n"
                            f"    os.chmod(\"{b}\", 0o600 + i % 2)\n'")
            seen = {}
            while "overflow" not in seen:
                frame = await watcher.receive()
                seen.setdefault(frame["event"], []).append(frame["path"])
            assert seen["overflow"] == ["/tmp/flood"] and 0 < len(seen["chmod"]) < 2 * count
            await in_thread(sandbox.out, "touch /tmp/flood/afterwards")
            await watcher.until("create", "/tmp/flood/afterwards")

    sandbox.out(f"mkdir -p /tmp/flood && cd /tmp/flood && touch {a} {b}")
    asyncio.run(scenario())


def test_a_deleted_sandbox_ends_the_watch(create, server):
    sandbox = create()

    async def scenario():
        url = f"ws://{server.host}:{server.port}{sandbox.path}/files/watch"
        headers = {"Authorization": f"Bearer {server.key}"}
        async with websockets.connect(url, extra_headers=headers) as connection:
            watcher = Watcher(connection)
            await watcher.subscribe("/tmp")
            await in_thread(sandbox.delete)
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    frame = await watcher.receive()
                    assert frame["type"] == "error", frame
            assert closed.value.code == 1011

    asyncio.run(scenario())


def test_a_plain_request_is_refused(server, sandbox):
    answer = server.client.call("GET", f"{sandbox.path}/files/watch")
    assert answer.status in (400, 409, 426), answer.body
