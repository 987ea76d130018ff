"""What the recording wrapper passes through, takes, fills in, and does when it cannot record."""

import contextlib
import copy
import dataclasses
import logging
import pickle

import dm_env
import numpy as np
import pytest

from rows import each
from webtraj import (
    Decision,
    EpisodeInfo,
    MemoryTrajectoryCollector,
    ModelCall,
    Outcome,
    TrajectoryCollectingEnvironment,
    errors,
)
from webtraj.environments import base as contract
from webtraj.testing.fakes import (
    AresEnvironment,
    AresTimeStep,
    CatchEnvironment,
    ScriptedEnvironment,
)
from webtraj.testing.faults import FailingCollector

FIRST = dm_env.restart("seen")

MID = dm_env.transition(0.5, "seen")

LAST = dm_env.termination(1.0, "seen")


class Scripted(ScriptedEnvironment):
    """With more to it than the contract asks for."""

    flavour = "vanilla"

    def set_seed(self, seed):
        self.seed = seed


# What passes through.


async def test_timesteps_pass_through_by_identity(recording):
    env = recording.env(ScriptedEnvironment([FIRST, MID, LAST]))
    assert await env.reset() is FIRST
    assert await env.step(0) is MID
    assert await env.step(0) is LAST


async def test_attributes_of_the_inner_environment_are_reachable(recording):
    inner = Scripted([])
    env = recording.env(inner)
    env.set_seed(7)
    assert inner.seed == 7
    assert env.flavour == "vanilla"
    assert not hasattr(env, "no_such_thing")


@each("name", ["observation", "action", "reward", "discount"])
async def test_specs_are_the_inner_environment_s(recording, name):
    env = recording.env(CatchEnvironment())
    inner = getattr(CatchEnvironment(), f"{name}_spec")()
    assert getattr(env, f"{name}_spec")() == inner


