"""Snapshots, pauses, resumes and forks: bench/state.py and bench/warm_forks.py."""
import json
import os
import subprocess
import sys

from suite.client import Failed
from suite.place import TOP
from suite.tables import table

TITLE = "State"


def run(place, script, *words):
    """The figures of a script beside this package; what it prints goes on to our reader."""
    results = place.work / f"{script}.json"
    done = subprocess.run(["/usr/bin/python3", TOP / "bench" / script, *words, "--json", results],
                          stdin=subprocess.DEVNULL, stdout=sys.stdout)
    if done.returncode != 0:
        raise Failed(f"{script} failed with status {done.returncode}")
    return json.loads(results.read_text())


def pair(told):
    return f"{told['median_ms']:.2f} ({told['worst_ms']:.2f})"


def measure(place):
    server = place.start_server()
    access = (server.url(), f"{server.data_dir}/admin.key")
    small = ["--small"] if os.environ.get("STATE_SMALL") else []
    figures = run(place, "state.py", *access, "--rounds", os.environ.get("STATE_ROUNDS", "5"),
                  "--forks", "1,10", *small)
    warm = figures["warm_forks"] = run(place, "warm_forks.py", *access, "1,10")
    rows = []
    for box, kinds in figures["size"].items():
        for kind, told in kinds.items():
            rows += [[box, kind, what, pair(one)] for what, one in told.items()]
    tables = [table("a running sandbox; ms, median (worst)", ["sandbox", "operation", "", "ms"],
                    rows)]
    rows = [[box, kind, what, pair(one) if isinstance(one, dict) else one]
            for box, kinds in figures["resume"].items() for kind, told in kinds.items()
            for what, one in told.items()]
    tables.append(table("resume", ["sandbox", "from", "", "ms, median (worst)"], rows))
    rows = [[kind, count, one.get("fork_ms", ""), one["first_output_ms"]]
            if isinstance(one, dict) else [kind, count, "", one]
            for kind, told in figures["fork"].items() for count, one in told.items()]
    rows += [["with its warm Python", count, one["fork_ms"], one["first_output_ms"]]
             for count, one in warm.items()]
    tables.append(table("fork, ms a child", ["what goes along", "children", "fork",
                                             "first output"], rows))
    return {"tables": tables, "figures": figures, "notes": []}
