"""Agents as strangers write them: functions, blocking code, bugs, odd return values.

People try webtraj with the agent that they have. Whatever it does wrong is its own failure: it
counts in the success rate, is not tried again, and never passes for a failure of the environment.
"""

import asyncio
import threading

import dm_env
import pytest

from rows import each
from webtraj import Decision, EndReason, Outcome, errors, open_dataset, registry
from webtraj.agents.models import Message
from webtraj.environments.actions import Click
from webtraj.environments.actions.spec import to_action
from webtraj.rollouts import RunSpec, collect


class Page:
    """An environment with one button; it takes the actions of a browser and needs none."""

    def __init__(self, tasks=()):
        self.seed = 0
        self.success = False

    def set_seed(self, seed):
        self.seed = seed

    def episode_outcome(self):
        return Outcome.SUCCESS if self.success else Outcome.FAILURE

    async def reset(self):
        self.success = False
        return dm_env.restart({"goal": "Press the button", "seed": self.seed})

    async def step(self, action):
        self.success = to_action(action) == Click("1")
        return dm_env.termination(float(self.success), {"goal": "", "seed": self.seed})

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        await self.close()


@pytest.fixture(autouse=True)
def page(monkeypatch):
    monkeypatch.setattr(registry, "_presets", {})
    monkeypatch.setattr(registry, "_builtin_loaded", True)
    monkeypatch.setattr(registry, "_plugins_loaded", True)
    registry.register("page/press", Page)


async def play(agent, out=None, episodes=1, **settings):
    spec = RunSpec(
        preset="page/press", episodes=episodes, out=out, max_retries=2, retry_pause=0.0, **settings
    )
    return await collect(spec, agent=agent)


def function(observation):
    return "click('1')"


async def coroutine_function(observation):
    return Click("1")


def blocks(observation):
    return asyncio.run(coroutine_function(observation))


def prints(observation):
    print("I see", observation)
    return Decision(action=Click("1"), thought="There it is.")


def mutates(observation):
    observation.clear()
    observation["me"] = observation
    return "click('1')"


class Method:
    name = "method-1"

    def begin_episode(self, environment):
        return self

    def act(self, observation):
        return "click('1')"


class Callable:
    async def __call__(self, observation):
        return "click('1')"


WORKING = [function, coroutine_function, blocks, prints, mutates, Method(), Callable()]


@each("agent", WORKING)
async def test_an_agent_may_be_a_function_and_may_block(agent, tmp_path):
    summary = await play(agent, tmp_path, episodes=3)
    assert [result.outcome for result in summary.results] == [Outcome.SUCCESS] * 3
    for episode in open_dataset(tmp_path):
        assert episode.steps[0].observation["goal"] == "Press the button"
        assert episode.info.policy


async def test_a_blocking_agent_does_not_hold_up_other_episodes():
    together = threading.Barrier(4, timeout=60)

    def act(observation):
        together.wait()  # Breaks unless four episodes ask at the same time.
        return "click('1')"

    summary = await play(act, episodes=4, parallel=4)
    assert summary.total.success_rate == 1.0


def unusable(value):
    return lambda observation: value


def raises(error):
    async def act(observation):
        raise error

    return act


async def leaks_a_cancellation(observation):
    inner = asyncio.ensure_future(asyncio.sleep(60))
    inner.cancel()
    await inner


async def runs_a_loop_in_a_loop(observation):
    call = coroutine_function(observation)
    try:
        return asyncio.run(call)
    finally:
        call.close()


FAILING = {
    "None": (unusable(None), "act returned None"),
    "a number where the page needs a click": (unusable(7), "takes an Action"),
    "dict": (unusable({"click": 1}), "it must return a webtraj.Decision, an action"),
    "a decision of nothing": (unusable(Decision()), "takes an Action"),
    "a record that is no action": (unusable(Message.of("user", "hi")), "takes an Action"),
    "a bug": (raises(NameError("name 'clik' is not defined")), "clik"),
    "an OSError": (raises(ConnectionRefusedError("my cache is down")), "my cache is down"),
    "a time-out of its own": (raises(TimeoutError("slow")), "slow"),
    "StopIteration": (lambda observation: next(iter(())), "StopIteration"),
    "a cancellation that leaks": (leaks_a_cancellation, "nobody cancelled it"),
    "a loop in a loop": (runs_a_loop_in_a_loop, "asyncio.run"),
}


