"""Forks that take a warm Python along, to the first output of every child, against a sandbox that
is claimed and starts a Python of its own.  warm_forks.py URL KEY_FILE [COUNTS] [--json FILE]

Both sides take turns in the same run, so a busy machine slows both. A child's time is the time of
all divided by their number: from the request to the last child's output.
"""
import argparse
import json
import time

from api import Api
from suite import stats

WARM_UP = "import json, re, decimal\ntry:\n    import numpy\nexcept ImportError: pass\n"
FIRST = "print(1 + 1)"


def execute(api, sandbox, context, code):
    done = api.call("POST", f"/api/v1/sandboxes/{sandbox}/contexts/{context}/exec",
                    {"data": code})
    if done["status"] != "ok":
        raise SystemExit(f"bench: {done}")
    return done["output_raw"]


def start_python(api):
    sandbox = api.call("POST", "/api/v1/sandboxes", {"template": TEMPLATE})["sandbox_id"]
    context = api.call("POST", f"/api/v1/sandboxes/{sandbox}/contexts",
                       {"type": "repl", "repl": {"alias": "python"}})["id"]
    execute(api, sandbox, context, WARM_UP)
    return sandbox, context


def remove(api, sandboxes):
    for sandbox in sandboxes:
        api.call("DELETE", f"/api/v1/sandboxes/{sandbox}")


def cold(api):
    begun = time.perf_counter()
    sandbox, context = start_python(api)
    assert execute(api, sandbox, context, FIRST) == "2\n"
    taken = time.perf_counter() - begun
    remove(api, [sandbox])
    return taken


def warm(api, parent, context, count):
    begun = time.perf_counter()
    answer = api.call("POST", f"/api/v1/sandboxes/{parent}/fork",
                      {"memory": "interpreters", "count": count, "start": True})
    forked = time.perf_counter()
    if not all(each["carried"] for each in answer["interpreters"]):
        raise SystemExit(f"bench: {answer['interpreters']}")
    children = [child["id"] for child in answer["sandboxes"]]
    for child in children:
        assert execute(api, child, context, FIRST) == "2\n"
    ended = time.perf_counter()
    remove(api, children)
    return (ended - begun) / count, (forked - begun) / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("key_file")
    parser.add_argument("counts", nargs="?", default="1,10,100")
    parser.add_argument("--json", help="also write the numbers here")
    options = parser.parse_args()
    api = Api(options.url, open(options.key_file).read().strip())
    counts, report = [int(each) for each in options.counts.split(",")], {}
    parent, context = start_python(api)
    modules = execute(api, parent, context, "import sys; print('numpy' in sys.modules)").strip()
    print(f"warm forks of a Python with{'' if modules == 'True' else 'out'} numpy, per child:")
    try:
        for count in counts:
            rounds = 5 if count <= 10 else 2
            pairs, colds = [], []
            for _ in range(rounds):
                pairs.append(warm(api, parent, context, count))
                colds.append(cold(api))
            firsts, forks = (list(each) for each in zip(*pairs))
            # The claimed ones are the reference too: they took turns with the forks.
            ratio = stats.ratio(colds, firsts, colds)
            told = {name: stats.summary([1e6 * one for one in each]) for name, each in (
                ("fork", forks), ("first output", firsts), ("claimed and started", colds))}
            report[str(count)] = {**told, "times_faster": ratio.json()}
            print(f"  x{count:<4} first output {told['first output']['p50_ms']:7.2f} ms   fork alone "
                  f"{told['fork']['p50_ms']:7.2f} ms   claimed and started "
                  f"{told['claimed and started']['p50_ms']:7.1f} ms   ratio {ratio.text()}")
    finally:
        remove(api, [parent])
    if options.json:
        with open(options.json, "w") as out:
            json.dump(report, out, indent=1)


TEMPLATE = "default"
if __name__ == "__main__":
    main()
