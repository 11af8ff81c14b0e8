"""make bench-quick: has something become slower? Instructions and ratios against a stored baseline.

Never times: instructions are counted, and ratios are of things that took turns on the same machine in
the same minute. Several blocks are measured and the best counts, because noise only ever adds.
"""
import json
import os
import pathlib

from suite import instructions, rivals, stats
from suite.client import (CREATE, DELETE, open_python, run_command, run_python, step)
from suite.options import Options
from suite.place import TOP, Place, say

BASELINE = TOP / "bench" / "baseline.json"
# How much worse than the baseline is a failure.
INSTRUCTION_MARGIN = 1.20  # libraries choose other code on other processors
RATIO_MARGIN = 2.5
BLOCKS, ROUNDS = 4, 15
CREATE_RATIO = "create to output / pooled floor"
EXEC_RATIO = "exec / spawn over HTTP"
PYTHON_RATIO = "create to Python result / python3 -c"


def plan(place, url):
    client = place.client
    return {
        CREATE_RATIO: [client.atoll("ours", [CREATE, run_command("/bin/true")], after=[DELETE]),
                       {**rivals.floors(place)[0], "name": "theirs"}],
        EXEC_RATIO: [client.atoll("ours", [run_command("/bin/true")], setup=[CREATE],
                                  teardown=[DELETE]),
                     {"name": "theirs", "url": url,
                      "timed": [step("GET", "/capture", expect='"exit_code":0')]}],
        PYTHON_RATIO: [client.atoll("ours", [CREATE, open_python(), run_python("6*7", "42")],
                                    after=[DELETE]),
                       {"name": "theirs", "command": ["/usr/bin/python3", "-c", "print(6*7)"]}]}


def measure_ratios(bin_dir):
    """{ratio: its value in each block}"""
    options = Options.from_environment()
    values = {}
    with Place(options, bin_dir) as place:
        place.start_server()
        url = place.spawn_server("/bin/true")
        plans = plan(place, url)
        for _ in range(BLOCKS):
            for name, contestants in plans.items():
                series = place.client.run(contestants, rounds=ROUNDS, warmup=3)
                values.setdefault(name, []).append(
                    stats.median(series["ours"].us) / stats.median(series["theirs"].us))
    return values


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def complaints(measured, baseline, margins):
    """What is worse than the baseline by more than its margin, and what has none."""
    found = []
    for kind, margin in margins.items():
        for name, value in measured[kind].items():
            stored = baseline.get(kind, {}).get(name)
            if stored is None:
                found.append(f"{name} has no baseline")
            elif value > stored * margin:
                found.append(f"{name}: {number(value)}, the baseline is {number(stored)}; more than "
                             f"{margin:g} times of it is a regression")
        for name in set(baseline.get(kind, {})) - set(measured[kind]):
            found.append(f"{name} is in the baseline and was not measured")
    return found


def show(measured, baseline):
    for kind, values in measured.items():
        for name, value in values.items():
            stored = baseline.get(kind, {}).get(name)
            relation = f"{value / stored:6.2f} of the baseline {number(stored)}" if stored else ""
            say(f"  {kind:13} {name:40} {number(value):>10}   {relation}")


def main():
    if os.geteuid() != 0:
        raise SystemExit("bench-quick: needs root")
    bin_dir = pathlib.Path(os.environ.get("ATOLL_BIN_DIR", TOP / "build" / "bin"))
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    blocks = measure_ratios(bin_dir)
    counted = instructions.count(str(bin_dir / "atoll-instructions"))
    measured = {"instructions": counted,
                "ratios": {name: round(min(each), 3) for name, each in blocks.items()}}
    show(measured, baseline)
    if os.environ.get("UPDATE"):
        # The middle block: the best one of a lucky day would be a trap for every other day.
        measured["ratios"] = {name: round(stats.median(each), 3) for name, each in blocks.items()}
        BASELINE.write_text(json.dumps(measured, indent=1) + "\n")
        say(f"bench-quick: {BASELINE} is written")
        return
    found = complaints(measured, baseline, {"instructions": INSTRUCTION_MARGIN,
                                            "ratios": RATIO_MARGIN})
    if found:
        raise SystemExit("bench-quick: slower than the baseline (after a change that is worth it: "
                         "make bench-quick UPDATE=1):\n  " + "\n  ".join(found))
    say("bench-quick: nothing is slower than the baseline allows")
