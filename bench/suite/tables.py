"""Tables as data: a title, columns and rows of text. The report prints them; nothing is computed
from them."""
from suite import stats


def milliseconds(value):
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def table(title, columns, rows, note=""):
    return {"title": title, "columns": columns, "rows": [[str(cell) for cell in row] for row in rows],
            "note": note}


def latency_table(title, series, ours, reference, rates=False):
    """A line for each contestant; how many times as long as ours, if the block was quiet."""
    quiet = series[reference].turn_us
    rows = []
    for name, one in series.items():
        told = one.summary()
        rate = "" if not one.rated else f"{one.rate():.0f}"
        relation = "1" if name == ours else stats.ratio(one.us, series[ours].us, quiet).text()
        rows.append([name, *(milliseconds(told[key]) for key in ("p50_ms", "p90_ms", "p99_ms",
                                                                 "min_ms")),
                     told["spread"], told["count"], *([rate] if rates else []),
                     relation])
    return table(title, ["", "p50 ms", "p90 ms", "p99 ms", "min ms", "spread", "n",
                         *(["per second"] if rates else []), f"p50 / {ours}"], rows)


def figure_table(title, rows, columns=("", "value"), note=""):
    return table(title, list(columns), rows, note)
