"""The same through E2B's own SDK: bench/e2b.py."""
import os

from suite.parts.state import run
from suite.tables import table

TITLE = "Through E2B's SDK"


def measure(place):
    place.stop_server()
    figures = run(place, "e2b.py", str(place.bin_dir), "--rounds",
                  os.environ.get("E2B_ROUNDS", "60"))
    rows = [[transport, name, *(f"{told[key]:.1f}" for key in ("p50", "p90", "p99", "min")),
             f"{told['spread']:.2f}", told["count"]]
            for transport, values in figures.items() for name, told in values.items()]
    return {"tables": [table("", ["transport", "", "p50 ms", "p90 ms", "p99 ms", "min ms", "spread",
                                  "n"], rows)],
            "figures": figures, "notes": []}
