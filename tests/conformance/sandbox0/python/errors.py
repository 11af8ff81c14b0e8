"""Failures become the SDK's APIError with status, code, message and request id."""
from sandbox0 import APIError, Client, CmdOptions
from sandbox0.apispec.models.sandbox_config import SandboxConfig

from support import BASE_URL, check, client, finish, refused, sandbox_of


@check("a wrong key")
def _():
    with Client(token="s0_wrong", base_url=BASE_URL) as stranger, refused(401, "unauthorized"):
        stranger.sandboxes.list()


@check("no such sandbox, with the request id")
def _():
    try:
        client.sandboxes.get("rs-none")
    except APIError as error:
        assert (error.status_code, error.code) == (404, "not_found")
        assert error.request_id and error.body
    else:
        raise AssertionError("it succeeded")


@check("no such template")
def _():
    with refused(404):
        client.sandboxes.claim("no-such-template")
    with refused(404, "not_found"):
        client.get_template("no-such-template")


@check("values that make no sense")
def _():
    with refused(400, "bad_request"):
        client.sandboxes.claim("default", config=SandboxConfig(ttl=100, hard_ttl=10))
    with refused(400, "bad_request"):
        client.sandboxes.claim("default", memory="much")


with sandbox_of() as sandbox:
    @check("files")
    def _():
        with refused(404, said="file_not_found"):
            sandbox.read_file("/workspace/none")
        with refused(409, said="path_not_directory"):
            sandbox.list_files("/etc/passwd")
        with refused(409, said="path_exists"):
            sandbox.mkdir("/etc")

    @check("contexts")
    def _():
        with refused(400, said="create_failed"):
            sandbox.cmd("no-such-command-anywhere")
        with refused(404, said="context_not_found"):
            sandbox.get_context("ctx-00000000")
        with refused(400):
            sandbox.run("no-such-language", "1")

    @check("signals, sizes and input that cannot be")
    def _():
        sleeping = sandbox.cmd("sleep 600", CmdOptions(wait=False)).context_id
        with refused(400, said="bad_request"):
            sandbox.context_signal(sleeping, "SIGNOTHING")
        with refused(409, said="pty_unavailable"):
            sandbox.context_resize(sleeping, 24, 80)
        sandbox.delete_context(sleeping)
        ended = sandbox.cmd("true", CmdOptions(pty_rows=24, pty_cols=80)).context_id
        with refused(410, said="process_finished"):
            sandbox.context_input(ended, "late\n")

finish()
