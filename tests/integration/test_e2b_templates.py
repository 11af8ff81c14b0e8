"""Templates as E2B's protocol builds them, on the wire: uploads by hash, steps, tags, names, logs.

What the SDKs show is in tests/conformance/e2b; here is what they cannot say.
"""
import hashlib
import re
import secrets
import time
import urllib.parse

import pytest

from harness.e2b import Builder, archive_of
from harness.faults import FaultyServer
from harness.images import CONFIG, Registry, busybox_layers, write_layout
from harness.server import Server, wait_until

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture
def builder(client):
    made = Builder(client)
    yield made
    made.end()


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    directory = tmp_path_factory.mktemp("registry")
    running = Registry(directory, password="pass word")
    layout = write_layout(tmp_path_factory.mktemp("image") / "layout", busybox_layers(), CONFIG)
    running.push(layout, "tiny:1", "someone:pass word")
    yield running
    running.stop()


def name_of(test):
    return f"{test}-{secrets.token_hex(4)}"


def texts(status, level=None):
    return [entry["message"] for entry in status["logEntries"]
            if level is None or entry["level"] == level]


# The sequence of the SDKs ---------------------------------------------------------------------
def test_a_build_from_the_request_to_a_sandbox(builder):
    name = name_of("whole")
    asked = builder.request(name, cpuCount=1, memoryMB=512)
    assert re.fullmatch("[a-z0-9]{20}", asked["templateID"]) and UUID.fullmatch(asked["buildID"])
    assert (asked["public"], asked["aliases"], asked["tags"]) == (False, [name], ["default"])
    assert asked["names"] == [f"default/{name}"]
    assert builder.status(asked)["status"] == "waiting"
    files = builder.upload(asked["templateID"], {"app/run.sh": "echo hi", "app/a": ("link", "run.sh")})
    builder.start(asked, fromTemplate="base", steps=[
        ("ENV", ["GREETING", "hello", "WHOLE", "$GREETING ${GREETING}!"]),
        ("WORKDIR", ["/srv/deep/work"]),
        ("COPY", ["app", ".", "", ""], files),
        ("RUN", ["echo $WHOLE > said; id -un >> said; pwd >> said; shopt -q login_shell && echo login >> said"]),
        ("RUN", ["id -un > /root-said", "root"]),
    ])
    assert builder.headers["Content-Length"] == "0"
    assert builder.status(asked)["status"] in ("building", "ready")
    status = builder.wait(asked)
    assert status["status"] == "ready", status
    assert status["logs"] == [] and "reason" not in status
    assert any("[builder 4/5] RUN echo $WHOLE" in text for text in texts(status))
    sandbox = builder.sandbox(name)
    assert sandbox.answer["templateID"] == asked["templateID"]
    assert sandbox.answer["alias"] == name
    assert sandbox.out(["cat", "/srv/deep/work/said"]) == "hello hello!\nuser\n/srv/deep/work\nlogin\n"
    assert sandbox.out(["cat", "/root-said"]) == "root\n"
    # What the steps left is what sandboxes begin with.
    assert sandbox.out(["sh", "-c", "id -un; pwd; echo $GREETING"]) == "user\n/srv/deep/work\nhello\n"
    assert sandbox.out(["stat", "-c", "%U %F", "/srv/deep", "run.sh", "a"]) == (
        "user directory\nuser regular file\nuser symbolic link\n")
    assert sandbox.out(["sudo", "id", "-un"]) == "root\n"
    detail = builder.call("GET", f"/sandboxes/{sandbox.id}", status=200)
    assert (detail["cpuCount"], detail["memoryMB"]) == (1, 512)


def test_everything_that_every_template_has(builder, registry):
    asked = builder.must_build(
        name_of("tiny"), [("RUN", ["id -un; pwd; touch /code/x /usr/local/x"])],
        fromImage=registry.reference("tiny:1"), fromImageRegistry={
            "type": "registry", "username": "someone", "password": "pass word"})
    sandbox = builder.sandbox(asked["templateID"])
    assert sandbox.out(["sh", "-c", "id -un; pwd; echo $FROM_IMAGE"]) == "user\n/home/user\nyes\n"
    assert sandbox.out(["stat", "-c", "%a", "/code", "/usr/local"]) == "777\n777\n"
    assert sandbox.run(["test", "-e", "/.e2b"])["exit_code"] == 0


def test_credentials_of_a_registry_that_are_wrong(builder, registry):
    _, status = builder.build(
        name_of("denied"), fromImage=registry.reference("tiny:1"),
        fromImageRegistry={"type": "registry", "username": "someone", "password": "other"})
    assert status["status"] == "error" and status["reason"]["step"] == "base"
    assert "pass word" not in str(status) and "other" not in status["reason"]["message"]


