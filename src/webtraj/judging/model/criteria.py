"""The criteria that make a success, in the order in which they are judged.

1. `answer`: what the final answer claims was seen, if there is an answer.
2. `facts`: each fact of the task; `goal`, the task as a whole, if it has no facts.
3. `reference`: the final answer says the same as the reference answer, if there is one.
"""

from __future__ import annotations

from webtraj.judging.model.case import Case, Question

__all__ = ["NO_ANSWER", "criteria"]

NO_ANSWER = "The task has a reference answer, and the agent gave none."
"""Why an episode fails without that a model is asked."""


def criteria(case: Case, pictures: tuple[int, ...]) -> tuple[Question, ...]:
    """Returns what is asked, in order.

    Args:
        case: What there is to judge.
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
