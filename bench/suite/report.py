"""One run on paper: report.json, README.md with its tables, and the plots."""
import json

from suite import stats, svg
from suite.options import PARTS

HOW = f"""\
## How it is measured

* Everything in one table was measured in one run on one machine, contestants taking turns round by
  round on the same root filesystem (Atoll's default template). Noise hits all of them alike; the
  ratios count, the milliseconds belong to this machine.
* The client is C++ (`bench/client.cpp`): blocking, one kept-alive connection for each worker. Its
  clock runs from sending the first request to having read the last answer; for programs from spawn to
  exit, with the output read. The first rounds are not counted.
* p50, p90, p99 are values that were measured (nearest rank); spread is the inter-quartile range
  relative to the median.
* In every round the unsandboxed spawn of the same program is measured too, as the reference. A block
  whose reference spreads more than {stats.MOST_SPREAD} or whose thirds are more than
  {stats.MOST_DRIFT} times apart is repeated, up to three times. Then, and also when a ratio itself
  moved that much between the thirds, the report says “unstable” instead of a ratio.
* The floors: `bench/floor.cpp` does the bare system calls of a sandbox (all namespaces, cgroup,
  overlay, capabilities, seccomp); “pooled” has it waiting and is timed from a byte to the exit
  status, “from nothing” includes making it. `bench/spawn_server.cpp` is the physical one over HTTP.
* Memory is the difference of MemAvailable; when it moves by itself more than 40 KiB for each sandbox,
  no figure is given.
* Growth has two servers take turns, operation by operation: one whose sandboxes become more, and one
  beside it that always has one. The ratio is the median of the pairs, and is refused when it could
  as well be 1.35 times another (95 %). Pages of lists are equally long. What many sandboxes cost
  everybody on the machine shows in the second server, compared with itself before; that is of two
  moments, so it is given only when the reference was quiet in both.

## How to repeat it

    make bench                                  # everything, root, about 20 minutes on two cores
    make bench PARTS=create,exec                # only these; parts: {', '.join(PARTS)}
    make bench ROUNDS=40 STORM=200 IDLE=100,200 GROWTH=1,50,200 HISTORY=1000 FILE_MIB=64

`report.json` beside this page has every number. What a run does not measure keeps its place in the
report from the run before only when it is asked for: `make bench KEEP=1 PARTS=growth`.
"""


def markdown_table(told):
    lines = [f"\n**{told['title']}**" if told["title"] else "", ""]
    lines.append("| " + " | ".join(told["columns"]) + " |")
    lines.append("|" + "|".join(" ---: " if name else " --- " for name in told["columns"]) + "|")
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
              for row in told["rows"]]
    return lines + ([f"\n{told['note']}"] if told["note"] else [])


def goal_rows(goals):
    return {"title": "", "note": "", "columns": ["goal", "", "measured", ""],
            "rows": [[str(each["goal"]), each["text"], each["measured"], each["verdict"]]
                     for each in goals]}


def plots(report):
    """{file name: (SVG, what it shows)}"""
    made = {}
    bars = report["parts"].get("create", {}).get("figures", {}).get("bars")
    if bars:
        title = "Create to the output of /bin/true, p50, logarithmic"
        made["create.svg"] = (svg.bars(title, bars, ours=("atoll, HTTP API", "atoll, command line")),
                              title)
    relative = report["parts"].get("growth", {}).get("figures", {}).get("relative")
    if relative:
        levels = list(relative)
        series = {name: [relative[level][name] for level in levels]
                  for name in relative[levels[0]]}
        labels = ["1, with history" if level == "past" else level for level in levels]
        title = ("Time by the number of live sandboxes, relative to a server with one beside it; "
                 "what was too noisy is left out")
        made["growth.svg"] = (svg.lines(title, labels, series, limit=1.3), title)
    storms = report["parts"].get("storm", {}).get("figures", {})
    if len(storms) > 1:
        title = "KiB of memory for each idle sandbox (MemAvailable)"
        made["memory.svg"] = (svg.lines(title, list(storms), {
            "after its command": [max(one["memory_after_exec"]["mem_available_kib"], 0)
                                  for one in storms.values()],
            "at rest": [max(one["memory_after_idle"]["mem_available_kib"], 0)
                        for one in storms.values()]}, limit=400, unit=""), title)
    return made


def markdown(report, pictures):
    machine = report["machine"]
    lines = ["# Benchmark", "",
             "Written by `make bench`; do not edit. Measured at commit "
             f"`{machine['commit']}`, {report['date']}.", "",
             f"Machine: {machine['cores']} cores of {machine['cpu']} ({machine['virtual']}), "
             f"{machine['memory_mib']} MiB, {machine['system']}, Linux {machine['kernel']}; load "
             f"average before: {machine['load_before']}.", "",
             "Against: " + "; ".join(f"{name} ({version})" if name not in version else version
                                     for name, version in report["versions"].items()) + "."
             + "".join(f" Not here: {name} ({reason})." for name, reason in
                       report["absent"].items()), "",
             "## Goals", *markdown_table(goal_rows(report["goals"])), ""]
    for name, (_, title) in pictures.items():
        lines += [f"![{title}]({name})", ""]
    for part in report["parts"].values():
        lines += [f"## {part['title']}"]
        if (when := part.get("measured")) and when != {
                "commit": machine["commit"], "date": report["date"],
                "load_before": machine["load_before"]}:
            lines += ["", f"Measured at commit `{when['commit']}`, {when['date']}; load average "
                      f"before: {when['load_before']}."]
        for told in part["tables"]:
            lines += markdown_table(told)
        lines += ["", *(f"* {note}" for note in part["notes"]), ""]
    return "\n".join(lines + [HOW])


def write(report, directory):
    directory.mkdir(parents=True, exist_ok=True)
    pictures = plots(report)
    for name, (picture, _) in pictures.items():
        (directory / name).write_text(picture)
    (directory / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    (directory / "README.md").write_text(markdown(report, pictures))


def show(told, out):
    """A table for a terminal."""
    rows = [told["columns"], *told["rows"]]
    widths = [max(len(row[index]) for row in rows) for index in range(len(told["columns"]))]
    if told["title"]:
        out(f"  {told['title']}")
    for row in rows:
        out("    " + "  ".join(cell.rjust(width) if name else cell.ljust(width) for
                              name, cell, width in zip(told["columns"], row, widths)).rstrip())
