"""Claims per second when create and delete go on and on."""
from suite import stats
from suite.client import CREATE, DELETE, REFERENCE, reference, run_command
from suite.tables import figure_table, milliseconds

TITLE = "Sustained claims"
WORKERS = 8


def measure(place):
    place.start_server()
    seconds = place.options.sustained_seconds
    figures, rows = {}, []
    for name, timed, share in (("create and delete", [CREATE], 1),
                               ("create, run /bin/true, delete",
                                [CREATE, run_command("/bin/true")], 0.25)):
        lasts = max(seconds * share, 1)
        before = place.client.run([reference()], rounds=50)[REFERENCE].us
        one = place.client.run([place.client.atoll(name, timed, after=[DELETE])], workers=WORKERS,
                               seconds=lasts)[name]
        after = place.client.run([reference()], rounds=50)[REFERENCE].us
        told = figures[name] = {**one.summary(), "seconds": lasts,
                                "per_second": round(one.rate(), 1),
                                "drift": round(stats.drift(one.us), 3),
                                "machine_drift": round(stats.drift(before + after), 3)}
        rows.append([name, f"{lasts:.0f}", f"{told['per_second']:.0f}",
                     *(milliseconds(told[key]) for key in ("p50_ms", "p90_ms", "p99_ms")),
                     told["drift"]])
    return {"tables": [figure_table(f"{WORKERS} clients", rows, (
        "", "seconds", "per second", "p50 ms", "p90 ms", "p99 ms", "drift over the run"))],
        "figures": figures, "notes": []}
