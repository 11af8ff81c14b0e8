"""Completions, asked the way real shells ask."""
import shutil
import subprocess

import pytest

from harness.command import Command


@pytest.fixture(scope="module")
def atoll(server):
    return Command(server)


@pytest.fixture
def bash(atoll):
    """What bash offers for a line: a list of words."""
    def complete(line):
        words = line.split(" ")
        script = (f"source <(atoll completion bash); COMP_WORDS=({' '.join(map(repr, words))}); "
                  f"COMP_CWORD={len(words) - 1}; COMP_LINE={line!r}; COMP_POINT={len(line)}; "
                  "_atoll; printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = subprocess.run(["bash", "-c", script], env=atoll.env, capture_output=True,
                              timeout=60, check=True)
        assert done.stderr == b"", done.stderr
        return done.stdout.decode().split()
    return complete


def test_commands_and_options(bash):
    assert {"run", "shell", "repl", "logs", "serve", "help"} <= set(bash("atoll "))
    assert "complete" not in bash("atoll ")  # not for people
    assert set(bash("atoll re")) == {"repl", "resume"}
    options = bash("atoll create --")
    assert {"--template", "--memory", "--output"} <= set(options)
    assert bash("atoll create -o ") == ["text", "json"]
    assert bash("atoll create --output=j") == ["json"]
    assert bash("atoll template b") == ["build"]
    assert "--listen" in bash("atoll serve --l")


def test_every_option_of_the_help_is_offered(atoll, bash):
    for command in set(bash("atoll ")) - {"help"}:
        offered = {line.split("\t")[0] for line in
                   atoll("complete", "--", command, "-").stdout.split("\n")}
        for line in atoll("help", command).stdout.split("\n"):
            if line.startswith("  -"):
                for word in line.split("  ")[1].split(" ")[0].split(","):
                    assert word in offered, (command, word)


def test_sandboxes_and_templates(bash, sandbox):
    assert sandbox.id in bash("atoll exec ")
    assert sandbox.id in bash(f"atoll inspect {sandbox.id[:6]}")
    assert bash("atoll inspect zz") == []
    assert f"{sandbox.id}:" in bash(f"atoll cp {sandbox.id[:6]}")
    assert "default" in bash("atoll create -t ")


def test_files(bash, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "folder").mkdir()
    assert f"{tmp_path}/notes.txt" in bash(f"atoll cp {tmp_path}/no")
    assert bash(f"atoll cert dev --dir {tmp_path}/") == [f"{tmp_path}/folder"]


def test_without_a_server_it_is_silent(atoll):
    done = atoll("complete", "--", "exec", "", env={"ATOLL_API_URL": "http://127.0.0.1:1"})
    assert done.stdout == "" and done.stderr == ""


def test_real_bash_completes_on_tab(atoll, sandbox):
    with atoll.terminal("version; bash --norc") as terminal:
        terminal.wait_for(r"[$#] ?$")
        terminal.line("source <(atoll completion bash)")
        terminal.type("atoll insp")
        terminal.key("Tab")
        terminal.wait_for(r"atoll inspect ")
        terminal.type(sandbox.id[:-1])
        terminal.key("Tab", "Enter")
        terminal.wait_for('"status": "running"')


@pytest.mark.parametrize("shell,check", [("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["-n"])])
def test_scripts_are_valid(atoll, tmp_path, shell, check):
    assert shutil.which(shell), f"install {shell} (packaging/apt-test-deps.txt)"
    script = tmp_path / "script"
    script.write_text(atoll("completion", shell).stdout)
    subprocess.run([shell, *check, str(script)], check=True, timeout=60)


def test_fish_completes(atoll, sandbox):
    done = subprocess.run(
        ["fish", "-c", "atoll completion fish | source; complete -C 'atoll insp'; "
                       "complete -C 'atoll inspect '"],
        env=atoll.env, capture_output=True, timeout=60)
    assert b"inspect\tShow everything" in done.stdout, done.stderr
    assert sandbox.id.encode() in done.stdout


def test_zsh_completes_on_tab(atoll, sandbox):
    with atoll.terminal("version; zsh -f") as terminal:
        terminal.wait_for(r"[%#] ?$")
        terminal.line("autoload -U compinit; compinit -D; source <(atoll completion zsh); clear")
        terminal.type("atoll inspect " + sandbox.id[:-1])
        terminal.key("Tab", "Enter")
        terminal.wait_for('"status": "running"')
