"""What a goal draws counts: with another value, something else is expected; and nothing unsaid is.

An oracle does what its goal says, so playing it does not show that nobody looks at a value, and
that any other would do. The facts are those of installed applications: `make test-apps` runs this.
"""

import random
import types

import pytest

from webtraj_apps import app as app_lib
from webtraj_apps import names, tasks

SEEDS, OTHERS = range(3), range(1, 6)
COLUMNS = (None, *range(5))
DECOYS = {"cms/close-jobs"}
"""Templates that name things which are to stay as they are."""


class Draws:
    """A source of random values with one draw exchanged, or one column of the row it chooses."""

    def __init__(self, seed, exchanged=None, by=0, column=None):
        self.seed, self.exchanged, self.by, self.column = seed, exchanged, by, column
        self.count = 0
        self.width = 0
        """The columns of the row that the exchanged draw chooses, if they are texts and numbers."""

    def _now(self, by):
        return random.Random(f"{self.seed} {self.count} {by}")

    def choice(self, rows):
        self.count += 1
        first = self._now(0).choice(rows)
        if self.count - 1 != self.exchanged:
            return first
        other = self._now(self.by).choice(rows)
        if self.column is None:
            return other
        if type(first) is tuple and all(isinstance(one, str | float | int) for one in first):
            self.width = len(first)
        mixed = zip(first, other, strict=True) if self.column < self.width else ()
        return tuple(b if i == self.column else a for i, (a, b) in enumerate(mixed)) or first

    def __getattr__(self, name):
        self.count += 1
        is_other = self.count - 1 == self.exchanged and self.column is None
        return getattr(self._now(self.by if is_other else 0), name)


def said(value):
    """Return a value so that it can be compared, tests in expected changes included."""
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return value.__qualname__, said(cells)
    if isinstance(value, tasks.Expected):
        return value.kind, value.table, said(value.where), said(value.new), value.optional
    if isinstance(value, dict):
        return sorted((key, said(one)) for key, one in value.items())
    if isinstance(value, set | frozenset):
        return sorted(map(said, value))
    return [said(one) for one in value] if isinstance(value, list | tuple) else repr(value)


def exchanges(template, seed):
    """Yield draw and column, and whether exchanging them changes the goal, and the outcome."""
    facts = {
        name: app_lib.find_app(name).facts(template.world_seed(seed)) for name in template.apps
    }
    facts = facts if len(facts) > 1 else facts[template.apps[0]]
    draws = Draws(seed)
    made = template.assign(facts, draws)
    for number in () if made.infeasible else range(draws.count):
        for column in COLUMNS:
            for by in OTHERS:
                exchanged = Draws(seed, number, by, column)
                try:
                    other = template.assign(facts, exchanged)
                except LookupError:  # There is no such row.
                    continue
                if column is not None and column >= exchanged.width:
                    break
                outcomes = [said((one.expect, one.answer)) for one in (made, other)]
                if said(made.prepare) == said(other.prepare):
                    yield number, column, made.goal != other.goal, outcomes[0] != outcomes[1]


def loose(seen):
    """Return the draws and columns that change the goal and never what is expected."""
    told = {(number, column) for number, column, goal, _ in seen if goal}
    expected = {(number, column) for number, column, _, outcome in seen if outcome}
    # A column with a value, and one with its name for the goal, are one.
    named = {number for number, column, goal, outcome in seen if outcome and not goal}
    return sorted(
        (n, column or 0) for n, column in told - expected if column is None or n not in named
    )


@pytest.mark.parametrize(
    "app", [name for name, source in names.find_installed().items() if source.is_ours]
)
def test_each_value_that_a_goal_draws_is_expected_and_no_other(app):
    wrong = []
    for name in tasks.find_templates([app]):
        template = tasks.find_template(name)
        if not all(app_lib.find_app(one).installed for one in template.apps):
            pytest.skip("the applications are not installed")
        seen = [one for seed in SEEDS for one in exchanges(template, seed)]
        if name not in DECOYS and (found := loose(seen)):
            wrong.append(f"{name}: draws {found} of the goal change nothing that is expected")
        if any(outcome and not goal for _, column, goal, outcome in seen if column is None):
            wrong.append(f"{name}: a draw changes what is expected, and not the goal")
    assert not wrong, "\n".join(wrong)
