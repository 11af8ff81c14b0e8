"""Many at once: how fast they come, what they weigh when they rest, how fast they go."""
import glob
import os
import threading
import time

from suite import host, stats
from suite.client import CREATE, DELETE, Failed, run_command, step
from suite.tables import figure_table

TITLE = "A storm, its weight and its end"
WORKERS = 16
GONE_SECONDS = 300
# How much the memory of the machine may move by itself, for each sandbox of a storm.
MOST_NOISE_KIB = 40


class Cells:
    """What the node keeps of its sandboxes, seen from outside: cgroups and disks by their names."""

    def __init__(self, server):
        self.server = server
        self.node = server.daemons()["node"]

    def names(self):
        group = f"atoll-{self.server.instance()}/cell-*"
        groups = {os.path.basename(each) for pattern in ("/sys/fs/cgroup/", "/sys/fs/cgroup/*/",
                                                         "/sys/fs/cgroup/*/*/")
                  for each in glob.glob(pattern + group)}
        return groups | {f"disk {each}" for each in self.listed("uppers")}

    def listed(self, folder):
        pool = f"/proc/{self.node}/root{self.server.data_dir}/pool"
        for root in (f"{pool}/mnt", pool):
            if os.path.isdir(f"{root}/{folder}"):
                return os.listdir(f"{root}/{folder}")
        return []

    def wait_gone(self, before, count):
        """Until `count` of the cells and disks of `before` are no more, and their remains neither."""
        deadline = time.monotonic() + GONE_SECONDS
        kinds = [{name for name in before if name.startswith("disk ") == disk}
                 for disk in (False, True)]
        while True:
            now = self.names()
            left = sum(max(len(kind & now) - (len(kind) - count), 0) for kind in kinds)
            remains = len(self.listed("trash"))
            if left == 0 and remains == 0:
                return
            if time.monotonic() > deadline:
                raise Failed(f"{left} cells and {remains} disks are not gone")
            time.sleep(0.02)


def daemons(server):
    return [pid for _, pid in sorted(server.daemons().items())]


def running(place):
    """How many answer that they run, page by page."""
    total, cursor = 0, ""
    while True:
        page = place.server.client.call(
            "GET", f"/api/v1/sandboxes?status=running&limit=200{cursor}").json["data"]
        total += page["count"]
        if not page["has_more"]:
            return total
        cursor = f"&cursor={page['next_cursor']}"


def settled_memory():
    """MemAvailable when it has stopped moving, KiB."""
    last = host.meminfo("MemAvailable")
    for _ in range(50):
        time.sleep(0.2)
        now = host.meminfo("MemAvailable")
        if abs(now - last) < 512:
            return now
        last = now
    return last


def memory_noise(count):
    """Why a difference of MemAvailable would say nothing: others take and give back meanwhile."""
    seen = []
    for _ in range(10):
        seen.append(host.meminfo("MemAvailable"))
        time.sleep(0.3)
    each = (max(seen) - min(seen)) / count
    return [f"memory moves by {each:.0f} KiB each by itself"] if each > MOST_NOISE_KIB else []


def weigh(place, before, known, count):
    told = [one for pid in set(host.guests()) - known if (one := host.rollup(pid))]
    mean = lambda values: round(sum(values) / len(values)) if values else 0  # noqa: E731
    return {"mem_available_kib": round((before - settled_memory()) / count),
            "guest_private_kib": mean([one[0] for one in told]),
            "guest_pss_kib": mean([one[1] for one in told]),
            "daemons_rss_kib": sum(map(host.resident_kib, daemons(place.server)))}


def memory_cgroup(place):
    """What an empty memory cgroup weighs on this host before anything is in it, KiB."""
    group = f"atoll-{place.server.instance()}"
    for parent in (f"/sys/fs/cgroup/memory/{group}", f"/sys/fs/cgroup/{group}"):
        if (told := host.memory_cgroup_kib(parent) if os.path.isdir(parent) else None) is not None:
            return told
    return None


def take_down(place, ids):
    """Deletes all; how long until the last trace is gone, and how others fare meanwhile."""
    cells = Cells(place.server)
    before, count = cells.names(), len(ids)
    meanwhile = {}
    done = threading.Event()

    def probe():
        probes = []
        while not done.is_set():
            probes += place.client.run(
                [place.client.atoll("probe", [CREATE, run_command("/bin/true")], after=[DELETE])],
                seconds=0.5, tolerate=True)["probe"].us
        meanwhile.update(stats.summary(probes))
    watcher = threading.Thread(target=probe)
    begin = time.monotonic()
    watcher.start()
    try:
        answered = place.client.run([place.client.atoll(
            "delete", [step("DELETE", "/api/v1/sandboxes/{item}")], items=ids,
            operations=count)], workers=WORKERS)["delete"]
        asked = time.monotonic() - begin
        cells.wait_gone(before, count)
        gone = time.monotonic() - begin
    finally:
        done.set()
        watcher.join()
    return {"answered_s": round(asked, 3), "gone_s": round(gone, 3),
            "delete": answered.summary(), "create_to_output_meanwhile": meanwhile}


