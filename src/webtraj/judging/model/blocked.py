"""Whether the site kept the agent from its task, for good."""

from __future__ import annotations

from webtraj.judging.model.case import Case, Question, spread

__all__ = ["blocked_questions"]


def blocked_questions(case: Case) -> tuple[Question, ...]:
    """Returns the one question, or none if the settings do not want it."""
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
