"""The judging procedure as a generator: it yields questions and receives answers.

It does no I/O and asks no model itself, so judging, rerunning and replaying a stored transcript all
share it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

from webtraj.judging.model.case import Answered, Case, Question, spread
from webtraj.trajectory import Outcome

__all__ = [
    "Examination",
    "Examined",
    "NO_ANSWER",
    "blocked_questions",
    "choose_steps",
    "criteria",
    "examine",
    "screenshot_questions",
]

# Whether the site blocked the agent for good.


def blocked_questions(case: Case) -> tuple[Question, ...]:
    """Return the question whether the site blocked the agent; empty if that is turned off."""
    if not case.settings.check_blocked:
        return ()
    return (
        Question(
            key="blocked",
            stage="blocked",
            prompt="blocked",
            pictures=spread(case.pictures, case.settings.blocked_screenshots),
            votes=case.settings.votes,
        ),
    )


# The criteria of success, in the order of judging.
# 1. `answer`: the evidence shows what the final answer claims, if there is an answer.
# 2. `facts`: each fact of the task holds; without facts, `goal`: the task as a whole was done.
# 3. `reference`: the final answer matches the reference answer, if there is one.

NO_ANSWER = "The task has a reference answer, and the agent gave none."
"""The reason when an episode fails without asking a model."""


def criteria(case: Case, pictures: tuple[int, ...]) -> tuple[Question, ...]:
    """Return the questions of the criteria, in order.

    Args:
        case: The case to judge.
        pictures: The indexes of the steps whose pictures are shown.
    """
    votes = case.settings.votes

    def question(key: str, stage: str, prompt: str, criterion: int | None = None) -> Question:
        return Question(
            key=key,
            stage=stage,
            prompt=prompt,
            pictures=pictures,
            votes=votes,
            criterion=criterion,
        )

    asked = []
    if case.has_answer and case.settings.check_answer:
        asked.append(question("answer", "answer", "answer"))
    asked += [question(f"fact/{n}", "facts", "fact", n) for n in range(len(case.facts))]
    if not case.facts:
        asked.append(question("goal", "goal", "goal"))
    if case.has_reference:
        asked.append(question("reference", "reference", "reference"))
    return tuple(asked)


# Choosing the screenshots that matter. The model is asked about each but the last.
# Failures here keep more evidence: a picture whose reply is broken is kept.


def screenshot_questions(case: Case) -> tuple[Question, ...]:
    """Return the questions about screenshots; empty if there are few pictures anyway."""
    if len(case.pictures) <= case.settings.select_above:
        return ()
    return tuple(
        Question(
            key=f"screenshot/{index}", stage="screenshots", prompt="screenshot", pictures=(index,)
        )
        for index in case.pictures[:-1]
    )


def choose_steps(case: Case, answers: Sequence[Answered]) -> tuple[int, ...]:
    """Return the indexes of the steps whose pictures are shown, in order.

    If there are too many, keep the last ones.
    """
    skipped = {answer.question.pictures[0] for answer in answers if answer.verdict == "skip"}
    kept = tuple(index for index in case.pictures if index not in skipped)
    return kept[-case.settings.max_screenshots :]


@dataclasses.dataclass(frozen=True, slots=True)
class Examined:
    """The result of a case."""

    outcome: Outcome
    reason: str
    findings: dict[str, Any]
    """Intermediate findings, as JSON data."""


Examination = Generator[tuple[Question, ...], Sequence[Answered], Examined]
"""A generator of questions that may be asked concurrently; it receives their answers in order."""


def examine(case: Case) -> Examination:
    """Examine a case.

    * SUCCESS: every criterion was met.
    * FAILURE: the site did not block the agent, and some criterion was definitely not met.
    * BLOCKED: the site blocked the agent.
    * JUDGE_ERROR: anything else.
    """
    about_pictures = screenshot_questions(case)
    about_blocked = blocked_questions(case)
    first = yield (*about_pictures, *about_blocked)
    pictures = choose_steps(case, first[: len(about_pictures)])
    answers = list(first[len(about_pictures) :])
    findings: dict[str, Any] = {
        "screenshots": {
            "of": list(case.pictures),
            "shown": list(pictures),
            "broken": sum(not answer.verdict for answer in first[: len(about_pictures)]),
        }
    }
    if about_blocked and (ended := _end_by(answers[0])):
        return _make_examined(*ended, findings, answers)
    if case.has_reference and not case.has_answer:
        return _make_examined(Outcome.FAILURE, NO_ANSWER, findings, answers)
    asked = criteria(case, pictures)
    batches = [(one,) for one in asked] if case.settings.stop_at_failure else [asked]
    verdicts: list[Answered] = []
    for batch in batches:
        verdicts += yield batch
        if _is_end(verdicts[-1]):
            break
    return _make_examined(*_conclude(asked, verdicts), findings, [*answers, *verdicts])


def _is_end(answer: Answered) -> bool:
    # An undecided criterion does not stop the judging while models answer: a later one may still
    # fail for certain.
    lost = not answer.verdict and any(vote.lost for vote in answer.votes)
    return answer.verdict == "failure" or lost


def _end_by(blocked_answer: Answered) -> tuple[Outcome, str] | None:
    """Return the outcome if the site blocked the agent or this is unclear; None if it was open."""
    match blocked_answer.verdict:
        case "open":
            return None
        case "blocked":
            return Outcome.BLOCKED, blocked_answer.reason
    return Outcome.JUDGE_ERROR, _describe_undecided(blocked_answer)


def _conclude(asked: Sequence[Question], verdicts: Sequence[Answered]) -> tuple[Outcome, str]:
    failed = [answer for answer in verdicts if answer.verdict == "failure"]
    if failed:
        return Outcome.FAILURE, f"{failed[0].question.key}: {failed[0].reason}"
    undecided = [answer for answer in verdicts if answer.verdict != "success"]
    if undecided:
        return Outcome.JUDGE_ERROR, _describe_undecided(undecided[0])
    if not asked or [answer.question for answer in verdicts] != list(asked):
        return Outcome.JUDGE_ERROR, "Not every criterion was judged."
    return Outcome.SUCCESS, f"{verdicts[-1].question.key}: {verdicts[-1].reason}"


def _describe_undecided(answer: Answered) -> str:
    said = "unclear: " * (answer.verdict == "unclear")
    return f"{answer.question.key} was not decided: {said}{answer.reason}"


def _make_examined(
    outcome: Outcome, reason: str, findings: dict[str, Any], answers: Sequence[Answered]
) -> Examined:
    findings["questions"] = [
        {
            "question": answer.question.key,
            "verdict": answer.verdict,
            "votes": [vote.verdict for vote in answer.votes],
            "reasons": [vote.reason for vote in answer.votes],
        }
        for answer in answers
    ]
    return Examined(outcome, reason, findings)
