"""From asking for a sandbox to the output of /bin/true in it."""
from suite import rivals, stats
from suite.client import CREATE, DELETE, REFERENCE, reference, run_command
from suite.tables import latency_table

TITLE = "Create to first output"
API, COMMAND_LINE = "atoll, HTTP API", "atoll, command line"
SLOW = ("runc", "podman", "runsc", "docker")


def block(place, contestants, rounds, workers, warmup=3):
    """Repeated until the machine was quiet for once."""
    def attempt():
        series = place.client.run(contestants, rounds=rounds, warmup=warmup, workers=workers,
                                  apart=True)
        return series, series[REFERENCE].turn_us
    return stats.most_quiet(attempt, place.options.tries)


def command_line(place):
    settings = [f"{name}={value}" for name, value in place.environment().items()]
    return {"name": COMMAND_LINE, "command": ["env", *settings, place.program("atoll"), "run",
                                              "--rm", "--", "/bin/true"]}


def against(series, name, reference_us):
    """How many times longer the other takes than Atoll."""
    return stats.ratio(series[name].us, series[API].us, reference_us)


def measure(place):
    place.start_server()
    ours = place.client.atoll(API, [CREATE, run_command("/bin/true")], after=[DELETE])
    found = rivals.available(place)
    quick = [{"name": name, "command": command} for name, command in found if name not in SLOW]
    slow = [{"name": name, "command": command} for name, command in found if name in SLOW]
    floors = rivals.floors(place)
    options = place.options
    series = block(place, [reference(), ours, *floors, *quick, command_line(place)],
                   options.rounds, 1)
    tables = [latency_table("one after another", series, API, REFERENCE)]
    ratios = {name: against(series, name, series[REFERENCE].turn_us) for name in series if name != API}
    figures = {"p50_ms": stats.median(series[API].us) / 1e3,
               "p99_over_p50": stats.percentile(series[API].us, 0.99) / stats.median(series[API].us),
               "delete_p50_ms": stats.median(series[API].after_us) / 1e3,
               "disturbed": stats.disturbances(series[REFERENCE].turn_us)}
    figures["over_floor"] = stats.ratio(series[API].us, series["floor, pooled"].us,
                                        series[REFERENCE].turn_us).json()
    if slow:
        beside = block(place, [reference(), ours, *slow], options.rival_rounds, 1, warmup=1)
        tables.append(latency_table("one after another, beside the slow ones", beside, API,
                                    REFERENCE))
        ratios |= {name: against(beside, name, beside[REFERENCE].turn_us) for name in beside
                   if name not in (API, REFERENCE)}
    figures["times_slower"] = {name: value.json() for name, value in ratios.items()}
    for workers in (8, 64):
        many = block(place, [reference(), ours, floors[0], *quick, command_line(place)],
                     max(options.rounds // workers, 9), workers, warmup=1)
        tables.append(latency_table(f"{workers} at a time", many, API, REFERENCE, rates=True))
        figures[f"concurrent_{workers}"] = {
            "p50_ms": stats.median(many[API].us) / 1e3, "per_second": many[API].rate(),
            "over_floor": stats.ratio(many[API].us, many["floor, pooled"].us,
                                      many[REFERENCE].turn_us).json()}
    figures["bars"] = {name: one.summary()["p50_ms"] for name, one in series.items()}
    if slow:
        figures["bars"] |= {name: beside[name].summary()["p50_ms"] for name in beside
                            if name not in figures["bars"]}
    notes = [f"{name} does not take part: {reason}" for name, reason in place.absent.items()]
    return {"tables": tables, "figures": figures, "notes": notes + [
        "Deleting is not in Atoll's time (see the table of storms and growth for it); a rival's "
        "program takes its sandbox down before it exits.",
        "“floor, pooled” is a byte to a waiting init, /bin/true, its exit status: no HTTP, no "
        "database, no second process."]}
