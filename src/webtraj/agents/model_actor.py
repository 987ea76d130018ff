"""A model agent's actor, which plays one episode; see `webtraj.agents.model`."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents import contexts as contexts_lib
from webtraj.agents import prompts as prompts_lib
from webtraj.agents import reply_parser as parsing_lib
from webtraj.agents import screens, structures
from webtraj.agents.base import make_given_up_error, seed_text
from webtraj.agents.models import replies as model_replies
from webtraj.agents.models.base import Sampling
from webtraj.environments import base as environment_lib
from webtraj.environments.actions import dialects as dialects_lib
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.verbs import (
    CursorPosition,
    InvalidAction,
    MoveMouse,
    Screenshot,
)
from webtraj.environments.browser import recorded_channels

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
        self._last: tuple[contexts_lib.Page, parsing_lib.Reply, str, tuple[Any, ...]] | None = None
        self._batch: tuple[Action, ...] = ()
        self._played: Action | None = None
        self._mouse: tuple[float, float] | None = None
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
        page, dialect = self._read_page(observation)
        if self._batch and not _error_of(observation):
            action = self._next_of_batch()
            return self._decision([], contexts_lib.Context((), page), parsing_lib.Reply(action))
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
        reply = self._parse(calls[-1], dialect, page)
        decision = self._decision(calls, context, reply)
        self._note(page, reply, calls[-1], dialect)
        checks = decision.metadata.get("safety_checks")
        if checks and not self._agent.acknowledge_safety_checks:
            raise make_given_up_error(
                "the model's provider asks a person to check its action (pending_safety_checks: "
                f"{checks}). Set acknowledge_safety_checks to go on",
                decision,
            )
        if self._invalid_in_a_row >= self._agent.max_invalid_actions:
            raise make_given_up_error(
                f"{self._invalid_in_a_row} replies in a row were not valid actions; the last: "
                f"{reply.parse_error}",
                decision,
            )
        return decision

    def remember(self, observation: Any, decision: trajectory_lib.Decision) -> None:
        """Adopt a decision that another run made at this observation.

        Later prompts show it as an earlier round: with its model's reply if that parses in this
        agent's dialect, else with the action as this dialect writes it.

        Raises:
            AgentError: The observation lacks a channel that the context needs.
        """
        page, dialect = self._read_page(observation)
        if self._batch and not decision.model_calls and not _error_of(observation):
            self._next_of_batch()
            return
        self._end_round(observation, page)
        call = decision.model_calls[-1] if decision.model_calls else trajectory_lib.ModelCall()
        reply = self._parse(call, dialect, page)
        if bool(reply.parse_error) != bool(decision.parse_error):
            call = trajectory_lib.ModelCall()
            reply = parsing_lib.Reply(decision.action, decision.thought, decision.memory)
        self._calls += 1
        self._note(page, reply, call, dialect)

    def _read_page(self, observation: Any) -> tuple[contexts_lib.Page, dialects_lib.Dialect]:
        """Return the page of an observation, and the dialect for it."""
        page = contexts_lib.page_of(observation, self._settings)
        dialect = self._dialect or self._choose_dialect(observation, page)
        return self._look_again(page, dialect, observation), dialect

    def _next_of_batch(self) -> Action:
        """Return the next action of a call that holds several actions."""
        self._played, *rest = self._batch
        self._batch = tuple(rest)
        return self._played

    def _parse(
        self,
        call: trajectory_lib.ModelCall,
        dialect: dialects_lib.Dialect,
        page: contexts_lib.Page,
    ) -> parsing_lib.Reply:
        if self._agent.tools:
            return parsing_lib.parse_tool_call(call, dialect, marks=page.marks)
        return parsing_lib.parse_call(
            call, dialect, sections=self._prompt.sections, marks=page.marks
        )

    def _look_again(
        self, page: contexts_lib.Page, dialect: dialects_lib.Dialect, observation: Any
    ) -> contexts_lib.Page:
        """Return the page as the last action asked to see it."""
        action = self._played
        if action is None:
            return page
        point: Any = (getattr(action, "x", None), getattr(action, "y", None))
        point = getattr(action, "path", (point,))[-1]
        if None not in point:
            self._mouse = point
        if isinstance(action, Screenshot) and action.region and page.image:
            image = screens.enlarge(page.image, action.region, self._viewport(observation))
            said = f"The picture shows the part {list(action.region)} of the page, enlarged."
            return dataclasses.replace(page, image=image, notices=(*page.notices, said))
        if isinstance(action, CursorPosition):
            said = "The mouse has not been moved yet."
            if self._mouse is not None:
                there = _format(MoveMouse(*self._mouse), dialect)
                said = f"The mouse is where this would move it: {there}"
            return dataclasses.replace(page, notices=(*page.notices, said))
        return page

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
                tighter = self._settings.tighten()
                too_long = isinstance(error, errors.ContextOverflowError)
                failed = self._decision(calls, context)
                if not too_long:
                    error.decision = failed
                    raise
                if cuts == agent.context.cut_harder or tighter is None:
                    reason = f"the context is too long for the model, cut {cuts} times: {error}"
                    raise make_given_up_error(reason, failed) from error
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
        if agent.tools:
            tools = tuple(dialect.tools())
            sampling = dataclasses.replace(sampling or Sampling(), tools=tools)
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
        if self._agent.tools:
            metadata["tools"] = True
        if reply is None:
            return trajectory_lib.Decision(model_calls=tuple(calls), metadata=metadata)
        checks = [
            check for call in reply.calls for check in call.item.get("pending_safety_checks") or ()
        ]
        if checks:
            metadata["safety_checks"] = checks
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
        shown = shown or ("" if reply.calls else _describe_reply(reply, dialect))
        items = model_replies.items_of(call.response) if reply.calls else ()
        self._last = (page, reply, shown, items)
        self._batch, self._played = reply.rest, reply.action
        self._memory = reply.memory or self._memory
        invalid = isinstance(reply.action, InvalidAction)
        self._invalid_in_a_row = self._invalid_in_a_row + 1 if invalid else 0

    def _end_round(self, observation: Any, page: contexts_lib.Page) -> None:
        """Turn the last step into a round, now that its result is visible."""
        if self._last is None:
            return
        before, reply, shown, items = self._last
        self._last = None
        error = _error_of(observation)
        assert self._dialect is not None
        if reply.parse_error:
            effect = f"no valid action: {reply.parse_error}"
            notice = f"Your last reply was not carried out. {reply.parse_error}"
        else:
            notice = ""
            if self._batch:
                notice = (
                    f"The last {len(self._batch)} actions of your call were left out: see below."
                )
                self._batch = ()
            effect = f"not done: {error}" if error else _effect(before, page)
        where = f"On {before.heading}: " if before.heading else ""
        line = _shorten(f"{where}{_describe_reply(reply, self._dialect)} -> {effect}")
        round_ = contexts_lib.Round(before, shown, line, notice, reply.calls, items)
        self._rounds.append(round_)
        past = len(self._rounds) - self._settings.count_full_rounds(len(self._rounds))
        for index in range(self._forgotten, past):
            # Never shown in full again, so do not keep the pictures of hundreds of episodes.
            line_only = dataclasses.replace(
                self._rounds[index], page=contexts_lib.Page(), calls=(), items=()
            )
            self._rounds[index] = line_only
        self._forgotten = max(self._forgotten, past)

    def _choose_dialect(self, observation: Any, page: contexts_lib.Page) -> dialects_lib.Dialect:
        chosen = self._agent.dialect
        if isinstance(chosen, str):
            chosen = screens.dialect_for(chosen, self._viewport(observation), page.image)
        self._dialect = chosen
        self._system = self._prompt.render(chosen.prompt())
        return chosen

    def _viewport(self, observation: Any) -> tuple[int, int] | None:
        viewport = self._agent.viewport or getattr(self._environment, "viewport", None)
        return viewport or screens.viewport_of(observation)

    def _goal(self, observation: Mapping[str, Any]) -> str:
        goal = recorded_channels.text_of(observation, "goal")
        return str(goal or environment_lib.description_of(self._environment).get("goal", ""))


def _describe_reply(reply: parsing_lib.Reply, dialect: dialects_lib.Dialect) -> str:
    """Return the action in short form, as the model or the dialect writes it."""
    if isinstance(reply.action, InvalidAction):
        return _shorten(reply.action.text or "an empty reply")
    if reply.said:
        return reply.said
    return "; ".join(_format(action, dialect) for action in (reply.action, *reply.rest))


def _format(action: Any, dialect: dialects_lib.Dialect) -> str:
    try:
        return str(dialect.format(action))
    except errors.UnsupportedActionError:  # A mark that became a ref can only be read.
        return repr(action)


def _error_of(observation: Mapping[str, Any]) -> str:
    return str(recorded_channels.last_action_of(observation).get("error", ""))


def _effect(before: contexts_lib.Page, after: contexts_lib.Page) -> str:
    same = (before.heading, before.text, before.image) == (after.heading, after.text, after.image)
    return "done; the page looks the same" if same else "done"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."
