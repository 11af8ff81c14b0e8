"""Volumes, with the newest SDK that has them: files, snapshots, archives, watches, mounts."""
import pathlib
import tempfile

from sandbox0.apispec.models.claim_mount_request import ClaimMountRequest
from sandbox0.apispec.models.create_sandbox_volume_request import CreateSandboxVolumeRequest
from sandbox0.apispec.models.create_snapshot_request import CreateSnapshotRequest

from support import check, client, finish, refused

volume = client.create_volume(CreateSandboxVolumeRequest.from_dict({"access_mode": "RWX"}))
try:
    @check("get and list")
    def _():
        assert client.get_volume(volume.id).access_mode == "RWX"
        assert volume.id in [each.id for each in client.list_volumes()]
        with refused(404):
            client.get_volume("vol-none")

    @check("files")
    def _():
        assert client.write_volume_file(volume.id, "/a/file", b"content").success is True
        assert client.read_volume_file(volume.id, "/a/file") == b"content"
        assert client.stat_volume_file(volume.id, "/a/file").size == 7
        client.mkdir_volume_file(volume.id, "/b/c", recursive=True)
        client.move_volume_file(volume.id, "/a/file", "/b/c/file")
        assert [each.name for each in client.list_volume_files(volume.id, "/b/c")] == ["file"]
        client.delete_volume_file(volume.id, "/b")
        with refused(404):
            client.stat_volume_file(volume.id, "/b")

    @check("a directory as an archive")
    def _():
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "packed.txt").write_text("packed")
            counts = client.upload_volume_directory(volume.id, directory, "/in")
        assert (counts.files, counts.bytes_) == (1, 6), counts
        assert client.read_volume_file(volume.id, "/in/packed.txt") == b"packed"

    @check("a watch")
    def _():
        stream = client.watch_volume_files(volume.id, "/watched", recursive=True)
        client.write_volume_file(volume.id, "/watched/new", b"x")
        for event in stream.iter_events():
            if event.path == "/watched/new":
                break
        stream.close()

    @check("snapshots and restore")
    def _():
        client.write_volume_file(volume.id, "/state", b"old")
        snapshot = client.create_volume_snapshot(volume.id, CreateSnapshotRequest(name="moment"))
        client.write_volume_file(volume.id, "/state", b"new")
        assert client.restore_volume_snapshot(volume.id, snapshot.id).data.status == "restored"
        assert client.read_volume_file(volume.id, "/state") == b"old"
        assert len(client.list_volume_snapshots(volume.id)) == 1
        assert client.get_volume_snapshot(volume.id, snapshot.id).name == "moment"
        for _ in range(2):
            assert client.delete_volume_snapshot(volume.id, snapshot.id).success is True

    @check("mounted in a sandbox")
    def _():
        mounts = [ClaimMountRequest(sandboxvolume_id=volume.id,
                                    mount_point="/workspace/bootstrap-data")]
        # This SDK knows no 202 as the answer to a deletion: whoever runs this script deletes it.
        sandbox = client.sandboxes.claim("default", mounts=mounts)
        assert [each.sandboxvolume_id for each in sandbox.bootstrap_mounts] == [volume.id]
        sandbox.cmd("sh -c 'echo -n live > /workspace/bootstrap-data/live'")
        assert client.read_volume_file(volume.id, "/live") == b"live"
        with refused(409):
            client.delete_volume(volume.id)
finally:
    @check("delete, also twice")
    def _():
        assert client.delete_volume(volume.id, force=True).success is True
        assert client.delete_volume(volume.id).success is True

finish()
