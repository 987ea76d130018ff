"""What holds of any episodes: numbers follow from their counts, and parts add up to the whole."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_episodes import patient

from webtraj import EndReason, Outcome
from webtraj.metrics import Measuring, RolloutMetrics
from webtraj.metrics.facts import EpisodeFacts, Origin, StepFacts
from webtraj.metrics.tally import BusyTime

counts = st.integers(0, 20)


@st.composite
def facts(draw):
    num_steps = draw(counts)
    start = draw(st.floats(0, 1e4))
    upto = st.integers(0, num_steps)
    steps = StepFacts(
        last_verb=draw(st.sampled_from(["answer", "click"])),
        go_backs=draw(upto),
        choices=num_steps,
        invalid_choices=draw(upto),
        judged_actions=num_steps,
        failed_actions=draw(upto),
        repeated=draw(st.integers(0, max(num_steps - 1, 0))),
        longest_repeat=draw(upto),
        replies=num_steps,
        reply_characters=draw(st.integers(0, 1000)) if num_steps else 0,
    )
    return EpisodeFacts(
        task=draw(st.sampled_from(["a/x", "a/y", "b"])),
        policy=draw(st.sampled_from("pq")),
        attempts_key=draw(st.sampled_from("uvw")),
        outcome=draw(st.sampled_from(Outcome)),
        end_reason=draw(st.sampled_from(EndReason)),
        num_steps=num_steps,
        reward=draw(st.none() | st.floats(-5, 5) | st.just(math.nan)),
        seconds=draw(st.none() | st.floats(0, 100)),
        start_time=start,
        end_time=start + draw(st.floats(0, 500)),
        origin=Origin(
            number=draw(st.integers(0, 2)),
            level=draw(st.sampled_from(["easy", "hard", "unknown"])),
            site=draw(st.sampled_from(["", "s"])),
        ),
        steps=steps if draw(st.booleans()) or num_steps else None,
    )


def measured(episodes, rule="typed", **options):
    measuring = Measuring(crash_rule=rule, **options)
    for episode in episodes:
        measuring.add(episode)
    return measuring.report()


many = st.lists(facts(), max_size=25)
rules = st.sampled_from(["typed", "webgym"])
COUNTS = [f.name for f in dataclasses.fields(RolloutMetrics) if f.type == "int"]
QUOTIENTS = [f.name for f in dataclasses.fields(RolloutMetrics) if f.type in ("Rate", "Ratio")]


@pytest.mark.slow
@patient
@given(many, rules)
def test_every_rate_follows_from_counts_in_the_report(episodes, rule):
    metrics = measured(episodes, rule).overall
    assert len(QUOTIENTS) == 9
    for name in QUOTIENTS:
        data = metrics.to_data()[name]
        if data["denominator"]:
            assert data["value"] == data["numerator"] / data["denominator"]
        else:
            assert data["value"] is None
            assert data["numerator"] == 0
    assert metrics.total == len(episodes)
    assert metrics.valid + metrics.blocked + metrics.crashed + metrics.unfinished == metrics.total
    assert metrics.successes + metrics.failures + metrics.ungraded == metrics.valid
    assert metrics.success_rate.denominator == metrics.successes + metrics.failures
    assert metrics.crashed_rate.numerator == metrics.crashed
    assert metrics.avg_steps.denominator == metrics.valid
    assert metrics.steps_to_success.count == metrics.successes
    assert metrics.total == sum(metrics.outcomes.values()) == sum(metrics.end_reasons.values())
    for name in ("goback_rate", "invalid_action_rate", "failed_action_rate"):
        assert 0 <= (getattr(metrics, name).value or 0) <= 1


@patient
@given(many, rules, st.sampled_from(["task", "group", "site", "level", "difficulty", "policy"]))
def test_groups_add_up_to_the_whole(episodes, rule, by):
    report = measured(episodes, rule, by=[by])
    groups = report.by[by].values()
    for name in COUNTS:
        if name != "longest_repeat":
            assert sum(getattr(group, name) for group in groups) == getattr(report.overall, name)
    for name in QUOTIENTS:
        whole = getattr(report.overall, name)
        parts = [getattr(group, name) for group in groups]
        assert sum(part.numerator for part in parts) == whole.numerator
        assert sum(part.denominator for part in parts) == whole.denominator
    for name in ("outcomes", "end_reasons"):
        for key, count in getattr(report.overall, name).items():
            assert sum(getattr(group, name)[key] for group in groups) == count
    rewards = [group.reward for group in groups]
    assert sum(r.count for r in rewards) == report.overall.reward.count
    if report.overall.reward.count:
        total = math.fsum(r.count * r.mean for r in rewards if r.count)
        mean = report.overall.reward.mean
        assert math.isclose(total / report.overall.reward.count, mean, rel_tol=1e-9, abs_tol=1e-9)


@patient
@given(many, rules, st.randoms())
def test_the_order_of_episodes_does_not_matter(episodes, rule, source):
    one = measured(episodes, rule).overall
    source.shuffle(episodes)
    other = measured(episodes, rule).overall
    for name in (*COUNTS, *QUOTIENTS, "outcomes", "end_reasons"):
        assert getattr(one, name) == getattr(other, name)
    assert (one.pass_at_k, one.pass_hat_k) == (other.pass_at_k, other.pass_hat_k)
    assert [each.interval for each in one.pass_at_k.values()] == [
        each.interval for each in other.pass_at_k.values()
    ]
    one_wall, other_wall = one.throughput.wall_seconds, other.throughput.wall_seconds
    assert one_wall == other_wall or math.isclose(one_wall, other_wall, abs_tol=1e-6)


@patient
@given(many)
def test_pass_estimates_for_1_are_the_mean_of_the_groups_success_rates(episodes):
    measuring = Measuring(by=["task"])
    for episode in episodes:
        measuring.add(dataclasses.replace(episode, attempts_key=episode.task))
    report = measuring.report()
    rates = [m.success_rate.value for m in report.by["task"].values()]
    known = [rate for rate in rates if rate is not None]
    if known:
        for chance in (report.overall.pass_at_k[1], report.overall.pass_hat_k[1]):
            assert chance.groups == chance.num_tasks == len(known)
            assert math.isclose(chance.value, math.fsum(known) / len(known))


@patient
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)), max_size=30),
    st.integers(0, 10),
)
def test_busy_time_is_the_length_of_the_union(spans, pause):
    # By hand: seconds that are in a span, or in a pause that is no longer than `pause`.
    busy = BusyTime(pause)
    for start, length in spans:
        busy.add(start, start + length)
    covered = set()
    ordered = sorted((start, start + length) for start, length in spans)
    reached = None
    for start, end in ordered:
        if reached is not None and reached < start <= reached + pause:
            covered.update(range(reached, start))
        covered.update(range(start, end))
        reached = end if reached is None else max(reached, end)
    assert busy.seconds == (len(covered) if spans else None)
