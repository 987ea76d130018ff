"""Advantages of groups and the temperature of rows, without PyTorch."""

import logging

import pytest

import groups
from webtraj import EndReason, Outcome, errors
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.actions import Click
from webtraj.training.export import export_selection
from webtraj.training.export.export_folder import read_export
from webtraj.training.replay import Filters, ReplayBuffer, weights
from webtraj.training.samples import Sample, SampleKey
from webtraj.training.sft.policy_gradient import Advantages, temperature_of
from webtraj.training.sft.settings import PolicySettings
from webtraj.trajectory import (
    Decision,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    StepRecord,
    StepType,
)

S, F, U = Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNKNOWN


def samples_of(*attempts, **fields):
    return [
        Sample(
            key=SampleKey(f"e{number}", step), messages=(), completion="a", logprobs=(-0.5,),
            reward=reward, outcome=outcome, group_id="g", **fields,
        )
        for number, (reward, outcome) in enumerate(attempts)
        for step in (1, 2)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["group_mean", "group_mean_std", "leave_one_out"])
@pytest.mark.parametrize(
    ("attempts", "spread"),
    [
        ([(0.125, F), (0.5, F), (-0.25, F)], False),
        ([(1.0, S), (0.0, F)], True),
        ([(1.0, S), (0.25, S)], True),
        ([(1.0, S), (1.0, S)], False),
        ([(0.5, U), (0.25, U)], True),  # Rows of others' that tell no outcome: rewards count.
        ([(0.5, U), (0.25, F)], True),
    ],
    ids=str,
)
def test_a_group_that_failed_as_a_whole_has_no_advantage(kind, attempts, spread):
    samples = samples_of(*attempts)
    advantages = Advantages(samples, PolicySettings(advantage=kind))
    found = [advantages.of(sample) for sample in samples]
    assert any(abs(one) > 1e-9 for one in found) is spread
    assert sum(found) == pytest.approx(0.0)
    assert (len(advantages.rewards), advantages.uneven) == (1, int(spread))


def test_an_attempt_without_a_reward_changes_nothing():
    scored = samples_of((1.0, S), (0.25, F), (0.0, F))
    broken = samples_of(*[(None, U)] * 4)[-2:]
    alone = Advantages(scored, PolicySettings())
    beside = Advantages([*scored, *broken], PolicySettings())
    assert [beside.of(one) for one in scored] == [alone.of(one) for one in scored]
    assert beside.of(broken[0]) is None


def played(name, retry_of, outcome, total):
    """Return a try as a rollout records it."""
    call = ModelCall(
        model="m", messages=({"role": "user", "content": "Go."},), text="click('1')",
        finish_reason="stop", prompt_token_ids=(1, 2), completion_token_ids=(3,), logprobs=(-0.5,),
        sampling={"temperature": 1.0},
    )  # fmt: skip
    decision = Decision(action=Click("1"), model_calls=(call,))
    steps = (
        StepRecord(0, StepType.FIRST, {"axtree": "page"}),
        StepRecord(1, StepType.LAST, {"axtree": "end"}, Click("1"), total, 0.0, decision=decision),
    )
    info = EpisodeInfo(episode_id=name, task="t", group_id="g", retry_of=retry_of)
    end = EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome)
    return EpisodeTrajectory(info, steps, end, start_time=1.0, end_time=2.0)


@pytest.mark.parametrize("ids", ["of a plan", "of retries"])
@pytest.mark.parametrize("attempts", groups.GROUPS.values(), ids=groups.GROUPS)
def test_advantages_are_those_of_the_reference(tmp_path, attempts, ids):
    """TRL, verl and SkyRL are held to the same table."""
    names = {}
    with DatasetWriter(tmp_path / "d") as writer:
        for place, tries in enumerate(attempts):
            before = ""
            for number, one in enumerate(tries):
                name = (
                    f"run-{place:06d}-{number:02d}" if ids == "of a plan" else f"{place}.{number}"
                )
                names[name] = place
                writer.add(played(name, before if ids == "of retries" else "", *one))
                before = name
    kept = Filters(filter_successful_only=False, distinct=False, filter_same_screenshot=False)
    buffer = ReplayBuffer.from_datasets(
        [tmp_path / "d"], filters=kept, loss_weights=weights.uniform
    )
    export_selection(buffer.all, tmp_path / "rows", format="tokens")
    rows = list(read_export(tmp_path / "rows"))
    advantages = Advantages(rows, PolicySettings())
    expected = groups.advantages(attempts)
    for given in (advantages.of, lambda row: row.advantage):
        found = {names[row.key.episode_id]: given(row) for row in rows}
        assert groups.are_close(found, expected)


@pytest.mark.parametrize(
    ("temperatures", "given", "expected"),
    [
        ((0.7, 0.7), None, 0.7), ((1.0, None), None, 1.0), ((None, None), None, 1.0),
        ((None, 0.7), 0.7, 0.7), ((0.7, None), 0.7, 0.7), ((None, None), 0.7, 0.7),
        ((0.7, None), None, "assumed"), ((None, 0.7), None, "at temperature 0.7; expected 1"),
    ],
)  # fmt: skip
def test_no_row_takes_the_temperature_of_its_neighbour(temperatures, given, expected, caplog):
    rows = [samples_of((1.0, S), temperature=one)[0] for one in temperatures]
    settings = PolicySettings(temperature=given)
    if isinstance(expected, str):
        with pytest.raises(errors.InvalidInputError, match=expected):
            temperature_of(rows, settings)
        return
    with caplog.at_level(logging.WARNING):
        assert temperature_of(rows, settings) == expected
    warned = "no temperature on record" in caplog.text
    assert warned is (given is None and None in temperatures)
