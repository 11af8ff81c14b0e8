"""Round trips into a running sandbox, against the same program without one behind the same client."""
import pathlib

from suite import stats
from suite.client import (CREATE, DELETE, REFERENCE, open_python, reference, run_command, run_python,
                          step)
from suite.tables import latency_table

TITLE = "Round trips into a running sandbox"
EXEC, REPL = "atoll, exec of /bin/true", "atoll, REPL execution"
BARE_REPL = "python3 -i on the host, over a pipe"
SPAWN, SPAWN_BARE = "spawn over HTTP, output read", "spawn over HTTP, no output"


def contestants(place, url):
    inside = {"setup": [CREATE], "teardown": [DELETE]}
    made = [reference(), place.client.atoll(EXEC, [run_command("/bin/true")], **inside),
            {"name": SPAWN, "url": url, "timed": [step("GET", "/capture", expect='"exit_code":0')]},
            {"name": SPAWN_BARE, "url": url,
             "timed": [step("GET", "/bare", expect='"exit_code":0')]},
            place.client.atoll(REPL, [run_python("6*7", "42")], setup=[CREATE, open_python()],
                               teardown=[DELETE]),
            {"name": BARE_REPL, "floor": [place.program("atoll-bare-repl"), "/usr/bin/python3", "-i",
                                          "-q", "-u"]}]
    text = "x" * 1024
    for name, one in (("file of 1 KiB, write", step("POST", "/api/v1/sandboxes/{sandbox}/files?path="
                                                    "/tmp/small", text)),
                      ("file of 1 KiB, read", step("GET", "/api/v1/sandboxes/{sandbox}/files?path="
                                                   "/tmp/small", expect="xxxx"))):
        write = step("POST", "/api/v1/sandboxes/{sandbox}/files?path=/tmp/small", text)
        made.append(place.client.atoll(f"atoll, {name}", [one], setup=[CREATE, write],
                                       teardown=[DELETE]))
    return made


def measure(place):
    place.start_server()
    rounds = place.options.rounds
    url = place.spawn_server(str(pathlib.Path("/bin/true")))
    tables, figures = [], {}
    for workers in (1, 8, 64):
        def attempt(workers=workers):
            series = place.client.run(contestants(place, url), warmup=3, workers=workers,
                                      rounds=max(rounds * 2 // workers, 9))
            return series, series[REFERENCE].turn_us
        series = stats.most_quiet(attempt, place.options.tries)
        quiet = series[REFERENCE].turn_us
        tables.append(latency_table("one after another" if workers == 1 else
                                    f"{workers} at a time", series, EXEC, REFERENCE,
                                    rates=workers > 1))
        told = {"p50_ms": stats.median(series[EXEC].us) / 1e3,
                "repl_p50_ms": stats.median(series[REPL].us) / 1e3,
                "repl_over_bare": stats.ratio(series[REPL].us, series[BARE_REPL].us, quiet).json(),
                "over_spawn": stats.ratio(series[EXEC].us, series[SPAWN].us, quiet).json(),
                "over_bare_spawn": stats.ratio(series[EXEC].us, series[SPAWN_BARE].us,
                                               quiet).json()}
        figures |= told if workers == 1 else {f"concurrent_{workers}": told}
    return {"tables": tables, "figures": figures, "notes": [
        "“spawn over HTTP” is bench/spawn_server.cpp: posix_spawn for each request, without a "
        "sandbox, asked by the same client. With output, it reads both streams to their ends, as an "
        "exec has to; that one is the measure of goal 5.",
        "“python3 -i” is bench/bare_repl.cpp: a line into the pipe of a waiting interpreter until its "
        "result and its next prompt, without HTTP, sandbox or user; the distance to it is what those "
        "cost."]}
