"""Plans for atoll-bench (bench/plan.h) and what comes back from it."""
import dataclasses
import json
import pathlib
import subprocess
import tempfile

from suite import programs, stats

JSON = "application/json"
# crun refuses hosts where cgroup v1 and v2 both have controllers. Contestants therefore run in a
# mount namespace without the second one; the server does not.
APART = ["unshare", "--mount", "sh", "-c",
         'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"', "sh"]


# Whatever hangs, ends a plan: single answers have shorter limits (bench/connection.cpp).
LONGEST_PLAN_SECONDS = 1800


class Failed(Exception):
    """What was to be measured did not work."""


@dataclasses.dataclass
class Series:
    name: str
    us: list
    after_us: list
    turn_us: list
    collected: list
    failures: int
    first_failure: str
    rated: bool = True  # its turns have nothing in them but its operations

    def summary(self):
        return {**stats.summary(self.us), "failures": self.failures}

    def rate(self):
        """Operations per second of the turns as a whole."""
        return len(self.us) / (sum(self.turn_us) / 1e6) if self.turn_us else 0.0


def step(method, path, body=None, save=None, expect="", content_type=None):
    if body is not None and not isinstance(body, str):
        body, content_type = json.dumps(body), content_type or JSON
    made = {"method": method, "path": path, "expect": expect}
    if body is not None:
        made |= {"body": body, "type": content_type or "application/octet-stream"}
    return made | ({"save": save} if save else {})


# The steps that everything is made of; {sandbox} and {context} are a worker's own variables.
CREATE = step("POST", "/api/v1/sandboxes", {"template": "default"}, {"sandbox": "sandbox_id"})
DELETE = step("DELETE", "/api/v1/sandboxes/{sandbox}")


def run_command(*words, sandbox="{sandbox}", expect='"exit_code":0'):
    return step("POST", f"/api/v1/sandboxes/{sandbox}/contexts", {
        "type": "cmd", "cmd": {"command": list(words)}, "wait_until_done": True}, expect=expect)


def open_python(sandbox="{sandbox}"):
    return step("POST", f"/api/v1/sandboxes/{sandbox}/contexts",
                {"type": "repl", "repl": {"alias": "python"}}, {"context": "id"})


def run_python(code, expect, sandbox="{sandbox}"):
    return step("POST", f"/api/v1/sandboxes/{sandbox}/contexts/{{context}}/exec", {"data": code},
                expect=expect)


class Client:
    silence_ms = 120_000  # whoever says nothing for so long ends a plan

    def __init__(self, bin_dir, url, key):
        self.program = str(pathlib.Path(bin_dir) / "atoll-bench")
        self.url, self.key = url, key

    def atoll(self, name, timed, **more):
        return {"name": name, "url": self.url, "authorization": f"Bearer {self.key}",
                "timed": timed, **more}

    def run(self, contestants, rounds=1, warmup=0, workers=1, seconds=0, apart=False,
            tolerate=False):
        """{name: Series}. With `tolerate`, failures are the caller's to look at."""
        plan = {"rounds": rounds, "warmup": warmup, "workers": workers, "seconds": seconds,
                "silence_ms": self.silence_ms, "contestants": contestants}
        with tempfile.NamedTemporaryFile("w", prefix="atoll-bench-plan-", suffix=".json") as file:
            json.dump(plan, file)
            file.flush()
            try:
                done = programs.run([*(APART if apart else []), self.program, file.name],
                                    LONGEST_PLAN_SECONDS + seconds, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
            except subprocess.TimeoutExpired as late:
                names = ", ".join(each["name"] for each in contestants)
                raise Failed(f"{names}: not done after {late.timeout:.0f} s") from late
        if done.returncode != 0:
            raise Failed(done.stderr.strip()[-800:])
        floors = {each["name"] for each in contestants if "floor" in each}
        series = {each["name"]: Series(**each, rated=each["name"] not in floors)
                  for each in json.loads(done.stdout)}
        for each in series.values():
            if each.failures and not tolerate:
                raise Failed(f"{each.name} failed {each.failures} times: {each.first_failure}")
        return series


REFERENCE = "spawn, unsandboxed"


def reference(command=("/bin/true",)):
    return {"name": REFERENCE, "command": list(command)}
