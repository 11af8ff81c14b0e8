"""Contexts over plain HTTP: REPLs, commands, input, resize, signal, restart, list."""
from sandbox0 import CmdOptions, RunOptions
from sandbox0.apispec.models.create_context_request import CreateContextRequest
from sandbox0.apispec.models.process_type import ProcessType

from support import check, finish, refused, sandbox_of

with sandbox_of() as sandbox:
    def create(**fields):
        return sandbox.create_context(CreateContextRequest.from_dict(fields))

    for alias, first, second in (("python", "x = 6", "print(x * 7)"),
                                 ("node", "let y = 6", "console.log(y * 7)"),
                                 ("bash", "z=6", "echo $((z * 7))")):
        @check(f"{alias} keeps state between runs")
        def _():
            sandbox.run(alias, first)
            assert sandbox.run(alias, second).output_raw == "42\n"

    @check("an exception is output, and the REPL goes on")
    def _():
        assert "ZeroDivisionError" in sandbox.run("python", "1 / 0").output_raw
        assert sandbox.run("python", "print('on')").output_raw == "on\n"

    @check("a REPL with its own environment and directory")
    def _():
        context = create(type="repl", repl={"alias": "python"}, cwd="/tmp",
                         env_vars={"WORD": "own"})
        assert context.type_ == ProcessType.REPL and context.alias == "python"
        result = sandbox.run("python", "import os; print(os.getcwd(), os.environ['WORD'])",
                             RunOptions(context_id=context.id))
        assert result.output_raw == "/tmp own\n", result
        sandbox.delete_context(context.id)

    @check("restart keeps the id and forgets the state")
    def _():
        context = create(type="repl", repl={"alias": "python"})
        sandbox.context_exec(context.id, "kept = 1\n")
        assert sandbox.restart_context(context.id).id == context.id
        executed = sandbox.context_exec(context.id, "print('kept' in globals())\n")
        assert executed.output_raw == "False\n", executed
        sandbox.delete_context(context.id)

    @check("a command's streams, exit code and state")
    def _():
        result = sandbox.cmd("sh -c 'echo out; echo err >&2; exit 3'")
        assert (result.stdout, result.stderr) == ("out\n", "err\n"), result
        assert (result.exit_code, result.state) == (3, "crashed"), result
        assert sandbox.cmd("true").state == "stopped"

    @check("a command's options")
    def _():
        result = sandbox.cmd("ignored", CmdOptions(
            command=["sh", "-c", "echo $PWD $WORD"], cwd="/tmp", env_vars={"WORD": "two words"}))
        assert result.stdout == "/tmp two words\n", result

    @check("a command on a terminal")
    def _():
        result = sandbox.cmd("stty size", CmdOptions(pty_rows=33, pty_cols=111))
        assert result.output_raw.strip() == "33 111", result

    @check("ttl_sec ends a command")
    def _():
        assert sandbox.cmd("sleep 600", CmdOptions(ttl_sec=1)).state == "killed"

    @check("input, resize and signal of a terminal")
    def _():
        started = sandbox.cmd("cat", CmdOptions(wait=False, pty_rows=24, pty_cols=80))
        sandbox.context_input(started.context_id, "typed\n")
        sandbox.context_resize(started.context_id, 40, 120)
        stream = sandbox.connect_ws_context(started.context_id)
        assert next(stream.iter_outputs()).data.startswith("typed")
        sandbox.context_signal(started.context_id, "TERM")
        assert stream.wait().exit_code == 143
        assert sandbox.get_context(started.context_id).running is False

    @check("list, get and delete")
    def _():
        started = sandbox.cmd("sleep 600", CmdOptions(wait=False))
        found = {each.id: each for each in sandbox.list_contexts()}[started.context_id]
        assert found.type_ == ProcessType.CMD and found.running is True
        assert sandbox.get_context(started.context_id).paused is False
        sandbox.delete_context(started.context_id)
        with refused(404):
            sandbox.get_context(started.context_id)

finish()
