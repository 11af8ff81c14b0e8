"""The same operations while more and more sandboxes live, and after a long past.

Levels are measured one after another, so a machine that changes its mind would look like growth: the
first level is measured again at the end, and when the two differ no ratio is given.
"""
from suite import history, stats
from suite.client import CREATE, DELETE, REFERENCE, reference, run_command, step
from suite.tables import table

TITLE = "Growth"
WORKERS = 8
FORK = step("POST", "/api/v1/sandboxes/{sandbox}/fork", {"count": 1, "start": True},
            {"child": "id"})
PAUSE = step("POST", "/api/v1/sandboxes/{sandbox}/pause", {})
RESUME = step("POST", "/api/v1/sandboxes/{sandbox}/resume", {})
SNAPSHOT = step("POST", "/api/v1/sandboxes/{sandbox}/snapshots", {}, {"snapshot": "id"})


def contestants(client):
    inside = {"setup": [CREATE, run_command("/bin/true")], "teardown": [DELETE]}
    return [
        reference(),
        client.atoll("create to output", [CREATE, run_command("/bin/true")], after=[DELETE]),
        client.atoll("claim", [CREATE], after=[DELETE]),
        client.atoll("exec", [run_command("/bin/true")], **inside),
        # As many as there are at the first level: a page of the same size every time.
        client.atoll("list, one page", [step("GET", "/api/v1/sandboxes?limit=5")]),
        client.atoll("fork", [FORK], after=[step("DELETE", "/api/v1/sandboxes/{child}")], **inside),
        client.atoll("pause", [PAUSE], after=[RESUME], **inside),
        client.atoll("snapshot", [SNAPSHOT], after=[
            step("DELETE", "/api/v1/sandbox-rootfs-snapshots/{snapshot}")], **inside)]


def look(place):
    """{operation: samples in microseconds} at the level that there is now."""
    def attempt():
        series = place.client.run(contestants(place.client), rounds=place.options.growth_rounds,
                                  warmup=5)
        return series, series[REFERENCE].turn_us
    series = stats.most_quiet(attempt, place.options.tries)
    samples = {name: one.us for name, one in series.items()}
    samples["delete"] = series["claim"].after_us
    samples["resume"] = series["pause"].after_us
    return samples


def populate(place, live, count):
    """Brings the number of sandboxes that stay to `count`; each has run a command."""
    if count > len(live):
        live += place.client.run([place.client.atoll(
            "populate", [CREATE, run_command("/bin/true")], operations=count - len(live),
            collect="sandbox")], workers=WORKERS)["populate"].collected
    elif count < len(live):
        gone = [live.pop() for _ in range(len(live) - count)]
        place.client.run([place.client.atoll(
            "delete", [step("DELETE", "/api/v1/sandboxes/{item}")], items=gone,
            operations=len(gone))], workers=WORKERS)


def flatness(levels, last, names):
    """{operation: Ratio} of the last level to the first, which was measured twice."""
    told = {}
    for name in names:
        first, again = levels["1"][name], levels["1 again"][name]
        apart = stats.drift(first + again) if not first or not again else \
            max(stats.median(first), stats.median(again)) / \
            min(stats.median(first), stats.median(again))
        reasons = stats.disturbances(levels[last][REFERENCE])
        if apart > stats.MOST_DRIFT:
            reasons.append(f"1 and 1 again differ {apart:.2f} times")
        value = stats.median(levels[last][name]) / stats.median(first + again)
        told[name] = stats.Ratio(None, reasons) if reasons else stats.Ratio(round(value, 3), [])
    return told


def measure(place):
    from suite.parts.storm import Cells
    most = max(place.options.growth)
    limit = place.room_for(most + 200)
    server = place.start_server(*limit)
    levels, live = {}, []
    for count in sorted(place.options.growth):
        populate(place, live, count)
        levels[str(count)] = look(place)
    cells = Cells(server)
    before, gone = cells.names(), len(live) - 1
    populate(place, live, 1)
    cells.wait_gone(before, gone)
    levels["1 again"] = look(place)
    rows_added = {}
    if place.options.history:
        populate(place, live, 0)
        place.stop_server(keep=True)
        rows_added = history.fill(server.data_dir, place.options.history)
        place.start_server(*limit, data_dir=server.data_dir).owns_data_dir = True
        populate(place, live, 1)
        levels["past"] = look(place)
    names = list(levels["1"])
    flat = flatness(levels, str(most), names)
    past = flatness(levels, "past", names) if "past" in levels else {}
    medians = {level: {name: round(stats.median(each) / 1e3, 4) for name, each in samples.items()}
               for level, samples in levels.items()}
    labels = {"past": f"1, {place.options.history:,} rows of history"}
    rows = [[name, *(f"{medians[level][name]:.2f}" for level in levels), flat[name].text(),
             *([past[name].text()] if past else [])] for name in names]
    return {"tables": [table("p50 in ms, by the number of live sandboxes", [
        "", *(labels.get(level, level) for level in levels), f"{most} / 1",
        *(["history / none"] if past else [])], rows)],
        "figures": {"p50_ms": medians, "flat": {name: one.json() for name, one in flat.items()},
                    "past": {name: one.json() for name, one in past.items()},
                    "most": most, "history_rows": rows_added},
        "notes": [f"Rows of history: {', '.join(f'{v:,} {k}' for k, v in rows_added.items())}."]
        if rows_added else []}