@each("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
async def test_duplicates_are_refused_with_advice(recording, duplicate):
    env = recording.env(CatchEnvironment())
    with pytest.raises(TypeError, match=r"cannot be pickled or copied.*in the other process"):
        duplicate(env)


async def test_the_collector_outlives_the_environment(recording):
    for _ in range(2):
        async with recording.env(ScriptedEnvironment([FIRST])) as env:
            await env.reset()
            assert recording.collector.open_episodes == (env.episode_id,)
        assert env.episode_id is None
    assert len(await recording.episodes()) == 2


@pytest.mark.parametrize(
    ("environment", "collector"),
    [(MemoryTrajectoryCollector(), CatchEnvironment()), (CatchEnvironment(), "runs/catch")],
    ids=["the other way round", "a folder"],
)
def test_what_is_no_collector_is_refused(environment, collector):
    with pytest.raises(errors.InvalidInputError, match="as the collector"):
        TrajectoryCollectingEnvironment(environment, collector)


# What it takes.


@each(
    ("discount", "terminated"),
    [
        (0.0, True),
        (0, True),
        (np.float32(0), True),
        (np.zeros(3), True),
        ({"a": np.zeros(2), "b": [0.0, (0.0,)]}, True),
        (0.5, False),
        (1.0, False),
        (np.array([0.0, 1.0]), False),
        ({"a": 0.0, "b": np.ones(2)}, False),
        (None, False),
        ({}, False),
    ],
)
async def test_terminated_means_that_all_of_the_discount_is_zero(recording, discount, terminated):
    await recording.begin_anew()
    reward = {"a": np.array([1.0, 2.0]), "b": 3.0}
    last = dm_env.TimeStep(dm_env.StepType.LAST, reward, discount, 0)
    env = recording.env(ScriptedEnvironment([FIRST, last]))
    await env.reset()
    await env.step(0)
    episode = await recording.only()
    assert (episode.terminated, episode.truncated) == (terminated, not terminated)
    assert episode.total_reward == 6.0
    assert repr(episode.steps[-1].discount) == repr(discount)


@pytest.mark.parametrize("truncate", [False, True])
async def test_ares_shaped_episodes_are_recorded_as_emitted(recording, truncate):
    env = recording.env(AresEnvironment(2, truncate=truncate))
    first = await env.reset()
    assert first == AresTimeStep("FIRST", 0.0, 1.0, "question 0")
    await env.step("yes")
    await env.step("no")
    with pytest.raises(RuntimeError, match="before step"):
        await env.step("again")
    played, refused = await recording.episodes()
    assert [
        (step.step_type, step.action, step.reward, step.discount, step.observation)
        for step in played.steps
    ] == [
        (dm_env.StepType.FIRST, None, 0.0, 1.0, "question 0"),
        (dm_env.StepType.MID, "yes", 0.0, 1.0, "question 1"),
        (dm_env.StepType.LAST, "no", 1.0, 1.0 if truncate else 0.0, None),
    ]
    assert played.truncated is truncate
    assert played.total_reward == 1.0
    assert played.end.violations == (
        contract.FIRST_HAS_REWARD,
        contract.FIRST_HAS_DISCOUNT,
        contract.MISSING_OBSERVATION,
    )
    assert refused.end.violations == (contract.ALREADY_LAST_RAISED,)


DECISION = Decision(
    action=1,
    thought="wait for it",
    model_calls=(ModelCall(model="m", completion_token_ids=(1, 2), logprobs=(-0.5, -1.0)),),
)


async def test_a_decision_is_recorded_and_its_action_acted_on(recording):
    inner = ScriptedEnvironment([FIRST, LAST])
    env = recording.env(inner)
    await env.reset()
    await env.step(DECISION)
    assert inner.calls[-1].action == 1
    step = (await recording.only()).steps[-1]
    assert (step.action, step.decision) == (1, DECISION)


async def test_recorded_twice_gives_two_equal_records(recording):
    inside = MemoryTrajectoryCollector()
    inner = TrajectoryCollectingEnvironment(CatchEnvironment(rows=3), inside)
    env = recording.env(inner)
    await env.reset()
    await env.step(DECISION)
    await env.step(2)
    await env.reset()
    await env.step(0)
    await env.close()
    outer_episodes = await recording.episodes()
    assert len(outer_episodes) == len(inside.trajectories) == 2
    for one, other in zip(outer_episodes, inside.trajectories, strict=True):
        assert plain(one) == plain(other)
    assert outer_episodes[0].steps[1].decision == DECISION


def plain(episode):
    """An episode without its id and times, comparable."""
    info = dataclasses.replace(episode.info, episode_id="x")
    steps = [
        (
            step.index,
            step.step_type,
            step.observation.tolist(),
            step.action,
            step.reward,
            step.discount,
            step.decision,
            step.ignored_action,
        )
        for step in episode.steps
    ]
    return info, steps, episode.end


# What is known of an episode.


class Described(ScriptedEnvironment):
    """Knows its goal only after FIRST."""

    def __init__(self, script, described):
        super().__init__(script)
        self.described = described

    def describe_episode(self):
        if isinstance(self.described, Exception):
            raise self.described
        return self.described(len(self.calls))


def by_calls(num_calls):
    return {"task": "door", "goal": f"goal {num_calls}", "seed": num_calls, "smell": "none"}


async def test_descriptions_before_and_after_first_are_recorded(recording):
    env = recording.env(Described([FIRST, FIRST], by_calls))
    await env.reset()
    await env.reset()
    await env.close()
    first, second = await recording.episodes()
    assert (first.info.task, first.info.goal, first.info.seed) == ("door", "goal 1", 1)
    assert second.info.goal == "goal 2"


async def test_what_the_user_says_wins(recording):
    info = EpisodeInfo(goal="mine", policy="me", environment="Mine")
    env = recording.env(Described([FIRST], by_calls), episode_info=info)
    await env.reset()
    await env.close()
    recorded = (await recording.only()).info
    assert (recorded.goal, recorded.policy, recorded.environment) == ("mine", "me", "Mine")
    assert recorded.task == "door"


@pytest.mark.parametrize("metadata", [None, [1]], ids=["none", "a list"])
async def test_metadata_of_any_kind_costs_no_description(recording, metadata):
    described = {"task": "door", "metadata": {"smell": "none"}}
    env = recording.env(
        Described([FIRST], lambda _: described), episode_info=EpisodeInfo(metadata=metadata)
    )
    await env.reset()
    await env.close()
    recorded = (await recording.only()).info
    assert (recorded.task, recorded.metadata["smell"]) == ("door", "none")


async def test_a_function_s_info_is_taken_as_it_is(recording):
    infos = [EpisodeInfo(episode_id="one"), EpisodeInfo(episode_id="two", task="t")]
    waiting = iter(infos)
    env = recording.env(ScriptedEnvironment([FIRST, FIRST]), episode_info=lambda: next(waiting))
    await env.reset()
    await env.reset()
    await env.close()
    assert [(e.info.episode_id, e.info.task) for e in await recording.episodes()] == [
        ("one", ""),
        ("two", "t"),
    ]


@pytest.mark.parametrize(
    "described",
    [ValueError("no idea"), lambda calls: None, lambda calls: "what"],
    ids=["raises", "nothing", "text"],
)
async def test_a_broken_description_costs_no_episode(recording, caplog, described):
    env = recording.env(Described([FIRST, LAST], described))
    await env.step(0)
    await env.step(0)
    assert (await recording.only()).terminated
    assert "describe_episode raised" in caplog.text


async def test_a_description_that_needs_a_reset_first_is_no_fault(recording, caplog):
    def describe(calls):
        if calls == 0:
            raise AttributeError("degrees")
        return {"goal": f"goal {calls}"}

    env = recording.env(Described([FIRST, LAST], describe))
    await env.reset()
    await env.step(0)
    assert (await recording.only()).info.goal == "goal 1"
    assert not caplog.records


class Judged(ScriptedEnvironment):
    verdict = Outcome.SUCCESS

    def episode_outcome(self):
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


@each(
    ("verdict", "outcome", "noted"),
    [
        (Outcome.SUCCESS, Outcome.SUCCESS, False),
        (True, Outcome.SUCCESS, False),
        (False, Outcome.FAILURE, False),
        (np.False_, Outcome.FAILURE, False),
        (0, Outcome.UNKNOWN, True),
        ("good", Outcome.UNKNOWN, True),
        (None, Outcome.UNKNOWN, True),
        (KeyError("judge"), Outcome.UNKNOWN, True),
    ],
)
async def test_the_environment_s_verdict_is_recorded(recording, verdict, outcome, noted):
    await recording.begin_anew()
    inner = Judged([FIRST, LAST])
    inner.verdict = verdict
    env = recording.env(inner)
    await env.step(0)
    assert await env.step(0) is LAST
    end = (await recording.only()).end
    assert end.outcome is outcome
    assert [v.startswith(contract.DESCRIBE_RAISED) for v in end.violations] == [True] * noted


@pytest.mark.parametrize(
    ("script", "outcome"),
    [([OSError("x")], Outcome.ENV_ERROR), ([FIRST], Outcome.UNKNOWN)],
    ids=["errored", "closed"],
)
async def test_only_a_finished_episode_is_judged(recording, script, outcome):
    env = recording.env(Judged(script))
    with contextlib.suppress(OSError):
        await env.reset()
    await env.close()
    assert (await recording.only()).end.outcome is outcome


# What cannot be recorded.

# A collector's method that fails | the call it fails in | what the episode's end then notes.
FAULTS = [
    ("begin_episode", "reset"),
    ("record_info", "reset"),
    ("record_step", "reset"),
    ("record_intent", "step"),
    ("drain", "reset"),
    ("flush", "close"),
]

NOTED = {"record_info", "record_step", "record_intent"}


async def failures(env):
    """Plays an episode of four calls; returns in which calls something was raised."""
    raised = {}
    for name, call in [
        ("reset", env.reset),
        ("step", lambda: env.step("a1")),
        ("last", lambda: env.step("a2")),
        ("close", env.close),
    ]:
        try:
            await call()
        except errors.CollectorError as error:
            raised[name] = error
    return raised


@each(("method", "call"), FAULTS)
async def test_a_collector_s_failure_is_raised_where_it_happened(recording, method, call):
    await recording.begin_anew()
    failing = FailingCollector(recording.collector, method)
    inner = Described([FIRST, MID, LAST, FIRST], by_calls)
    env = TrajectoryCollectingEnvironment(inner, failing)
    raised = await failures(env)
    assert list(raised) == [call]
    assert str(raised[call]) == "injected fault"


@pytest.mark.parametrize(("method", "call"), FAULTS)
async def test_a_collector_s_failure_is_warned_of_and_the_episode_goes_on(
    recording, caplog, method, call
):
    failing = FailingCollector(recording.collector, method)
    inner = Described([FIRST, MID, LAST], by_calls)
    env = TrajectoryCollectingEnvironment(inner, failing, on_collector_error="warn")
    with caplog.at_level(logging.WARNING):
        assert await failures(env) == {}
    assert caplog.text.count("injected fault") == 1
    assert [c.method for c in inner.calls] == ["reset", "step", "step", "close"]
    if method == "begin_episode":
        assert await recording.episodes() == []
        return
    episode = await recording.only()
    assert episode.terminated
    assert len(episode.steps) == (2 if method == "record_step" else 3)
    noted = ("CollectorError: injected fault",) if method in NOTED else ()
    assert episode.end.recording_errors == noted


@pytest.mark.parametrize("policy", ["raise", "warn"])
async def test_an_end_that_cannot_be_recorded_is_told(recording, caplog, policy):
    failing = FailingCollector(recording.collector, "end_episode")
    env = TrajectoryCollectingEnvironment(
        ScriptedEnvironment([FIRST, LAST, FIRST]), failing, on_collector_error=policy
    )
    await env.reset()
    if policy == "raise":
        with pytest.raises(errors.CollectorError, match="injected fault"):
            await env.step(0)
    else:
        assert await env.step(0) is LAST
        assert "injected fault" in caplog.text
    assert await env.reset() is FIRST


async def test_an_action_whose_intent_failed_is_not_acted_on_nor_in_flight(recording):
    inner = ScriptedEnvironment([FIRST, LAST])
    env = TrajectoryCollectingEnvironment(
        inner, FailingCollector(recording.collector, "record_intent")
    )
    await env.reset()
    with pytest.raises(errors.CollectorError):
        await env.step("a1")
    assert [c.method for c in inner.calls] == ["reset"]
    await env.close()
    assert await recording.lines() == ["first: closed in close"]


async def test_a_timestep_survives_the_failure_of_its_info(recording):
    inner = Described([FIRST, LAST], by_calls)
    env = TrajectoryCollectingEnvironment(
        inner, FailingCollector(recording.collector, "record_info")
    )
    with pytest.raises(errors.CollectorError):
        await env.reset()
    await env.step("a1")
    assert await recording.lines() == ["first last(a1): terminated in step"]


@pytest.mark.parametrize("policy", ["raise", "warn"])
@pytest.mark.parametrize("method", ["end_episode", "record_intent", "flush"])
async def test_the_environment_s_own_error_is_never_masked(recording, caplog, policy, method):
    error = RuntimeError("the page is gone")
    failing = FailingCollector(recording.collector, method, on_call=None)

    async def body():
        inner = ScriptedEnvironment([FIRST, error] if method != "record_intent" else [error])
        async with TrajectoryCollectingEnvironment(
            inner, failing, on_collector_error=policy
        ) as env:
            await env.reset()
            await env.step(0)

    with pytest.raises(RuntimeError, match="the page is gone") as caught:
        await body()
    assert caught.value is error
    if method != "record_intent":
        assert any("injected fault" in note for note in error.__notes__)


async def test_any_exception_of_a_collector_counts_as_its_failure(recording, caplog):
    failing = FailingCollector(
        recording.collector, "record_step", error=lambda: ZeroDivisionError("bug")
    )
    env = TrajectoryCollectingEnvironment(
        ScriptedEnvironment([FIRST, LAST]), failing, on_collector_error="warn"
    )
    await env.reset()
    await env.step(0)
    assert (await recording.only()).end.recording_errors == ("ZeroDivisionError: bug",)
