"""Templates: listed, built, refused, deleted."""
import pytest

from atoll_sandbox import AtollError, BuildError, Client, NotFoundError, Sandbox


@pytest.fixture
def client(server):
    with Client() as shared:
        yield shared


@pytest.fixture
def name(client, request):
    chosen = "sdk-" + request.node.name.replace("_", "-").replace("test-", "")[:40]
    yield chosen
    try:
        client.templates.delete(chosen)
    except NotFoundError:
        pass


def test_builtin_ones_are_listed(client):
    listed = {each.template_id: each for each in client.templates.list()}
    assert listed["default"].scope == "public"
    assert client.templates.get("default").status.creation.state == "ready"
    with pytest.raises(NotFoundError):
        client.templates.get("no-such-template")


def test_built_from_a_dockerfile(client, name, tmp_path):
    (tmp_path / "Dockerfile").write_text(
        "FROM default\nARG WHO\nCOPY . /opt/app/\nENV WHO=$WHO\nRUN cat /opt/app/data/x > /opt/y\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("content")
    (tmp_path / "data" / "x").chmod(0o755)
    (tmp_path / "link").symlink_to("data/x")
    (tmp_path / "large").write_bytes(b"z" * 3_000_001)
    records = []
    made = client.templates.build(name, tmp_path, args={"WHO": "a b=c"}, on_log=records.append)
    assert made.template_id == name and records[-1].type == "done"
    assert any(each.type == "step" and "COPY" in (each.text or "") for each in records)
    with Sandbox.create(name) as sandbox:
        done = sandbox.commands.run("cat /opt/y; echo; echo $WHO; readlink /opt/app/link; "
                                    "stat -c %s%a /opt/app/large /opt/app/data/x", check=True)
    assert done.stdout == "content\na b=c\ndata/x\n3000001644\n7755\n"


def test_a_failing_step_is_an_error_with_its_log(client, name, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM default\nRUN echo reason; exit 3\n")
    with pytest.raises(BuildError, match="3") as caught:
        client.templates.build(name, tmp_path)
    assert "reason" in caught.value.log and isinstance(caught.value, AtollError)


def test_a_context_that_is_none(client, name, tmp_path):
    with pytest.raises(NotADirectoryError):
        client.templates.build(name, tmp_path / "nothing")
    (tmp_path / "not-an-image").write_text("x")
    with pytest.raises(BuildError):
        client.templates.load(name, tmp_path / "not-an-image")
