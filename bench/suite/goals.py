"""The goals, and what a run says about each: met, missed, unstable, or not measured."""


def verdict(value, good):
    return "met" if good(value) else "missed"


def judged(number, text, told, good, form="{:.2f}"):
    """`told` is a ratio as stats.Ratio.json() gives it."""
    if told is None:
        return {"goal": number, "text": text, "measured": "", "verdict": "not measured"}
    if told["value"] is None:
        return {"goal": number, "text": text, "measured": ", ".join(told["unstable"]),
                "verdict": "unstable"}
    return {"goal": number, "text": text, "measured": form.format(told["value"]),
            "verdict": verdict(told["value"], good)}


def plain(value):
    return None if value is None else {"value": value, "unstable": []}


def at(figures, *keys):
    for key in keys:
        if not isinstance(figures, dict) or key not in figures:
            return None
        figures = figures[key]
    return figures


def creation(figures):
    create = figures.get("create", {})
    yield judged(1, "create → output ≤ 2 × the pooled floor", at(create, "over_floor"),
                 lambda value: value <= 2)
    for name, times in (("bwrap", 2), ("crun", 3), ("runc", 10), ("podman", 100), ("docker", 100)):
        yield judged(1, f"≥ {times} × faster than {name}", at(create, "times_slower", name),
                     lambda value, times=times: value >= times)
    quiet = at(create, "disturbed")
    tail = plain(at(create, "p99_over_p50"))
    if tail is not None and quiet:
        tail = {"value": None, "unstable": quiet}
    yield judged(1, "p99 ≤ 4 × p50", tail, lambda value: value <= 4)


def storm(figures, count):
    told = at(figures, "storm", str(count))
    yield judged(3, f"{count} created, each answered a command, < 5 s", plain(at(told, "wall_s")),
                 lambda value: value < 5, "{:.2f} s")
    yield judged(3, "no failure", plain(at(told, "failures")), lambda value: value == 0, "{}")
    yield judged(3, f"all {count} alive together", plain(at(told, "alive")),
                 lambda value: value == count, "{}")
    weight, noise = plain(at(told, "memory_after_idle", "mem_available_kib")), at(told, "memory_noise")
    if weight is not None and noise:
        weight = {"value": None, "unstable": noise}
    yield judged(4, f"≤ 400 KiB of memory for each of {count} idle ones", weight,
                 lambda value: value <= 400, "{} KiB")


def growth(figures):
    """Of the server that has them; and of one that has not, because what many sandboxes cost
    everybody on the machine is their growth too."""
    most = at(figures, "growth", "most")
    for name, told in (at(figures, "growth", "flat") or {"everything": None}).items():
        yield judged(6, f"{name}: ≤ 1.3 × from 1 to {most or '5,000'} live sandboxes", told,
                     lambda value: value <= 1.3)
    for name, told in (at(figures, "growth", "everybody") or {}).items():
        if name != "spawn, unsandboxed":
            yield judged(6, f"{name}: ≤ 1.3 × beside {most} of another server", told,
                         lambda value: value <= 1.3)


def judge(figures, storm_count=1000):
    """Rows in the order of the goals. `figures`: of each part, by its name."""
    return [
        *creation(figures),
        judged(2, "create → Python result faster than a bare python3 -c",
               at(figures, "python", "atoll, interpreter", "over_bare"), lambda value: value < 1,
               "{:.2f} of it"),
        *storm(figures, storm_count),
        judged(5, "exec ≤ 2.5 × an unsandboxed spawn through the same client",
               at(figures, "exec", "over_spawn"), lambda value: value <= 2.5),
        *growth(figures)]
