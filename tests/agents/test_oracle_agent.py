"""The oracle agent does what the environment's own solution says."""

import pytest

from webtraj import errors
from webtraj.agents.oracle import OracleAgent


class Riddle:
    """An environment with a solution."""

    def __init__(self, *solution):
        self._solution = list(solution)

    async def cheat(self):
        return self._solution.pop(0) if self._solution else None

    def describe_episode(self):
        return {"task": "riddle/one"}


async def test_oracle_asks_the_environment_for_each_action():
    actor = OracleAgent().begin_episode(Riddle("look", "leap"))
    assert [(await actor.act(None)).action for _ in range(2)] == ["look", "leap"]


async def test_episodes_that_run_at_once_keep_their_own_solutions():
    agent = OracleAgent()
    one, two = (agent.begin_episode(Riddle(action)) for action in ("left", "right"))
    assert (await two.act(None)).action == "right"
    assert (await one.act(None)).action == "left"


async def test_solution_that_knows_no_further_is_an_agent_error():
    actor = OracleAgent().begin_episode(Riddle())
    with pytest.raises(errors.AgentError, match="task 'riddle/one' has no next action"):
        await actor.act(None)


def test_environment_without_solution_is_refused_by_name():
    with pytest.raises(errors.InvalidInputError, match="no solution for the environment object"):
        OracleAgent().begin_episode(object())
