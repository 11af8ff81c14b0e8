"""Nothing that hangs stays behind, and what can clean up may."""
import subprocess

import pytest

from suite import programs

STUBBORN = "trap '' TERM; sleep 1000 & echo $! > {0}/child; wait; wait; sleep 1000"
TIDY = "trap 'touch {0}/cleaned; exit' TERM; echo $$ > {0}/child; sleep 1000 & wait"


def alive(pid):
    """Also false for one that nobody has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("script, cleans", [(STUBBORN, False), (TIDY, True)])
def test_what_is_not_done_in_time_is_ended_with_its_children(tmp_path, monkeypatch, script, cleans):
    monkeypatch.setattr(programs, "GRACE_SECONDS", 5 if cleans else 0.2)
    with pytest.raises(subprocess.TimeoutExpired):
        programs.run(["bash", "-c", script.format(tmp_path)], 2)
    assert (tmp_path / "cleaned").exists() == cleans
    assert not alive(int((tmp_path / "child").read_text()))


def test_what_is_done_in_time_tells(tmp_path):
    done = programs.run(["bash", "-c", "echo out; echo err >&2; exit 3"], 60,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
