"""Growth: servers take turns, and what was not quiet is no ratio."""
import types

from suite.client import REFERENCE, Client, Series
from suite.parts import growth

CALM = [10.0, 10.1, 9.9, 10.0, 10.2, 9.8] * 4
WILD = [10.0, 30.0, 9.0, 40.0, 11.0, 25.0] * 4


def times(factor, samples=CALM):
    return [factor * each for each in samples]


def series(name, us, after=()):
    return Series(name=name, us=us, after_us=list(after), turn_us=us, collected=[], failures=0,
                  first_failure="")


def level(factor, reference=CALM):
    return {growth.GROWN: {"exec": times(factor), "claim": CALM},
            growth.SINGLE: {"exec": CALM, "claim": CALM}, REFERENCE: reference}


def test_each_operation_is_beside_the_same_of_the_other_and_the_first_changes():
    clients = {side: Client(".", f"http://{side}", "key") for side in (growth.GROWN, growth.SINGLE)}
    for turned, first in ((False, growth.GROWN), (True, growth.SINGLE)):
        names = [each["name"] for each in growth.plan(clients, turned)]
        assert names[0] == REFERENCE
        for one, other in zip(names[1::2], names[2::2]):
            assert one.startswith(f"{first}: ") and one.split(": ")[1] == other.split(": ")[1]
            assert one != other


def test_blocks_become_one_series_for_each_side():
    block = {REFERENCE: series(REFERENCE, CALM)}
    for side, factor in ((growth.GROWN, 2), (growth.SINGLE, 1)):
        for name in ("claim", "pause"):
            full = f"{side}: {name}"
            block[full] = series(full, times(factor), times(3 * factor))
    merged = growth.merge([block, block])
    assert merged[growth.GROWN]["claim"] == times(2) * 2
    assert merged[growth.SINGLE]["delete"] == times(3) * 2
    assert set(merged[growth.SINGLE]) == {"claim", "pause", "delete", "resume"}


def test_ratios_are_those_of_one_moment():
    told = growth.tell({"1": level(1), "50": level(1.2), "past": level(1.1)}, {"outbox": 7},
                       types.SimpleNamespace(growth=[50, 1], history=7))
    figures = told["figures"]
    assert figures["flat"]["exec"]["value"] == 1.2 and figures["most"] == 50
    assert figures["past"]["exec"]["value"] == 1.1
    assert figures["relative"]["50"] == {"exec": 1.2, "claim": 1.0}
    assert figures["everybody"]["exec"]["value"] == 1
    columns, rows = told["tables"][-1]["columns"], told["tables"][-1]["rows"]
    assert all(len(row) == len(columns) for row in rows)
    assert "50 / one" in columns and "history / one" in columns


def test_what_was_too_noisy_is_in_no_plot():
    noisy = level(1.2)
    noisy[growth.GROWN]["exec"] = [us * (1 + 3 * (turn % 2))
                                   for turn, us in enumerate(noisy[growth.GROWN]["exec"])]
    told = growth.tell({"1": level(1), "50": noisy}, {},
                       types.SimpleNamespace(growth=[50, 1], history=0))["figures"]
    assert told["flat"]["exec"]["value"] is None
    assert told["relative"]["50"] == {"exec": None, "claim": 1.0}


def test_what_was_written_is_told_where_it_is_known():
    written = {name: (4, 168, 2) for name in growth.COMMITTING}
    options = types.SimpleNamespace(growth=[1, 50], history=0)
    levels = {"1": level(1) | {growth.WRITTEN: written}, "50": level(1) | {growth.WRITTEN: written}}
    told = growth.tell(levels, {}, options)["tables"]
    assert told[0]["columns"] == ["", "1", "50"] and "168 KiB in 4, 2 flushes" in told[0]["rows"][0]
    assert len(growth.tell({"1": level(1), "50": level(1)}, {}, options)["tables"]) == 1


def test_what_hits_both_does_no_harm_and_what_hits_one_is_no_ratio():
    last = level(1.2, WILD)
    for side, factor in ((growth.GROWN, 1.2), (growth.SINGLE, 1)):
        last[side]["exec"] = times(factor, WILD)
    last[growth.GROWN]["claim"] = WILD
    told = growth.tell({"1": level(1), "50": last}, {},
                       types.SimpleNamespace(growth=[1, 50], history=0))
    assert told["figures"]["flat"]["exec"]["value"] == 1.2
    assert told["figures"]["flat"]["claim"]["value"] is None
    assert told["figures"]["everybody"]["claim"]["value"] is None, "two moments, one disturbed"
    assert told["figures"]["past"] == {} and told["notes"] == []


class Scripted:
    """A client whose plans give what it was told to; the noise is in one of the servers."""

    def __init__(self, noisy_plans):
        self.noisy_plans, self.plans = noisy_plans, 0

    def atoll(self, name, timed, **more):
        return {"name": name}

    def run(self, contestants, rounds, warmup):
        self.plans += 1
        noisy = self.plans <= self.noisy_plans
        return {each["name"]: series(each["name"], WILD if noisy and each["name"] == "grown: fork"
                                     else CALM, CALM) for each in contestants}


def test_noise_asks_for_more_pairs_and_not_for_ever():
    for noisy_plans, plans in ((0, growth.BLOCKS), (1, growth.BLOCKS), (99, 3 * growth.BLOCKS)):
        client = Scripted(noisy_plans)
        level = growth.look(types.SimpleNamespace(growth_rounds=40, tries=3),
                            {growth.GROWN: client, growth.SINGLE: client})
        assert client.plans == plans
        assert growth.flatness(level)["fork"].stable == (noisy_plans < 99)
        assert len(level[growth.GROWN]["claim"]) == plans * len(CALM) == len(level[REFERENCE])


class Restless:
    """A machine that is quiet from the third look on."""
    looks = 0

    def run(self, contestants, **_):
        assert [each["name"] for each in contestants] == [REFERENCE]
        self.looks += 1
        return {REFERENCE: series(REFERENCE, CALM if self.looks > 2 else WILD)}


def test_a_level_is_looked_at_when_the_machine_has_got_over_making_it(monkeypatch):
    machine = Restless()
    growth.settle(machine)
    assert machine.looks == 3
    monkeypatch.setattr(growth, "SETTLE_SECONDS", 0)
    growth.settle(Restless())
