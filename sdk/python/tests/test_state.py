"""Pausing, snapshots, forks, changes, archives, trees and volumes."""
import asyncio
import io
import tarfile

import pytest

from atoll_sandbox import AsyncSandbox, Client, ConflictError, NotFoundError, Sandbox, VolumeMount


@pytest.fixture
def client(server):
    with Client() as made:
        yield made


def test_pause_and_resume(server):
    with Sandbox.create() as sandbox:
        sandbox.run_code("x = 41")
        assert sandbox.pause().memory == "frozen"
        assert sandbox.info().status == "paused"
        assert sandbox.resume().restored == "memory"
        assert sandbox.run_code("x + 1").text == "42"
        assert sandbox.pause(memory=False).memory == "none"
        answer = sandbox.resume()
        assert answer.restored == "filesystem" and answer.reason
        assert sandbox.resume().restored == "nothing"


def test_snapshots(client):
    with Sandbox.create(client=client) as sandbox:
        sandbox.files.write("/workspace/notes", "first")
        snapshot = sandbox.snapshot("first", description="before", expires_in=3600)
        try:
            assert 3500 < (snapshot.expires_at - snapshot.created_at).total_seconds() < 3700
            sandbox.files.write("/workspace/notes", "second")
            assert [each.id for each in sandbox.snapshots()] == [snapshot.id]
            assert client.snapshots.get(snapshot.id).description == "before"
            changes = {each.path: each.change for each in sandbox.diff(snapshot)}
            assert changes["/workspace/notes"] == "changed"
            with pytest.raises(ConflictError):
                sandbox.restore(snapshot)
            sandbox.restore(snapshot, force=True)
            assert sandbox.files.read("/workspace/notes") == "first"
            with Sandbox.create(snapshot=snapshot, client=client) as begun:
                assert begun.files.read("/workspace/notes") == "first"
        finally:
            client.snapshots.delete(snapshot)
        with pytest.raises(NotFoundError):
            client.snapshots.get(snapshot.id)


def test_forks_and_trees(client):
    with Sandbox.create(client=client) as parent:
        parent.files.write("/workspace/notes", "shared")
        with parent.fork() as child:
            assert child.files.read("/workspace/notes") == "shared"
            child.files.write("/workspace/notes", "mine")
            assert parent.files.read("/workspace/notes") == "shared"
            many = parent.fork_many(2, start=False)
            try:
                assert [each.info().status for each in many] == ["paused", "paused"]
                tree = {node.id: node.parent_id for node in parent.tree().nodes}
                assert tree == {parent.id: None, child.id: parent.id, many[0].id: parent.id,
                                many[1].id: parent.id}
                assert set(tree) <= {node.id for node in client.snapshots.trees().nodes}
            finally:
                for each in many:
                    each.kill()
        assert not child.is_running()


def test_a_fork_says_which_interpreters_came_along(client):
    with Sandbox.create(client=client) as parent:
        parent.run_code("x = 41")
        with parent.fork(memory="interpreters") as child:
            interpreter, = child.forked_interpreters
            assert interpreter.alias == "python" and interpreter.carried, interpreter
            with child.contexts.connect(interpreter.context_id) as context:
                assert context.run("x + 1").text == "42"
        assert parent.forked_interpreters == []


def test_export_and_import(client):
    with Sandbox.create(client=client) as sandbox:
        sandbox.files.write("/workspace/notes", "kept")
        changed = tarfile.open(fileobj=io.BytesIO(b"".join(sandbox.diff_archive())))
        assert changed.extractfile("workspace/notes").read() == b"kept"
        layer = b"".join(sandbox.export(layer_only=True, compression="none"))
        assert "workspace/notes" in tarfile.open(fileobj=io.BytesIO(layer)).getnames()
        snapshot = client.snapshots.import_archive(sandbox.export(compression="none"), name="back")
    try:
        assert snapshot.name == "back"
        with Sandbox.create(snapshot=snapshot, client=client) as begun:
            assert begun.files.read("/workspace/notes") == "kept"
    finally:
        client.snapshots.delete(snapshot)


def test_volumes(client, tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("a")
    with client.volumes.create(access_mode="RWX", size="1Gi") as volume:
        volume.files.write("/notes", "without a sandbox")
        assert volume.files.upload_tree(tmp_path / "tree", "/tree").files == 1
        assert sorted(each.name for each in volume.files.list("/")) == ["notes", "tree"]
        snapshot = volume.snapshot("before")
        mounts = {"/workspace/data": volume}
        with Sandbox.create(client=client, volumes=mounts) as one:
            assert one.files.read("/workspace/data/notes") == "without a sandbox"
            assert volume.info().mounted_in == [one.id]
            one.commands.run("echo changed > /workspace/data/notes", user="root", check=True)
            with pytest.raises(ConflictError):
                volume.delete()
        assert volume.files.read("/notes") == "changed\n"
        reading = VolumeMount(sandboxvolume_id=volume.id, mount_point="/data", read_only=True)
        with Sandbox.create(client=client, volumes={"/data": reading}) as two:
            assert not two.commands.run("touch /data/x", user="root").ok
        assert [each.name for each in volume.snapshots()] == ["before"]
        volume.restore(snapshot)
        assert volume.files.read("/notes") == "without a sandbox"
        with volume.fork() as other:
            assert other.files.read("/tree/a") == "a"
            assert {volume.id, other.id} <= {each.id for each in client.volumes.list()}
        volume.delete_snapshot(snapshot)
    with pytest.raises(NotFoundError):
        client.volumes.connect(volume.id)
    volume.delete()  # gone is gone


def test_async(server):
    async def main():
        async with AsyncSandbox.create() as sandbox:
            await sandbox.files.write("/workspace/notes", "x")
            async with sandbox.fork() as child:
                assert await child.files.read("/workspace/notes") == "x"
            paths = [each.path async for each in sandbox.diff()]
            assert "/workspace/notes" in paths
            await sandbox.pause()
            return (await sandbox.resume()).restored
    assert asyncio.run(main()) == "memory"
