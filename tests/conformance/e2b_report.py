"""docs/conformance.md: what the official E2B packages got, by package, version and area.

    e2b_report.py REPORT RESULTS...

Results are what test runs leave with ATOLL_CONFORMANCE_RESULTS. The same results give the same text:
no times, no ids, everything in order.
"""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from e2b_releases import BY_NAME_ALONE, RELEASES, areas, excused  # noqa: E402

HEAD = """# Conformance of the E2B dialect

Written by `make conformance`: the official, unmodified packages from their registries, against a
server of this build. Each area is a script in `tests/conformance/e2b/`; a check is about one method
or some of its options. "Not applicable" is what a version of a package cannot ask for.

"""


def steady(text):
    """Without what differs from run to run."""
    text = re.sub(r"\bi[a-z0-9]{20}\b", "i…", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:…", text)
    text = re.sub(r"\d{9,}", "…", text)
    return text.replace("|", "\\|").strip()


def rows(tried):
    """(package, version, mode, area, checks) in order."""
    for index, release in enumerate(RELEASES):
        for mode in release.modes:
            for each, its_mode, area, checks in sorted(tried, key=lambda row: row[2]):
                if each == str(release) and its_mode == mode and release.package(area):
                    name, version = release.package(area)
                    yield index, name, version, mode, area, checks


def count(checks, outcome):
    return sum(check["outcome"] == outcome for check in checks)


def table(tried):
    lines = ["| package | version | area | passed | failed | not applicable |",
             "|---|---|---|---:|---:|---:|"]
    sums = {"passed": 0, "failed": 0, "not applicable": 0}
    for _, name, version, mode, area, checks in rows(tried):
        numbers = {outcome: count(checks, outcome) for outcome in sums}
        sums = {outcome: sums[outcome] + numbers[outcome] for outcome in sums}
        title = f"{name} ({mode})" if mode else name
        lines.append(f"| {title} | {version} | {area} | " +
                     " | ".join(str(each) for each in numbers.values()) + " |")
    lines.append("| **all** | | | " + " | ".join(f"**{each}**" for each in sums.values()) + " |")
    return lines


def details(tried, outcome):
    """Every check with that outcome: what, where, why."""
    found = {}
    for _, name, version, mode, area, checks in rows(tried):
        for check in checks:
            if check["outcome"] == outcome:
                place = f"{name} {version}" + (f" {mode}" if mode else "")
                key = (area, steady(check["check"]), steady(check["reason"]))
                found.setdefault(key, []).append(place)
    return [f"- {area}: {check}. {reason or 'No reason was given'} ({', '.join(places)})"
            for (area, check, reason), places in found.items()]


def absent(tried):
    """What these runs did not come to: a package that could not be had, or a run that was ended."""
    left = []
    for release in RELEASES:
        for mode in release.modes:
            there = {area for each, its_mode, area, _ in tried
                     if (each, its_mode) == (str(release), mode)}
            lacking = [area for area in areas(release.language)
                       if release.package(area) is not None and area not in there]
            if lacking:
                left.append(f"- {release} {mode}".rstrip() + ": not tried in this run: " +
                            ", ".join(lacking))
    return [""] + left if left else []


def write(path, tried):
    lines = [*table(tried), *absent(tried)]
    for title, outcome in (("Failed", "failed"), ("Not applicable", "not applicable")):
        found = details(tried, outcome)
        if outcome == "not applicable":
            found += [f"- interpreter, charts: by the name of a host only, so not with this address of "
                      f"a server ({name} {version} beside e2b {release.version})"
                      for release in BY_NAME_ALONE for name, version in release.packages
                      if name.endswith("code-interpreter")]
        lines += ["", f"## {title}", "", *(found or ["Nothing."])]
    lines += ["", "## Not tried", "",
              "Public methods that no check is about, because they ask nothing of a server:", ""]
    for language, title in (("javascript", "JavaScript"), ("python", "Python")):
        lines += [f"- {title}: `{name}`: {reason}"
                  for name, reason in sorted(excused(language).items())]
    path.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


def main():
    report, *results = map(pathlib.Path, sys.argv[1:])
    write(report, [tuple(row) for path in results for row in json.loads(path.read_text())])


if __name__ == "__main__":
    main()
