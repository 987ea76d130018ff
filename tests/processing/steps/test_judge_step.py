"""`judge`: which episodes are judged, and what is on record of it."""

import dataclasses
import json

import pytest
from made_episodes import episode, finish, only

from rows import each
from webtraj import Outcome, errors, open_dataset
from webtraj.datasets.writer import DatasetWriter
from webtraj.judging.base import unwrap_judgement, with_judgement
from webtraj.processing.base import Changed, Drop
from webtraj.processing.pipeline import Pipeline, process
from webtraj.processing.steps.judge import JudgeStep
from webtraj.testing.assertions import assert_valid_trajectory
from webtraj.testing.model_server import FakeModelServer, Reply
from webtraj.trajectory import EndReason, Judgement, ModelCall


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


@each("case", CUT_SHORT)
async def test_what_was_cut_short_is_not_judged(case):
    judge = Strict()
    assert await JudgeStep(judge=judge)(CUT_SHORT[case]) is CUT_SHORT[case]
    assert not judge.judged


@each(
    ("outcome", "judged"),
    [(Outcome.SUCCESS, 0), (Outcome.FAILURE, 0), (Outcome.UNKNOWN, 1), (Outcome.JUDGE_ERROR, 1)],
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


LOST = ModelCall(model="m", provider="vllm", error="No answer from the server.")
REPLIED = ModelCall(model="m", provider="vllm", text="Perhaps.", finish_reason="stop")
UNDECIDED = {
    "the last call failed": ((REPLIED, LOST), {}, True),
    "the last call brought a reply": ((LOST, REPLIED), {}, False),
    "the judge says that it was answered": ((LOST,), {"unanswered": []}, False),
    "the judge says that it was not": ((LOST, REPLIED), {"unanswered": ["goal"]}, True),
    "no model was asked": ((), {}, False),
}


@each("case", UNDECIDED)
async def test_what_no_model_replied_to_is_a_failure_of_the_step(case):
    calls, findings, fails = UNDECIDED[case]

    class Asking(Strict):
        async def judge(self, trajectory):
            found = await super().judge(trajectory)
            return dataclasses.replace(found, model_calls=calls, findings=findings)

    step = JudgeStep(judge=Asking(Outcome.JUDGE_ERROR))
    if fails:
        with pytest.raises(errors.ModelError, match=r"The judge 'strict' got no reply .* so"):
            await step(UNJUDGED)
        # Where a verdict was found all the same, it counts.
        assert only(await JudgeStep(judge=Asking())(UNJUDGED)).outcome is Outcome.FAILURE
    else:
        assert only(await step(UNJUDGED)).outcome is Outcome.JUDGE_ERROR
    kept = await JudgeStep(judge=Asking(Outcome.JUDGE_ERROR), on_judge_error="keep")(UNJUDGED)
    assert only(kept).outcome is Outcome.JUDGE_ERROR
    assert kept.model == ("vllm/m" if calls else "")


async def test_model_that_goes_away_and_comes_back_loses_no_episode(tmp_path, served):
    """Those judged while it was away fail, are written by the next run, and by none twice."""
    originals = tmp_path / "originals"
    with DatasetWriter(originals) as writer:
        for number in range(8):
            info = dataclasses.replace(UNJUDGED.info, episode_id=f"e{number}")
            writer.add(dataclasses.replace(UNJUDGED, info=info))
    state = {"left": 3}

    def rule(request):
        if state["left"] == 0:
            return Reply.error(503)
        state["left"] -= 1
        return _verdict(request, "success")

    options = {"check_blocked": False, "check_answer": False}
    out = tmp_path / "out"
    with FakeModelServer(rule) as server:
        pipeline = Pipeline([JudgeStep(client=served(server), options=options)])
        first = await process(originals, out, pipeline, parallel=1)
        assert (first.outputs, len(first.failures)) == (3, 5)
        assert len(open_dataset(out)) == 3
        # While it is away, the run's patience ends, and nothing is written.
        with pytest.raises(errors.ProcessingStoppedError, match="got no reply of its model"):
            await process(originals, out, pipeline, parallel=1, patience=2)
        assert len(open_dataset(out)) == 3
        state["left"] = 1000
        second = await process(originals, out, pipeline, parallel=1)
        asked = len(server.requests)
        third = await process(originals, out, pipeline, parallel=1)
        assert len(server.requests) == asked
    assert (second.outputs, second.failures, second.now) == (8, (), 5)
    assert (third.outputs, third.failures, third.now) == (8, (), 0)
    made = list(open_dataset(out))
    assert sorted(one.info.episode_id for one in made) == [f"e{number}" for number in range(8)]
    assert {one.outcome for one in made} == {Outcome.SUCCESS}
    assert all(len(one.end.judgements) == 1 for one in made)


async def test_judge_by_a_file_of_rules(tmp_path):
    rules = tmp_path / "rules.json"
    rule = {"tasks": "shop/*", "success": {"url": {"contains": "shop.test"}}}
    rules.write_text(json.dumps({"rules": [rule]}))
    made = only(await JudgeStep(by=f"rules:{rules}")(UNJUDGED))
    assert made.outcome is Outcome.SUCCESS
    assert made.end.judgements[0].judge == "rules"


RULED = {"name": "shop/tea", "metadata": {"rule": {"success": {"answer": "done"}}}}
IN_TURN = {
    "the environment's failure": ({"outcome": Outcome.FAILURE}, Outcome.FAILURE, "environment"),
    "before the rule": (
        {"outcome": Outcome.FAILURE, "metadata": {"task": RULED}}, Outcome.FAILURE, "environment",
    ),
    "the task's own rule": (
        {"outcome": Outcome.UNKNOWN, "metadata": {"task": RULED}}, Outcome.SUCCESS, "rules",
    ),
    "nobody": ({"outcome": Outcome.UNKNOWN}, Outcome.UNKNOWN, ""),
}  # fmt: skip


@each("case", IN_TURN)
async def test_judges_in_turn(case):
    options, outcome, by = IN_TURN[case]
    step = JudgeStep(by=["environment", "rules"])
    made = only(await step(episode(finish(), **options)))
    (judgement,) = made.end.judgements
    assert (judgement.outcome, judgement.findings["by"]) == (outcome, by)
    assert (judgement.judge, step.settings["by"]) == ("environment+rules", ["environment", "rules"])
    assert unwrap_judgement(judgement).judge == (by or "environment+rules")
    assert outcome is Outcome.UNKNOWN or await step(made) is made


async def test_model_is_asked_where_the_others_know_nothing(served):
    with FakeModelServer(lambda request: _verdict(request, "success")) as server:
        client = served(server)
        options = {"check_blocked": False, "check_answer": False, "success_reward": 1.0}
        step = JudgeStep(by=("environment", "model"), client=client, options=options)
        assert step.settings["model"] == client.name
        rewarded = only(await step(episode(finish(reward=1.0), outcome=Outcome.UNKNOWN)))
        assert (rewarded.outcome, len(server.requests)) == (Outcome.SUCCESS, 0)
        known = only(await JudgeStep(by=("rules", "model"), client=client)(UNJUDGED))
        assert (known.outcome, len(server.requests) > 0) == (Outcome.SUCCESS, True)
    (judgement,) = known.end.judgements
    assert unwrap_judgement(judgement).judge == "model"
    assert unwrap_judgement(judgement).version == judgement.version.partition("+")[2]


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


@each("case", VERDICTS)
async def test_model_judge_over_http(case, served):
    rule, outcome = VERDICTS[case]
    with FakeModelServer(rule) as server:
        client = served(server)
        options = {"check_blocked": False}
        step = JudgeStep(client=client, options=options, on_judge_error="keep")
        result = await step(UNJUDGED)
    assert isinstance(result, Changed)
    made = only(result)
    assert made.outcome is outcome
    assert made.end.judgements[0].judge == "model"
    assert len(result.prompt_sha256) == 64
    assert result.model == client.name
    assert step.settings["options"] == {"check_blocked": False}


@each(
    ("options", "said"),
    [
        ({}, "needs a model"),
        ({"by": "nobody"}, "No judge is named 'nobody'"),
        ({"by": ["environment", "nobody"]}, "No judge is named 'nobody'"),
        ({"by": ["environment", "model"]}, "needs a model"),
        ({"by": []}, r"by is \[\]"),
        ({"by": 7}, "by is 7"),
        ({"judge": Strict(), "on_judge_error": "hide"}, "on_judge_error is 'hide'"),
        ({"judge": Strict(), "only_unknown": "yes"}, "only_unknown is 'yes'"),
    ],
)
def test_bad_options_are_named(options, said):
    with pytest.raises(errors.InvalidInputError, match=said):
        JudgeStep(**options)
