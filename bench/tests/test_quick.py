"""The guard complains exactly when it should."""
from suite.quick import complaints

MARGINS = {"instructions": 1.1, "ratios": 2.0}
BASELINE = {"instructions": {"json": 1000}, "ratios": {"exec": 3.0}}


def judged(instructions, ratios):
    return complaints({"instructions": instructions, "ratios": ratios}, BASELINE, MARGINS)


def test_as_good_or_a_little_worse_passes():
    assert judged({"json": 1000}, {"exec": 3.0}) == []
    assert judged({"json": 1099}, {"exec": 5.9}) == []
    assert judged({"json": 10}, {"exec": 0.1}) == []


def test_worse_than_the_margin_fails_and_says_what():
    (told,) = judged({"json": 1200}, {"exec": 3.0})
    assert "json" in told and "1,200" in told and "1,000" in told
    (told,) = judged({"json": 1000}, {"exec": 6.1})
    assert "exec" in told and "6.1" in told


def test_what_is_new_or_gone_is_not_overlooked():
    assert judged({"json": 1000, "route": 5}, {"exec": 3.0}) == ["route has no baseline"]
    assert judged({"json": 1000}, {}) == ["exec is in the baseline and was not measured"]
