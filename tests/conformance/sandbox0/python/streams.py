"""The contexts' WebSocket: output as it comes, input, resize, signals, replay."""
from sandbox0 import CmdOptions, StreamInput
from sandbox0.apispec.models.create_context_request import CreateContextRequest

from support import Reader, check, finish, heard, sandbox_of

with sandbox_of() as sandbox:
    @check("streams stay apart and the end is told")
    def _():
        stream = sandbox.cmd_stream("sh -c 'echo out; echo err >&2; exit 7'")
        assert heard(stream) == {"stdout": "out\n", "stderr": "err\n"}
        done = stream.wait()
        assert (done.exit_code, done.state) == (7, "crashed"), done
        stream.close()

    @check("a terminal: input, echo, resize")
    def _():
        stream = sandbox.cmd_stream("bash --norc -i", CmdOptions(
            env_vars={"PS1": "ready> "}, pty_rows=24, pty_cols=80))
        reader = Reader(stream)
        reader.until("ready> ")
        stream.send_input("echo a$((1+1))c\n")
        reader.until("a2c")
        stream.send_resize(50, 132)
        stream.send(StreamInput(type="input", data="stty size\n"))
        reader.until("50 132")
        stream.send_input("exit 5\n")
        assert stream.wait().exit_code == 5

    @check("a signal ends the process")
    def _():
        stream = sandbox.cmd_stream("sh -c 'echo up; exec sleep 600'")
        Reader(stream).until("up\n")
        stream.send_signal("SIGKILL")
        done = stream.wait()
        assert (done.exit_code, done.state) == (137, "killed"), done

    @check("a REPL over the socket")
    def _():
        context = sandbox.create_context(
            CreateContextRequest.from_dict({"type": "repl", "repl": {"alias": "python"}}))
        stream = sandbox.connect_ws_context(context.id)
        stream.send_input("print('so' + 'cket')\n")
        Reader(stream).until("socket")
        stream.close()
        sandbox.delete_context(context.id)

    @check("who comes late gets everything")
    def _():
        ended = sandbox.cmd("seq 1 2000")
        output = heard(sandbox.connect_ws_context(ended.context_id))["stdout"]
        assert output.splitlines() == [str(number) for number in range(1, 2001)]

    @check("a large output arrives whole")
    def _():
        stream = sandbox.cmd_stream("sh -c 'yes 0123456789abcde | head -c 8388608'")
        assert len(heard(stream)["stdout"]) == 8 << 20
        assert stream.wait().exit_code == 0

    @check("characters are never cut in two")
    def _():
        stream = sandbox.cmd_stream("sh -c 'yes zwölf-Ärger-€-🙂 | head -n 50000'")
        assert heard(stream)["stdout"] == "zwölf-Ärger-€-🙂\n" * 50000

finish()
