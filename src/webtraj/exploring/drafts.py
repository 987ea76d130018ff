"""Checking drafts: a draft becomes a task only if its episode supports its claims.

The checks, in order; the first that fails is the reason for the rejection:

0. All text can be encoded.
1. The goal is neither empty nor too long, and does not repeat the site's description.
2. The kind is known.
3. The start page is on the site, was visited, and was not an error page.
4. There is at least one fact; none is empty, and each has evidence: steps that exist.
5. No goal and no fact names another site's URL.
6. The answer, if any, appears on a page that is evidence; an information task has an answer.

Duplicates are only known once all tasks are: `webtraj.exploring.proposals` removes them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from webtraj.environments.tasks import Fact, FactGroup, TaskSpec
from webtraj.exploring.seen import Seen, Sight, page_key
from webtraj.shown import one_line
from webtraj.trajectory import ModelCall

__all__ = [
    "Claim",
    "DUPLICATE",
    "Draft",
    "Drafts",
    "KINDS",
    "Proposer",
    "Rejection",
    "check_drafts",
    "data_of",
    "normal",
    "problem_of",
    "task_of",
]

# The proposer protocol: an episode goes in, drafts of tasks come out.
# A draft is a claim. It becomes a task only if the checks find support in the episode: the start
# page was visited, the evidence steps exist, the answer appears. So a proposer may be wrong, or
# misled by a page.

KINDS = ("information", "navigation", "modification")
"""The kinds of tasks: finding something out, getting somewhere, changing something."""


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """A fact that must hold when a task is done."""

    description: str
    evidence: tuple[int, ...] = ()
    """The indexes of the episode's steps that support it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A proposed task."""

    goal: str
    """The goal, in words."""
    start_url: str
    """The URL where it starts."""
    kind: str
    """One of `KINDS`."""
    facts: tuple[Claim, ...] = ()
    """The facts that must hold at the end, for a judge."""
    reference_answer: str = ""
    """The correct answer, if there is exactly one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rejection:
    """A proposal that did not become a task."""

    reason: str
    """The reason."""
    proposal: Any
    """The proposal as JSON data; text if it could not be parsed; None if there was none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """A proposer's result for an episode."""

    drafts: tuple[Draft, ...] = ()
    """The proposed tasks."""
    rejections: tuple[Rejection, ...] = ()
    """The parts of the reply that it could not parse or refused to propose."""
    model_calls: tuple[ModelCall, ...] = ()
    """All model calls, in order, failed ones included."""


class Proposer(Protocol):
    """Proposes tasks. Concurrent tasks share one proposer."""

    @property
    def name(self) -> str:
        """The name in files and records: letters, digits and `-`."""

    @property
    def version(self) -> str:
        """The version; change it when the behaviour changes."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings, as JSON data. No secrets."""

    @property
    def model(self) -> str:
        """The model's name; empty if it asks none."""

    @property
    def prompt_sha256(self) -> str:
        """The SHA-256 of its prompt's text; empty if it has none."""

    async def propose(self, seen: Seen, limit: int) -> Drafts:
        """Return up to `limit` drafts for an episode.

        Raises:
            ModelError: The model gave no reply. The episode can be retried later.
        """


DUPLICATE = "the same goal was proposed before"

_LONGEST_GOAL = 500
_LONGEST_FACT = 500
_LONGEST_ANSWER = 300
_MOST_FACTS = 20
_NO_WORD = re.compile(r"[^\w]+")
_URL = re.compile(r"https?://[^\s\"'<>)\]]+", re.IGNORECASE)
_ESCAPED = re.compile(r'\\(["\\/])')


def normal(text: str) -> str:
    """Return a normalized text, equal for texts with the same words.

    >>> normal("Open the  Cart!") == normal("open the cart")
    True
    """
    return _NO_WORD.sub(" ", text.casefold()).strip()


def problem_of(draft: Draft, seen: Seen) -> str:
    """Return why a draft cannot become a task; empty if it can."""
    return next(_problems(draft, seen), "")


def check_drafts(
    drafts: tuple[Draft, ...], seen: Seen, *, limit: int, provenance: Mapping[str, Any]
) -> tuple[tuple[TaskSpec, ...], tuple[Rejection, ...]]:
    """Return the tasks made from drafts, and the rejections.

    Args:
        drafts: Drafts for one episode.
        seen: The episode's pages.
        limit: The maximum number of tasks.
        provenance: The origin to record in each task, besides the episode and the steps.
    """
    tasks: dict[str, TaskSpec] = {}
    rejections: list[Rejection] = []
    for draft in drafts:
        problem = problem_of(draft, seen)
        if not problem and normal(draft.goal) in tasks:
            problem = DUPLICATE
        if not problem and len(tasks) >= limit:
            problem = f"more than the {limit} that were asked for"
        if problem:
            rejections.append(Rejection(problem, data_of(draft)))
        else:
            tasks[normal(draft.goal)] = task_of(draft, seen, provenance)
    return tuple(tasks.values()), tuple(rejections)


