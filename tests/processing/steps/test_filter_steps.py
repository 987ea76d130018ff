"""The filters: which episodes go on."""

import pytest
from made_episodes import episode, finish

from rows import each
from webtraj import Outcome, errors
from webtraj.processing.base import Drop
from webtraj.processing.steps import step_class
from webtraj.processing.steps.filters import Filter, FilterOutcome, FilterSite, FilterTask

KEEPS = [
    (FilterOutcome(), {"outcome": Outcome.SUCCESS}, True),
    (FilterOutcome(), {"outcome": Outcome.FAILURE}, False),
    (FilterOutcome(), {"outcome": Outcome.JUDGE_ERROR}, False),
    (FilterOutcome(outcomes=["failure", "blocked"]), {"outcome": Outcome.BLOCKED}, True),
    (FilterSite(sites="*.example.org"), {"site": "a.example.org"}, True),
    (FilterSite(sites="*.example.org"), {"site": "example.com"}, False),
    (FilterSite(sites="*.example.org"), {"site": ""}, False),
    (FilterSite(exclude="a.*"), {"site": "a.example.org"}, False),
    (FilterSite(sites=("a.*", "b.*"), exclude=("b.c",)), {"site": "b.d"}, True),
    (FilterTask(tasks="miniwob/click-*"), {"task": "miniwob/click-tab"}, True),
    (FilterTask(tasks="miniwob/click-*"), {"task": "miniwob/enter-text"}, False),
    (FilterTask(exclude=["shop/*"]), {"task": "shop/tea"}, False),
    (Filter(where="outcome == 'success' and num_steps <= 1"), {}, True),
    (Filter(where="num_steps > 1"), {}, False),
    (Filter(where="total_reward >= 1 and 'tea' in goal"), {}, True),
    (Filter(where="end_reason == 'truncated'"), {"truncated": True}, True),
]


@each(("keeps", "given", "stays"), KEEPS)
def test_filter(keeps, given, stays):
    trajectory = episode(finish(reward=1.0), **given)
    result = keeps(trajectory)
    assert result is trajectory if stays else isinstance(result, Drop)


def test_reason_is_the_same_for_all_and_the_detail_tells_of_one():
    assert FilterSite(sites="b")(episode(finish(), site="a")) == Drop("site", "a")
    failed = episode(finish(), outcome=Outcome.FAILURE)
    assert FilterOutcome()(failed) == Drop("outcome failure")


@each(
    ("name", "options", "said"),
    [
        ("filter", {"where": "__import__('os')"}, "Invalid condition"),
        ("filter", {"where": 3}, "where is 3"),
        ("filter-outcome", {"outcomes": "Success"}, "outcomes is 'Success'; expected one of"),
        ("filter-site", {"sites": 3}, "sites is 3; expected a text or a list of texts"),
        ("filter-task", {"exclude": [1]}, "exclude is"),
        ("filter-task", {"tasks": {"a": 1}}, "tasks is"),
    ],
)
def test_bad_options_are_named(name, options, said):
    with pytest.raises(errors.InvalidInputError, match=said):
        step_class(name)(**options)
