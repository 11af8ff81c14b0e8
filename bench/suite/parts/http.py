"""Requests per second on a trivial route, beside servers of files: bench/http."""
import os
import re
import subprocess

from suite import programs, stats
from suite.client import Failed
from suite.place import TOP
from suite.tables import table

TITLE = "Requests per second"
LINE = re.compile(r"^  (.+?)  +(\d+) req/s +mean (\S+) +(\d+) answers")
MOST_SECONDS = 900
REQUESTS = 10_000
PEERS = {"atoll, HTTP/1.1": "nginx (a file), HTTP/1.1", "atoll, HTTP/2": "nghttpd (a file), HTTP/2"}


def collect(text):
    """{name: rates of its turns}. A refusal is quicker than an answer: one of them is too many."""
    rates = {}
    for match in filter(None, map(LINE.match, text.splitlines())):
        name, rate, _, good = match.groups()
        if int(good) != REQUESTS:
            raise Failed(f"{name} answered {good} of {REQUESTS} well")
        rates.setdefault(name, []).append(float(rate))
    return rates


def judge(rates):
    """Rows for people, figures for the report; a ratio only of turns that agree."""
    rows, figures = [], {}
    for name, each in rates.items():
        peer = PEERS.get(name)
        relation = stats.ratio(each, rates[peer], rates[peer]) if peer in rates else None
        figures[name] = {"per_second": stats.median(each), "rates": each,
                         "spread": round(stats.spread(each), 3),
                         "over_peer": relation.json() if relation else None}
        rows.append([name, f"{stats.median(each):.0f}", f"{min(each):.0f}", f"{max(each):.0f}",
                     figures[name]["spread"], len(each), relation.text() if relation else ""])
    return rows, figures


def measure(place):
    server = place.start_server()
    done = programs.run([TOP / "bench" / "http", server.url()], MOST_SECONDS, stdout=subprocess.PIPE,
                        env={**os.environ, "REQUESTS": str(REQUESTS)})
    if done.returncode != 0:
        raise Failed(f"bench/http failed with status {done.returncode}")
    rows, figures = judge(collect(done.stdout))
    return {"tables": [table("GET /healthz by h2load, taking turns; a file of the same size for the "
                             "others", ["", "p50 per second", "least", "most", "spread", "turns",
                                        "of nginx / of nghttpd"], rows)],
            "figures": figures, "notes": []}