def task_of(draft: Draft, seen: Seen, provenance: Mapping[str, Any]) -> TaskSpec:
    """Return the task made from a valid draft.

    The task starts at the visited URL. Its name depends only on that URL and the goal, so every
    episode gives it the same name.
    """
    goal = one_line(draft.goal)
    digest = hashlib.sha256(f"{normal(goal)}\0{page_key(draft.start_url)}".encode()).hexdigest()
    return TaskSpec(
        name=f"proposed-{digest[:16]}",
        goal=goal,
        start_url=next(sight.url for sight in _visits(draft, seen) if sight.is_sound),
        site=seen.site,
        difficulty=len(draft.facts),
        facts=tuple(FactGroup((Fact(one_line(fact.description)),)) for fact in draft.facts),
        reference_answer=one_line(draft.reference_answer),
        metadata={
            "kind": draft.kind,
            "provenance": {
                "episode_id": seen.episode_id,
                "explored": seen.task,
                "steps": _steps(draft),
                "evidence": [sorted(set(fact.evidence)) for fact in draft.facts],
                **provenance,
            },
        },
    )


def _problems(draft: Draft, seen: Seen) -> Iterator[str]:
    """Yield the reasons against a draft. Each check may rely on the earlier ones."""
    texts = [draft.goal, draft.reference_answer, *(fact.description for fact in draft.facts)]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        yield "it holds half a character, which no file can hold"
    if not normal(draft.goal):
        yield "goal: it is empty"
    if len(draft.goal) > _LONGEST_GOAL:
        yield f"goal: longer than {_LONGEST_GOAL} characters"
    if normal(draft.goal) == normal(seen.goal):
        yield "goal: it is the description that was explored by"
    if draft.kind not in KINDS:
        yield f"kind: expected one of {', '.join(KINDS)}"
    if not seen.is_inside(draft.start_url):
        yield f"start_url: not a page of {seen.site}"
    visits = _visits(draft, seen)
    if not visits:
        yield "start_url: a page that was not visited"
    if not any(sight.is_sound for sight in visits):
        yield "start_url: a page with an error"
    if not draft.facts:
        yield "facts: there is none"
    if len(draft.facts) > _MOST_FACTS:
        yield f"facts: more than {_MOST_FACTS}"
    for fact in draft.facts:
        if not normal(fact.description) or len(fact.description) > _LONGEST_FACT:
            yield f"facts: one is empty, or longer than {_LONGEST_FACT} characters"
        if not fact.evidence:
            yield "facts: one has no evidence"
        for index in fact.evidence:
            sight = seen.at(index)
            if sight is None:
                yield f"evidence: there is no step {index}"
            elif not seen.is_inside(sight.url):
                yield f"evidence: step {index} was on another site"
    if not all(seen.is_inside(url) for text in texts for url in _URL.findall(text)):
        yield "it names a URL of another site"
    answer = one_line(draft.reference_answer)
    if not answer and draft.kind == "information":
        yield "reference_answer: a task about information needs one"
    if len(answer) > _LONGEST_ANSWER:
        yield f"reference_answer: longer than {_LONGEST_ANSWER} characters"
    pages = (sight for index in _steps(draft) if (sight := seen.at(index)) is not None)
    if answer and not any(_stands_on(answer, page) for page in pages):
        yield "reference_answer: it stands on none of the pages that are evidence"


def _visits(draft: Draft, seen: Seen) -> list[Sight]:
    start = page_key(draft.start_url)
    return [sight for sight in seen.sights if page_key(sight.url) == start]


def _stands_on(answer: str, page: Sight) -> bool:
    """Return whether a page contains an answer as whole words: 5 does not match 15 or 2.5."""
    text = one_line(_ESCAPED.sub(r"\1", f"{page.title}\n{page.axtree}")).casefold()
    wanted = re.escape(answer.casefold())
    return re.search(rf"(?<!\w)(?<!\d[.,]){wanted}(?!\w|[.,]\d)", text) is not None


def _steps(draft: Draft) -> list[int]:
    return sorted({index for fact in draft.facts for index in fact.evidence})


def data_of(draft: Draft) -> dict[str, Any]:
    """Return a draft as JSON data, as rejections keep it."""
    data = dataclasses.asdict(draft)
    data["facts"] = [{**fact, "evidence": list(fact["evidence"])} for fact in data["facts"]]
    return data
