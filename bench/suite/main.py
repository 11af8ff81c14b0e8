"""The run as a whole: parts one after another, a report at the end, also of a run that lost a part."""
import datetime
import importlib
import json
import os
import pathlib
import time
import traceback

from suite import goals, host, report, rivals
from suite.options import Options, PARTS
from suite.place import TOP, Place, say


def measure(place, name):
    module = importlib.import_module(f"suite.parts.{name}")
    say(f"\nbench: {module.TITLE}")
    begin, when = time.monotonic(), moment(host.describe())
    told = module.measure(place)
    for each in told["tables"]:
        report.show(each, say)
    for note in told["notes"]:
        say(f"  {note}")
    say(f"  ({time.monotonic() - begin:.0f} s)")
    return {"title": module.TITLE, "measured": when, **told}


def moment(machine, date=None):
    """Of what a part was measured, and beside how much else."""
    return {"commit": machine["commit"], "date": date or datetime.date.today().isoformat(),
            "load_before": machine["load_before"]}


def earlier(directory, keep):
    """The report that is there, for a run that adds to it; its parts say of which run they are."""
    path = directory / "report.json"
    if not keep or not path.exists():
        return {"parts": {}, "versions": {}, "absent": {}}
    whole = json.loads(path.read_text())
    for part in whole["parts"].values():
        part.setdefault("measured", moment(whole["machine"], whole["date"]))
    return whole


def main():
    if os.geteuid() != 0:
        raise SystemExit("bench: needs root")
    options = Options.from_environment()
    directory = pathlib.Path(os.environ.get("REPORT_DIR", TOP / "docs" / "bench"))
    machine, failed = host.describe(), []
    whole = earlier(directory, os.environ.get("KEEP"))
    parts = whole["parts"]
    with Place(options, os.environ.get("ATOLL_BIN_DIR", TOP / "build" / "bin")) as place:
        for name in PARTS:
            if name not in options.parts:
                continue
            try:
                parts[name] = measure(place, name)
            except Exception as error:  # noqa: BLE001: the rest goes on
                traceback.print_exc()
                failed.append(f"{name}: {error}")
        place.stop_server()
        if place.present:
            whole |= {"versions": rivals.versions(place), "absent": place.absent}
    figures = {name: part["figures"] for name, part in parts.items()}
    whole |= {"date": datetime.date.today().isoformat(), "machine": machine,
              "goals": goals.judge(figures, options.storm),
              "parts": {name: parts[name] for name in PARTS if name in parts}}
    report.write(whole, directory)
    say("\nbench: goals")
    report.show(report.goal_rows(whole["goals"]), say)
    say(f"bench: {directory}/README.md and report.json are written")
    if failed:
        raise SystemExit("bench: these parts failed:\n  " + "\n  ".join(failed))
