"""What state costs: snapshot, pause, resume and fork of sandboxes with little and with much in them.
state.py URL KEY_FILE [--json FILE] [--rounds N] [--forks 1,10,100] [--small]

A thread of a warm Python in each sandbox looks at the clock all the time and keeps every gap: a gap
while a snapshot is taken is how long the sandbox stood still, seen from inside. The same look while
nothing happens is shown beside it, because a busy machine makes gaps too. Sandboxes take turns in
every round. Peers in the same run: cp -a and tar of the same files, a Python that starts cold. A
spawn of /bin/true on the host in every round says whether the machine was quiet; without that no
ratio is given (suite/stats.py).
"""
import argparse
import json
import subprocess
import threading
import time

from api import Api, Refused
from state_report import ratios, show
from suite import stats

MIB = 1 << 20
TICKER = """
import threading, time
gaps = []
def tick():
    last = time.monotonic()
    while True:
        time.sleep(0.0005)
        now = time.monotonic()
        if now - last > 0.0008:
            gaps.append((last, now))
        last = now
threading.Thread(target=tick, daemon=True).start()
"""
FILL = """
import os, sys
files, mebibytes = int(sys.argv[1]), int(sys.argv[2])
each = mebibytes * 1048576 // files
for i in range(files):
    folder = f'/workspace/data/{i // 500}'
    os.makedirs(folder, exist_ok=True)
    with open(f'{folder}/{i}', 'wb') as out:
        left = each
        while left > 0:
            out.write(os.urandom(min(left, 1048576)))
            left -= 1048576
os.sync()
"""
# A new file: closing one that was cut short would write it out at once.
DIRTY = ("import os, shutil, sys\nshutil.rmtree('/workspace/dirty', True)\n"
         "os.mkdir('/workspace/dirty')\nwith open('/workspace/dirty/file', 'wb') as out:\n"
         "    for _ in range(int(sys.argv[1])): out.write(os.urandom(1048576))")
# 64 MiB that belong to nobody else, and a value to know it by.
HEAP = "heap = bytearray(__import__('os').urandom(64 << 20)); answer = 42"


class Box:
    """A sandbox with so many files of so many bytes together, and a ticking Python."""

    def __init__(self, api, name, files=0, mebibytes=0):
        self.api, self.name, self.files, self.mebibytes = api, name, files, mebibytes
        created = api.call("POST", "/api/v1/sandboxes", {
            "template": "default", "config": {"resources": {"memory": "1Gi", "disk": "8Gi"}}})
        self.path = "/api/v1/sandboxes/" + created["sandbox_id"]
        if files:
            self.run(["python3", "-c", FILL, str(files), str(mebibytes)])
        self.snapshots = []  # deleted at the end: a deletion goes on in the background
        self.python = self.open_python()

    def open_python(self):
        made = self.api.call("POST", f"{self.path}/contexts",
                             {"type": "repl", "repl": {"alias": "python"}})["id"]
        self.python = made
        self.code(TICKER)
        return made

    def run(self, command, user="user"):
        done = self.api.call("POST", f"{self.path}/contexts", {
            "type": "cmd", "wait_until_done": True, "user": user, "cmd": {"command": command}})
        if done["exit_code"] != 0:
            raise SystemExit(f"bench: {command[:2]} in {self.name}: {done['stderr']}")
        return done["stdout"]

    def code(self, text):
        return self.api.call("POST", f"{self.path}/contexts/{self.python}/exec",
                             {"data": text})["output_raw"]

    def write_unsynced(self, mebibytes):
        self.run(["python3", "-c", DIRTY, str(mebibytes)])

    def gaps(self):
        """Those since the last call, after another tick: the one that is on may be the one."""
        return json.loads(self.code("import json; time.sleep(0.005)\n"
                                    "print(json.dumps(gaps)); gaps.clear()"))

    def timed(self, method, path, body=None):
        """The answer, when it was asked and when it was there."""
        request = self.api.request(method, self.path + path, body)
        begin = time.monotonic()
        answer = self.api.send(request)
        return json.loads(answer)["data"], begin, time.monotonic()

    def delete(self):
        for snapshot in self.snapshots:
            self.api.call("DELETE", f"/api/v1/sandbox-rootfs-snapshots/{snapshot}")
        self.api.call("DELETE", self.path)


def longest(gaps, begin, end):
    """The longest gap that overlaps the time from begin to end, in milliseconds."""
    return max((stop - start for start, stop in gaps if stop > begin and start < end),
               default=0.0) * 1000


def gap_around(gaps, moment):
    """The gap that a moment is in at which nothing ran. There may be longer ones before it."""
    return next((gap for gap in gaps if gap[0] <= moment <= gap[1]), (moment, moment))


