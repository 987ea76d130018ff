"""24 episodes at once on MiniWoB++ with a real vLLM, which is killed in the middle."""

import collections
import os
import signal

import pytest
from vllm_server import client_of, is_text_of

from webtraj import open_dataset
from webtraj.agents.model import ModelAgent
from webtraj.agents.models.base import Sampling
from webtraj.agents.models.limits import RetryPolicy
from webtraj.datasets.verification import verify
from webtraj.rollouts import RunSpec, collect
from webtraj.trajectory import EndReason, Outcome

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1200)]

TASKS = ("miniwob/click-test", "miniwob/click-test-2", "miniwob/click-button")
EPISODES = 24
PARALLEL = 24
MAX_STEPS = 3

PATIENT = RetryPolicy(max_retries=1_000, first_delay=0.2, max_delay=2.0)


class Trouble:
    """Looks on, and makes trouble once so many episodes have ended."""

    def __init__(self, after, make_trouble):
        self.planned = []
        self.results = []
        self._after = after
        self._make_trouble = make_trouble

    def rollout_planned(self, plan):
        self.planned = [(planned.attempt, planned.seed) for planned in plan]

    def episode_ended(self, result):
        self.results.append(result)
        if len(self.results) == self._after:
            self._make_trouble()


async def roll_out(client, out, observer, *, episodes=EPISODES):
    """Plays with a model that may write nothing but actions, since its weights are random."""
    agent = ModelAgent(
        client=client,
        prompt="bare",
        sampling=Sampling(temperature=1.0, max_tokens=48),
        enforce_actions=True,
        seed=11,
        timeout=240,
    )
    await collect(
        RunSpec(
            preset=TASKS,
            episodes=episodes,
            parallel=PARALLEL,
            max_steps=MAX_STEPS,
            out=out,
            environment_options={"observe": agent.channels},
            max_consecutive_errors=episodes + 1,
        ),
        agent=agent,
        observer=observer,
    )


def check_accounts(observer, out, *, episodes=EPISODES):
    """Every planned episode has one result and one record, and they say the same."""
    results = {(result.attempt, result.seed): result for result in observer.results}
    assert len(results) == len(observer.results) == episodes
    assert results.keys() == set(observer.planned)
    dataset = open_dataset(out)
    assert len(dataset) == episodes
    assert not dataset.open_episodes
    assert verify(out).clean
    for result in observer.results:
        record = dataset[result.episode_id]
        assert (record.info.task, record.info.seed) == (result.task, result.seed)
        assert record.end_reason is result.end_reason
        assert record.num_steps == result.num_steps
        if result.end_reason is EndReason.TERMINATED:
            assert record.total_reward == result.total_reward
            assert result.outcome is expected_outcome(record)
        else:
            assert all(step.reward == 0 for step in record.steps[1:])
    return dataset


def expected_outcome(record):
    return Outcome.SUCCESS if record.steps[-1].reward >= 1 else Outcome.FAILURE


async def test_server_that_is_killed_in_the_middle_costs_no_episode(
    text_server, tmp_path, reference
):
    restarts = text_server.num_restarts
    asked = []

    def kill():
        asked.append(text_server.pid)
        os.kill(text_server.pid, signal.SIGKILL)

    observer = Trouble(8, kill)
    async with client_of(text_server, retries=PATIENT) as client:
        await roll_out(client, tmp_path / "data", observer)
    assert len(asked) == 1
    assert text_server.num_restarts == restarts + 1
    dataset = check_accounts(observer, tmp_path / "data")

    outcomes = collections.Counter(result.outcome for result in observer.results)
    assert set(outcomes) <= {Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNKNOWN}
    ends = {result.end_reason for result in observer.results}
    assert ends <= {EndReason.TERMINATED, EndReason.TRUNCATED}

    sequences, acted = [], 0
    for record in dataset:
        for step in record.steps[1:]:
            (call,) = step.decision.model_calls
            # What the grammar lets through is an action, unless it was cut off.
            assert step.decision.parse_error == "" or call.finish_reason == "length"
            acted += step.decision.parse_error == ""
            assert call.policy_version
            assert len(call.logprobs) == len(call.completion_token_ids) > 0
            sequences.append((call, (call.prompt_token_ids, call.completion_token_ids, 1.0)))
    # How often weights drawn at random are right is chance, and not asked for.
    assert acted >= EPISODES
    # What was recorded, and read from the disk again, is what the model saw and said.
    sample = sequences[:: len(sequences) // 24]
    answers = reference("text-0", [sequence for _, sequence in sample])
    for (call, _), expected in zip(sample, answers, strict=True):
        assert is_text_of(call.text, expected["completion"])
        for message in call.messages:
            assert message["content"] in expected["prompt"]
    print(f"{len(sequences)} calls, {dict(outcomes)}")
