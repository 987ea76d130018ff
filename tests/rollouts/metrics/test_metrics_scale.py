"""Many episodes: memory that does not grow with them."""

import itertools
import tracemalloc

import pytest

from webtraj import EndReason, Outcome
from webtraj.metrics import EpisodeFacts, Measuring, Rate
from webtraj.store.index import EpisodeSummary

TASKS = 100


def summaries(count):
    """Yields summaries as a month of runs has them: 8 at a time, an hour's pause now and then."""
    outcomes = itertools.cycle([Outcome.SUCCESS, Outcome.FAILURE, Outcome.ENV_ERROR])
    for number, outcome in zip(range(count), outcomes, strict=False):
        begun = number // 8 * 10.0 + number // 1000 * 3600.0
        yield EpisodeSummary(
            episode_id=f"e{number:06d}",
            task=f"t{number % TASKS}",
            group_id=f"g{number % TASKS}",
            site=f"s{number % 7}",
            end_reason=EndReason.ERRORED if outcome is Outcome.ENV_ERROR else EndReason.TERMINATED,
            outcome=outcome,
            num_steps=number % 9,
            total_reward=float(outcome is Outcome.SUCCESS),
            start_time=begun,
            end_time=begun + 9.0,
        )


def measure_summaries(summaries, **options):
    measuring = Measuring(**options)
    for summary in summaries:
        measuring.add(EpisodeFacts.of_summary(summary))
    return measuring.report()


def peak(count):
    tracemalloc.start()
    try:
        report = measure_summaries(summaries(count))
        return report, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_ten_times_the_episodes_take_no_more_memory():
    peak(100)  # What is made once, and imported.
    _, few = peak(400)
    report, many = peak(4000)
    assert report.overall.total == 4000
    assert report.overall.success_rate == Rate(1334, 2667)
    assert report.overall.throughput.wall_seconds == 4 * (125 * 10.0 - 1.0)
    assert many < 1.25 * few


def test_groups_without_number_take_no_memory_either():
    report = measure_summaries(summaries(3000), by=["task"], max_groups=50)
    assert report.left_out == ("task",)
    assert report.by == {}
