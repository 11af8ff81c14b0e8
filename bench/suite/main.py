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
    begin = time.monotonic()
    told = module.measure(place)
    for each in told["tables"]:
        report.show(each, say)
    for note in told["notes"]:
        say(f"  {note}")
    say(f"  ({time.monotonic() - begin:.0f} s)")
    return {"title": module.TITLE, **told}


def earlier(directory):
    """The report that is there, for a run that adds to it."""
    path = directory / "report.json"
    if os.environ.get("KEEP") and path.exists():
        return json.loads(path.read_text())
    return {"parts": {}, "versions": {}, "absent": {}}


def main():
    if os.geteuid() != 0:
        raise SystemExit("bench: needs root")
    options = Options.from_environment()
    directory = pathlib.Path(os.environ.get("REPORT_DIR", TOP / "docs" / "bench"))
    machine, whole, failed = host.describe(), earlier(directory), []
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
