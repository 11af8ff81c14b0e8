"""Plots as SVG, written by hand: the same numbers give the same bytes, and nothing has to be
installed. Colours read on light and on dark pages."""
import html
import math

WIDTH, LEFT, RIGHT, TOP = 760, 210, 110, 46
COLOURS = ("#3b82f6", "#e0752d", "#2f9e5b", "#b5489a", "#8a6fd1", "#b08d00", "#d1495b", "#4aa3a3",
           "#7a7a7a", "#9b5de5")
FONT = 'font-family="system-ui, sans-serif" font-size="13"'
INK = "#808080"


def number(value):
    """At most two decimals, no trailing zeros: readable and the same everywhere."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(x, y, words, anchor="start", extra=""):
    return (f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" fill="{INK}" {FONT}'
            f'{extra}>{html.escape(str(words))}</text>')


def document(height, title, body):
    head = text(10, 24, title, extra=' font-weight="600"')
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
                      f'viewBox="0 0 {WIDTH} {height}" role="img">', head, *body, "</svg>", ""])


def bars(title, values, unit="ms", ours=()):
    """One bar for each, on a logarithmic scale: contestants are decades apart."""
    values = {name: value for name, value in values.items() if value > 0}
    low = 10 ** math.floor(math.log10(min(values.values()) * 0.9))
    high = max(max(values.values()) * 1.1, low * 10)
    span = WIDTH - LEFT - RIGHT

    def x(value):
        return LEFT + span * (math.log10(value) - math.log10(low)) / (
            math.log10(high) - math.log10(low))
    body, y = [], TOP
    bottom = TOP + 26 * len(values)
    tick = low
    while tick <= high:
        body.append(f'<line x1="{number(x(tick))}" y1="{TOP - 6}" x2="{number(x(tick))}" '
                    f'y2="{bottom}" stroke="{INK}" stroke-opacity="0.3"/>')
        body.append(text(x(tick), bottom + 16, f"{tick:g} {unit}", "middle"))
        tick *= 10
    for name, value in sorted(values.items(), key=lambda each: each[1]):
        colour = COLOURS[0] if name in ours else COLOURS[8]
        body.append(f'<rect x="{LEFT}" y="{y}" width="{number(x(value) - LEFT)}" height="18" '
                    f'rx="2" fill="{colour}"/>')
        body.append(text(LEFT - 8, y + 14, name, "end"))
        body.append(text(x(value) + 6, y + 14, f"{value:.2f} {unit}"))
        y += 26
    return document(bottom + 28, title, body)


def unbroken(values):
    """[[(index, value), ...], ...]: the stretches without a None."""
    runs = [[]]
    for index, value in enumerate(values):
        if value is not None:
            runs[-1].append((index, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def lines(title, labels, series, limit=None, unit="×"):
    """One line for each series over places that are equally far apart; a dashed limit. Where a value
    is None there is no point, and no line across."""
    height, plot_top, plot_bottom = 420, TOP + 6, 370
    highest = max([limit or 0, *(value for each in series.values() for value in each
                                 if value is not None)]) * 1.15
    left, right = 60, WIDTH - 190

    def x(index):
        return left + (right - left) * index / max(len(labels) - 1, 1)

    def y(value):
        return plot_bottom - (plot_bottom - plot_top) * value / highest
    body = []
    step = next(each for each in (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000, 1e9)
                if highest / each <= 8)
    for index in range(int(highest / step) + 1):
        at = y(index * step)
        body.append(f'<line x1="{left}" y1="{number(at)}" x2="{right}" y2="{number(at)}" '
                    f'stroke="{INK}" stroke-opacity="0.25"/>')
        body.append(text(left - 8, at + 4, f"{number(index * step)}{unit}", "end"))
    for index, label in enumerate(labels):
        body.append(text(x(index), plot_bottom + 20, label, "middle"))
    if limit:
        body.append(f'<line x1="{left}" y1="{number(y(limit))}" x2="{right}" '
                    f'y2="{number(y(limit))}" stroke="#d1495b" stroke-dasharray="6 4"/>')
        body.append(text(right, y(limit) - 6, f"goal {number(limit)}{unit}", "end"))
    for index, (name, values) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        for run in unbroken(values):
            points = " ".join(f"{number(x(i))},{number(y(value))}" for i, value in run)
            body.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                        'stroke-width="2"/>')
            body += [f'<circle cx="{number(x(i))}" cy="{number(y(value))}" r="3" fill="{colour}"/>'
                     for i, value in run]
        at = plot_top + 12 + 20 * index
        body.append(f'<rect x="{right + 16}" y="{at - 10}" width="12" height="12" fill="{colour}"/>')
        body.append(text(right + 34, at, name))
    return document(height, title, body)
