"""Small OCI images made on the spot, and a registry to fetch them from."""
import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time

BUSYBOX = shutil.which("busybox")


def tar_of(entries):
    """entries: (path, content or None for a directory or ('link'|'hard', target), mode, uid)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content, *rest in entries:
            info = tarfile.TarInfo(path)
            info.mode = rest[0] if rest else 0o644
            info.uid = info.gid = rest[1] if len(rest) > 1 else 0
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, rest[0] if rest else 0o755
                tar.addfile(info)
            elif isinstance(content, tuple):
                info.type = tarfile.SYMTYPE if content[0] == "link" else tarfile.LNKTYPE
                info.linkname = content[1]
                tar.addfile(info)
            else:
                data = content if isinstance(content, bytes) else content.encode()
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


APPLETS = ["sh", "cat", "ls", "echo", "id", "touch", "rm", "mkdir", "stat", "test", "printf", "env",
           "pwd", "whoami", "sleep", "chmod", "true", "false", "wc"]


def busybox_layers():
    binary = open(BUSYBOX, "rb").read()
    first = [("bin", None), ("bin/busybox", binary, 0o755),
             *((f"bin/{name}", ("hard", "bin/busybox"), 0o755) for name in APPLETS),
             ("etc", None),
             ("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1234:1234::/srv:/bin/sh\n"),
             ("etc/group", "root:x:0:\napp:x:1234:\n"), ("etc/removed", "x"), ("tmp", None, 0o1777),
             ("opaque", None), ("opaque/old", "old"), ("srv", None, 0o750, 1234)]
    second = [("etc/.wh.removed", ""), ("opaque/new", "new"), ("opaque/.wh..wh..opq", ""),
              ("srv/owned", "mine", 0o640, 1234)]
    return [tar_of(first), tar_of(second)]


def write_layout(directory, layers, config):
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def add(data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    packed = [add(gzip.compress(layer, 1), "application/vnd.oci.image.layer.v1.tar+gzip")
              for layer in layers]
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    configuration = json.dumps({
        "architecture": machine, "os": "linux", "config": config,
        "rootfs": {"type": "layers",
                   "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]},
    }).encode()
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(configuration, "application/vnd.oci.image.config.v1+json"),
        "layers": packed}).encode()
    descriptor = add(manifest, "application/vnd.oci.image.manifest.v1+json")
    descriptor["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (directory / "index.json").write_text(
        json.dumps({"schemaVersion": 2, "manifests": [descriptor]}))
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return directory


CONFIG = {"Env": ["PATH=/bin", "FROM_IMAGE=yes"], "WorkingDir": "/srv", "User": "app",
          "Cmd": ["sh"]}


class Registry:
    """Debian's docker-registry on a loopback port, with or without a password."""

    def __init__(self, directory, password=None):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        auth = ""
        if password:
            users = directory / "users"
            line = subprocess.run(["htpasswd", "-nbB", "someone", password], check=True,
                                  capture_output=True, text=True).stdout
            users.write_text(line)
            auth = f"auth:\n  htpasswd:\n    realm: test\n    path: {users}\n"
        config = directory / "config.yml"
        config.write_text(f"version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n"
                          f"    rootdirectory: {directory}/storage\nhttp:\n"
                          f"  addr: 127.0.0.1:{self.port}\n{auth}")
        self.process = subprocess.Popen(["docker-registry", "serve", config],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline and self.process.poll() is None
                time.sleep(0.05)

    def reference(self, name):
        return f"127.0.0.1:{self.port}/{name}"

    def push(self, layout, name, credentials=None):
        subprocess.run(["skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false",
                        *(["--dest-creds", credentials] if credentials else []),
                        f"oci:{layout}:latest", f"docker://{self.reference(name)}"],
                       check=True, capture_output=True)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
