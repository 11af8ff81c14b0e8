"""Sandboxes: claim, get, list, status, update, refresh, delete."""
from sandbox0 import SandboxWaitTimeoutError
from sandbox0.apispec.models.sandbox_lifecycle_status import SandboxLifecycleStatus as Status
from sandbox0.apispec.models.sandbox_refresh_request import SandboxRefreshRequest
from sandbox0.apispec.models.sandbox_update_request import SandboxUpdateRequest

from support import check, client, finish, is_about, refused, sandbox_of

sandboxes = client.sandboxes

with sandbox_of(ttl=900, hard_ttl=1800, resources={"memory": "512Mi"},
                env_vars={"GREETING": "hello world"}) as sandbox:
    @check("the claim's answer")
    def _():
        assert sandbox.id and sandbox.runtime_id
        assert sandbox.template == "default"
        assert sandbox.status == Status.RUNNING

    @check("get")
    def _():
        found = sandboxes.get(sandbox.id)
        assert (found.id, found.template_id) == (sandbox.id, "default")
        assert (found.status, found.paused) == (Status.RUNNING, False)
        assert found.auto_resume is True
        assert found.runtime_id and found.runtime_generation >= 1
        assert found.resources.memory == "512Mi"
        assert is_about(found.created_at, 0) and is_about(found.claimed_at, 0)
        assert is_about(found.expires_at, 900) and is_about(found.hard_expires_at, 1800)

    @check("env_vars reach the processes")
    def _():
        assert sandbox.cmd("printenv GREETING").stdout == "hello world\n"

    @check("status")
    def _():
        status = sandboxes.status(sandbox.id)
        assert (status.sandbox_id, status.template_id) == (sandbox.id, "default")
        assert status.status == Status.RUNNING and is_about(status.expires_at, 900)

    @check("update")
    def _():
        config = {"ttl": 1200, "auto_resume": False, "resources": {"memory": "640Mi"}}
        updated = sandboxes.update(sandbox.id, SandboxUpdateRequest.from_dict({"config": config}))
        assert updated.resources.memory == "640Mi" and updated.auto_resume is False
        assert is_about(updated.expires_at, 1200) and is_about(updated.hard_expires_at, 1800)

    @check("refresh")
    def _():
        assert is_about(sandboxes.refresh(sandbox.id).expires_at, 1200)
        answer = sandboxes.refresh(sandbox.id, SandboxRefreshRequest(duration=600))
        assert answer.sandbox_id == sandbox.id and is_about(answer.expires_at, 600)

    @check("waiting for a state")
    def _():
        found = sandboxes.wait_for_lifecycle(sandbox.id, lambda each: each.status == Status.RUNNING)
        assert found.id == sandbox.id
        try:
            sandboxes.wait_for_lifecycle(sandbox.id, lambda each: False, timeout_sec=0.05,
                                         poll_interval_sec=0.01)
        except SandboxWaitTimeoutError as error:
            assert error.last_sandbox.id == sandbox.id
        else:
            raise AssertionError("it did not wait")


@check("a sandbox without an end has none")
def _():
    sandbox = sandboxes.claim("default", memory="384Mi")
    try:
        found = sandboxes.get(sandbox.id)
        assert found.expires_at is None and found.hard_expires_at is None
        assert found.resources.memory == "384Mi"
    finally:
        assert "deleted" in sandboxes.delete(sandbox.id).data.message


@check("list and its filters")
def _():
    with sandbox_of() as first, sandbox_of() as second:
        ids = {each.id for each in sandboxes.list()}
        assert {first.id, second.id} <= ids
        page = sandboxes.list(limit=1)
        following = sandboxes.list(limit=1, offset=1)
        assert len(page) == len(following) == 1 and page[0].id != following[0].id
        assert len(sandboxes.list(status="running")) >= 2
        assert sandboxes.list(status=Status.PAUSED) == []
        assert sandboxes.list(paused=True) == []
        assert {first.id, second.id} <= {each.id for each in sandboxes.list(template_id="default")}
        assert sandboxes.list(template_id="no-such-template") == []


@check("the other spelling of everything")
def _():
    sandbox = client.claim_sandbox("default", memory="384Mi")
    try:
        assert client.get_sandbox(sandbox.id).id == sandbox.id
        assert client.status_sandbox(sandbox.id).status == Status.RUNNING
        assert sandbox.id in {each.id for each in client.list_sandboxes()}
        assert client.sandbox(sandbox.id).cmd("echo here").stdout == "here\n"
    finally:
        client.delete_sandbox(sandbox.id)
    with refused(404, "not_found"):
        client.get_sandbox(sandbox.id)


finish()
