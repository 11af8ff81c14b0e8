"""Throughput of one large file through the API, against cp on the host, taking turns.

Each round copies the same random file with cp (reading and writing every byte), uploads it with curl,
downloads it with curl into a file, and copies it with cp inside the sandbox: what of the upload is
the sandbox's disk. What came back is compared. Times are of the whole program, as a user sees them;
what the page cache does is part of it on both sides.
"""
import os
import subprocess
import time

from suite import stats
from suite.tables import figure_table

TITLE = "One large file"
ROUNDS = 5
COPY = "cp on the host"


def measure(place):
    place.start_server()
    mebibytes = place.options.file_mib
    box = place.server.client.create()
    url = f"{place.server.url()}{box.path}/files?path=/tmp/bench"
    header = f"Authorization: Bearer {place.server.key}"
    source, copy, back = (str(place.work / name) for name in ("source", "copy", "back"))
    subprocess.run(["dd", "if=/dev/urandom", f"of={source}", "bs=1M", f"count={mebibytes}",
                    "status=none"], check=True)
    steps = {COPY: ["cp", "--reflink=never", source, copy],
             "upload": ["curl", "-sSf", "-X", "POST", "-T", source, "-H", header, "-H", "Expect:",
                        "-o", os.devnull, url],
             "download": ["curl", "-sSf", "-H", header, "-o", back, url]}
    seconds = {name: [] for name in [*steps, "cp in the sandbox"]}

    def timed(name, action):
        os.sync()
        begin = time.monotonic()
        action()
        seconds[name].append(time.monotonic() - begin)
    try:
        for _ in range(ROUNDS):
            for name, command in steps.items():
                for stale in (copy, back):
                    if os.path.exists(stale):
                        os.unlink(stale)
                timed(name, lambda command=command: subprocess.run(command, check=True))
            box.out("rm -f /tmp/copy")
            timed("cp in the sandbox", lambda: box.out("cp --reflink=never /tmp/bench /tmp/copy"))
        subprocess.run([*steps["download"]], check=True)
        subprocess.run(["cmp", source, back], check=True)
    finally:
        for name in (source, copy, back):
            if os.path.exists(name):
                os.unlink(name)
    rows, figures = [], {}
    for name, each in seconds.items():
        middle = stats.median(each)
        relation = stats.ratio(each, seconds[COPY], seconds[COPY])
        figures[name] = {"median_s": round(middle, 3), "mib_per_s": round(mebibytes / middle),
                         "over_cp": relation.json()}
        rows.append([name, f"{middle:.2f}", f"{mebibytes / middle:.0f}", f"{min(each):.2f}",
                     relation.text()])
    return {"tables": [figure_table(f"{mebibytes} MiB, median of {ROUNDS} rounds", rows, (
        "", "median s", "MiB/s", "best s", f"median / {COPY}"))], "figures": figures, "notes": []}
