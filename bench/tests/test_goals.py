"""Verdicts: met, missed, unstable, not measured; and none of them by accident."""
from suite import goals


def ratio(value, *why):
    return {"value": value, "unstable": list(why)}


def verdicts(figures):
    return {each["text"]: each["verdict"] for each in goals.judge(figures)}


def test_nothing_measured_is_said():
    assert set(verdicts({}).values()) == {"not measured"}


def test_creation():
    told = verdicts({"create": {"over_floor": ratio(1.9), "p99_over_p50": 5, "disturbed": [],
                                "times_slower": {"bwrap": ratio(1.5), "crun": ratio(3.0),
                                                 "podman": ratio(None, "spread 0.9")}}})
    assert told["create → output ≤ 2 × the pooled floor"] == "met"
    assert told["≥ 2 × faster than bwrap"] == "missed"
    assert told["≥ 3 × faster than crun"] == "met"
    assert told["≥ 100 × faster than podman"] == "unstable"
    assert told["≥ 10 × faster than runc"] == "not measured"
    assert told["p99 ≤ 4 × p50"] == "missed"


def test_a_tail_of_a_disturbed_block_says_nothing():
    told = verdicts({"create": {"p99_over_p50": 2, "disturbed": ["drift 2 > 1.35"]}})
    assert told["p99 ≤ 4 × p50"] == "unstable"


def test_storm_and_memory():
    storm = {"wall_s": 4.9, "failures": 1, "alive": 1000,
             "memory_after_idle": {"mem_available_kib": 401}}
    told = verdicts({"storm": {"1000": storm}})
    assert told["1000 created, each answered a command, < 5 s"] == "met"
    assert told["no failure"] == "missed"
    assert told["all 1000 alive together"] == "met"
    assert told["≤ 400 KiB of memory for each of 1000 idle ones"] == "missed"
    told = verdicts({"storm": {"1000": storm | {"memory_noise": ["moves by 90 KiB"]}}})
    assert told["≤ 400 KiB of memory for each of 1000 idle ones"] == "unstable"


def test_growth_names_each_operation():
    told = verdicts({"growth": {"most": 5000, "flat": {
        "exec": ratio(1.29), "list": ratio(1.31)}, "everybody": {
            "exec": ratio(1.5), "spawn, unsandboxed": ratio(9)}}})
    assert told["exec: ≤ 1.3 × from 1 to 5000 live sandboxes"] == "met"
    assert told["list: ≤ 1.3 × from 1 to 5000 live sandboxes"] == "missed"
    assert told["exec: ≤ 1.3 × beside 5000 of another server"] == "missed"
    assert not any("unsandboxed:" in text for text in told), "the reference is no goal"
