"""From asking for a sandbox to a value of Python: in its warm interpreter, and as a program."""
from suite import stats
from suite.client import (CREATE, DELETE, REFERENCE, open_python, reference, run_command,
                          run_python)
from suite.tables import latency_table

TITLE = "Create to a result of Python"
CODE = "print(6*7)"
REPL, PROGRAM, BARE = "atoll, interpreter", "atoll, python3 -c", "python3 -c on the host"


def measure(place):
    place.start_server()
    answer = '"42'
    contestants = [
        reference(),
        place.client.atoll(REPL, [CREATE, open_python(), run_python(CODE, "42")], after=[DELETE]),
        place.client.atoll(PROGRAM, [CREATE, run_command("python3", "-c", CODE, expect=answer)],
                           after=[DELETE]),
        {"name": BARE, "command": ["/usr/bin/python3", "-c", CODE]}]

    def attempt():
        series = place.client.run(contestants, rounds=place.options.rounds // 2, warmup=3)
        return series, series[REFERENCE].turn_us
    series = stats.most_quiet(attempt, place.options.tries)
    quiet = series[REFERENCE].turn_us
    return {"tables": [latency_table("", series, REPL, REFERENCE)],
            "figures": {name: {"p50_ms": stats.median(series[name].us) / 1e3,
                               "over_bare": stats.ratio(series[name].us, series[BARE].us,
                                                        quiet).json()}
                        for name in (REPL, PROGRAM)},
            "notes": ["“interpreter” is a sandbox, a REPL context in it and one execution; "
                      "“python3 -c” starts the program, as on the host."]}