def storm(place, count):
    place.start_server(*place.room_for(count + 200))
    ours = place.client.atoll("storm", [CREATE, run_command("/bin/true")], operations=count,
                              collect="sandbox")
    place.client.run([place.client.atoll("warm-up", [CREATE, run_command("/bin/true")],
                                         after=[DELETE])], rounds=20)
    time.sleep(1)  # pools settle
    noise, empty_group = memory_noise(count), memory_cgroup(place)
    before, known = settled_memory(), set(host.guests())
    series = place.client.run([ours], workers=WORKERS, tolerate=True)["storm"]
    told = {"count": count, "wall_s": round(series.turn_us[0] / 1e6, 3),
            "failures": series.failures, "first_failure": series.first_failure,
            "alive": running(place), "create_to_output": series.summary()}
    told["memory_noise"], told["memory_cgroup_kib"] = noise, empty_group
    told["memory_after_exec"] = weigh(place, before, known, count)
    spent = {pid: host.cpu_seconds(pid) for pid in daemons(place.server)}
    time.sleep(place.options.idle_seconds)  # idle: what is measured is the resting state
    told["idle_cpu_share"] = round(sum(host.cpu_seconds(pid) - spent[pid] for pid in spent)
                                   / place.options.idle_seconds, 5)
    told["memory_after_idle"] = weigh(place, before, known, count)
    told["memory_noise"] += memory_noise(count)
    told["teardown"] = take_down(place, series.collected)
    return told


def measure(place):
    figures, rows = {}, []
    for count in sorted({*place.options.idle, place.options.storm}):
        told = figures[str(count)] = storm(place, count)
        first, after, down = (told[key] for key in ("memory_after_exec", "memory_after_idle",
                                                    "teardown"))
        meanwhile = down["create_to_output_meanwhile"]
        weight = lambda each: ", ".join(["unstable", *told["memory_noise"]]) \
            if told["memory_noise"] else f"{each['mem_available_kib']} KiB"  # noqa: E731
        rows += [
            [f"{count}: all created, each ran a command", f"{told['wall_s']:.2f} s"],
            [f"{count}: failures", told["failures"]],
            [f"{count}: alive together", told["alive"]],
            [f"{count}: create to output, p50 / p99, {WORKERS} at a time",
             f"{told['create_to_output'].get('p50_ms', 0):.1f} / "
             f"{told['create_to_output'].get('p99_ms', 0):.1f} ms"],
            [f"{count}: memory of each after its command, by MemAvailable",
             weight(first)],
            [f"{count}: the same {place.options.idle_seconds} s later",
             weight(after)],
            [f"{count}: of that, what this kernel took for an empty memory cgroup before",
             "not measured" if told["memory_cgroup_kib"] is None
             else f"{told['memory_cgroup_kib']} KiB"],
            [f"{count}: private memory / Pss of a guest",
             f"{after['guest_private_kib']} / {after['guest_pss_kib']} KiB"],
            [f"{count}: resident memory of our daemons together",
             f"{after['daemons_rss_kib'] // 1024} MiB"],
            [f"{count}: processor time of our daemons while all rest",
             f"{told['idle_cpu_share'] * 100:.2f} % of a core"],
            [f"{count}: all deletes answered / every cell, cgroup and disk gone",
             f"{down['answered_s']:.2f} / {down['gone_s']:.2f} s"],
            [f"{count}: create to output meanwhile, p50 / p99",
             f"{meanwhile.get('p50_ms', 0):.1f} / {meanwhile.get('p99_ms', 0):.1f} ms"]]
    return {"tables": [figure_table("", rows)], "figures": figures, "notes": [
        "Memory by MemAvailable counts everything: guests, page tables, cgroups, mounts, sockets, "
        "and what the daemons hold for them.",
        "An empty memory cgroup is not small: the kernel keeps 1 KiB in each for every 64 file "
        "systems that ever were mounted at once since boot. After a growth part of 5,000 sandboxes "
        "that is hundreds of KiB for each, whoever makes it, until the next boot "
        "([the cost of a cell](../cell-cost.md))."]}
