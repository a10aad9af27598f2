"""The statistics of the validation suite, on timings whose true ratio is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from torchlint.measure.intervals import (
    LOOKS,
    PROCESS_PAIRS,
    Interval,
    count_verdict,
    interval_over,
    narrow_enough,
    ratio_interval,
    settled,
    time_verdict,
)

Noise = Callable[[random.Random, int], float]


def quiet(rng: random.Random, _turn: int) -> float:
    return math.exp(rng.gauss(0, 0.02))


def heavy(rng: random.Random, _turn: int) -> float:
    return math.exp(rng.gauss(0, 0.25))


def outliers(rng: random.Random, turn: int) -> float:
    return quiet(rng, turn) * (rng.uniform(2, 10) if rng.random() < 0.1 else 1)


def drift(rng: random.Random, turn: int) -> float:
    """A machine that gets slower by half during the measurement."""
    return quiet(rng, turn) * (1 + 0.5 * turn / (2 * LOOKS[-1]))


def skewed(rng: random.Random, _turn: int) -> float:
    return 1 + rng.expovariate(10)


def two_speeds(rng: random.Random, _turn: int) -> float:
    return math.exp(rng.gauss(0, 0.01)) * (1.3 if rng.random() < 0.4 else 1)


NOISES = [quiet, heavy, outliers, drift, skewed, two_speeds]


def sample(noise: Noise, ratio: float, count: int, rng: random.Random) -> tuple[list[float], list[float]]:
    """Timings as the suite takes them: A B, B A, A B, ..."""
    before, after = [], []
    for index in range(count):
        first, second = noise(rng, 2 * index), noise(rng, 2 * index + 1)
        ours, theirs = (second, first) if index % 2 else (first, second)
        before.append(ratio * ours)
        after.append(theirs)
    return before, after


def measured(noise: Noise, ratio: float, rng: random.Random) -> Interval:
    """The interval at which the suite stops."""
    before, after = sample(noise, ratio, LOOKS[-1], rng)
    for look in LOOKS:
        interval = ratio_interval(before[:look], after[:look], resamples=200)
        if narrow_enough(interval):
            break
    return interval


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.__name__)
@pytest.mark.parametrize("ratio", [1.0, 1.3])
def test_the_interval_covers_the_truth_about_95_times_in_100(noise: Noise, ratio: float) -> None:
    rng = random.Random(1)
    trials = 100
    intervals = [measured(noise, ratio, rng) for _ in range(trials)]
    covered = sum(interval.low <= ratio <= interval.high for interval in intervals)
    # At a true coverage of 95 %, fewer than 88 in 100 come about once in 1,000 times.
    assert covered >= 88


@pytest.mark.parametrize("noise", [quiet, outliers, drift], ids=lambda noise: noise.__name__)
def test_equal_programs_have_no_effect(noise: Noise) -> None:
    rng = random.Random(2)
    verdicts = [time_verdict(measured(noise, 1.0, rng), PROCESS_PAIRS)[0] for _ in range(40)]
    assert verdicts.count("no effect") >= 38


@pytest.mark.parametrize("noise", [heavy, two_speeds], ids=lambda noise: noise.__name__)
def test_equal_programs_in_heavy_noise_are_rarely_told_apart(noise: Noise) -> None:
    rng = random.Random(3)
    verdicts = [time_verdict(measured(noise, 1.0, rng), PROCESS_PAIRS)[0] for _ in range(60)]
    assert verdicts.count("confirmed") + verdicts.count("slower") <= 3


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.__name__)
def test_a_clear_gain_is_confirmed_and_a_clear_loss_is_called_slower(noise: Noise) -> None:
    rng = random.Random(4)
    assert {time_verdict(measured(noise, 2.0, rng), 1)[0] for _ in range(20)} == {"confirmed"}
    assert {time_verdict(measured(noise, 0.5, rng), 1)[0] for _ in range(20)} == {"slower"}


@pytest.mark.parametrize("offset", [0.003, 0.01, 0.02])
@pytest.mark.parametrize("ratio", [1.0, 1.05])
def test_what_differs_from_process_to_process_counts(ratio: float, offset: float) -> None:
    """Each process is faster or slower by an offset of its own, as long as it lives."""
    rng = random.Random(5)
    trials, covered, wrong = 300, 0, 0
    for _ in range(trials):
        runs = []
        for _ in range(PROCESS_PAIRS):
            before, after = sample(quiet, ratio, LOOKS[0], rng)
            ours, theirs = math.exp(rng.gauss(0, offset)), math.exp(rng.gauss(0, offset))
            runs.append(([ours * time for time in before], [theirs * time for time in after]))
        interval = interval_over(runs)
        covered += interval.low <= ratio <= interval.high
        wrong += time_verdict(interval, PROCESS_PAIRS)[0] in {1.0: ("confirmed", "slower"), 1.05: ("slower",)}[ratio]
    # At a true coverage of 95 %, fewer than 272 in 300 come about once in 1,000 times.
    assert covered >= 272
    assert wrong <= trials * 0.03


def test_one_pair_of_processes_is_no_verdict_near_1() -> None:
    assert time_verdict(Interval(1.1, 1.09, 1.11), 1)[0] == "not measured"
    assert time_verdict(Interval(1.1, 1.09, 1.11), PROCESS_PAIRS)[0] == "confirmed"
    assert time_verdict(Interval(1.3, 1.25, 1.35), 1)[0] == "confirmed"
    assert time_verdict(Interval(0.7, 0.65, 0.75), 1)[0] == "slower"


def test_the_interval_is_that_of_the_ratio_of_medians() -> None:
    interval = ratio_interval([2.0] * 9, [1.0] * 9)
    assert (interval.ratio, interval.low, interval.high, interval.half_width) == (2.0, 2.0, 2.0, 0.0)
    interval = ratio_interval([2.0, 2.0, 200.0], [1.0, 1.0, 1.0])
    assert interval.ratio == 2.0
    assert interval.high == 200.0


def test_what_slows_both_sides_does_not_widen_the_interval() -> None:
    slow = [1.0] * 5 + [3.0] * 5
    interval = ratio_interval([2 * time for time in slow], slow)
    assert interval.half_width == 0.0


@pytest.mark.parametrize("series", [([1.0], [1.0, 2.0]), ([], [])])
def test_series_that_are_no_pairs_are_refused(series: Any) -> None:
    with pytest.raises(ValueError, match="one length"):
        ratio_interval(*series)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.03, 1.30, "confirmed"),
        (1.01, 1.05, "no effect"),
        (1.01, 1.09, "not measured"),
        (0.99, 1.01, "no effect"),
        (0.97, 1.03, "no effect"),
        (0.94, 1.00, "not measured"),
        (0.90, 0.97, "slower"),
        (0.80, 1.50, "not measured"),
    ],
)
def test_the_verdict_is_that_of_the_whole_interval(low: float, high: float, verdict: str) -> None:
    said, reason = time_verdict(Interval((low + high) / 2, low, high), PROCESS_PAIRS)
    assert said == verdict
    assert bool(reason) == (verdict == "not measured")


def test_a_count_is_better_when_it_is_less() -> None:
    assert count_verdict(16, 0) == ("confirmed", "")
    assert count_verdict(3, 3) == ("no effect", "")
    assert count_verdict(1, 2) == ("slower", "")


def test_a_warm_up_ends_when_times_settle_or_never_will() -> None:
    assert not settled([])
    assert not settled([1.0])
    assert settled([9.0, 1.0, 1.01])
    assert not settled([9.0, 5.0, 2.0, 1.0])
    assert settled([1.0, 2.0] * 4)


def test_near_one_the_interval_must_be_finer() -> None:
    assert narrow_enough(Interval(3.0, 2.92, 3.08))
    assert not narrow_enough(Interval(1.0, 0.98, 1.02))
    assert narrow_enough(Interval(1.0, 0.995, 1.005))
