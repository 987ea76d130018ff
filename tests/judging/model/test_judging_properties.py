"""Rules that hold for every case, every run of verdicts, and every recorded episode."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from webtraj.judging.model import JudgeSettings
from webtraj.judging.model.case import Answered, Case, Vote
from webtraj.judging.model.evidence import Composer, gather
from webtraj.judging.model.procedure import examine
from webtraj.judging.model.prompts import load_prompts
from webtraj.testing import strategies
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

WORDS = load_prompts().words
CASES = st.builds(
    Case,
    settings=st.builds(
        JudgeSettings,
        votes=st.integers(1, 4),
        select_above=st.integers(0, 4),
        max_screenshots=st.integers(1, 4),
        blocked_screenshots=st.integers(1, 4),
        check_blocked=st.booleans(),
        check_answer=st.booleans(),
        stop_at_failure=st.booleans(),
    ),
    pictures=st.sets(st.integers(0, 30), max_size=6).map(sorted).map(tuple),
    facts=st.lists(st.text(max_size=3), max_size=3).map(tuple),
    has_answer=st.booleans(),
    has_reference=st.booleans(),
)


def play(case, votes_on):
    """Returns what came of a case, and all answers that were given."""
    examination = examine(case)
    given_answers = []
    try:
        questions = next(examination)
        while True:
            answers = [Answered(question, votes_on(question)) for question in questions]
            given_answers += answers
            questions = examination.send(answers)
    except StopIteration as stop:
        return stop.value, given_answers


@given(CASES, st.data())
def test_success_is_said_only_where_every_criterion_was_met(case, data) -> None:
    def votes_on(question):
        likely = WORDS[question.prompt][0 if question.stage != "blocked" else 1]
        words = st.sampled_from([likely, likely, likely, *WORDS[question.prompt], ""])
        return tuple(
            Vote(word, "why", lost=not word and data.draw(st.booleans()))
            for word in data.draw(st.lists(words, min_size=question.votes, max_size=question.votes))
        )

    examined, answers = play(case, votes_on)
    verdicts = {answer.question.key: answer.verdict for answer in answers}
    criteria = {
        key: verdict
        for key, verdict in verdicts.items()
        if key.partition("/")[0] not in ("screenshot", "blocked")
    }
    needed = [f"fact/{number}" for number in range(len(case.facts))] or ["goal"]
    needed += ["answer"] * (case.has_answer and case.settings.check_answer)
    needed += ["reference"] * case.has_reference
    was_open = verdicts.get("blocked", "open") == "open"
    met = all(criteria.get(key) == "success" for key in needed)
    unanswered = case.has_reference and not case.has_answer
    expected = Outcome.JUDGE_ERROR
    if verdicts.get("blocked") == "blocked":
        expected = Outcome.BLOCKED
    elif was_open and (unanswered or "failure" in criteria.values()):
        expected = Outcome.FAILURE
    elif was_open and met:
        expected = Outcome.SUCCESS
    assert examined.outcome is expected
    assert Case.from_data(case.to_data()) == case
    shown = examined.findings["screenshots"]["shown"]
    assert shown[-1:] == list(case.pictures[-1:])  # The last one is always shown.
    assert len(shown) <= case.settings.max_screenshots


@given(CASES, st.data())
def test_judging_all_at_once_finds_the_same(case, data) -> None:
    drawn = {}

    def votes_on(question):
        words = st.sampled_from([*WORDS[question.prompt], ""])
        if question.key not in drawn:
            drawn[question.key] = (Vote(data.draw(words)),) * question.votes
        return drawn[question.key]

    def examined(*, stop_at_failure):
        varied = dataclasses.replace(case.settings, stop_at_failure=stop_at_failure)
        return play(dataclasses.replace(case, settings=varied), votes_on)[0].outcome

    assert examined(stop_at_failure=True) is examined(stop_at_failure=False)


CHANNELS = ("goal", "url", "title", "axtree", "text", "screenshot", "set_of_marks", "last_action",
            "dialogs", "http_status")  # fmt: skip


@settings(max_examples=25)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(CHANNELS), strategies.values(), max_size=4), max_size=3
    ),
    st.one_of(st.none(), strategies.values()),
    strategies.values(),
)
def test_any_recorded_episode_can_be_shown(observations, task, action) -> None:
    steps = tuple(
        StepRecord(index, StepType.MID, observation, action)
        for index, observation in enumerate(observations)
    )
    end = EpisodeEnd(reason=EndReason.TRUNCATED, detail="as any")
    info = EpisodeInfo(metadata={"task": task})
    evidence = gather(EpisodeTrajectory(info, steps, end), JudgeSettings())
    Composer(evidence, load_prompts())
