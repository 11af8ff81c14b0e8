"""The counts of the conformance scripts, at the end of the run."""
from test_sandbox0 import COUNTS


def pytest_configure(config):
    config.stash[COUNTS] = []


def pytest_terminal_summary(terminalreporter, config):
    counts = config.stash[COUNTS]
    if not counts:
        return
    terminalreporter.section("checks of the official SDKs")
    for language in sorted({each for each, _, _ in counts}):
        areas = [(area, count) for each, area, count in counts if each == language]
        listed = ", ".join(f"{area} {count}" for area, count in areas)
        terminalreporter.line(f"{language}: {sum(count for _, count in areas)} ({listed})")
