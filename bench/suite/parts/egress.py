"""The network boundary against nginx, mitmproxy and nothing: bench/egress.py."""
from suite import stats
from suite.parts.state import run
from suite.tables import table

TITLE = "Network boundary"
OURS, QUIET = "atoll", "loopback"


def told(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def judge(measured):
    """Rows and figures of {what: {contestant: values}}: ratios to each other one where there were
    enough rounds and nothing disturbed them."""
    rows, figures = [], {}
    for what, values in measured.items():
        figures[what] = {}
        for name, each in values.items():
            ratio = None
            if name != OURS and len(each) > 1:
                ratio = stats.ratio(values[OURS], each, values.get(QUIET, each))
            figures[what][name] = {"p50": stats.median(each), "p90": stats.percentile(each, 0.9),
                                   "p99": stats.percentile(each, 0.99),
                                   "spread": round(stats.spread(each), 3), "values": each,
                                   "atoll_over_it": ratio.json() if ratio else None}
            rows.append([what, name, *(told(figures[what][name][key]) for key in ("p50", "p90",
                                                                                  "p99")),
                         figures[what][name]["spread"], len(each), ratio.text() if ratio else ""])
    return rows, figures


def measure(place):
    place.stop_server()
    rows, figures = judge(run(place, "egress.py", str(place.bin_dir)))
    return {"tables": [table("rounds in which all take turns", [
        "what", "who", "p50", "p90", "p99", "spread", "n", "atoll / it"], rows)],
        "figures": figures, "notes": [
            "“loopback” has its upstream on the same machine, “direct” behind the same cable as "
            "everybody; neither has a proxy in between."]}
