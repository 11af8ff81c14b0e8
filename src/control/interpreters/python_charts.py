# What figures of matplotlib and frames of pandas show, as plain data.
#
# Loaded by the Python driver when the first one is displayed, never before. A chart is told from
# what its axes hold: wedges are a pie, boxes with medians a box plot, bar containers bars, then
# lines and points. A figure with several axes is a superchart. Whatever is not understood is
# `unknown`, which still has a title. Numbers that JSON does not have (NaN, infinities) become null.
import math
import re

MAX_POINTS = 100_000  # of one figure, and cells of one frame: more are not sent
MAX_AXES = 64
MAX_CELLS = 250_000


def describe_frame(frame):
    """Columns as lists."""
    if frame.shape[0] * max(frame.shape[1], 1) > MAX_CELLS:
        return None
    return {str(name): [plain(each) for each in frame.iloc[:, place].tolist()]
            for place, name in enumerate(frame.columns)}


def plain(value):
    """A value as JSON has it."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return plain(value.item())
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(each) for each in value]
    return str(value)


def describe_figure(figure):
    figure.canvas.draw()  # ticks and their labels are known after that
    charts = [describe_axes(axes) for axes in figure.axes[:MAX_AXES] if axes.get_visible()]
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if figure._suptitle is not None else None
    if not charts:
        return {"type": "unknown", "title": title, "elements": []}
    return {"type": "superchart", "title": title, "elements": charts}


def describe_axes(axes):
    title = axes.get_title() or None
    for kind, find in (("pie", pie_elements), ("box_and_whisker", box_elements),
                       ("bar", bar_elements)):
        elements = find(axes)
        if elements:
            shared = {} if kind == "pie" else describe_labels(axes)
            return {"type": kind, "title": title, **shared, "elements": elements}
    lines, points = line_elements(axes), point_elements(axes)
    if not lines and not points:
        return {"type": "unknown", "title": title, **describe_labels(axes), "elements": []}
    return {"type": "line" if lines else "scatter", "title": title, **describe_labels(axes),
            **describe_scale("x", axes.xaxis, axes.get_xlim()),
            **describe_scale("y", axes.yaxis, axes.get_ylim()),
            "elements": lines + points}


def describe_labels(axes):
    labels = {}
    for letter, text in (("x", axes.get_xlabel()), ("y", axes.get_ylabel())):
        unit = re.search(r"\(([^()]+)\)", text)  # "Time (s)"
        labels[f"{letter}_label"] = text or None
        labels[f"{letter}_unit"] = unit.group(1) if unit else None
    return labels


def scale_of(axis):
    # Renamed in matplotlib 3.10, which warns about the old one.
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    kind = type(converter).__name__
    if "Date" in kind:
        return "datetime"
    return "categorical" if kind == "StrCategoryConverter" else axis.get_scale()


def describe_scale(letter, axis, limits):
    low, high = sorted(limits)
    shown = [tick for tick in zip(axis.get_majorticklocs(), axis.get_majorticklabels())
             if low <= tick[0] <= high]
    meaning = meaning_of(axis)
    return {f"{letter}_ticks": [meaning(place) for place, _ in shown],
            f"{letter}_tick_labels": [label.get_text() for _, label in shown],
            f"{letter}_scale": scale_of(axis)}


def meaning_of(axis):
    """A function from a number to what it stands for on the axis: a moment, a category, itself."""
    scale = scale_of(axis)
    if scale == "datetime":
        from matplotlib.dates import num2date
        return lambda number: (num2date(number).replace(tzinfo=None).isoformat()
                               if math.isfinite(number) else None)
    names = {}
    if scale == "categorical":
        names = {place: name for name, place in getattr(axis.units, "_mapping", {}).items()}
    return lambda number: names.get(number, plain(float(number)))


def given_label(artist, default):
    label = str(artist.get_label())
    return default if not label or label.startswith("_") else label


def pairs(axes, points):
    across, along = meaning_of(axes.xaxis), meaning_of(axes.yaxis)
    return [[across(x), along(y)] for x, y in points[:MAX_POINTS]]


def line_elements(axes):
    lines = [line for line in axes.get_lines() if line.get_visible() and len(line.get_xydata())]
    return [{"label": given_label(line, f"Line {number}"), "points": pairs(axes, line.get_xydata())}
            for number, line in enumerate(lines)]


def point_elements(axes):
    sets = [each for each in axes.collections
            if type(each).__name__ == "PathCollection" and each.get_visible()]
    return [{"label": given_label(each, f"Dataset {number}"),
             "points": pairs(axes, each.get_offsets())}
            for number, each in enumerate(sets)]


def pie_elements(axes):
    wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
    return [{"label": given_label(wedge, ""), "angle": float(abs(wedge.theta2 - wedge.theta1)),
             "radius": float(wedge.r)} for wedge in wedges]


def bar_elements(axes):
    elements = []
    containers = [each for each in axes.containers if type(each).__name__ == "BarContainer"]
    for number, container in enumerate(containers):
        flat = getattr(container, "orientation", "vertical") == "horizontal"
        axis = axes.yaxis if flat else axes.xaxis
        names = dict(zip((round(float(place), 9) for place in axis.get_majorticklocs()),
                         (label.get_text() for label in axis.get_majorticklabels())))
        for bar in container.patches[:MAX_POINTS]:
            place = bar.get_y() + bar.get_height() / 2 if flat else bar.get_x() + bar.get_width() / 2
            length = bar.get_width() if flat else bar.get_height()
            name = names.get(round(float(place), 9))
            elements.append({"label": name or str(meaning_of(axis)(place)),
                             "group": given_label(container, f"Group {number}"),
                             "value": plain(float(length))})
    return elements


def box_elements(axes):
    """Boxes are closed lines or patches of five points; the rest of each stands on its centre."""
    shapes = [line.get_xydata() for line in axes.get_lines()]
    shapes += [patch.get_path().vertices for patch in axes.patches
               if type(patch).__name__ == "PathPatch"]
    boxes = [shape for shape in map(rectangle, shapes) if shape]
    for across, along in ((0, 1), (1, 0)):  # upright, lying
        found = [whiskers(axes, box, across, along) for box in boxes]
        if boxes and all(found):
            return found
    return []


def rectangle(points):
    """((left, right), (bottom, top)) of a closed line along the axes."""
    if len(points) not in (5, 6) or tuple(points[0]) != tuple(points[4]):
        return None
    sides = [sorted({float(point[place]) for point in points[:5]}) for place in (0, 1)]
    return sides if len(sides[0]) == 2 and len(sides[1]) == 2 else None


def whiskers(axes, box, across, along):
    centre = sum(box[across]) / 2
    low, high = box[along]
    near = 1e-6 * max(abs(centre), 1)
    median, ends, outliers = None, [low, high], []
    for line in axes.get_lines():
        points = line.get_xydata()
        if len(points) == 0:
            continue
        places, values = [float(p[across]) for p in points], [float(p[along]) for p in points]
        middle = (min(places) + max(places)) / 2
        if abs(middle - centre) > near:
            continue
        if line.get_linestyle() in ("None", "none", " ", ""):
            if max(places) - min(places) <= near and line.get_marker() not in ("^", "None", None):
                outliers += values
        elif len(points) == 2 and max(places) - min(places) <= near:
            ends += values
        elif len(points) == 2 and values[0] == values[1] and low <= values[0] <= high:
            if abs(max(places) - box[across][1]) <= near and median is None:
                median = values[0]
    if median is None or len(ends) == 2:
        return None
    axis = axes.xaxis if across == 0 else axes.yaxis
    names = {round(float(place), 6): label.get_text()
             for place, label in zip(axis.get_majorticklocs(), axis.get_majorticklabels())}
    return {"label": names.get(round(centre, 6)) or str(centre),
            "min": min(ends), "first_quartile": low, "median": median, "third_quartile": high,
            "max": max(ends), "outliers": [plain(each) for each in outliers]}
