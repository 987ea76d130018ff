"""`judge`: which episodes are judged, and what is on record of it."""

import json

import pytest
from made_episodes import episode, finish, only

from webtraj import Outcome, errors
from webtraj.judging.base import with_judgement
from webtraj.processing.base import Changed, Drop
from webtraj.processing.steps.judge import JudgeStep
from webtraj.testing.assertions import assert_valid_trajectory
from webtraj.testing.model_server import FakeModelServer, Reply
from webtraj.trajectory import EndReason, Judgement


class Strict:
    """A judge that says the same of each episode, and counts them."""

    name = "strict"
    version = "3"

    def __init__(self, outcome=Outcome.FAILURE):
        self.outcome = outcome
        self.judged = []

    async def judge(self, trajectory):
        self.judged.append(trajectory.episode_id)
        return Judgement(judge=self.name, version=self.version, outcome=self.outcome, reason="so")


UNJUDGED = episode(finish(), outcome=Outcome.UNKNOWN)


async def test_judgement_is_added_and_gives_the_outcome():
    result = await JudgeStep(judge=Strict())(UNJUDGED)
    made = only(result)
    assert_valid_trajectory(made)
    assert made.outcome is Outcome.FAILURE
    assert [one.judge for one in made.end.judgements] == ["strict"]
    assert result.changes == {"judge": "strict", "version": "3", "outcome": "failure"}


async def test_nothing_is_judged_twice_by_the_same():
    judge = Strict()
    step = JudgeStep(judge=judge)
    made = only(await step(UNJUDGED))
    assert await step(made) is made
    assert judge.judged == ["e1"]
    failed = Judgement(judge="strict", version="3", outcome=Outcome.JUDGE_ERROR)
    assert only(await step(with_judgement(UNJUDGED, failed))).outcome is Outcome.FAILURE
    other = Judgement(judge="strict", version="2", outcome=Outcome.SUCCESS)
    assert only(await step(with_judgement(UNJUDGED, other))).outcome is Outcome.FAILURE


CUT_SHORT = {
    "errored": episode(finish(), reason=EndReason.ERRORED, outcome=Outcome.UNKNOWN),
    "crashed": episode(finish(), reason=EndReason.CRASHED, outcome=Outcome.UNKNOWN),
    "env error": episode(finish(), outcome=Outcome.ENV_ERROR),
    "timeout": episode(finish(), outcome=Outcome.TIMEOUT),
}


@pytest.mark.parametrize("case", CUT_SHORT)
async def test_what_was_cut_short_is_not_judged(case):
    judge = Strict()
    assert await JudgeStep(judge=judge)(CUT_SHORT[case]) is CUT_SHORT[case]
    assert not judge.judged


@pytest.mark.parametrize(
    ("outcome", "judged"),
    [(Outcome.SUCCESS, 0), (Outcome.FAILURE, 0), (Outcome.UNKNOWN, 1), (Outcome.JUDGE_ERROR, 1)],
    ids=lambda value: str(value),
)
async def test_only_those_without_an_outcome(outcome, judged):
    judge = Strict()
    await JudgeStep(judge=judge, only_unknown=True)(episode(finish(), outcome=outcome))
    assert len(judge.judged) == judged


async def test_judge_that_failed_is_on_record_or_the_episode_goes():
    judge = Strict(Outcome.JUDGE_ERROR)
    kept = only(await JudgeStep(judge=judge)(UNJUDGED))
    assert kept.outcome is Outcome.JUDGE_ERROR
    dropped = await JudgeStep(judge=judge, on_judge_error="drop")(UNJUDGED)
    assert dropped == Drop("judge failed", "so")


async def test_judges_that_ask_no_model():
    recorded = episode(finish(), outcome=Outcome.FAILURE)
    assert only(await JudgeStep(by="environment")(recorded)).outcome is Outcome.FAILURE
    unknown = only(await JudgeStep(by="environment")(UNJUDGED))
    assert unknown.end.judgements[0].outcome is Outcome.UNKNOWN
    rewarded = JudgeStep(by="environment", options={"success_reward": 0})
    assert only(await rewarded(UNJUDGED)).outcome is Outcome.SUCCESS
    assert rewarded.settings["by"] == "environment"
    assert rewarded.settings["judge_version"] == "1/success_reward=0"


async def test_judge_by_a_file_of_rules(tmp_path):
    rules = tmp_path / "rules.json"
    rule = {"tasks": "shop/*", "success": {"url": {"contains": "shop.test"}}}
    rules.write_text(json.dumps({"rules": [rule]}))
    made = only(await JudgeStep(by=f"rules:{rules}")(UNJUDGED))
    assert made.outcome is Outcome.SUCCESS
    assert made.end.judgements[0].judge == "rules"


def test_settings_name_the_judge_and_its_version():
    settings = JudgeStep(judge=Strict()).settings
    assert (settings["by"], settings["judge_version"]) == ("strict", "3")
    assert json.loads(json.dumps(settings)) == settings


VERDICTS = {
    "success": (lambda request: _verdict(request, "success"), Outcome.SUCCESS),
    "failure": (lambda request: _verdict(request, "failure"), Outcome.FAILURE),
    "empty": (lambda request: "", Outcome.JUDGE_ERROR),
    "shouted": (lambda request: "SUCCESS", Outcome.JUDGE_ERROR),
    "away": (lambda request: Reply.error(500), Outcome.JUDGE_ERROR),
}


def _verdict(request, verdict):
    verdict = "open" if '"blocked"' in json.dumps(request.json) else verdict
    return json.dumps({"reasoning": "It shows.", "verdict": verdict})


@pytest.mark.parametrize("case", VERDICTS)
async def test_model_judge_over_http(case, served):
    rule, outcome = VERDICTS[case]
    with FakeModelServer(rule) as server:
        step = JudgeStep(client=served(server), options={"check_blocked": False})
        result = await step(UNJUDGED)
    assert isinstance(result, Changed)
    made = only(result)
    assert made.outcome is outcome
    assert made.end.judgements[0].judge == "model"
    assert len(result.prompt_sha256) == 64
    assert result.model == "fake-model"
    assert step.settings["options"] == {"check_blocked": False}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "asks a model, and was given none"),
        ({"by": "nobody"}, "No judge is named 'nobody'"),
        ({"judge": Strict(), "on_judge_error": "hide"}, "on_judge_error is 'hide'"),
        ({"judge": Strict(), "only_unknown": "yes"}, "only_unknown is 'yes'"),
    ],
    ids=["no model", "no judge", "no way", "no flag"],
)
def test_bad_options_are_named(options, said):
    with pytest.raises(errors.InvalidInputError, match=said):
        JudgeStep(**options)


def test_unknown_setting_of_the_judge_is_named(served):
    raises = pytest.raises(errors.InvalidInputError, match=r"vote\b.*votes")
    with FakeModelServer() as server, raises:
        JudgeStep(client=served(server), options={"vote": 3})
