"""Statistics, and the refusal to give a ratio of a block that says nothing."""
import math

import pytest

from suite import stats


def quiet(middle, count=60):
    """A little noise, the same in every third."""
    return [middle * (1 + 0.05 * ((number * 7) % 11 - 5) / 5) for number in range(count)]


def test_percentiles_are_values_that_were_measured():
    values = list(range(1, 101))
    assert [stats.percentile(values, share) for share in (0, 0.5, 0.9, 0.99, 1)] == [1, 50, 90, 99,
                                                                                    100]
    assert stats.percentile([7], 0.99) == 7
    assert stats.median([3, 1, 2]) == 2


def test_summary_is_in_milliseconds():
    told = stats.summary([1000.0] * 99 + [9000.0])
    assert (told["p50_ms"], told["p90_ms"], told["p99_ms"], told["count"]) == (1, 1, 1, 100)
    assert stats.summary([1000.0] * 98 + [9000.0] * 2)["p99_ms"] == 9
    assert stats.summary([]) == {"count": 0}


def test_spread_is_relative_to_the_median():
    assert stats.spread([10] * 20) == 0
    assert stats.spread([10] * 10 + [20] * 10 + [30] * 10) == pytest.approx(1)


def test_drift_sees_a_machine_that_gets_slower():
    assert stats.drift([10] * 30) == 1
    assert stats.drift([10] * 10 + [15] * 10 + [20] * 10) == 2
    assert stats.drift([20] * 10 + [10] * 20) == 2, "also one that gets faster"


def test_a_quiet_block_gives_a_ratio():
    told = stats.ratio(quiet(30), quiet(10), quiet(5))
    assert told.stable and told.value == pytest.approx(3) and told.text() == "3.00"
    assert told.json() == {"value": told.value, "unstable": []}


@pytest.mark.parametrize("reference, why", [
    (quiet(5, 30) + quiet(10, 30), "drift"),
    ([5, 20] * 30, "spread"),
    ([5] * 3, "samples")])
def test_a_disturbed_reference_refuses(reference, why):
    told = stats.ratio(quiet(30), quiet(10), reference)
    assert not told.stable and told.value is None
    assert told.text().startswith("unstable: ") and why in told.text()
    assert told.json()["value"] is None and told.json()["unstable"]


def test_a_ratio_that_moves_is_refused_though_the_reference_is_quiet():
    told = stats.ratio(quiet(10, 30) + quiet(30, 30), quiet(10), quiet(5))
    assert not told.stable and "moved" in told.text()


def test_nothing_measured_is_no_ratio():
    assert not stats.ratio([], quiet(10), quiet(5)).stable


@pytest.mark.parametrize("above, below", [([0.0] * 12, [1.0] * 12), ([1.0] * 12, [0.0, 0.0] + [1.0] * 10)])
def test_what_is_too_short_to_be_measured_is_no_ratio(above, below):
    refused = stats.ratio(above, below, [1.0] * 12)
    assert not refused.stable and refused.reasons == ["too short to be measured"]


def test_a_block_is_repeated_until_it_is_quiet():
    references = [[5, 20] * 30, quiet(5), [5, 20] * 30]
    asked = []

    def attempt():
        asked.append(len(asked))
        return f"block {asked[-1]}", references[asked[-1]]
    assert stats.most_quiet(attempt) == "block 1"
    assert asked == [0, 1], "a quiet block ends it"


def test_the_quietest_of_noisy_blocks_is_kept():
    references = [[5, 50] * 30, [5, 12] * 30, [5, 40] * 30]
    asked = iter(range(3))

    def attempt():
        number = next(asked)
        return number, references[number]
    assert stats.most_quiet(attempt) == 1


def test_pairs_are_compared_within_their_moment():
    slow_hour = [10.0] * 10 + [80.0] * 10
    assert stats.paired_ratio([1.1 * each for each in slow_hour], slow_hour).value == 1.1
    assert not stats.paired_ratio([5.0, 40.0] * 10, [20.0] * 20).stable
    assert stats.paired_ratio([1.0] * 15, [1.0] * 15).reasons == ["15 pairs"]


def test_the_middle_is_where_the_median_is_and_narrows_with_samples():
    few, many = list(range(1, 21)), list(range(1, 401))
    for values in (few, many):
        low, high = stats.middle(values)
        assert low < stats.median(values) < high
    spans = [(high - low) / len(values) for values in (few, many)
             for low, high in [stats.middle(values)]]
    assert spans[1] < spans[0] / 3
    assert stats.middle([7.0] * 20) == (7.0, 7.0)


def test_the_middle_is_as_certain_as_it_says_and_no_wider():
    for count in (6, 7, 16, 20, 61, 400):
        low, high = stats.middle(list(range(count)))
        assert low + high == count - 1
        missed = [2 * sum(math.comb(count, heads) for heads in range(ranks)) / 2 ** count
                  for ranks in (low + 1, low + 2)]
        assert missed[0] <= 0.05 < missed[1], (count, missed)
    assert stats.middle([1, 2]) == (1, 2) and stats.middle([1]) == (1, 1)