def snapshot_once(box, figures):
    box.gaps()
    taken, begin, end = box.timed("POST", "/snapshots")
    gaps = box.gaps()
    figures["acknowledged"].append((end - begin) * 1000)
    figures["stopped"].append(longest(gaps, begin, end))
    box.snapshots.append(taken["id"])


def pause_once(box, figures, resumes):
    box.gaps()
    _, begin, end = box.timed("POST", "/pause", {})
    _, again, running = box.timed("POST", "/resume", {})
    still = gap_around(box.gaps(), again)
    figures["acknowledged"].append((end - begin) * 1000)
    figures["stopped"].append((end - still[0]) * 1000)  # from the last tick to the answer
    resumes["acknowledged"].append((running - again) * 1000)
    resumes["first tick"].append((still[1] - again) * 1000)


def idle_once(box, figures):
    box.gaps()
    begin = time.monotonic()
    time.sleep(0.1)  # nothing happens: that is what is measured
    figures["stopped"].append(longest(box.gaps(), begin, begin + 0.1))


class Figures(dict):
    """Lists of milliseconds by kind; made when first used."""

    def __missing__(self, key):
        self[key] = []
        return self[key]

    def summaries(self):
        return {key: summary(each) for key, each in self.items() if each}


def summary(milliseconds):
    return {**stats.summary([1e3 * each for each in milliseconds]),
            "worst_ms": round(max(milliseconds), 3)}


def spawn_once():
    """The reference: what the machine does to a program that has nothing to do with us."""
    begin = time.monotonic()
    subprocess.run(["/bin/true"], check=True, timeout=60)
    return (time.monotonic() - begin) * 1000


def bench_size(boxes, rounds):
    """The figures of each box, and the reference of every turn."""
    kinds = ("idle", "snapshot", "pause", "resume, frozen")
    figures = {box.name: {kind: Figures() for kind in kinds} for box in boxes}
    reference = []
    for _ in range(rounds):
        for box in boxes:
            reference.append(spawn_once())
            mine = figures[box.name]
            idle_once(box, mine["idle"])
            snapshot_once(box, mine["snapshot"])
            pause_once(box, mine["pause"], mine["resume, frozen"])
    return figures, reference


def bench_neighbour(box, other, rounds):
    """What another sandbox has in memory is none of our business."""
    figures = {kind: Figures() for kind in ("snapshot", "pause", "resume, frozen")}
    for _ in range(rounds):
        other.write_unsynced(300)
        snapshot_once(box, figures["snapshot"])
        other.write_unsynced(300)
        pause_once(box, figures["pause"], figures["resume, frozen"])
    other.run(["rm", "-r", "/workspace/dirty"])
    return figures


def bench_dirty(box, rounds):
    figures = {kind: Figures() for kind in ("snapshot", "pause", "resume, frozen", "fsync")}
    for _ in range(rounds):
        box.write_unsynced(100)
        snapshot_once(box, figures["snapshot"])
        box.write_unsynced(100)
        pause_once(box, figures["pause"], figures["resume, frozen"])
        box.write_unsynced(100)
        begin = time.monotonic()
        box.run(["sync", "/workspace/dirty/file"])
        figures["fsync"]["acknowledged"].append((time.monotonic() - begin) * 1000)
    box.run(["rm", "-r", "/workspace/dirty"])
    return figures


def bench_peers(box):
    """What copying does to the same files, once: it grows with them."""
    figures = {}
    for name, command in (
            ("cp -a", "cp -a --reflink=never /workspace/data /workspace/copy"),
            ("tar", "tar -c -C /workspace data | cat > /dev/null")):
        begin = time.monotonic()
        box.run(["sh", "-c", command])
        figures[name] = round((time.monotonic() - begin) * 1000, 1)
        box.run(["rm", "-rf", "/workspace/copy"])
    return figures


def bench_resume(box, rounds):
    """From the files alone, and from memory that went to disk."""
    figures = {}
    from_files, first_output = [], []
    for _ in range(rounds):
        box.timed("POST", "/pause", {"memory": False})
        answer, begin, end = box.timed("POST", "/resume", {})
        assert answer["restored"] == "filesystem", answer
        from_files.append((end - begin) * 1000)
        box.run(["true"])
        first_output.append((time.monotonic() - begin) * 1000)
    figures["filesystem"] = {"acknowledged": from_files, "first command": first_output}
    box.open_python()
    box.code(HEAP)
    try:
        dumped, restored, usable, refusal = [], [], [], ""
        for _ in range(rounds):
            answer, begin, end = box.timed("POST", "/pause", {"memory": "disk"})
            if answer["memory"] != "disk":
                refusal = json.dumps(answer)
                box.timed("POST", "/resume", {})
                continue
            dumped.append((end - begin) * 1000)
            answer, begin, end = box.timed("POST", "/resume", {})
            if answer["restored"] != "memory":
                raise Refused(json.dumps(answer))
            restored.append((end - begin) * 1000)
            assert box.code("answer").strip() == "42"
            usable.append((time.monotonic() - begin) * 1000)
        if not dumped:
            raise Refused(refusal)
        figures["dump of 64 MiB"] = {"pause": dumped, "acknowledged": restored,
                                     "first value": usable}
    except Refused as refused:
        figures["dump of 64 MiB"] = {"not here": str(refused)}
        box.timed("POST", "/resume", {})
    box.open_python()
    return {kind: figures[kind] if "not here" in figures[kind]
            else Figures(figures[kind]).summaries() for kind in figures}


