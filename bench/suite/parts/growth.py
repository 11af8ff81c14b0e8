"""The same operations while more and more sandboxes live, and after a long past.

Two servers take turns, operation by operation: in one the number of sandboxes grows, beside it the
other always has one. Whatever the machine does meanwhile hits both, so the ratio of each pair is
about what they have and not about the hour. What many sandboxes cost everybody on the machine, also
a server that does not have them, shows in the one that stays as it is: it is compared with itself
before.
"""
import contextlib
import time

from suite import history, pool_writes, stats
from suite.client import CREATE, DELETE, REFERENCE, Client, reference, run_command, step
from suite.place import Server
from suite.tables import table

TITLE = "Growth"
WORKERS = 8
BLOCKS = 4  # who goes first changes from one to the next
WARMUP = 3
SETTLE_SECONDS = 60
GROWN, SINGLE, WRITTEN = "grown", "single", "written"
COMMITTING = ("fork", "pause", "snapshot")
FORK = step("POST", "/api/v1/sandboxes/{sandbox}/fork", {"count": 1, "start": True},
            {"child": "id"})
PAUSE = step("POST", "/api/v1/sandboxes/{sandbox}/pause", {})
RESUME = step("POST", "/api/v1/sandboxes/{sandbox}/resume", {})
SNAPSHOT = step("POST", "/api/v1/sandboxes/{sandbox}/snapshots", {}, {"snapshot": "id"})


def contestants(client):
    inside = {"setup": [CREATE, run_command("/bin/true")], "teardown": [DELETE]}
    return [
        client.atoll("create to output", [CREATE, run_command("/bin/true")], after=[DELETE]),
        client.atoll("claim", [CREATE], after=[DELETE]),
        client.atoll("exec", [run_command("/bin/true")], **inside),
        # Fewer than there are with one that stays and those of this plan: a full page, and a next.
        client.atoll("list, one page", [step("GET", "/api/v1/sandboxes?limit=3")]),
        client.atoll("fork", [FORK], after=[step("DELETE", "/api/v1/sandboxes/{child}")], **inside),
        client.atoll("pause", [PAUSE], after=[RESUME], **inside),
        client.atoll("snapshot", [SNAPSHOT], after=[
            step("DELETE", "/api/v1/sandbox-rootfs-snapshots/{snapshot}")], **inside)]


def plan(clients, turned):
    """Each operation of one server right after the same of the other."""
    order = list(clients)[::-1] if turned else list(clients)
    sides = [[each | {"name": f"{side}: {each['name']}"} for each in contestants(clients[side])]
             for side in order]
    return [reference(), *(each for pair in zip(*sides) for each in pair)]


def merge(blocks):
    """{side: {operation: samples in microseconds}} of the series of some blocks."""
    merged = {GROWN: {}, SINGLE: {}}
    for name in blocks[0]:
        side, _, operation = name.partition(": ")
        if side in merged:
            merged[side][operation] = [value for block in blocks for value in block[name].us]
            for timed, after in (("claim", "delete"), ("pause", "resume")):
                if operation == timed:
                    merged[side][after] = [value for block in blocks
                                           for value in block[name].after_us]
    return merged


