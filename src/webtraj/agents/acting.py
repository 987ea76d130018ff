"""A model agent's actor, which plays one episode; see `webtraj.agents.model`."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents import contexts as contexts_lib
from webtraj.agents import parsing as parsing_lib
from webtraj.agents import prompts as prompts_lib
from webtraj.agents import screens, structures
from webtraj.agents.base import seed_text
from webtraj.agents.models import replies as model_replies
from webtraj.agents.models.base import Sampling
from webtraj.environments.actions import dialects as dialects_lib
from webtraj.environments.actions.verbs import InvalidAction

if TYPE_CHECKING:
    from webtraj.agents.model import ModelAgent

__all__ = ["ModelActor"]

_LONGEST_LINE = 200


class ModelActor:
    """Decides for one episode.

    Args:
        agent: The agent, shared by all episodes.
        environment: The episode's environment, which may provide the task, seed and viewport.
    """

    def __init__(self, agent: ModelAgent, environment: Any) -> None:
        assert isinstance(agent.prompt, prompts_lib.Prompt)
        self._agent = agent
        self._prompt = agent.prompt
        self._environment = environment
        self._dialect: dialects_lib.Dialect | None = None
        self._system = ""
        self._rounds: list[contexts_lib.Round] = []
        self._forgotten = 0
        self._last: tuple[contexts_lib.Page, parsing_lib.Reply, str] | None = None
        self._memory = ""
        self._invalid_in_a_row = 0
        self._calls = 0
        self._settings = agent.context

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        """Return the model's decision.

        Raises:
            EpisodeGivenUpError: Too many replies in a row were invalid, or the context is too long
                for the model even after cutting.
            ModelError: The model did not reply.
            AgentError: The observation lacks a channel that the context needs.
        """
        page = contexts_lib.page_of(observation, self._settings)
        dialect = self._dialect or self._choose_dialect(observation, page)
        self._end_round(observation, page)
        conversation = contexts_lib.Conversation(
            system=self._system,
            goal=self._goal(observation),
            page=page,
            rounds=tuple(self._rounds),
            memory=self._memory,
            ask=self._prompt.ask,
        )
        calls, context = await self._ask(conversation, dialect)
        reply = parsing_lib.parse_call(
            calls[-1], dialect, sections=self._prompt.sections, marks=page.marks
        )
        decision = self._decision(calls, context, reply)
        self._note(page, reply, calls[-1], dialect)
        if self._invalid_in_a_row >= self._agent.max_invalid_actions:
            raise _given_up(
                f"{self._invalid_in_a_row} replies in a row were not valid actions; the last: "
                f"{reply.parse_error}",
                decision,
            )
        return decision

    async def _ask(
        self, conversation: contexts_lib.Conversation, dialect: dialects_lib.Dialect
    ) -> tuple[list[trajectory_lib.ModelCall], contexts_lib.Context]:
        """Return all calls made for one reply, the answered one last."""
        agent = self._agent
        calls: list[trajectory_lib.ModelCall] = []
        for cuts in range(agent.context.cut_harder + 1):
            context = contexts_lib.build_context(
                conversation, self._settings, count=agent.count_tokens
            )
            sampling = self._sampling(dialect, context.page)
            try:
                call = await agent.client.complete(
                    context.messages, sampling, timeout=agent.timeout
                )
            except errors.ModelError as error:
                if error.call is not None:
                    calls.append(error.call)
                tighter = self._settings.tightened()
                too_long = isinstance(error, errors.ContextOverflowError)
                failed = self._decision(calls, context)
                if not too_long:
                    error.decision = failed
                    raise
                if cuts == agent.context.cut_harder or tighter is None:
                    reason = f"the context is too long for the model, cut {cuts} times: {error}"
                    raise _given_up(reason, failed) from error
                self._settings = tighter  # Later steps need it too: they are no shorter.
            else:
                calls.append(call)
                return calls, context
        raise AssertionError("unreachable: the last round returns or raises")

    def _sampling(self, dialect: dialects_lib.Dialect, page: contexts_lib.Page) -> Sampling | None:
        agent, sampling = self._agent, self._agent.sampling
        self._calls += 1
        if agent.seed is not None:
            source = f"{seed_text(agent.seed, self._environment)}/{self._calls}"
            digest = hashlib.blake2b(source.encode(), digest_size=4).digest()
            seed = int.from_bytes(digest, "big") >> 1
            sampling = dataclasses.replace(sampling or Sampling(), seed=seed)
        if agent.enforce_actions:
            structure = structures.action_structure(
                dialect, refs=page.names, sections=self._prompt.sections
            )
            sampling = dataclasses.replace(sampling or Sampling(), structure=structure)
        return sampling

    def _decision(
        self,
        calls: list[trajectory_lib.ModelCall],
        context: contexts_lib.Context,
        reply: parsing_lib.Reply | None = None,
    ) -> trajectory_lib.Decision:
        assert self._dialect is not None
        metadata: dict[str, Any] = {
            "prompt": dict(self._prompt.reference),
            "dialect": self._dialect.name,
            "mode": self._settings.mode,
        }
        if context.cuts:
            metadata["cuts"] = [dataclasses.asdict(cut) for cut in context.cuts]
        if reply is None:
            return trajectory_lib.Decision(model_calls=tuple(calls), metadata=metadata)
        return trajectory_lib.Decision(
            action=reply.action,
            thought=reply.thought,
            memory=reply.memory,
            parse_error=reply.parse_error,
            model_calls=tuple(calls),
            metadata=metadata,
        )

    def _note(
        self,
        page: contexts_lib.Page,
        reply: parsing_lib.Reply,
        call: trajectory_lib.ModelCall,
        dialect: dialects_lib.Dialect,
    ) -> None:
        """Keep what the next step needs to know about this one."""
        shown = reply.answer
        if self._agent.context.keep_thinking:
            reasoning = model_replies.reasoning_of(call).strip()
            shown = f"<think>{reasoning}</think>\n{call.text}" if reasoning else call.text.strip()
        self._last = (page, reply, shown or _said(reply, dialect))
        self._memory = reply.memory or self._memory
        invalid = isinstance(reply.action, InvalidAction)
        self._invalid_in_a_row = self._invalid_in_a_row + 1 if invalid else 0

    def _end_round(self, observation: Any, page: contexts_lib.Page) -> None:
        """Turn the last step into a round, now that its result is visible."""
        if self._last is None:
            return
        before, reply, shown = self._last
        self._last = None
        last_action = observation.get("last_action") or {}
        assert self._dialect is not None
        if reply.parse_error:
            effect = f"no valid action: {reply.parse_error}"
            notice = f"Your last reply was not carried out. {reply.parse_error}"
        else:
            notice = ""
            error = last_action.get("error", "")
            effect = f"not done: {error}" if error else _effect(before, page)
        where = f"On {before.heading}: " if before.heading else ""
        line = _shortened(f"{where}{_said(reply, self._dialect)} -> {effect}")
        self._rounds.append(contexts_lib.Round(before, shown, line, notice))
        past = len(self._rounds) - self._settings.shown_in_full(len(self._rounds))
        for index in range(self._forgotten, past):
            # Never shown in full again, so do not keep the pictures of hundreds of episodes.
            line_only = dataclasses.replace(self._rounds[index], page=contexts_lib.Page())
            self._rounds[index] = line_only
        self._forgotten = max(self._forgotten, past)

    def _choose_dialect(self, observation: Any, page: contexts_lib.Page) -> dialects_lib.Dialect:
        chosen = self._agent.dialect
        if isinstance(chosen, str):
            viewport = self._agent.viewport or getattr(self._environment, "viewport", None)
            viewport = viewport or screens.viewport_of(observation)
            chosen = screens.dialect_for(chosen, viewport, page.image)
        self._dialect = chosen
        self._system = self._prompt.render(chosen.prompt())
        return chosen

    def _goal(self, observation: Mapping[str, Any]) -> str:
        return str(observation.get("goal") or self._described().get("goal", ""))

    def _described(self) -> Mapping[str, Any]:
        describe = getattr(self._environment, "describe_episode", None)
        return describe() if callable(describe) else {}


def _said(reply: parsing_lib.Reply, dialect: dialects_lib.Dialect) -> str:
    """Return the action in short form, as the model or the dialect writes it."""
    if isinstance(reply.action, InvalidAction):
        return _shortened(reply.action.text or "an empty reply")
    if reply.said:
        return reply.said
    try:
        return str(dialect.format(reply.action))
    except errors.UnsupportedActionError:  # A mark that became a ref can only be read.
        return repr(reply.action)


def _effect(before: contexts_lib.Page, after: contexts_lib.Page) -> str:
    same = (before.heading, before.text, before.image) == (after.heading, after.text, after.image)
    return "done; the page looks the same" if same else "done"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def _given_up(reason: str, decision: trajectory_lib.Decision) -> errors.EpisodeGivenUpError:
    error = errors.EpisodeGivenUpError(reason)
    error.decision = decision
    return error
