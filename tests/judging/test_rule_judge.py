"""Rules are data: what they take, what they say, and that what is missing is never a failure."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from rows import each
from webtraj import errors
from webtraj.environments import actions
from webtraj.judging.base import with_judgement
from webtraj.judging.predicates import fill_in, match_goal
from webtraj.judging.rules import RuleJudge, make_rules, read_rules
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

S, F, B, E, U = (
    Outcome.SUCCESS, Outcome.FAILURE, Outcome.BLOCKED, Outcome.JUDGE_ERROR, Outcome.UNKNOWN
)  # fmt: skip
AXTREE = (
    '[1] heading "Your cart" level=1\n'
    '[2] textbox "Name" value="Ada"\n'
    '  [3] checkbox "Gift" checked\n'
    '[4] button "Buy"'
)
PAGE = {
    "goal": 'Buy "Red Lamp" for Ada.',
    "url": "https://www.shop.example:8443/cart/?page=2&q=",
    "title": "Cart - Shop",
    "axtree": AXTREE,
    "text": "Your cart\nRed   Lamp\nTotal: $1,234.50",
}


def touched(role="", name="", error=""):
    return {"role": role, "name": name, "error": error}


def episode(*, page=None, taken=(), reward=0.0, task="shop/buy", metadata=None, goal=None):
    """An episode: two clicks, then `taken`, each an action and what it was done to."""
    done = [
        (actions.Click("4"), touched("button", "Buy")),
        (actions.Click("9"), touched("link", "Away", error="It is gone.")),
        (actions.Fill("2", "Ada"), touched("textbox", "Name")),
        *taken,
    ]
    last = {**PAGE, **(page or {})}
    steps = [StepRecord(0, StepType.FIRST, last)]
    for index, (action, element) in enumerate(done, 1):
        kind = StepType.LAST if index == len(done) else StepType.MID
        seen = {name: value for name, value in last.items() if value is not None}
        steps.append(StepRecord(index, kind, {**seen, "last_action": element}, action, reward, 0.0))
    return EpisodeTrajectory(
        EpisodeInfo(
            task=task, goal=PAGE["goal"] if goal is None else goal, metadata=metadata or {}
        ),
        tuple(steps),
        EpisodeEnd(reason=EndReason.TERMINATED),
    )


async def verdict(success, trajectory=None, **more):
    judge = RuleJudge(make_rules([{"success": success, **more}]))
    return await judge.judge(trajectory or episode())


TRUE = [
    {"url": {"host": "shop.example"}},
    {"url": {"path": "/cart"}},
    {"url": {"query": {"page": "2", "q": ""}}},
    {"url": PAGE["url"]},
    {"url": {"matches": r"page=\d$|page=\d&"}},
    {"title": "cart - shop."},
    {"title": {"equals": "Cart - Shop"}},
    {"title": {"one_of": ["Home", "cart - Shop"]}},
    {"text": {"contains": "red lamp total:"}},
    {"text": {"number": 1234.5}},
    {"text": {"number": 1234, "within": 0.5}},
    {"axtree": {"contains": 'checkbox "gift" checked'}},
    {"element": {"role": "button", "name": "buy"}},
    {"element": {"role": "checkbox", "states": ["checked"]}},
    {"element": {"role": "textbox", "value": "ada"}},
    {"not": {"element": {"role": "dialog"}}},
    {"did": {"verb": "click", "role": "button", "name": {"equals": "Buy"}}},
    {"last_action": {"verb": ["fill", "type_into"], "text": "Ada"}},
    {"answered": False},
    {"reward_at_least": 0},
    {"steps_at_most": 3},
    {"all": [{"answered": False}, {"steps_at_most": 3}]},
    {"any": [{"answered": True}, {"steps_at_most": 3}]},
    {"before": {"steps_at_most": 2}},
    {"before": {"before": {"last_action": {"verb": "click", "name": "Buy"}}}},
    {"before": {"before": {"before": {"url": PAGE["url"]}}}},
]
FALSE = [
    {"url": {"host": "evil-shop.example"}},
    {"url": {"host": "example"}},
    {"url": {"path": "/cart/1"}},
    {"url": {"query": {"page": "3"}}},
    {"url": {"path": "/cart", "host": "other.example"}},
    {"title": "cart"},
    {"title": {"equals": "cart - shop"}},
    {"title": {"contains": "Cart", "equals": "x"}},
    {"text": {"contains": "blue lamp"}},
    {"text": {"number": 1234}},
    {"text": {"number": 1}},
    {"element": {"role": "button", "name": "Bu"}},
    {"element": {"role": "checkbox", "name": "Buy"}},
    {"element": {"role": "button", "states": ["checked"]}},
    {"did": {"verb": "click", "role": "link"}},  # The page did not take it.
    {"last_action": {"verb": "click"}},
    {"answer": {"contains": "a"}},
    {"answered": True},
    {"reward_at_least": 0.1},
    {"steps_at_most": 2},
    {"all": [{"answered": False}, {"steps_at_most": 2}]},
    {"any": [{"answered": True}, {"steps_at_most": 2}]},
    {"not": {"answered": False}},
    {"before": {"steps_at_most": 1}},
    {"before": {"last_action": {"verb": "click", "role": "link"}}},  # It was not done.
    {"before": {"last_action": {"verb": "fill"}}},
]


@each("predicate", TRUE)
async def test_what_holds_is_a_success(predicate) -> None:
    found = await verdict(predicate)
    assert (found.outcome, found.reward) == (S, 1.0)
    assert found.findings["holds"] == {"success": True}


@each("predicate", FALSE)
async def test_what_does_not_hold_is_a_failure(predicate) -> None:
    found = await verdict(predicate)
    assert (found.outcome, found.reward) == (F, 0.0)


@each(
    ("answer", "test", "outcome"),
    [
        ("12 dollars.", "12 Dollars", S),
        ("12", {"number": 12}, S),
        ("about 12.0 dollars", {"number": 12}, S),
        ("12 or 13", {"number": 12}, F),
        ("\u221212", {"number": -12}, S),
        ("v12", {"number": 12}, F),
        ("12.5kg", {"number": 12}, F),
        ("12.5kg", {"number": 12.5}, S),
        ("12kg", {"number": 12}, S),
        ("1,234.5m", {"number": 1234.5}, S),
        ("0.5l", {"number": 0}, F),
        ("12,5kg", {"number": 12}, F),
        ("12.5.1", {"number": 12.5}, F),
        ("12k", {"number": 12}, F),
        ("5%", {"number": 5}, S),
        ("12\u00bd", {"number": 12}, F),
        ("the 1st 3D printer weighs 12 kg", {"number": 12}, S),
        ("Ada", {"one_of": ["ada", "bob"]}, S),
        ("not ada", {"one_of": ["ada", "bob"]}, F),
        ("", {"contains": "a"}, F),
        ("x", {"matches": "^x$"}, S),
    ],
)
async def test_answers(answer, test, outcome) -> None:
    trajectory = episode(taken=[(actions.Answer(answer), touched())])
    assert (await verdict({"answer": test}, trajectory)).outcome is outcome


@each(
    ("missing", "predicate"),
    [
        ("title", {"title": "x"}),
        ("url", {"not": {"url": {"host": "x"}}}),
        ("axtree", {"element": {"role": "button"}}),
        ("text", {"all": [{"answered": False}, {"text": "x"}]}),
    ],
)
async def test_what_was_not_observed_is_a_judge_error_that_names_it(missing, predicate) -> None:
    found = await verdict(predicate, episode(page={missing: None}))
    assert (found.outcome, found.reward) == (E, None)
    assert f"no channel {missing!r}" in found.reason


@each(
    ("predicate", "outcome"),
    [
        ({"all": [{"title": "x"}, {"answered": True}]}, F),
        ({"any": [{"title": "x"}, {"answered": False}]}, S),
        ({"not": {"all": [{"title": "x"}, {"answered": True}]}}, S),
        ({"any": [{"title": "x"}, {"answered": True}]}, E),
    ],
)
async def test_what_the_rest_decides_needs_nothing_else(predicate, outcome) -> None:
    assert (await verdict(predicate, episode(page={"title": None}))).outcome is outcome


async def test_a_page_that_was_cut_short_does_not_show_what_is_not_on_it() -> None:
    cut = episode(page={"axtree": AXTREE + "\n... 12 more lines"})
    assert (await verdict({"element": {"role": "button"}}, cut)).outcome is S
    for predicate in ({"not": {"element": {"role": "dialog"}}}, {"axtree": {"contains": "zebra"}}):
        found = await verdict(predicate, cut)
        assert found.outcome is E
        assert "cut short" in found.reason


async def test_elements_that_were_acted_on_and_not_observed_are_missing() -> None:
    trajectory = episode(taken=[(actions.Click("4"), None)])
    found = await verdict({"last_action": {"verb": "click", "name": "Buy"}}, trajectory)
    assert found.outcome is E
    assert "last_action" in found.reason


async def test_what_was_before_the_first_observation_is_not_known() -> None:
    nothing: dict = {"answered": False}
    for _ in range(4):
        nothing = {"before": nothing}
    found = await verdict(nothing)
    assert (found.outcome, "nothing before the last action" in found.reason) == (E, True)
    assert (await verdict({"any": [nothing, {"steps_at_most": 3}]})).outcome is S


async def test_a_reward_that_is_no_number_is_a_judge_error() -> None:
    found = await verdict({"reward_at_least": 0}, episode(reward=None))
    assert (found.outcome, "no step has a reward" in found.reason) == (Outcome.JUDGE_ERROR, True)
    found = await verdict({"reward_at_least": 1}, episode(reward=np.nan))
    assert found.outcome is E


@each(
    ("blocked", "success", "failure", "outcome"),
    [
        (True, True, False, B),
        (False, True, False, S),
        (False, False, True, F),
        (False, True, True, E),
        (False, False, False, E),
        (None, True, False, E),
        (False, True, None, E),
    ],
)
async def test_three_predicates_must_not_contradict_each_other(
    blocked, success, failure, outcome
) -> None:
    said = {True: {"answered": False}, False: {"answered": True}, None: {"title": "x"}}
    found = await verdict(
        said[success],
        episode(page={"title": None}),
        failure=said[failure],
        blocked=said[blocked],
    )
    assert found.outcome is outcome


async def test_a_rule_is_found_by_its_task() -> None:
    judge = RuleJudge(
        make_rules(
            [
                {"tasks": "shop/buy", "success": {"answered": False}},
                {"tasks": ["shop/*", "other"], "success": {"answered": True}},
            ]
        )
    )
    outcomes = [
        (await judge.judge(episode(task=task))).outcome for task in ("shop/buy", "shop/x", "news")
    ]
    assert outcomes == [S, F, U]
    unknown = await judge.judge(episode(task="news"))
    assert "'news'" in unknown.reason
    assert with_judgement(episode(task="news"), unknown).outcome is U


async def test_words_of_the_goal_stand_in_predicates() -> None:
    goal = 'Buy "{thing}" for {name}.'
    assert (await verdict({"text": {"contains": "{thing}"}}, goal=goal)).outcome is S
    assert (await verdict({"element": {"value": "{name}"}}, goal=goal)).outcome is S
    assert (await verdict({"text": {"contains": "{name}"}}, goal=goal)).outcome is F
    found = await verdict({"text": {"contains": "{thing}"}}, episode(goal="Sell it."), goal=goal)
    assert found.outcome is E
    assert "'Sell it.'" in found.reason
    number = await verdict({"text": {"number": "{thing}"}}, goal=goal)
    assert number.outcome is E


async def test_a_task_brings_its_own_rule() -> None:
    rule = {"success": {"answered": False}}
    own = episode(metadata={"task": {"name": "a", "metadata": {"rule": rule}}})
    assert (await RuleJudge().judge(own)).outcome is S
    wrong = episode(metadata={"task": {"name": "a", "metadata": {"rule": {"succes": 1}}}})
    found = await RuleJudge(make_rules([rule])).judge(wrong)
    assert found.outcome is E
    assert "succes" in found.reason


@pytest.mark.slow
async def test_a_regex_that_takes_for_ever_is_a_judge_error() -> None:
    slow = episode(page={"text": "a" * 5000 + "!"})
    found = await verdict({"text": {"matches": "(a|aa)+$"}}, slow)
    assert found.outcome is E
    assert "too slow" in found.reason


def test_the_version_changes_with_the_rules() -> None:
    one, other = (RuleJudge(make_rules([{"success": {"answer": text}}])) for text in "ab")
    again = RuleJudge(make_rules([{"success": {"answer": "a"}}]))
    assert one.version == again.version != other.version


@each(
    ("rule", "told"),
    [
        ({}, "0.success: is missing"),
        ({"success": {}}, "a predicate has one key of"),
        ({"success": {"url": "a", "title": "b"}}, "this has 2"),
        (
            {"success": {"titel": "b"}},
            "0.success.titel: is unknown, did you mean title?; the keys are all, any",
        ),
        (
            {"success": {"not": {"element": {"nam": "b"}}}},
            "did you mean name?; the keys are role, name",
        ),
        (
            {"success": {"any": [{"url": {"paht": "b"}}]}},
            "0.success.any.0.url.paht: is unknown, did",
        ),
        ({"success": {"zzz": 1}}, "0.success.zzz: is unknown; the keys are all, any, not, before"),
        ({"task": "a", "success": {"answered": True}}, "0.task: is unknown, did you mean tasks?"),
        ({"tasks": [], "success": {"answered": True}}, "0.tasks: names no task"),
        ({"tasks": ["a", ""], "success": {"answered": True}}, "0.tasks: names no task"),
        ({"success": {"title": {}}}, "0.success.title: expected one of equals"),
        (
            {"success": {"title": 3}},
            "0.success.title: expected a text or a mapping with keys of equals",
        ),
        ({"success": {"element": 3}}, "0.success.element: expected a mapping with keys of role"),
        ({"success": {"title": " "}}, "the text is blank"),
        ({"success": {"title": {"contains": ""}}}, "the text is blank"),
        ({"success": {"text": {"matches": "("}}}, "invalid regex"),
        ({"success": {"text": {"matches": "x" * 2000}}}, "at most 1000"),
        ({"success": {"text": {"number": float("nan")}}}, "number must be finite"),
        ({"success": {"text": {"within": 1}}}, "within needs number; give both"),
        ({"success": {"answer": "{who}"}}, "{who} is not a name in the goal; the goal has none"),
        ({"success": {"answer": "{who}"}, "goal": "Find {it}."}, "the goal has it"),
        ({"success": {"answer": "a"}, "goal": "{a}{b}"}, "two names side by side"),
        ({"success": {"all": []}}, "0.success.all: is empty"),
        ({"success": {"answered": "yes"}}, "valid boolean"),
        ({"success": {"steps_at_most": -1}}, "greater than or equal to 0"),
        (
            {"success": {"answered": True}, "when": 1},
            "0.when: is unknown; the keys are tasks, goal",
        ),
    ],
)
def test_wrong_rules_are_refused_by_place(rule, told) -> None:
    with pytest.raises(errors.InvalidInputError) as refused:
        make_rules([rule], "'shop.yaml'")
    assert "'shop.yaml' are not valid rules" in str(refused.value)
    assert told in str(refused.value)


def test_deep_rules_are_refused() -> None:
    deep: dict = {"answered": True}
    for _ in range(30):
        deep = {"not": deep}
    with pytest.raises(errors.InvalidInputError, match="more than 20"):
        make_rules([{"success": deep}])


@each(
    ("name", "content", "told"),
    [
        ("a.txt", "", "expected a name ending in .json"),
        ("a.json", "{", "cannot be read as rules"),
        ("a.json", '{"rules": [], "rules": []}', "the key 'rules' is duplicated"),
        ("a.json", '{"rule": []}', "the one key 'rules'"),
        ("a.json", "[" * 100_000, "cannot be read as rules"),
        ("a.yaml", "rules: [", "cannot be read as rules"),
        ("a.yaml", "a: &a [1]\nb: *a", "aliases are not supported"),
        ("a.yaml", "rules: []\nrules: []", "the key 'rules' is duplicated"),
        ("a.yaml", "rules: !!python/object/apply:os.getcwd []", "cannot be read as rules"),
        ("a.yaml", "rules: 3", "expected a list; got 3"),
        ("a.yaml", "rules: []", "rules: is empty; expected one or more"),
        ("b.yaml", "rule: []\nmore: 1", "holds the keys rule, more"),
        ("c.yaml", "- 1", "holds no mapping"),
        ("none.yaml", None, "No file of"),
    ],
)
def test_files_that_hold_no_rules_are_refused(name, content, told, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(errors.InvalidInputError, match=r"(?s).*") as refused:
        read_rules(tmp_path / name)
    assert told in str(refused.value)
    assert name in str(refused.value)


def test_json_and_yaml_are_the_same(tmp_path: Path) -> None:
    source = Path(__file__).with_name("rules.yaml")
    rules = read_rules(source)
    data = {"rules": [rule.model_dump(by_alias=True, exclude_none=True) for rule in rules]}
    (tmp_path / "rules.json").write_text(json.dumps(data))
    assert RuleJudge(tmp_path / "rules.json").version == RuleJudge(source).version


@each(
    ("template", "goal", "found"),
    [
        ("Log out.", "Log  out.", {}),
        ("Log out.", "Log in.", None),
        ("{a} and {b}", "x and y and z", {"a": "x", "b": "y and z"}),
        ("{a}.", "x.y.", {"a": "x.y"}),
        ("a {b} a", "a a", None),
        ("{_}: {x}", "any: 1", {"x": "1"}),
        ("{x} is {x}", "1 is 1", {"x": "1"}),
        ("{x} is {x}", "1 is 2", None),
    ],
)
def test_goals(template, goal, found) -> None:
    assert match_goal(template, goal) == found


def test_what_fits_a_template_fills_it_in() -> None:
    assert fill_in("{a} and {b}", match_goal("{a} and {b}", "x and y")) == "x and y"


FORM = (
    '[1] generic "User:"\n[2] textbox value="anna"\n[3] generic "Password"\n'
    '[4] textbox value="\u2022\u2022\u2022"\n[5] textbox "PIN" value="\u2022\u2022"'
)
TYPED = (actions.Fill("4", "Xy1"), {**touched("textbox", ""), "ref": "4"})
FIELDS = [
    ({"role": "textbox", "after": "user", "value": "anna"}, S),
    ({"after": {"equals": "User"}}, S),
    ({"after": "Password", "value": {"equals": "Xy1"}}, S),
    ({"after": "Password", "value": "\u2022\u2022\u2022"}, S),
    ({"after": "Password", "value": "other"}, F),
    ({"after": "User", "value": "Xy1"}, F),
    ({"after": "Name"}, F),
    ({"role": "generic", "after": "User"}, F),
    ({"name": "PIN", "value": "12"}, E),
    ({"name": "PIN", "value": "\u2022\u2022"}, S),
    ({"role": "textbox", "value": "Xy1"}, S),
    ({"role": "textbox", "value": "12"}, E),
]


@each(("element", "outcome"), FIELDS)
async def test_field_is_told_by_the_text_before_it_and_a_password_by_what_was_typed(
    element, outcome
) -> None:
    # Fields can be typed into from the first page on; so what it shows is what they hold.
    begun = episode(page={"axtree": FORM.replace("\u2022", "")}, taken=[TYPED])
    steps = [*begun.steps[:-1], dataclasses.replace(begun.steps[-1], observation={
        **begun.steps[-1].observation, "axtree": FORM,
    })]  # fmt: skip
    judge = RuleJudge(make_rules([{"success": {"element": element}}]))
    found = await judge.judge(dataclasses.replace(begun, steps=tuple(steps)))
    assert found.outcome is outcome
    if outcome is E:
        assert "bullets" in found.reason
