"""Programs that a part of the benchmark runs, and how they end when they do not end by themselves."""
import os
import signal
import subprocess

GRACE_SECONDS = 30


def run(command, seconds, **options):
    """Like subprocess.run, but what is not done in time may first clean up after itself, and then
    takes along whatever it has started."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, start_new_session=True,
                          **options) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException:
            process.terminate()
            try:
                process.communicate(timeout=GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)
