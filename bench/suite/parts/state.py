"""Snapshots, pauses, resumes and forks: bench/state.py and bench/warm_forks.py."""
import json
import os
import subprocess
import sys

from suite import programs, stats
from suite.client import Failed
from suite.place import TOP
from suite.tables import milliseconds, table

TITLE = "State"
MOST_SECONDS = 3600


def run(place, script, *words):
    """The figures of a script beside this package; what it prints goes on to our reader."""
    results = place.work / f"{script}.json"
    try:
        done = programs.run(["/usr/bin/python3", TOP / "bench" / script, *words, "--json", results],
                            MOST_SECONDS, stdout=sys.stdout)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{script} was not done after {MOST_SECONDS} s") from late
    if done.returncode != 0:
        raise Failed(f"{script} failed with status {done.returncode}")
    return json.loads(results.read_text())


COLUMNS = ["p50 ms", "p90 ms", "p99 ms", "spread", "n"]


def cells(told):
    """Of a summary, or of the reason why there is none."""
    if not isinstance(told, dict):
        return [told, "", "", "", ""]
    return [*(milliseconds(told[key]) for key in ("p50_ms", "p90_ms", "p99_ms")), told["spread"],
            told["count"]]


def tables_of(figures, warm):
    rows = [[box, kind, what, *cells(one)] for box, kinds in figures["size"].items()
            for kind, told in kinds.items() for what, one in told.items()]
    for title in ("dirty", "neighbour"):
        rows += [[f"10 files, {title}", kind, what, *cells(one)]
                 for kind, told in figures[title].items() for what, one in told.items()]
    made = [table("a running sandbox", ["sandbox", "operation", "", *COLUMNS], rows)]
    rows = [[kind, stats.Ratio(told["value"], told["unstable"]).text()]
            for kind, told in figures["ratios"].items()]
    made.append(table("the largest sandbox / the smallest", ["operation", "p50 / p50"], rows))
    rows = [[box, kind, what, *cells(one)] for box, kinds in figures["resume"].items()
            for kind, told in kinds.items() for what, one in told.items()]
    made.append(table("resume", ["sandbox", "from", "", *COLUMNS], rows))
    rows = []
    for kind, counts in {**figures["fork"], "with its warm Python": warm}.items():
        for count, told in counts.items():
            parts = told.items() if isinstance(told, dict) else [("", told)]
            rows += [[kind, count, what, *cells(one)] for what, one in parts
                     if what != "times_faster"]
    made.append(table("fork, for each child", ["what goes along", "children", "", *COLUMNS], rows))
    rows = [[count, stats.Ratio(told["times_faster"]["value"],
                                told["times_faster"]["unstable"]).text()]
            for count, told in warm.items()]
    made.append(table("claimed and started with a Python of its own / forked with a warm one",
                      ["children", "p50 / p50"], rows))
    return made


def measure(place):
    server = place.start_server()
    access = (server.url(), f"{server.data_dir}/admin.key")
    small = ["--small"] if os.environ.get("STATE_SMALL") else []
    figures = run(place, "state.py", *access, "--rounds", os.environ.get("STATE_ROUNDS", "7"),
                  "--forks", "1,10", *small)
    warm = figures["warm_forks"] = run(place, "warm_forks.py", *access, "1,10")
    return {"tables": tables_of(figures, warm), "figures": figures, "notes": []}
