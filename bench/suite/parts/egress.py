"""The network boundary against nginx, mitmproxy and nothing: bench/egress.py."""
from suite.parts.state import run
from suite.tables import table

TITLE = "Network boundary"


def measure(place):
    place.stop_server()
    figures = run(place, "egress.py", str(place.bin_dir))
    names = sorted({name for told in figures.values() for name in told})
    rows = [[what, *(f"{told[name]:.2f}" if name in told else "" for name in names)]
            for what, told in figures.items()]
    return {"tables": [table("medians of rounds in which all take turns", ["", *names], rows)],
            "figures": figures, "notes": []}
