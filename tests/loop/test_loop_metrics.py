"""What a loop's metrics and picture say."""

import json

import pytest

from rows import each
from webtraj import errors
from webtraj.loop import load_loop_config, metrics
from webtraj.loop.phases import lanes
from webtraj.metrics.rates import mean_of_tasks


@each(
    ("rates", "value", "tasks"),
    [
        ([(10, 10), (0, 10)], 0.5, 2),
        ([(50, 50)], 1.0, 1),
        ([(1, 2), (0, 0)], 0.5, 1),
        ([], None, 0),
    ],
)
def test_mean_of_tasks_lies_in_its_interval(rates, value, tasks):
    mean = mean_of_tasks(rates)
    assert (mean["value"], mean["tasks"]) == (value, tasks)
    if value is not None:
        assert 0 <= mean["low"] <= value <= mean["high"] <= 1
        assert mean["high"] - mean["low"] > 0.02


def test_mean_of_tasks_covers_the_truth_as_often_as_it_says():
    """Simulated: 16 tasks of 50 episodes, as in a real loop, some of them always solved."""
    import random

    rng = random.Random(0)
    chances = [1.0] * 6 + [0.95] * 5 + [0.5, 0.3, 0.8, 0.6, 0.9]
    truth = sum(chances) / len(chances)
    inside = 0
    for _ in range(400):
        counts = [(sum(rng.random() < p for _ in range(50)), 50) for p in chances]
        mean = mean_of_tasks(counts)
        inside += mean["low"] <= truth <= mean["high"]
    assert inside >= 0.95 * 400


def test_line_takes_the_place_of_the_one_before(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics.write_line(path, {"iteration": 2, "loss": 1.0})
    metrics.write_line(path, {"iteration": 0})
    metrics.write_line(path, {"iteration": 2, "loss": 0.5})
    lines = metrics.read_lines(path)
    assert lines == [{"iteration": 0}, {"iteration": 2, "loss": 0.5}]
    assert [json.loads(text) for text in path.read_text().splitlines()] == lines
    path.write_text("{")
    with pytest.raises(errors.CorruptDataError, match="cannot be read"):
        metrics.read_lines(path)


def test_training_on_groups_is_measured_by_its_log(tmp_path):
    step = {"policy_clipped": 0.0, "policy_entropy": 0.5}
    entries = [
        {"step": 0, "policy_groups": 4, "policy_groups_kept": 3, "policy_reward": 0.25,
         "policy_staleness": 0.0, "policy_unscored": 1, "policy_no_spread": 8},
        {"step": 1, "loss": 0.5, "policy_ratio": 1.0, "policy_mismatch": 1e-6, **step},
        {"step": 2, "loss": 0.25, "policy_ratio": 1.5, "policy_mismatch": 0.1, **step},
    ]  # fmt: skip
    log = tmp_path / "train_log.jsonl"
    log.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    counts = {"groups": 4, "groups_kept": 3, "reward": 0.25, "staleness": 0.0, "unscored": 1}
    measured = metrics._measure_training(str(tmp_path))
    assert measured == {
        "train_steps": 2, "loss": 0.25,
        "policy_gradient": {
            **counts, "ratio": 1.25, "clipped": 0.0, "entropy": 0.5, "mismatch": 1e-6
        },
    }  # fmt: skip
    assert metrics.flat(measured)["policy_gradient/ratio"] == 1.25
    log.write_text(f"{json.dumps(entries[0])}\n")  # No group was kept.
    assert metrics._measure_training(str(tmp_path)) == {"policy_gradient": counts}


PLAYED = {"preset": ["miniwob/click-test"]}


def test_overlap_has_two_lanes_that_wait_for_each_other():
    given = {
        "out": "runs", "iterations": 3, "train": {"model": "a/b"}, "rollout": PLAYED,
        "evaluation": PLAYED, "postprocess": {}, "overlap": {"enabled": True},
    }  # fmt: skip
    playing, training = lanes(load_loop_config(given=given))
    assert [slot.key for slot in playing] == [
        (0, "evaluate"),
        (1, "rollout"), (1, "postprocess"),
        (2, "rollout"), (2, "postprocess"), (1, "evaluate"),
        (3, "rollout"), (3, "postprocess"), (2, "evaluate"),
        (3, "evaluate"),
    ]  # fmt: skip
    waits = {slot.key: slot.after for slot in (*playing, *training) if slot.after}
    assert waits == {
        (3, "rollout"): ((1, "publish"),),
        **{(n, "evaluate"): ((n, "publish"),) for n in (1, 2, 3)},
        **{(n, "export"): ((n, "postprocess"),) for n in (1, 2, 3)},
    }


@pytest.mark.parametrize(
    ("every", "evaluated"), [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 2, 4, 5]), (9, [0, 5])]
)
def test_evaluations_are_before_the_first_and_after_the_last_iteration_too(every, evaluated):
    given = {"out": "runs", "iterations": 5, "train": {"model": "a/b"}, "rollout": PLAYED}
    given["evaluation"] = {**PLAYED, "every": every}
    (lane,) = lanes(load_loop_config(given=given))
    assert [slot.iteration for slot in lane if slot.name == "evaluate"] == evaluated
