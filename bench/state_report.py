"""What state.py has measured, for people."""
from suite import stats


def show(report):
    print("  a running sandbox; milliseconds, median (worst)")
    print(f"  {'':<34}{'stopped':>18}{'acknowledged':>18}")

    def line(label, figures):
        cells = [f"{figures[kind]['p50_ms']:8.1f} ({figures[kind]['worst_ms']:.1f})"
                 if kind in figures else "" for kind in ("stopped", "acknowledged")]
        print(f"  {label:<34}{cells[0]:>18}{cells[1]:>18}")
    for name, kinds in report["size"].items():
        for kind in ("idle", "snapshot", "pause", "resume, frozen"):
            line(f"{kind}, {name}", kinds[kind])
        for peer, spent in report["peers"].get(name, {}).items():
            print(f"  {peer + ' of the same files':<34}{'':>18}{spent:>18.1f}")
    for kind, figures in report["dirty"].items():
        line(f"{kind}, 100 MB dirty", figures)
    for kind, figures in report["neighbour"].items():
        line(f"{kind}, neighbour 300 MB dirty", figures)
    for kind, ratio in report["ratios"].items():
        told = stats.Ratio(ratio["value"], ratio["unstable"]).text()
        print(f"  largest : smallest, {kind:<30}{told:>6}")
    print("  resume, milliseconds, median (worst)")
    for name, kinds in report["resume"].items():
        for kind, figures in kinds.items():
            if "not here" in figures:
                print(f"  {kind}, {name}: not here: {figures['not here'][:120]}")
                continue
            for step, each in figures.items():
                print(f"  {f'{kind}, {step}, {name}':<52}{each['p50_ms']:8.1f} "
                      f"({each['worst_ms']:.1f})")
    print("  fork, milliseconds a child: the fork itself, and until every child gave its first output")
    for path, counts in report["fork"].items():
        if "not here" in counts:
            print(f"  {path}: not here: {counts['not here'][:120]}")
            continue
        for count, each in counts.items():
            cells = [f"{each[kind]['p50_ms']:8.1f}" if kind in each else ""
                     for kind in ("fork", "first output")]
            print(f"  {path + ' x' + count:<34}{cells[0]:>18}{cells[1]:>18}")


def ratios(size, reference):
    """The slowest of the large sandboxes against the small one, of what must not depend on size; a
    ratio only when the reference was quiet. `size`: {sandbox: {operation: {what: values}}}"""
    small, *large = size
    out = {}
    for kind in ("snapshot", "pause", "resume, frozen"):
        for what in ("stopped", "acknowledged"):
            values = {name: size[name][kind].get(what, []) for name in size}
            if all(values.values()):
                slowest = max((values[name] for name in large), key=stats.median)
                out[f"{kind}, {what}"] = stats.ratio(slowest, values[small], reference).json()
    return out
