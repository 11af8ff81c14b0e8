"""Requests per second on a trivial route, beside servers of files: bench/http."""
import re
import subprocess

from suite.place import TOP
from suite.tables import table

TITLE = "Requests per second"
LINE = re.compile(r"^  (.+?)  +(\d+) req/s +mean (\S+) +(\d+) answers")


def measure(place):
    server = place.start_server()
    done = subprocess.run([TOP / "bench" / "http", server.url()], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=True)
    rows = [match.groups() for match in map(LINE.match, done.stdout.splitlines()) if match]
    return {"tables": [table("GET /healthz by h2load; a file of the same size for the others",
                             ["", "per second", "mean", "answers 2xx"], rows)],
            "figures": {name: {"per_second": float(rate), "good": int(good)}
                        for name, rate, _, good in rows}, "notes": []}
