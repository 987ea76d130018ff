"""Agents by name."""

import pytest

from webtraj import errors
from webtraj.agents.catalog import AGENTS, make_agent
from webtraj.agents.random import RandomAgent


@pytest.mark.parametrize("name", AGENTS)
def test_agent_goes_by_the_name_it_is_made_by(name):
    assert make_agent(name).name == name


def test_seed_goes_to_agents_that_take_one():
    assert make_agent("random", seed=7) == RandomAgent(7)
    assert make_agent("oracle", seed=7) == make_agent("oracle")


def test_unknown_agent_is_an_error_that_names_those_there_are():
    with pytest.raises(errors.InvalidInputError, match=r"'ramdom'.*mean 'random'.*oracle, random"):
        make_agent("ramdom")