def test_copy_means_what_it_means_elsewhere(builder):
    asked = builder.request(name_of("copy"))
    one = builder.upload(asked["templateID"], {"a/one.txt": "1"})
    many = builder.upload(asked["templateID"], {"b/x.txt": "x", "b/c/y.txt": "y"})
    builder.start(asked, fromTemplate="base", steps=[
        ("COPY", ["a/one.txt", "/tmp/into/", "", ""], one),       # a slash: into the directory
        ("COPY", ["a/one.txt", "/tmp/renamed", "root", "0600"], one),
        ("COPY", ["b", "/tmp/tree", "", ""], many),                # of a directory its contents
        ("COPY", ["b/*.txt", "/tmp/globbed", "", ""], many),
        ("USER", ["worker"]),
        ("COPY", ["a/one.txt", "~/mine", "", ""], one),
    ])
    assert builder.wait(asked)["status"] == "ready"
    sandbox = builder.sandbox(asked["templateID"])
    found = sandbox.out(["sh", "-c", "cd /tmp && find into renamed tree globbed -type f | sort"])
    assert found == ("globbed/c/y.txt\nglobbed/x.txt\ninto/one.txt\nrenamed\n"
                     "tree/c/y.txt\ntree/x.txt\n")
    assert sandbox.out(["stat", "-c", "%U %a", "/tmp/renamed", "/home/worker/mine"]) == (
        "root 600\nworker 644\n")
    assert sandbox.out(["id", "-un"]) == "worker\n"


# Failures --------------------------------------------------------------------------------------
def test_a_step_that_fails_is_named(builder):
    asked, status = builder.build(name_of("fails"), [
        ("RUN", ["echo first"]), ("RUN", ["echo before; echo worse >&2; exit 7"]), ("RUN", ["true"])])
    assert status["status"] == "error"
    reason = status["reason"]
    assert reason["step"] == "2"
    assert reason["message"].startswith("failed to run command 'echo before; echo worse >&2; exit 7':")
    assert "7" in reason["message"]
    assert any("worse" in entry["message"] for entry in reason["logEntries"])
    assert any(text.endswith("[stdout]: first") for text in texts(status))
    assert any(text.endswith("[stderr]: worse") for text in texts(status, "warn"))
    answer = builder.sandbox(asked["templateID"], status=404)
    assert "tag" in answer["message"]


@pytest.mark.parametrize("body, status", [
    ({}, 400),
    ({"fromImage": "x", "fromTemplate": "base"}, 400),
    ({"fromTemplate": "base", "steps": [("EXPOSE", ["80"])]}, 400),
    ({"fromTemplate": "base", "steps": [("RUN", [])]}, 400),
    ({"fromTemplate": "base", "steps": [("ENV", ["A"])]}, 400),
    ({"fromTemplate": "base", "steps": [("COPY", ["a", "b"], "f" * 64)]}, None),
    ({"fromTemplate": "nowhere-to-be-found"}, 404),
    ({"fromImage": "UPPER case"}, 400),
    ({"fromImage": "x", "fromImageRegistry": {"type": "aws", "awsAccessKeyId": "a",
                                              "awsSecretAccessKey": "s3cret", "awsRegion": "r"}}, 400),
])
def test_what_cannot_be_built_is_refused(builder, body, status):
    asked = builder.request(name_of("refused"))
    answer = builder.start(asked, status=status, **{**body})
    assert answer["code"] in (400, 404, 409) and "s3cret" not in answer["message"]


def test_a_build_starts_once(builder):
    asked = builder.must_build(name_of("once"))
    assert "not waiting" in builder.start(asked, status=400, fromTemplate="base")["message"]
    builder.start({**asked, "buildID": "00000000-0000-4000-8000-000000000000"}, status=404,
                  fromTemplate="base")


def test_a_second_build_cancels_the_first(builder):
    name = name_of("twice")
    first = builder.request(name)
    builder.start(first, fromTemplate="base", steps=[("RUN", ["sleep 600"])])
    second = builder.request(name)
    assert second["templateID"] == first["templateID"]
    builder.start(second, fromTemplate="base")
    assert builder.wait(second)["status"] == "ready"
    ended = builder.wait(first)
    assert ended["status"] == "error" and "cancel" in ended["reason"]["message"]


