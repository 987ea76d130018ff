"""The explorer: a model agent with a list of what it has already seen and tried.

It puts the visited pages, and what was tried on the current page, before the question. Both come
from pages, so they are quoted (`webtraj.agents.models.structured_output`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents import contexts as contexts_lib
from webtraj.agents import prompts as prompts_lib
from webtraj.agents.model import ModelAgent
from webtraj.agents.model_actor import ModelActor
from webtraj.agents.models.structured_output import json_string
from webtraj.environments import base as environment_lib
from webtraj.environments.actions import dialects as dialects_lib
from webtraj.exploring.seen import CHANNELS, page_key, site_key

__all__ = ["ExplorerAgent"]

_MOST_PAGES = 40
_MOST_TRIED = 30
_LONGEST = 120


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerAgent(ModelAgent):
    """Asks a model what to try next on a site."""

    prompt: str | prompts_lib.Prompt = "explore"
    """The prompt, or what `load_prompt` takes."""

    @classmethod
    def of(cls, agent: ModelAgent) -> ExplorerAgent:
        """Return an explorer with a model agent's fields, its prompt included."""
        if isinstance(agent, cls):
            return agent
        given = {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)}
        return cls(**given)

    @property
    def channels(self) -> tuple[str, ...]:
        """The observation channels that the model and proposers need."""
        return tuple(dict.fromkeys((*self.context.channels, *CHANNELS)))

    def begin_episode(self, environment: environment_lib.Environment) -> ModelActor:
        """Return a fresh actor."""
        return _ExploringActor(self, environment)


class _ExploringActor(ModelActor):
    def __init__(self, agent: ExplorerAgent, environment: Any) -> None:
        super().__init__(agent, environment)
        self._visits: dict[str, tuple[str, int]] = {}
        """Title and number of visits of each page, in order of first visit."""
        self._tried: dict[str, dict[str, None]] = {}
        """The attempts on each page, in order."""
        self._page = ""
        self._site = ""
        self._seen = ""

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        if not isinstance(observation, Mapping) or "url" not in observation:
            raise errors.AgentError(
                "An explorer needs observations with a 'url'. Make the environment with "
                "observe=agent.channels."
            )
        self._note_page(observation)
        decision = await super().act(observation)
        self._note_try(observation, decision)
        return decision

    def _goal(self, observation: Mapping[str, Any]) -> str:
        return f"Explore the site {self._site}. {super()._goal(observation)}"

    async def _ask(
        self, conversation: contexts_lib.Conversation, dialect: dialects_lib.Dialect
    ) -> tuple[list[trajectory_lib.ModelCall], contexts_lib.Context]:
        ask = "\n\n".join(part for part in (self._seen, conversation.ask) if part)
        return await super()._ask(dataclasses.replace(conversation, ask=ask), dialect)

    def _note_page(self, observation: Mapping[str, Any]) -> None:
        url, title = str(observation["url"]), str(observation.get("title") or "")
        self._site = self._site or site_key(url)
        self._page = page_key(url)
        _, visits = self._visits.get(self._page, ("", 0))
        self._visits[self._page] = (title, visits + 1)
        pages = [
            f"- {json_string(page, _LONGEST)} {json_string(title, _LONGEST)}"
            + (f", {n} times" if n > 1 else "")
            for page, (title, n) in list(self._visits.items())[-_MOST_PAGES:]
        ]
        tried = list(self._tried.get(self._page, ()))[-_MOST_TRIED:]
        lines = [f"Pages that you have seen, {len(self._visits)} in all:", *pages]
        if tried:
            lines += ["What you have tried on this page:", *(f"- {said}" for said in tried)]
        self._seen = "\n".join(lines)

    def _note_try(self, observation: Mapping[str, Any], decision: trajectory_lib.Decision) -> None:
        if decision.parse_error:
            return
        ref = getattr(decision.action, "ref", None)
        verb = getattr(decision.action, "verb", "")
        said = f"{verb} {json_string(_element(observation, ref), _LONGEST)}" if ref else verb
        self._tried.setdefault(self._page, {})[said] = None


def _element(observation: Mapping[str, Any], ref: str) -> str:
    """Return an element's role and name, or its ref if these were not observed."""
    from webtraj.environments.browser.observation import refs_in

    for element in refs_in(str(observation.get("axtree") or "")):
        if element.ref == ref:
            return f"{element.role} {element.name}".strip()
    return ref
