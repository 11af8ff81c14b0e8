"""Templates: list, get, create from an image, use, update, delete."""
import os

from sandbox0 import TemplateCreationFailedError
from sandbox0 import template_helpers as make
from sandbox0.apispec.models.env_var import EnvVar

from support import check, client, finish, refused, sandbox_of

IMAGE = os.environ["SANDBOX0_IMAGE"]
NAME = "conformance-python"


def specification(**fields):
    container = make.container(IMAGE, make.resources("512Mi"),
                               env=[EnvVar(name="LIST", value="from the list")])
    return make.template_spec(container, **fields)


@check("list and get of the builtin one")
def _():
    assert "default" in {each.template_id for each in client.list_templates()}
    found = client.get_template("default")
    assert found.scope == "public" and found.spec.main_container.image


try:
    @check("create and wait")
    def _():
        spec = specification(description="made by a test", display_name="Conformance",
                             tags=["a", "b"], env_vars={"WORD": "from the template"})
        made = client.create_template(make.template_create_request(NAME, spec))
        assert (made.template_id, made.scope) == (NAME, "team")
        ready = client.wait_template_ready(NAME, timeout_sec=60, poll_interval_sec=0.05)
        assert (ready.spec.description, ready.spec.tags) == ("made by a test", ["a", "b"])
        assert ready.spec.main_container.image == IMAGE

    @check("a sandbox of it")
    def _():
        with sandbox_of(NAME) as sandbox:
            result = sandbox.cmd("sh -c 'echo $WORD, $LIST, $FROM_IMAGE'")
            assert result.stdout == "from the template, from the list, yes\n", result
            assert client.get_sandbox(sandbox.id).resources.memory == "512Mi"

    @check("a second one of that name is refused")
    def _():
        with refused(409):
            client.create_template(make.template_create_request(NAME, specification()))

    @check("update")
    def _():
        spec = specification(description="changed", env_vars={"WORD": "changed"})
        changed = client.update_template(NAME, make.template_update_request(spec))
        assert changed.spec.description == "changed"
        assert client.get_template(NAME).spec.env_vars.to_dict() == {"WORD": "changed"}
finally:
    @check("delete")
    def _():
        assert "deleted" in client.delete_template(NAME).data.message
        with refused(404, "not_found"):
            client.get_template(NAME)


@check("an image that cannot be fetched is a typed failure")
def _():
    spec = make.template_spec(make.container(IMAGE + "-missing", make.resources("512Mi")))
    client.create_template(make.template_create_request(NAME + "-broken", spec))
    try:
        client.wait_template_ready(NAME + "-broken", timeout_sec=60)
    except TemplateCreationFailedError as error:
        assert error.template_id == NAME + "-broken"
    else:
        raise AssertionError("it was ready")
    finally:
        client.delete_template(NAME + "-broken")


finish()