# Files -----------------------------------------------------------------------------------------
def test_links_are_for_one_hash_and_not_for_ever(builder):
    asked = builder.request(name_of("links"))
    template = asked["templateID"]
    data = archive_of({"a": secrets.token_hex(8)})
    hash = hashlib.sha256(data).hexdigest()
    link = builder.call("GET", f"/templates/{template}/files/{hash}", status=201)
    assert link["present"] is False
    url = link["url"]
    assert builder.put(url.replace(hash, "0" * 64), data) == 401
    assert builder.put(re.sub(r"signature=[0-9a-f]{4}", "signature=0000", url), data) == 401
    assert builder.put(re.sub(r"expires=\d", "expires=9", url), data) == 401
    assert builder.put(re.sub(r"team=\w+", "team=other", url), data) == 401
    assert builder.put(url.split("?")[0], data) == 401
    assert builder.put(url, iter([data]), **{"Transfer-Encoding": "chunked"}) == 411
    assert builder.put(url, data) == 200
    assert builder.call("GET", f"/templates/{template}/files/{hash}", status=201)["present"] is True
    assert builder.call("GET", f"/templates/{template}/files/nothing", status=400)
    assert builder.call("GET", f"/templates/{'x' * 20}/files/{hash}", status=404)


def test_an_archive_that_is_none(builder):
    asked = builder.request(name_of("broken"))
    hash = secrets.token_hex(32)
    link = builder.call("GET", f"/templates/{asked['templateID']}/files/{hash}", status=201)
    assert builder.put(link["url"], b"this is no archive") == 200
    builder.start(asked, fromTemplate="base", steps=[("COPY", ["a", "/a"], hash)])
    status = builder.wait(asked)
    assert (status["status"], status["reason"]["step"]) == ("error", "1")


# The cache -------------------------------------------------------------------------------------
def test_equal_steps_are_not_run_again_unless_forced(builder):
    steps = [("RUN", ["cat /proc/sys/kernel/random/uuid > ~/stamp"]), ("RUN", ["cp ~/stamp ~/copy"])]
    stamps = []
    for force in (False, False, True):
        asked = builder.must_build(name_of("cache"), steps, force=force)
        stamps.append(builder.sandbox(asked["templateID"]).out(["cat", "/home/user/copy"]))
    assert stamps[0] == stamps[1] != stamps[2]


def test_a_template_of_a_template(builder):
    below = name_of("below")
    builder.must_build(below, [("ENV", ["KEPT", "yes"]), ("USER", ["keeper"]),
                               ("WORKDIR", ["/opt/kept"])])
    above = builder.must_build(name_of("above"), [("RUN", ["id -un > made; pwd >> made"])],
                               fromTemplate=below)
    sandbox = builder.sandbox(above["templateID"])
    assert sandbox.out(["sh", "-c", "cat made; echo $KEPT"]) == (
        "keeper\n/opt/kept\nyes\n")


def test_a_page_goes_on_where_the_last_one_ended(builder):
    """Also when what it ended with has gone."""
    made = {builder.request(name_of("page"))["templateID"] for _ in range(3)}
    whole = [each["templateID"] for each in builder.call("GET", "/v2/templates", status=200)]
    assert set(whole[:3]) == made
    first = builder.call("GET", "/v2/templates?limit=1", status=200)
    token = builder.headers["X-Next-Token"]
    builder.call("DELETE", f"/templates/{whole[0]}", status=204)
    rest = builder.call("GET", f"/v2/templates?limit=2&nextToken={token}", status=200)
    assert [each["templateID"] for each in first + rest] == whole[:3]


def test_a_snapshot_and_a_template_share_no_name(builder):
    built = builder.must_build(name_of("named"))
    sandbox = builder.sandbox(built["templateID"])
    path = f"/sandboxes/{sandbox.id}/snapshots"
    builder.call("POST", path, {"name": built["aliases"][0]}, 409)
    taken = builder.call("POST", path, {"name": name_of("moment")}, 201)["snapshotID"]
    alias = taken.partition("/")[2].partition(":")[0]
    builder.request(alias, status=409)
    builder.call("DELETE", f"/templates/{urllib.parse.quote(taken, safe='')}", status=204)
    builder.request(alias)


# Start commands --------------------------------------------------------------------------------
START = "echo $$ > ~/pid; n=0; while :; do n=$((n+1)); echo $n > ~/.n; mv ~/.n ~/n; sleep 0.05; done"


