"""Numbers of a run, and whether a ratio of two of them means anything.

Contestants take turns round by round, and one of them is always the reference: the unsandboxed
spawn of the same program. What the machine did during a block shows in the reference alone, so it
decides whether the block was quiet enough. A ratio of a block that was not is never given.
"""
import dataclasses
import math

# Relative inter-quartile spread of the reference in a block.
MOST_SPREAD = 0.6
# How far the medians of the thirds of a block may be apart: of the reference, and of the ratio.
MOST_DRIFT = 1.35
FEWEST_SAMPLES = 5
FEWEST_PAIRS = 16


def percentile(values, share):
    """Nearest rank: a value that was measured."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values):
    return percentile(values, 0.5)


def spread(values):
    """The inter-quartile range relative to the median."""
    middle = median(values)
    return (percentile(values, 0.75) - percentile(values, 0.25)) / middle if middle else math.inf


def thirds(values):
    size = len(values)
    return [part for part in (values[:size // 3], values[size // 3:2 * size // 3],
                              values[2 * size // 3:]) if part]


def drift(values):
    """The largest ratio between medians of the first, the middle and the last third."""
    medians = [median(part) for part in thirds(values)]
    return max(medians) / min(medians) if min(medians) > 0 else math.inf


def summary(microseconds):
    """What a table shows of a series, in milliseconds."""
    if not microseconds:
        return {"count": 0}
    at = {name: round(percentile(microseconds, share) / 1e3, 4)
          for name, share in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99))}
    return {"count": len(microseconds), **at, "min_ms": round(min(microseconds) / 1e3, 4),
            "spread": round(spread(microseconds), 3)}


def disturbances(reference):
    """Why a block with this reference says nothing; empty when it says something."""
    found = []
    if len(reference) < FEWEST_SAMPLES:
        return [f"{len(reference)} samples"]
    if (wide := spread(reference)) > MOST_SPREAD:
        found.append(f"spread {wide:.2f}")
    if (moved := drift(reference)) > MOST_DRIFT:
        found.append(f"drift {moved:.2f}")
    return found


@dataclasses.dataclass
class Ratio:
    """`value` is None when the block was not quiet enough; `reasons` say why."""
    value: float | None
    reasons: list

    @property
    def stable(self):
        return self.value is not None

    def text(self):
        return f"{self.value:.2f}" if self.stable else f"unstable: {', '.join(self.reasons)}"

    def json(self):
        return {"value": self.value, "unstable": self.reasons}


def ratio(above, below, reference):
    """median(above) / median(below), or the refusal to give it."""
    if not above or not below:
        return Ratio(None, ["nothing was measured"])
    if not all(median(each) for each in (*thirds(above), *thirds(below))):
        return Ratio(None, ["too short to be measured"])
    reasons = disturbances(reference)
    parts = [median(one) / median(other) for one, other in zip(thirds(above), thirds(below))]
    if not reasons and max(parts) / min(parts) > MOST_DRIFT:
        reasons = [f"moved from {min(parts):.2f} to {max(parts):.2f}"]
    if reasons:
        return Ratio(None, reasons)
    return Ratio(round(median(above) / median(below), 3), [])


def middle(values):
    """Between which values the median of what was sampled lies, with at least 95 % certainty;
    whatever the distribution: these are ranks. With fewer than 6 values it is less certain."""
    ordered, count = sorted(values), len(values)
    # Each value is below the median or above it, as a coin falls; outside are those ranks that so
    # few heads would need.
    outside, ways, fewer = 0, 1, 1
    while outside + 1 < (count + 1) // 2:
        ways = ways * (count - outside) // (outside + 1)
        if 40 * (fewer + ways) > 2 ** count:
            break
        outside, fewer = outside + 1, fewer + ways
    return ordered[outside], ordered[count - 1 - outside]


def paired_ratio(above, below):
    """The median of above[i] / below[i], each pair measured within moments: what disturbs one
    disturbs the other. Noise makes the middle wide, and a wide middle is no ratio."""
    pairs = [one / other for one, other in zip(above, below) if other]
    if len(pairs) < FEWEST_PAIRS:
        return Ratio(None, [f"{len(pairs)} pairs"])
    low, high = middle(pairs)
    if high / low > MOST_DRIFT:
        return Ratio(None, [f"between {low:.2f} and {high:.2f}"])
    return Ratio(round(median(pairs), 3), [])


def most_quiet(attempt, tries=3):
    """attempt() -> (result, reference). The first quiet one of some tries, else the quietest."""
    best = None
    for _ in range(tries):
        result, reference = attempt()
        if not disturbances(reference):
            return result
        noise = spread(reference) * drift(reference)
        if best is None or noise < best[0]:
            best = (noise, result)
    return best[1]