def look(options, clients):
    """What merge() gives at the level that there is now, with the reference. A noisy machine needs
    more pairs until their middle is narrow."""
    rounds = -(-options.growth_rounds // BLOCKS)
    blocks = []
    for _ in range(options.tries):
        blocks += [clients[SINGLE].run(plan(clients, turned=number % 2 == 1), rounds=rounds,
                                       warmup=WARMUP) for number in range(BLOCKS)]
        turns = [value for block in blocks for value in block[REFERENCE].turn_us]
        level = merge(blocks) | {REFERENCE: turns}
        if all(ratio.stable for ratio in flatness(level).values()):
            break
    return level


def populate(client, live, count):
    """Brings the number of sandboxes that stay to `count`; each has run a command."""
    if count > len(live):
        live += client.run([client.atoll(
            "populate", [CREATE, run_command("/bin/true")], operations=count - len(live),
            collect="sandbox")], workers=WORKERS)["populate"].collected
    elif count < len(live):
        gone = [live.pop() for _ in range(len(live) - count)]
        client.run([client.atoll(
            "delete", [step("DELETE", "/api/v1/sandboxes/{item}")], items=gone,
            operations=len(gone))], workers=WORKERS)


def settle(client):
    """Until the machine has got over what was done to it: making thousands of sandboxes leaves work
    behind (writeback, namespaces that are taken apart, first samples) that is not theirs while they
    live. Not for ever: a machine that is never quiet is told by the ratios."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        turns = client.run([reference()], rounds=200, warmup=WARMUP)[REFERENCE].turn_us
        if not stats.disturbances(turns):
            return


@contextlib.contextmanager
def beside(place):
    """The client of a second server, which has one sandbox that stays."""
    server = Server(bin_dir=place.bin_dir)
    try:
        server.start()
        client = Client(place.bin_dir, server.url(), server.key)
        populate(client, [], 1)
        yield client
    finally:
        try:
            server.stop()
        finally:
            server.discard()


def flatness(level):
    """{operation: Ratio} of the server that has grown to the one that has not."""
    return {name: stats.paired_ratio(samples, level[SINGLE][name])
            for name, samples in level[GROWN].items()}


def burden(first, last):
    """{operation: Ratio} of the one that stays as it is to itself before: what all on this machine
    pay. Two moments are compared, so the reference of both must be quiet, and the same."""
    reasons = [f"{when} {why}" for when, level in (("before:", first), ("now:", last))
               for why in stats.disturbances(level[REFERENCE])]
    told = {}
    for name, samples in last[SINGLE].items():
        told[name] = stats.Ratio(None, reasons) if reasons else stats.Ratio(
            round(stats.median(samples) / stats.median(first[SINGLE][name]), 3), [])
    value = stats.median(last[REFERENCE]) / stats.median(first[REFERENCE])
    return told | {REFERENCE: stats.Ratio(None, reasons) if reasons
                   else stats.Ratio(round(value, 3), [])}


def grow(place, single):
    """({level: what look() gives}, rows of history by table)"""
    from suite.parts.storm import Cells
    limit = place.room_for(max(place.options.growth) + 200)
    server = place.start_server(*limit)
    clients, levels, live = {GROWN: place.client, SINGLE: single}, {}, []
    for count in sorted(place.options.growth):
        populate(place.client, live, count)
        settle(single)
        levels[str(count)] = look(place.options, clients) | {WRITTEN: pool_writes.of_each(
            place.client, server.data_dir,
            [each for each in contestants(place.client) if each["name"] in COMMITTING])}
    cells = Cells(server)
    before, gone = cells.names(), len(live)
    populate(place.client, live, 0)
    cells.wait_gone(before, gone)
    if not place.options.history:
        return levels, {}
    place.stop_server(keep=True)
    rows_added = history.fill(server.data_dir, place.options.history)
    place.start_server(*limit, data_dir=server.data_dir).owns_data_dir = True
    clients[GROWN] = place.client
    populate(place.client, live, 1)
    levels["past"] = look(place.options, clients)
    return levels, rows_added


def measure(place):
    with beside(place) as single:
        levels, rows_added = grow(place, single)
        place.stop_server()
    return tell(levels, rows_added, place.options)


def p50_ms(level, side):
    told = {name: round(stats.median(samples) / 1e3, 4) for name, samples in level[side].items()}
    return told | {REFERENCE: round(stats.median(level[REFERENCE]) / 1e3, 4)}


def written_tables(levels):
    told = {level: samples[WRITTEN] for level, samples in levels.items() if samples.get(WRITTEN)}
    rows = [[name, *(f"{kib} KiB in {requests}, {flushes} flushes"
                     for requests, kib, flushes in (told[level][name] for level in told))]
            for name in COMMITTING] if told else []
    return [table("What the pool writes for a create, a command and this, by the number of live "
                  "sandboxes", ["", *told], rows)] if rows else []


def tell(levels, rows_added, options):
    """Tables and figures of what was measured."""
    first, most = str(min(options.growth)), str(max(options.growth))
    flat = {level: flatness(samples) for level, samples in levels.items()}
    everybody = burden(levels[first], levels[most])
    grown = {level: p50_ms(samples, GROWN) for level, samples in levels.items()}
    one = {level: p50_ms(samples, SINGLE) for level, samples in levels.items()}
    past = {"past": f"1, {options.history:,} rows of history"}
    rows = []
    for name in [*flat[most], REFERENCE]:
        compared = name != REFERENCE
        rows.append([
            name, *(f"{grown[level][name]:.2f}" for level in levels), f"{one[most][name]:.2f}",
            *(flat[level][name].text() if compared else "" for level in levels if level != first),
            flat[first][name].text() if compared else "", everybody[name].text()])
    return {
        "tables": [*written_tables(levels), table("p50 in ms, by the number of live sandboxes; one: a server beside, which "
                         "took turns", [
                             "", *(past.get(level, level) for level in levels),
                             f"one, beside {most}",
                             *(f"{'history' if level == 'past' else level} / one"
                               for level in levels if level != first),
                             f"{first} / one (two alike)", f"one, beside {most} / beside {first}"],
                         rows)],
        "figures": {
            "p50_ms": grown, "one_ms": one, "most": int(most), "history_rows": rows_added,
            "relative": {level: {name: told.value for name, told in flat[level].items()}
                         for level in levels},
            "written": {level: samples.get(WRITTEN, {}) for level, samples in levels.items()},
            "flat": {name: told.json() for name, told in flat[most].items()},
            "past": {name: told.json() for name, told in flat.get("past", {}).items()},
            "everybody": {name: told.json() for name, told in everybody.items()}},
        "notes": [f"Rows of history: {', '.join(f'{v:,} {k}' for k, v in rows_added.items())}."]
        if rows_added else []}