def test_the_start_command_runs_already(builder):
    asked = builder.must_build(name_of("started"), startCmd=START,
                               readyCmd="[ -f ~/n ] && [ $(cat ~/n) -ge 20 ]")
    first, second = (builder.sandbox(asked["templateID"]) for _ in range(2))
    for sandbox in (first, second):
        # From where it was, not from its beginning; and it goes on.
        count = int(sandbox.out(["cat", "/home/user/n"]))
        assert count >= 20
        deadline = time.monotonic() + 20
        while int(sandbox.out(["cat", "/home/user/n"])) <= count:
            assert time.monotonic() < deadline
        assert sandbox.out(["sh", "-c", "kill -0 $(cat /home/user/pid) && echo runs"]) == "runs\n"
    listed = builder.call("GET", "/snapshots", status=200)
    assert not any("start" in str(each) for each in listed)
    assert not [each for each in builder.call("GET", "/v2/sandboxes", status=200)
                if each["sandboxID"] not in (first.id, second.id)
                and each["templateID"] == asked["templateID"]]


def test_where_memory_does_not_fit_the_command_is_started(builder):
    """A sandbox with a volume cannot be what it was without one."""
    asked = builder.must_build(name_of("cold"), startCmd=START, readyCmd="[ -f ~/n ]")
    volume = builder.call("POST", "/volumes", {"name": name_of("volume")}, 201)
    try:
        sandbox = builder.sandbox(asked["templateID"],
                                  volumeMounts=[{"name": volume["name"], "path": "/mnt/shared"}])
        wait_until(lambda: sandbox.run(["test", "-s", "/home/user/n"])["exit_code"] == 0, 20,
                   "the command has begun")
        assert sandbox.out(["sh", "-c", "kill -0 $(cat /home/user/pid) && touch /mnt/shared/x && echo runs"]
                           ) == "runs\n"
        builder.call("DELETE", f"/sandboxes/{sandbox.id}", status=204)
    finally:
        builder.call("DELETE", f"/volumes/{volume['volumeID']}")


def test_a_restart_of_the_server():
    with Server() as server:
        builder = Builder(server.client)
        kept = builder.must_build("kept", startCmd=START, readyCmd="[ -f ~/n ]")
        cut = builder.request("cut")
        files = builder.upload(cut["templateID"], {"a": "b"})
        builder.start(cut, fromTemplate="base", steps=[("RUN", ["sleep 600"])])
        waiting = builder.request("waits")
        server.stop()
        server.start()
        builder.client = server.client
        assert builder.status(cut)["status"] == "error"
        assert builder.status(kept)["status"] == "ready"
        count = int(builder.sandbox("kept").out(["cat", "/home/user/n"]))
        assert count >= 1
        # What was only asked for can still be built; its files must be sent again.
        link = builder.call("GET", f"/templates/{waiting['templateID']}/files/{files}", status=201)
        assert link["present"] is False
        builder.start(waiting, fromTemplate="base")
        assert builder.wait(waiting)["status"] == "ready"
        builder.end()
        # Nothing of them stays, at the latest soon after something new is asked for.
        builder.request("new")
        wait_until(lambda: not [each for each in
                                server.client.expect(200, "GET", "/api/v1/templates").data["templates"]
                                if each["template_id"].startswith(("kept", "cut", "waits"))],
                   30, "the builds are gone")


def test_a_crash_between_the_state_and_its_template():
    """The state is there and its template does not know: it would hold that template for good."""
    with FaultyServer() as server:
        builder = Builder(server.client)
        asked = builder.request("lost")
        api = server.daemons()["api"]
        server.faults.order("control.snapshot.recorded")
        builder.start(asked, fromTemplate="base", startCmd=START, readyCmd="[ -f ~/n ]")
        wait_until(server.faults.acted, 120, "the crash")
        server.faults.forget_orders()

        def is_back():
            try:
                return (server.daemons().get("api", api) != api
                        and server.client.call("GET", "/readyz").status == 200)
            except OSError:
                return False

        wait_until(is_back, 60, "a new API")
        assert builder.status(asked)["status"] == "error"
        assert builder.call("GET", "/v2/sandboxes", status=200) == []
        builder.call("DELETE", f"/templates/{asked['templateID']}", status=204)
        named = [each["template_id"] for each in
                 server.client.expect(200, "GET", "/api/v1/templates").data["templates"]]
        assert not [name for name in named if name.startswith("lost")], named


def test_a_start_command_that_fails(builder):
    _, status = builder.build(name_of("never"), startCmd="echo no; exit 3", readyCmd="false")
    assert status["status"] == "error"
    assert status["reason"]["step"] == "finalize" and "exit code 3" in status["reason"]["message"]


