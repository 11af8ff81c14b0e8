"""The counts of the conformance scripts, at the end of the run, and their results for a report."""
import json
import os
import pathlib

from test_e2b import CHECKS
from test_sandbox0 import COUNTS


def pytest_configure(config):
    config.stash[COUNTS] = []
    config.stash[CHECKS] = []


def pytest_sessionfinish(session):
    path = os.environ.get("ATOLL_CONFORMANCE_RESULTS")
    if path:
        pathlib.Path(path).write_text(json.dumps(
            [(str(release), mode, area, checks)
             for release, mode, area, checks in session.config.stash[CHECKS]]))


def pytest_terminal_summary(terminalreporter, config):
    lines = []
    counts = config.stash[COUNTS]
    for language in sorted({each for each, _, _ in counts}):
        areas = [(area, count) for each, area, count in counts if each == language]
        listed = ", ".join(f"{area} {count}" for area, count in areas)
        lines.append(f"sandbox0 {language}: {sum(count for _, count in areas)} ({listed})")
    tried = config.stash[CHECKS]
    for name in sorted({(str(release), mode) for release, mode, _, _ in tried}):
        areas = [(area, sum(check["outcome"] == "passed" for check in checks))
                 for release, mode, area, checks in tried if (str(release), mode) == name]
        listed = ", ".join(f"{area} {count}" for area, count in areas)
        title = " ".join(filter(None, name))
        lines.append(f"e2b {title}: {sum(count for _, count in areas)} ({listed})")
    if lines:
        terminalreporter.section("checks of the official SDKs")
        for line in lines:
            terminalreporter.line(line)