def first_outputs(url, key, children, ask):
    """Asks every child at once, a connection each, eight at a time; the moments of their answers."""
    moments, failures, queue = [], [], list(children)

    def work():
        api = Api(url, key)
        while queue:
            try:
                ask(api, queue.pop())
                moments.append(time.monotonic())
            except Exception as error:  # noqa: BLE001: told by whoever waits
                failures.append(error)
    threads = [threading.Thread(target=work) for _ in range(min(8, len(children)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return moments


def say_hello(api, path):
    answer = api.call("POST", f"{path}/contexts", {"type": "cmd", "wait_until_done": True,
                                                   "cmd": {"command": ["echo", "hello"]}})
    assert answer["stdout"] == "hello\n", answer


def ask_python(api, path):
    context = api.call("GET", f"{path}/contexts")["contexts"][0]["id"]
    answer = api.call("POST", f"{path}/contexts/{context}/exec", {"data": "answer"})
    assert answer["output_raw"].strip() == "42", answer


def fork_once(url, key, box, count, memory, ask):
    """The fork itself and the first output of every child, in milliseconds a child."""
    body = {"count": count, "start": True}
    if memory:
        body["memory"] = memory
    answer, begin, end = box.timed("POST", "/fork", body)
    children = ["/api/v1/sandboxes/" + child["id"] for child in answer["sandboxes"]]
    try:
        moments = first_outputs(url, key, children, ask)
    finally:
        for child in children:
            box.api.call("DELETE", child)
    return {"fork": (end - begin) * 1000 / count,
            "first output": (max(moments) - begin) * 1000 / count}


def bench_forks(url, key, api, counts, rounds):
    box = Box(api, "parent")
    figures = {}
    try:
        box.code(HEAP)
        # What takes warm interpreters along has a bench of its own: warm_forks.py.
        for name, memory, ask in (("files", None, say_hello),
                                  ("processes (CRIU)", True, ask_python)):
            for count in counts:
                try:
                    each = [fork_once(url, key, box, count, memory, ask)
                            for _ in range(rounds if count < 50 else 1)]
                except Refused as refused:
                    figures[name] = {"not here": str(refused)}
                    break
                figures.setdefault(name, {})[str(count)] = {
                    kind: summary([one[kind] for one in each]) for kind in each[0]}
        cold = []
        for _ in range(rounds):
            begin = time.monotonic()
            subprocess.run(["/usr/bin/python3", "-c", "print(42)"], check=True,
                           stdout=subprocess.DEVNULL, timeout=60)
            cold.append((time.monotonic() - begin) * 1000)
        figures["cold python on the host"] = {"1": {"first output": summary(cold)}}
    finally:
        box.delete()
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("key_file")
    parser.add_argument("--json", help="also write every number here")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--forks", default="1,10,100")
    parser.add_argument("--small", action="store_true", help="a hundredth of the data: a quick look")
    options = parser.parse_args()
    key = open(options.key_file).read().strip()
    api = Api(options.url, key)
    part = 100 if options.small else 1
    boxes = []
    try:
        for name, files, mebibytes in (("10 files", 10, 0),
                                       ("10,000 files, 600 MB", 10000 // part, 600 // part),
                                       ("2 GiB", 20, 2048 // part)):
            boxes.append(Box(api, name, files, mebibytes))
        size, reference = bench_size(boxes, options.rounds)
        report = {
            "size": {name: {kind: each.summaries() for kind, each in kinds.items()}
                     for name, kinds in size.items()},
            "ratios": ratios(size, reference),
            "dirty": {kind: each.summaries() for kind, each in
                      bench_dirty(boxes[0], max(options.rounds // 2, 1)).items()},
            "neighbour": {kind: each.summaries() for kind, each in bench_neighbour(
                boxes[0], boxes[1], max(options.rounds // 2, 1)).items()},
            "peers": {box.name: bench_peers(box) for box in boxes[1:]},
            "resume": {box.name: bench_resume(box, options.rounds) for box in (boxes[0], boxes[-1])},
        }
    finally:
        for box in boxes:
            box.delete()
    report["fork"] = bench_forks(options.url, key, api,
                                 [int(count) for count in options.forks.split(",")],
                                 options.rounds)
    show(report)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(report, out, indent=1)


if __name__ == "__main__":
    main()
