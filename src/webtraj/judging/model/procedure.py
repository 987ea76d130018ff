"""The way from a case to its outcome, as a generator: questions come out, answers go in.

It does no I/O and asks no model itself. So what a judge does, what asking again does, and what
recomputing from a stored transcript does, is this one procedure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

from webtraj.judging.model import blocked, criteria, keyframes
from webtraj.judging.model.case import Answered, Case, Question
from webtraj.trajectory import Outcome

__all__ = ["Examination", "Examined", "examine"]


@dataclasses.dataclass(frozen=True, slots=True)
class Examined:
    """What came of a case."""

    outcome: Outcome
    reason: str
    findings: dict[str, Any]
    """What was found on the way, as JSON data."""


Examination = Generator[tuple[Question, ...], Sequence[Answered], Examined]
"""Yields questions that may be asked at the same time; takes their answers, in order."""


def examine(case: Case) -> Examination:
    """Examines a case.

    * SUCCESS: every criterion was met.
    * FAILURE: the site did not block the agent, and some criterion was definitely not met.
    * BLOCKED: the site blocked the agent.
    * JUDGE_ERROR: anything else.
    """
    about_pictures = keyframes.screenshot_questions(case)
    about_blocked = blocked.blocked_questions(case)
    first = yield (*about_pictures, *about_blocked)
    pictures = keyframes.chosen(case, first[: len(about_pictures)])
    answers = list(first[len(about_pictures) :])
    findings: dict[str, Any] = {
        "screenshots": {
            "of": list(case.pictures),
            "shown": list(pictures),
            "broken": sum(not answer.verdict for answer in first[: len(about_pictures)]),
        }
    }
    if about_blocked and (ended := _ended_by(answers[0])):
        return _examined(*ended, findings, answers)
    if case.has_reference and not case.has_answer:
        return _examined(Outcome.FAILURE, criteria.NO_ANSWER, findings, answers)
    asked = criteria.criteria(case, pictures)
    batches = [(one,) for one in asked] if case.settings.stop_at_failure else [asked]
    verdicts: list[Answered] = []
    for batch in batches:
        verdicts += yield batch
        if _is_end(verdicts[-1]):
            break
    return _examined(*_concluded(asked, verdicts), findings, [*answers, *verdicts])


def _is_end(answer: Answered) -> bool:
    # What was not decided ends nothing, as long as models answer: a later criterion may still fail
    # for certain.
    lost = not answer.verdict and any(vote.lost for vote in answer.votes)
    return answer.verdict == "failure" or lost


def _ended_by(blocked_answer: Answered) -> tuple[Outcome, str] | None:
    """Returns the end of the examination, unless the site was open."""
    match blocked_answer.verdict:
        case "open":
            return None
        case "blocked":
            return Outcome.BLOCKED, blocked_answer.reason
    return Outcome.JUDGE_ERROR, _undecided(blocked_answer)


def _concluded(asked: Sequence[Question], verdicts: Sequence[Answered]) -> tuple[Outcome, str]:
    failed = [answer for answer in verdicts if answer.verdict == "failure"]
    if failed:
        return Outcome.FAILURE, f"{failed[0].question.key}: {failed[0].reason}"
    undecided = [answer for answer in verdicts if answer.verdict != "success"]
    if undecided:
        return Outcome.JUDGE_ERROR, _undecided(undecided[0])
    if not asked or [answer.question for answer in verdicts] != list(asked):
        return Outcome.JUDGE_ERROR, "Not every criterion was judged."
    return Outcome.SUCCESS, f"{verdicts[-1].question.key}: {verdicts[-1].reason}"


def _undecided(answer: Answered) -> str:
    said = "unclear: " * (answer.verdict == "unclear")
    return f"{answer.question.key} was not decided: {said}{answer.reason}"


def _examined(
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
