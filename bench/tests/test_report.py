"""The report: the same numbers give the same bytes, and no unstable ratio is printed as a number."""
import json
import xml.dom.minidom

from suite import report, stats, svg
from suite.client import Series
from suite.main import earlier
from suite.tables import latency_table

GROWTH = {"relative": {"1": {"exec": 1.0, "list": 1.01}, "100": {"exec": 1.1, "list": 1.2}},
          "most": 100, "flat": {}, "past": {}}


def whole(tables=()):
    machine = {"cores": 2, "cpu": "x", "virtual": "y", "memory_mib": 1, "system": "z", "kernel": "6",
               "load_before": 0, "commit": "abc"}
    return {"date": "2026-01-01", "machine": machine, "versions": {"bwrap": "bubblewrap 1"},
            "absent": {"docker": "no engine"},
            "goals": [{"goal": 1, "text": "fast", "measured": "1.0", "verdict": "met"}],
            "parts": {"create": {"title": "Create", "tables": list(tables), "notes": [],
                                 "figures": {"bars": {"a": 0.5, "b": 120.0}}},
                      "growth": {"title": "Growth", "tables": [], "notes": [], "figures": GROWTH}}}


def series(name, values):
    return Series(name=name, us=values, after_us=[], turn_us=values, collected=[], failures=0,
                  first_failure="")


def test_written_twice_is_the_same(tmp_path):
    for name in ("one", "two"):
        report.write(whole(), tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert {path.name for path in (tmp_path / "one").iterdir()} == {
        "report.json", "README.md", "create.svg", "growth.svg"}
    assert json.loads((tmp_path / "one" / "report.json").read_text())["goals"][0]["goal"] == 1
    text = (tmp_path / "one" / "README.md").read_text()
    assert "| 1 | fast | 1.0 | met |" in text and "(growth.svg)" in text
    assert "bwrap (bubblewrap 1). Not here: docker (no engine)." in text


def test_a_part_of_another_run_says_so(tmp_path):
    told = whole()
    told["parts"]["growth"]["measured"] = {"commit": "old", "date": "2025-12-31", "load_before": 3}
    told["parts"]["create"]["measured"] = {"commit": "abc", "date": "2026-01-01", "load_before": 0}
    report.write(told, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert text.count("Measured at commit `old`, 2025-12-31; load average before: 3.") == 1
    assert text.count("Measured at commit `abc`") == 1, "only in the head of the page"


def test_what_is_kept_of_an_older_report_is_dated(tmp_path):
    report.write(whole(), tmp_path)
    kept = earlier(tmp_path, keep=True)
    assert kept["parts"]["growth"]["measured"] == {"commit": "abc", "date": "2026-01-01",
                                                   "load_before": 0}
    assert earlier(tmp_path, keep=False)["parts"] == {}


def test_plots_are_well_formed():
    for picture in (svg.bars("a < b & c", {"x": 0.3, "y": 700}),
                    svg.lines("t", ["1", "100"], {"a & b": [1, 1.2]}, limit=1.3),
                    svg.lines("t", ["1"], {"flat": [0]}, limit=400, unit="")):
        xml.dom.minidom.parseString(picture)


def test_a_table_of_a_disturbed_block_has_no_ratio():
    noisy = {"ours": series("ours", [10.0] * 30), "theirs": series("theirs", [30.0] * 30),
             "reference": series("reference", [5.0, 20.0] * 15)}
    told = latency_table("t", noisy, "ours", "reference")
    assert told["rows"][1][-1].startswith("unstable")
    calm = noisy | {"reference": series("reference", [5.0] * 30)}
    assert latency_table("t", calm, "ours", "reference")["rows"][1][-1] == "3.00"
    assert stats.disturbances([5.0] * 30) == []


def test_a_line_has_no_point_where_nothing_was_told():
    drawn = svg.lines("t", ["1", "10", "100", "500"], {"exec": [1.0, None, 1.2, 1.1]}, limit=1.3)
    assert drawn.count("<circle") == 3 and drawn.count("<polyline") == 2
    assert svg.lines("t", ["1"], {"exec": [None]}, limit=1.3).count("<circle") == 0