@each("name", FAILING)
async def test_what_an_agent_does_wrong_is_its_own_failure(name, tmp_path):
    agent, said = FAILING[name]
    summary = await play(agent, tmp_path)
    (result,) = summary.results  # Not tried again, though the settings allow two retries.
    assert (result.end_reason, result.outcome) == (EndReason.ERRORED, Outcome.AGENT_ERROR)
    assert said in result.error
    assert result.total_reward is None
    assert summary.total.success_rate == 0.0
    (episode,) = open_dataset(tmp_path)
    assert episode.outcome is Outcome.AGENT_ERROR
    assert said in episode.end.error.message


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (errors.ModelUnavailableError("connection refused"), Outcome.MODEL_ERROR),
        (errors.ModelRefusedError("401: no such key"), Outcome.MODEL_ERROR),
        (errors.BrowserCrashedError("gone"), Outcome.ENV_ERROR),
    ],
)
async def test_a_failure_of_server_or_browser_is_not_the_agents(error, outcome):
    summary = await play(raises(error))
    assert {result.outcome for result in summary.results} == {outcome}
    assert summary.total.success_rate is None


class CannotBegin:
    """Fails before its first decision, on half of the pages."""

    name = "cannot-begin-1"

    def __init__(self, error):
        self.error = error

    def begin_episode(self, environment):
        if environment.seed % 2:
            raise self.error
        return function


@each(
    ("error", "outcome"),
    [
        (FileNotFoundError("prompt.txt"), Outcome.AGENT_ERROR),
        (ValueError("a bug"), Outcome.AGENT_ERROR),
        (errors.ModelUnavailableError("connection refused"), Outcome.MODEL_ERROR),
        (errors.BrowserCrashedError("gone"), Outcome.ENV_ERROR),
    ],
)
async def test_an_agent_that_cannot_begin_fails_in_that_episode_alone(error, outcome, tmp_path):
    summary = await play(CannotBegin(error), tmp_path, episodes=20, max_consecutive_errors=1000)
    outcomes = [result.outcome for result in summary.results]
    assert set(outcomes) == {Outcome.SUCCESS, outcome}
    assert outcomes.count(Outcome.SUCCESS) >= 1
    failed = [episode for episode in open_dataset(tmp_path) if episode.outcome is outcome]
    assert len(failed) == outcomes.count(outcome)
    for episode in failed:
        assert str(error) in episode.end.error.message
        assert episode.num_steps == 0
        assert episode.steps[0].observation["goal"] == "Press the button"


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_an_agent_that_sleeps_for_ever_misses_its_deadline(kind):
    forever = threading.Event()

    async def sleeps(observation):
        await asyncio.Event().wait()

    def hangs(observation):
        forever.wait()

    try:
        agent = sleeps if kind == "async" else hangs
        summary = await asyncio.wait_for(play(agent, step_timeout=0.1), 60)
    finally:
        forever.set()
    assert {result.outcome for result in summary.results} == {Outcome.TIMEOUT}


async def test_an_agent_that_catches_cancellations_cannot_keep_a_rollout_alive(tmp_path):
    asked = asyncio.Event()

    async def stubborn(observation):
        asked.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "click('1')"

    rollout = asyncio.ensure_future(play(stubborn, tmp_path, episodes=100))
    await asked.wait()
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(rollout, 60)
    (episode,) = open_dataset(tmp_path)
    assert episode.outcome is Outcome.CANCELLED


class NoBegin:
    def act(self, observation):
        return "click('1')"


class NoName:
    def begin_episode(self, environment):
        return self


class NoActor:
    name = "none-1"

    def begin_episode(self, environment):
        pass


@each(
    ("agent", "said"),
    [
        (NoBegin(), "add def begin_episode"),
        (NoName(), "name = "),
        (NoActor(), "begin_episode must return"),
        (Method, "Pass an instance"),
        (7, "a function of an observation"),
    ],
)
async def test_what_cannot_be_an_agent_is_refused_with_what_to_do(agent, said):
    with pytest.raises(errors.InvalidInputError, match=said):
        await play(agent)
