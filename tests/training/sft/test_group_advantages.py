"""Advantages of groups and the temperature of rows, without PyTorch."""

import logging

import pytest

from webtraj import Outcome, errors
from webtraj.training.samples import Sample, SampleKey
from webtraj.training.sft.policy_gradient import Advantages, temperature_of
from webtraj.training.sft.settings import PolicySettings

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