# Names, tags, lists ----------------------------------------------------------------------------
def test_tags_name_builds(builder):
    name = name_of("tags")
    stamp = lambda text: [("RUN", [f"echo {text} > ~/which"])]
    which = lambda template: builder.sandbox(template).out(["cat", "/home/user/which"]).strip()
    first = builder.must_build(f"{name}:v1", stamp("one"), request={"tags": ["stable"]})
    assert first["tags"] == ["v1", "stable"]
    builder.sandbox(name, status=404)  # there is no default
    assert which(f"{name}:v1") == which(f"default/{name}:stable") == "one"
    second = builder.must_build(name, stamp("two"))
    assert which(name) == "two" and which(f"{name}:stable") == "one"
    assert which(f"{name}:{first['buildID']}") == "one"
    answer = builder.call("POST", "/templates/tags", {"target": name, "tags": ["Stable", "v2"]}, 201)
    assert answer == {"buildID": second["buildID"], "tags": ["stable", "v2"]}
    assert which(f"{name}:stable") == "two"
    listed = builder.call("GET", f"/templates/{urllib.parse.quote(f'default/{name}', safe='')}/tags",
                          status=200)
    assert {each["tag"]: each["buildID"] for each in listed} == {
        "v1": first["buildID"], "default": second["buildID"], "stable": second["buildID"],
        "v2": second["buildID"]}
    builder.call("DELETE", "/templates/tags", {"name": name, "tags": ["v2", "v1"]}, 204)
    builder.sandbox(f"{name}:v1", status=404)
    builder.call("DELETE", "/templates/tags", {"name": name, "tags": ["v2"]}, 404)
    builder.call("DELETE", "/templates/tags", {"name": name, "tags": ["default"]}, 400)
    builder.call("POST", "/templates/tags", {"target": f"{name}:none", "tags": ["x"]}, 404)
    builder.call("POST", "/templates/tags", {"target": name, "tags": ["a b"]}, 400)


def test_lists_and_names(builder):
    name = name_of("listed")
    asked = builder.must_build(name)
    template = asked["templateID"]
    assert builder.call("GET", f"/templates/aliases/{name}", status=200) == {
        "templateID": template, "public": False}
    builder.call("GET", "/templates/aliases/base", status=200)
    builder.call("GET", f"/templates/aliases/{name}-not", status=404)
    listed = {each["templateID"]: each for each in builder.call("GET", "/templates", status=200)}
    entry = listed[template]
    assert (entry["aliases"], entry["names"], entry["buildStatus"]) == (
        [name], [f"default/{name}"], "ready")
    assert entry["buildID"] == asked["buildID"] and entry["spawnCount"] == 0
    builder.sandbox(template)
    page = builder.call("GET", "/v2/templates?limit=1", status=200)
    assert len(page) == 1
    whole = builder.call("GET", f"/templates/{template}", status=200)
    assert whole["spawnCount"] == 1
    assert [each["buildID"] for each in whole["builds"]] == [asked["buildID"]]
    assert builder.call("PATCH", f"/v2/templates/{template}", {"public": True}, 200) == {
        "names": [f"default/{name}"]}
    assert builder.call("GET", f"/templates/{template}", status=200)["public"] is True
    logs = builder.call("GET", f"/templates/{template}/builds/{asked['buildID']}/logs?limit=2"
                        "&direction=backward", status=200)["logs"]
    assert len(logs) == 2 and logs[0]["timestamp"] >= logs[1]["timestamp"]
    builder.call("DELETE", f"/templates/{template}", status=204)
    builder.call("DELETE", f"/templates/{template}", status=404)
    builder.call("GET", f"/templates/aliases/{name}", status=404)
    builder.sandbox(name, status=404)
    again = builder.request(name)  # the name is free again, for another template
    assert again["templateID"] != template


@pytest.mark.parametrize("name, status", [
    ("base", 403), ("other/x", 403), ("", 400), ("a b", 400), ("x:", 400), ("x/y/z", 400),
    ("x" * 64, 400),
])
def test_names_that_nobody_can_have(builder, name, status):
    builder.request(name, status=status)


def test_sizes_that_this_host_does_not_have(builder):
    builder.request(name_of("large"), status=400, cpuCount=1000)
    builder.request(name_of("small"), status=400, memoryMB=1)


def test_old_forms_of_the_request(builder):
    name = name_of("old")
    asked = builder.call("POST", "/v2/templates", {"alias": name}, 202)
    builder.made.add(asked["templateID"])
    again = builder.call("POST", f"/templates/{asked['templateID']}", {"dockerfile": "x"}, 202)
    assert again["templateID"] == asked["templateID"] and again["buildID"] != asked["buildID"]
