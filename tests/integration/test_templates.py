"""Templates from images: archives, registries and Dockerfiles, with real sandboxes on top."""
import base64
import gzip
import io
import json
import pathlib
import socket
import subprocess
import tarfile
import threading
import time
import urllib.parse

import pytest

from harness.images import APPLETS, CONFIG, Registry, busybox_layers, tar_of, write_layout


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return write_layout(tmp_path_factory.mktemp("image") / "layout", busybox_layers(), CONFIG)


@pytest.fixture(scope="module")
def archive(layout, tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "image.tar"
    with tarfile.open(path, "w") as tar:
        for entry in sorted(layout.rglob("*")):
            tar.add(entry, arcname=entry.relative_to(layout), recursive=False)
    return path.read_bytes()


# Talking to the API -----------------------------------------------------------------------------
class Templates:
    def __init__(self, client):
        self.client = client
        self.made = []

    def path(self, name, *more):
        return "/".join(["/api/v1/templates", name, *more])

    def records(self, answer):
        assert answer.status == 200, answer.body
        records = [json.loads(line) for line in answer.body.splitlines() if line]
        assert records[-1]["type"] in ("done", "error"), records[-1]
        return records

    def imported(self, name, body):
        self.made.append(name)
        return self.records(self.client.call("POST", self.path(name, "import"), body=body,
                                             timeout=300))

    def built(self, name, files, dockerfile=None, arguments=None, **query):
        """files: (path, content, ...) as for tar_of."""
        self.made.append(name)
        if dockerfile is not None:
            files = [("Dockerfile", dockerfile), *files]
        pairs = [*query.items(), *(("arg", f"{k}={v}") for k, v in (arguments or {}).items())]
        path = self.path(name, "build") + ("?" + urllib.parse.urlencode(pairs) if pairs else "")
        return self.records(self.client.call("POST", path, body=tar_of(files), timeout=300))

    def must_build(self, *arguments, **options):
        records = self.built(*arguments, **options)
        assert records[-1]["type"] == "done", records[-5:]
        return records

    def wait_ready(self, name, seconds=120):
        deadline = time.monotonic() + seconds
        while True:
            value = self.client.call("GET", self.path(name)).data
            state = value["status"]["creation"]["state"]
            if state != "creating":
                return value
            assert time.monotonic() < deadline, value
            time.sleep(0.1)

    def remove(self, name):
        return self.client.call("DELETE", self.path(name))


@pytest.fixture(scope="module")
def templates(client):
    owner = Templates(client)
    yield owner
    for name in set(owner.made):
        owner.remove(name)


@pytest.fixture(scope="module")
def tiny(templates, archive):
    """A template of busybox, from an archive."""
    records = templates.imported("tiny", archive)
    assert records[-1]["type"] == "done", records
    return "tiny"


def output_of(records):
    return "".join(record["text"] for record in records if record["type"] == "output")


# Archives ---------------------------------------------------------------------------------------
def test_builtin_templates_are_listed(client):
    listed = {each["template_id"]: each
              for each in client.call("GET", "/api/v1/templates").data["templates"]}
    assert listed["default"]["status"]["creation"]["state"] == "ready"
    assert listed["default"]["scope"] == "public"
    assert "code-interpreter-v1" in listed


def test_a_sandbox_of_an_imported_archive(create, tiny):
    sandbox = create(template=tiny)
    # The image's user, directory and environment are the defaults.
    assert sandbox.out(["sh", "-c", "id -u; pwd; echo $FROM_IMAGE"]) == "1234\n/srv\nyes\n"
    # Whiteouts, opaque directories, owners, hard links.
    assert sandbox.run(["test", "-e", "/etc/removed"])["exit_code"] == 1
    assert sandbox.out(["ls", "/opaque"]) == "new\n"
    assert sandbox.out(["stat", "-c", "%u %g %a", "/srv/owned"]) == "1234 1234 640\n"
    assert int(sandbox.out(["stat", "-c", "%h", "/bin/sh"])) == len(APPLETS) + 1
    assert sandbox.out(["stat", "-c", "%a", "/tmp"]) == "1777\n"


def test_files_in_a_sandbox_of_an_image(create, tiny):
    sandbox = create(template=tiny)
    sandbox.write("note", "relative to the image's directory, as the image's user")
    assert sandbox.out(["stat", "-c", "%u %n", "/srv/note"]) == "1234 /srv/note\n"
    assert sandbox.read("/srv/owned") == b"mine"
    answer = sandbox.client.call("POST", sandbox.file_path("/etc/new"), b"x")
    assert answer.status == 403


def test_a_docker_archive_is_understood(templates, create, layout, tmp_path):
    archive = tmp_path / "docker.tar"
    subprocess.run(["skopeo", "--insecure-policy", "copy", f"oci:{layout}:latest",
                    f"docker-archive:{archive}:tiny:1"], check=True, capture_output=True)
    records = templates.imported("from-docker", archive.read_bytes())
    assert records[-1]["type"] == "done", records
    assert create(template="from-docker").out(["cat", "/opaque/new"]) == "new"


@pytest.mark.parametrize("body, said", [
    (b"not an archive at all" * 100, "damaged"),
    (tar_of([("something", "else")]), "neither an OCI image"),
    (tar_of([("../escape", "x"), ("oci-layout", "{}")]), "refused"),
])
def test_bad_archives_are_refused(templates, body, said):
    records = templates.imported("bad-archive", body)
    assert records[-1]["type"] == "error"
    assert said in records[-1]["message"]
    value = templates.client.call("GET", templates.path("bad-archive")).data
    assert value["status"]["creation"]["state"] == "failed"
    answer = templates.client.call("POST", "/api/v1/sandboxes", body={"template": "bad-archive"})
    assert (answer.status, answer.error["code"]) == (409, "template_failed")


def test_a_changed_layer_is_refused(templates, tmp_path):
    layout = write_layout(tmp_path / "layout", busybox_layers(), CONFIG)
    largest = max((layout / "blobs/sha256").iterdir(), key=lambda blob: blob.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for entry in sorted(layout.rglob("*")):
            tar.add(entry, arcname=entry.relative_to(layout), recursive=False)
    records = templates.imported("changed", out.getvalue())
    assert records[-1]["type"] == "error"


# Dockerfiles ------------------------------------------------------------------------------------
DOCKERFILE = """\
ARG BASE=tiny
FROM ${BASE} AS build
USER root
ARG GREETING=hello
WORKDIR /making
COPY src/ .
RUN cat greeting.txt > out && echo "$GREETING" >> out && id -u
RUN rm /etc/passwd && mkdir -p keep/deep && rm -rf /opaque && mkdir /opaque

FROM tiny
USER root
ENV MODE=final PLACE="a b"
COPY --from=build /making/out /result/
COPY --from=build --chown=app:app /making /copied
COPY --chmod=755 src/run.sh /bin/run
ADD data.tar.gz /data/
COPY <<EOF /made-$MODE
mode $MODE
EOF
EXPOSE 80
WORKDIR /result
USER app
CMD ["run"]
"""


def context():
    inner = gzip.compress(tar_of([("in", None), ("in/file", "packed", 0o600, 77)]), 1, mtime=0)
    return [("src", None), ("src/greeting.txt", "from the context\n"),
            ("src/run.sh", "#!/bin/sh\necho running\n"), ("data.tar.gz", inner),
            (".dockerignore", "secret*\n"), ("secret.key", "never")]


@pytest.fixture(scope="module")
def built(templates, tiny):
    return templates.must_build("built", context(), DOCKERFILE, arguments={"GREETING": "moin"})


def test_a_multi_stage_build(built, create, templates):
    assert "0\n" in output_of(built)  # RUN is the user of USER
    sandbox = create(template="built")
    assert sandbox.out(["cat", "/result/out"]) == "from the context\nmoin\n"
    assert sandbox.out(["sh", "-c", "pwd; id -u; echo $MODE $PLACE $FROM_IMAGE"]) == \
        "/result\n1234\nfinal a b yes\n"
    assert sandbox.out(["run"]) == "running\n"
    assert sandbox.out(["cat", "/made-final"]) == "mode final\n"
    assert sandbox.out(["stat", "-c", "%u %a", "/data/in/file"]) == "77 600\n"
    assert sandbox.out(["stat", "-c", "%u:%g", "/copied/greeting.txt"]) == "1234:1234\n"
    assert sandbox.out(["stat", "-c", "%u:%g", "/result/out"]) == "0:0\n"
    # Only what was copied came over from the first stage.
    assert sandbox.run(["test", "-e", "/etc/passwd"])["exit_code"] == 0
    config = templates.client.call("GET", templates.path("built")).data["image_config"]
    assert config["command"] == ["run"] and config["exposedPorts"] == ["80"]


def test_deletions_of_a_step_hold_in_the_next(templates, tiny, create):
    templates.must_build("deleted", [], """\
FROM tiny
USER root
RUN rm /etc/group && rm -rf /opaque && mkdir /opaque && echo x > /opaque/fresh
RUN test ! -e /etc/group && ls /opaque > /seen
""")
    sandbox = create(template="deleted")
    assert sandbox.out(["cat", "/seen"]) == "fresh\n"
    assert sandbox.run(["test", "-e", "/etc/group"])["exit_code"] == 1


def test_a_second_build_is_cached(built, templates):
    again = templates.must_build("built", context(), DOCKERFILE, arguments={"GREETING": "moin"})
    assert not output_of(again)
    layers = [record for record in again if record["type"] == "cached"]
    assert len(layers) == 9, layers
    # A changed file spoils what comes after it, and no more.
    changed = [(path, b"other\n" if path == "src/greeting.txt" else content, *rest)
               for path, content, *rest in context()]
    other = templates.must_build("built-2", changed, DOCKERFILE, arguments={"GREETING": "moin"})
    assert "0\n" in output_of(other)
    # And nothing is taken from the cache when that is asked for.
    fresh = templates.must_build("built-2", context(), DOCKERFILE, no_cache="true")
    assert not [record for record in fresh if record["type"] == "cached"]


def test_a_failing_step_is_shown_with_its_line(templates, tiny):
    records = templates.built("failing", [],
                              "FROM tiny\n\nRUN true\nRUN echo before; \\\n  exit 7\n")
    assert "before\n" in output_of(records)
    error = records[-1]
    assert error["type"] == "error"
    assert "Dockerfile:4" in error["message"] and "exit code 7" in error["message"]
    step = [record for record in records if record["type"] == "step"][-1]
    assert (step["line"], step["step"], step["total"]) == (4, 3, 3)


def test_a_failed_rebuild_keeps_what_was_there(templates, tiny, create):
    templates.must_build("steady", [], "FROM tiny\nUSER root\nRUN echo 1 > /version\n")
    records = templates.built("steady", [], "FROM tiny\nUSER root\nRUN echo 2 > /version; false\n")
    assert records[-1]["type"] == "error"
    assert create(template="steady").out(["cat", "/version"]) == "1\n"


@pytest.mark.parametrize("dockerfile, said", [
    ("FROM tiny\nCOPY missing /x\n", "Dockerfile:2: \"missing\" is not in the build context"),
    ("FROM tiny\nCOPY secret.key /x\n", ".dockerignore"),
    ("FROM tiny\nCOPY ../etc/passwd /x\n", "outside of the build context"),
    ("FROM tiny\nFOO bar\n", "Dockerfile:2: there is no instruction"),
    ("FROM tiny\nRUN [\"/nowhere\"]\n", "Dockerfile:2"),
    ("FROM tiny\nCOPY --from=127.0.0.1:1/nope a b\n", "Dockerfile:2"),
    ("FROM tiny\nADD https://example.com/x /x\n", "no network"),
    ("FROM tiny\nUSER nobody-here\nRUN true\n", "Dockerfile:3"),
    ("FROM scratch\n", "empty"),
])
def test_bad_dockerfiles(templates, tiny, dockerfile, said):
    records = templates.built("bad-dockerfile", context(), dockerfile)
    assert records[-1]["type"] == "error"
    assert said in records[-1]["message"]


def test_an_unknown_network_is_refused(templates, client):
    answer = client.call("POST", templates.path("with-network", "build") + "?network=bridge",
                         body=tar_of([("Dockerfile", "FROM default\n")]))
    assert answer.status == 400
    assert "none or host" in answer.error["message"]


def test_run_on_the_hosts_network_when_asked(templates, client, create):
    """It reaches a server on the host's loopback device and the host's resolver; nothing of that
    network stays in the template or reaches a sandbox made from it."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def answer_once():
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"from the host")
    server = threading.Thread(target=answer_once, daemon=True)
    server.start()
    dockerfile = f"""\
FROM default
RUN cp /etc/resolv.conf /seen-resolver && ls /sys/class/net | wc -l
RUN python3 -c "import socket; s = socket.create_connection(('127.0.0.1', {port}), 20); \
open('/answer', 'w').write(s.recv(99).decode())"
RUN ! mount -t sysfs none /mnt && ! ip link set lo down 2>/dev/null && id -u
"""
    answer = client.call("POST", templates.path("with-network", "build") + "?network=host",
                         body=tar_of([("Dockerfile", dockerfile)]))
    server.join(20)
    listener.close()
    assert answer.status == 200 and b'"done"' in answer.body.splitlines()[-1], answer.body
    sandbox = create(template="with-network")
    assert sandbox.read("/answer") == b"from the host"
    assert sandbox.read("/seen-resolver") == pathlib.Path("/etc/resolv.conf").read_bytes()
    done = sandbox.run(["python3", "-c", "import os, socket; "
                        "print([name for _, name in socket.if_nameindex()]);"
                        "f = '/etc/resolv.conf'; print(os.path.exists(f) and open(f).read())"])
    assert done["stdout"].startswith("['lo']\n")
    assert pathlib.Path("/etc/resolv.conf").read_text() not in done["stdout"]


def test_run_has_no_network(templates):
    records = templates.must_build("no-network", [], """\
FROM default
RUN python3 -c "import socket; print([name for _, name in socket.if_nameindex()])"
""")
    assert "['lo']" in output_of(records)


def test_run_from_the_default_template_with_a_script(templates, create):
    records = templates.must_build("scripted", [], """\
FROM default
RUN <<EOF
set -e
echo one > /one
echo two >> /one
EOF
RUN <<'EOF'
#!/usr/bin/env python3
print("written in " + "python")
EOF
SHELL ["/bin/bash", "-c"]
RUN [[ x == x ]] && echo bash
""")
    assert "written in python\n" in output_of(records) and "bash\n" in output_of(records)
    assert create(template="scripted").out(["cat", "/one"]) == "one\ntwo\n"


# Life of a template -----------------------------------------------------------------------------
def test_update_changes_environment_and_resources(templates, tiny, create, client):
    templates.must_build("updated", [], "FROM tiny\nENV A=image\n")
    answer = client.call("PUT", templates.path("updated"), body={"spec": {
        "description": "mine", "envVars": {"A": "spec", "B": "spec"},
        "pool": {"minIdle": 0, "maxIdle": 2},
        "mainContainer": {"image": "", "resources": {"memory": "256Mi"}}}})
    assert answer.status == 200, answer.body
    sandbox = create(template="updated", env_vars={"B": "claim"})
    assert sandbox.out(["sh", "-c", "echo $A $B"]) == "spec claim\n"
    assert sandbox.get()["resources"]["memory"] == "256Mi"
    for bad in ({"network": {"mode": "block"}}, {"nonsense": 1},
                {"pool": {"minIdle": 3, "maxIdle": 1}}):
        assert client.call("PUT", templates.path("updated"), body={"spec": bad}).status == 400


def test_delete_is_refused_while_sandboxes_use_it(templates, tiny, client, create):
    templates.must_build("short", [], "FROM tiny\nUSER root\nRUN echo x > /x\n")
    sandbox = create(template="short")
    answer = templates.remove("short")
    assert (answer.status, answer.error["code"]) == (409, "conflict")
    client.call("DELETE", sandbox.path)
    assert templates.remove("short").status == 200
    assert client.call("GET", templates.path("short")).status == 404
    assert client.call("POST", "/api/v1/sandboxes", body={"template": "short"}).status == 404


def test_builtin_templates_are_protected(templates, client):
    for name in ("default", "base", "code-interpreter-v1"):
        assert templates.remove(name).status == 403
        assert client.call("PUT", templates.path(name), body={"spec": {}}).status == 403
        assert client.call("POST", templates.path(name, "import"), body=b"x").status == 403


@pytest.mark.parametrize("body", [
    {}, {"template_id": "x"}, {"template_id": "x", "spec": {}},
    {"template_id": "x", "spec": {"mainContainer": {"image": "a b"}}},
    {"template_id": "../x", "spec": {"mainContainer": {"image": "a"}}},
    {"template_id": "x", "spec": {"mainContainer": {"image": "a", "securityContext": {}}}},
    {"template_id": "x", "spec": {"mainContainer": {"image": "a", "securityClass": "other"}}},
    {"template_id": "x", "spec": {"mainContainer": {"image": "a"}}, "extra": 1},
])
def test_bad_creates(client, body):
    answer = client.call("POST", "/api/v1/templates", body=body)
    assert answer.status == 400, answer.body


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"text"', b"[[", b'{"registry_auth": []}'])
def test_a_body_that_is_no_object_is_refused(client, templates, body):
    assert client.call("POST", templates.path("anything", "pull"), body=body).status == 400
    answer = client.call("POST", templates.path("anything", "build"), body=tar_of([]),
                         headers={"X-Registry-Auth": base64.b64encode(body).decode()})
    assert answer.status == 400
    assert client.call("GET", "/healthz").status == 200


# Registries -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def registry(tmp_path_factory, layout):
    running = Registry(tmp_path_factory.mktemp("registry"))
    try:
        running.push(layout, "team/tiny:1")
        yield running
    finally:
        running.stop()


def create_from(templates, name, image, **more):
    templates.made.append(name)
    spec = {"mainContainer": {"image": image, "resources": {"memory": "512Mi"}}}
    return templates.client.call("POST", "/api/v1/templates",
                                 body={"template_id": name, "spec": spec, **more})


def test_pull_from_a_registry(templates, registry, create, client):
    answer = create_from(templates, "pulled", registry.reference("team/tiny:1"))
    assert answer.status == 201, answer.body
    assert answer.data["status"]["creation"]["state"] in ("creating", "ready")
    log = templates.records(client.call("GET", templates.path("pulled", "logs"), timeout=120))
    assert log[-1]["type"] == "done"
    assert templates.wait_ready("pulled")["status"]["creation"]["state"] == "ready"
    assert create(template="pulled").out(["cat", "/opaque/new"]) == "new"
    again = create_from(templates, "pulled", registry.reference("team/tiny:1"))
    assert (again.status, again.error["code"]) == (409, "conflict")
    # Pulling again finds everything in place.
    records = templates.records(client.call("POST", templates.path("pulled", "pull"), timeout=120))
    assert any("already" in record.get("text", "") for record in records)


def test_an_image_that_is_not_there(templates, registry):
    assert create_from(templates, "missing", registry.reference("nothing:1")).status == 201
    value = templates.wait_ready("missing")
    assert value["status"]["creation"]["state"] == "failed"
    assert "manifest unknown" in value["status"]["creation"]["message"]


def test_a_claim_while_the_template_is_being_made(templates, client):
    # A registry that accepts and says nothing keeps the template in the making.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        image = f"127.0.0.1:{silent.getsockname()[1]}/x:1"
        assert create_from(templates, "slow", image).status == 201
        answer = client.call("POST", "/api/v1/sandboxes", body={"template": "slow"})
        assert (answer.status, answer.error["code"]) == (409, "template_not_ready")
        assert int(answer.headers["Retry-After"]) > 0
        assert templates.remove("slow").status == 409
        update = client.call("PUT", templates.path("slow"), body={"spec": {}})
        assert (update.status, update.error["code"]) == (409, "template_not_ready")
        connection, _ = silent.accept()
        connection.close()
    assert templates.wait_ready("slow")["status"]["creation"]["state"] == "failed"


def test_a_registry_with_a_password(templates, layout, tmp_path_factory, create, server):
    registry = Registry(tmp_path_factory.mktemp("private"), password="swordfish")
    try:
        registry.push(layout, "private:1", "someone:swordfish")
        image = registry.reference("private:1")
        assert create_from(templates, "locked-out", image).status == 201
        assert templates.wait_ready("locked-out")["status"]["creation"]["state"] == "failed"
        assert create_from(templates, "let-in", image, registry_auth={
            "username": "someone", "password": "swordfish"}).status == 201
        assert templates.wait_ready("let-in")["status"]["creation"]["state"] == "ready"
        assert create(template="let-in").out(["cat", "/opaque/new"]) == "new"
        assert "swordfish" not in server.log(10**9)
        assert "swordfish" not in json.dumps(
            templates.client.call("GET", templates.path("let-in")).json)
        # And as the base of a build.
        auth = base64.b64encode(b'{"username": "someone", "password": "swordfish"}').decode()
        records = templates.records(templates.client.call(
            "POST", templates.path("on-private", "build"),
            body=tar_of([("Dockerfile", f"FROM {image}\nENV X=1\n")]),
            headers={"X-Registry-Auth": auth}, timeout=120))
        templates.made.append("on-private")
        assert records[-1]["type"] == "done", records
    finally:
        registry.stop()
