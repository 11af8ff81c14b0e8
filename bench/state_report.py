"""What state.py has measured, for people."""


def show(report):
    print("  a running sandbox; milliseconds, median (worst)")
    print(f"  {'':<34}{'stopped':>18}{'acknowledged':>18}")

    def line(label, figures):
        cells = [f"{figures[kind]['median_ms']:8.1f} ({figures[kind]['worst_ms']:.1f})"
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
        print(f"  largest : smallest, {kind:<30}{ratio:6.2f}")
    print("  resume, milliseconds, median (worst)")
    for name, kinds in report["resume"].items():
        for kind, figures in kinds.items():
            if "not here" in figures:
                print(f"  {kind}, {name}: not here: {figures['not here'][:120]}")
                continue
            for step, each in figures.items():
                print(f"  {f'{kind}, {step}, {name}':<52}{each['median_ms']:8.1f} "
                      f"({each['worst_ms']:.1f})")
    print("  fork, milliseconds a child: the fork itself, and until every child gave its first output")
    for path, counts in report["fork"].items():
        if "not here" in counts:
            print(f"  {path}: not here: {counts['not here'][:120]}")
            continue
        for count, each in counts.items():
            fork = f"{each['fork_ms']:8.1f}" if "fork_ms" in each else ""
            print(f"  {path + ' x' + count:<34}{fork:>18}{each['first_output_ms']:>18.1f}")


def ratios(size):
    """The largest sandbox against the smallest, of what must not depend on size."""
    names = list(size)
    out = {}
    for kind in ("snapshot", "pause", "resume, frozen"):
        for what in ("stopped", "acknowledged"):
            each = [size[name][kind].get(what, {}).get("median_ms", 0) for name in names]
            if all(each):
                out[f"{kind}, {what}"] = round(max(each[1:]) / each[0], 2)
    return out
