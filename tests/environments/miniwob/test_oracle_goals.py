"""Oracles are strict: on a page or with a goal that is not theirs, they do nothing but say so."""

import pytest

from rows import each
from webtraj.environments.miniwob import oracles
from webtraj.environments.miniwob.oracles import OracleError


class EmptyPage:
    """An `OracleView` of a page without elements, whose goal belongs to no task."""

    goal = "Paint the fence."

    async def all(self, selector):
        return []

    async def one(self, selector, text=None):
        raise OracleError(f"No element {selector!r} in the page.")

    async def evaluate(self, function, argument=None):
        raise OracleError("No script in the page.")


@each("task", oracles.list_solved_tasks())
async def test_a_page_of_another_kind_is_an_oracle_error(task):
    with pytest.raises(OracleError):
        await oracles.solve(task, EmptyPage()).next_action()
