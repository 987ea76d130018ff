"""Metrics while a rollout runs: counted, handed to sinks, and never in its way."""

import json
import logging
import threading

from rows import each
from webtraj import EndReason, Outcome
from webtraj.metrics import MetricsObserver, Rate
from webtraj.rollouts import EpisodeResult, RunSpec, collect
from webtraj.rollouts.results import NullRolloutObserver, TeeRolloutObserver

WAIT = 30.0


class Sink:
    """Keeps what it is given, and does as it is told meanwhile."""

    def __init__(self, before=lambda: None):
        self.points = []
        self.closed = 0
        self.threads = set()
        self._before = before

    def write(self, values, *, step):
        self.threads.add(threading.current_thread())
        self._before()
        self.points.append((step, dict(values)))

    def close(self):
        self.closed += 1


def result(outcome=Outcome.SUCCESS, reason=EndReason.TERMINATED):
    return EpisodeResult(
        task="t",
        seed=0,
        attempt=0,
        episode_id="",
        end_reason=reason,
        outcome=outcome,
        num_steps=2,
        total_reward=1.0,
        seconds=1.0,
    )


def test_numbers_are_handed_on_as_episodes_end():
    sink = Sink()
    now = iter(range(100))
    with MetricsObserver(sink, clock=lambda: next(now)) as observer:
        observer.rollout_planned([None] * 3)
        observer.episode_ended(result())
        observer.episode_ended(result(Outcome.ENV_ERROR, EndReason.ERRORED))
        observer.episode_ended(result(Outcome.FAILURE))
    assert [step for step, _ in sink.points] == [1, 2, 3]
    first, second, third = (values for _, values in sink.points)
    assert first["rollout/success_rate"] == second["rollout/success_rate"] == 1.0
    assert second["rollout/crashed_rate"] == 0.5
    assert third["rollout/success_rate"] == 0.5
    assert third["rollout/infrastructure_failures"] == 1
    assert third["rollout/planned"] == 3
    assert first["rollout/episodes_per_second"] == 1.0
    assert third["rollout/steps_per_second"] == 2.0
    assert "rollout/goback_rate" not in third  # Nobody has read the steps.
    assert sink.closed == 1
    assert threading.current_thread() not in sink.threads


@each(
    ("every", "planned", "ended", "steps"),
    [
        (2, 5, 5, [2, 4, 5]),
        (10, 5, 5, [5]),
        (None, 5, 5, [1, 2, 3, 4, 5]),
        (None, 3000, 7, [3, 6, 7]),
        (1, 5, 0, []),
    ],
)
def test_the_last_numbers_are_always_written(every, planned, ended, steps):
    sink = Sink()
    with MetricsObserver(sink, every=every) as observer:
        observer.rollout_planned([None] * planned)
        for _ in range(ended):
            observer.episode_ended(result())
    assert [step for step, _ in sink.points] == steps


def test_a_rollout_that_goes_on_goes_on_counting():
    sink = Sink()
    with MetricsObserver(sink, first_step=40, prefix="") as observer:
        observer.episode_ended(result())
    assert [(step, values["total"]) for step, values in sink.points] == [(41, 1.0)]


def test_the_rollout_does_not_wait_for_a_sink():
    may_go_on = threading.Event()
    sink = Sink(before=lambda: may_go_on.wait(WAIT))
    observer = MetricsObserver(sink)
    for _ in range(50):
        observer.episode_ended(result())  # Comes back although the first write does not.
    assert sink.points == []
    may_go_on.set()
    observer.close()
    assert len(sink.points) == 50


def test_a_sink_that_fails_is_reported_and_the_others_go_on(caplog):
    failing = iter([OSError("disk full"), None, ConnectionError("gone")])

    class Failing(Sink):
        def write(self, values, *, step):
            if error := next(failing):
                raise error
            super().write(values, step=step)

    broken, sound = Failing(), Sink()
    with caplog.at_level(logging.WARNING), MetricsObserver(broken, sound) as observer:
        for _ in range(3):
            observer.episode_ended(result())
    assert observer.lost == {"Failing": 2}
    assert [step for step, _ in broken.points] == [2]
    assert [step for step, _ in sound.points] == [1, 2, 3]
    assert "Could not write metrics to Failing: disk full" in caplog.text
    assert "2 metrics writes to Failing failed" in caplog.text


async def test_a_rollout_is_counted_as_it_runs(climber, tmp_path):
    sink, heard = Sink(), []

    class Listener(NullRolloutObserver):
        def episode_ended(self, result):
            heard.append((observer.metrics.total, observer.metrics.success_rate))

    with MetricsObserver(sink) as observer:
        await collect(
            RunSpec(preset=["ladder/climb", "ladder/slip", "ladder/crash"], out=tmp_path),
            agent=climber(),
            run_id="r",
            observer=TeeRolloutObserver(observer, Listener()),
        )
    assert [total for total, _ in heard] == [1, 2, 3]
    assert observer.planned == 3
    assert observer.metrics.success_rate == Rate(1, 2)
    kept = json.loads((tmp_path / "runs" / "r" / "metrics.json").read_text())
    live = sink.points[-1][1]
    assert live["rollout/success_rate"] == kept["overall"]["success_rate"]["value"]
    assert live["rollout/avg_steps"] == kept["overall"]["avg_steps"]["value"]
