"""What a proposer is: what an episode saw goes in, drafts of tasks come out.

A draft is a claim. It becomes a task only when `webtraj.exploring.checking` has found what it says
in the episode: that the page where it begins was visited, that the steps which are to prove it
exist, that its answer stands there. So a proposer may be wrong, or be lied to by a page.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from webtraj.exploring.seen import Seen
from webtraj.trajectory import ModelCall

__all__ = ["KINDS", "Claim", "Draft", "Drafts", "Proposer", "Rejection"]

KINDS = ("information", "navigation", "modification")
"""What tasks can be about: finding something out, getting somewhere, changing something."""


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """Something that has to hold when a task is done."""

    description: str
    evidence: tuple[int, ...] = ()
    """The steps, by their index in the episode, that show that it can."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A task as it was proposed."""

    goal: str
    """What to do, in words."""
    start_url: str
    """Where it begins."""
    kind: str
    """One of `KINDS`."""
    facts: tuple[Claim, ...] = ()
    """What has to hold in the end, for a judge."""
    reference_answer: str = ""
    """The answer that is right, where there is only one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rejection:
    """A proposal that became no task."""

    reason: str
    """Why."""
    proposal: Any
    """What was proposed, as JSON data; text if it could not be read; None if nothing was."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """What a proposer makes of an episode."""

    drafts: tuple[Draft, ...] = ()
    """What it proposes."""
    rejections: tuple[Rejection, ...] = ()
    """What it could not read of its model's reply, or would not propose."""
    model_calls: tuple[ModelCall, ...] = ()
    """Every question it asked a model and the reply, in order, failed ones included."""


class Proposer(Protocol):
    """Proposes tasks. Shared by tasks that run at the same time."""

    @property
    def name(self) -> str:
        """What files and records call it: letters, digits and `-`."""

    @property
    def version(self) -> str:
        """Changes with what it does."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told, as JSON data. No secrets."""

    @property
    def model(self) -> str:
        """The model that it asks; empty if it asks none."""

    @property
    def prompt_sha256(self) -> str:
        """Of its prompt's text; empty if it has none."""

    async def propose(self, seen: Seen, limit: int) -> Drafts:
        """Returns up to `limit` drafts for an episode.

        Raises:
            ModelError: Its model gave no reply. The episode is left for another time.
        """
