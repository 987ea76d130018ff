"""The model proposer: a model is shown what an episode saw, and proposes tasks as JSON.

The reply is read strictly, and never run: one JSON object, with the fields of the prompt and no
others. One that cannot be read is asked for again, with what was wrong; after `max_attempts` the
episode has no proposals, and its record says why. A proposal that is malformed is rejected by
itself. What pages say goes to the model as JSON strings, a step a line, so that no page can end the
quotation.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal

import orjson
import pydantic

from webtraj import errors
from webtraj.agents import prompts as prompts_lib
from webtraj.agents.contexts import cutting
from webtraj.agents.models.base import Message, ModelClient, Sampling
from webtraj.agents.parsing.sections import without_reasoning
from webtraj.exploring.base import Claim, Draft, Drafts, Rejection
from webtraj.exploring.seen import Seen, Sight
from webtraj.trajectory import ModelCall

__all__ = ["ModelProposer", "UnreadableReplyError", "load_proposing_prompt", "read_reply"]

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_BREAKS = re.compile("[\x7f-\x9f\u2028\u2029]")
_CUT_OFF = ("length", "max_tokens")
_SHOWN = 500
_FEWEST_TOKENS = 1_000


class UnreadableReplyError(errors.InvalidInputError):
    """A model's reply is not the object that was asked for."""


def load_proposing_prompt(version: str = "v1") -> prompts_lib.Prompt:
    """Returns the prompt of a version.

    >>> load_proposing_prompt().reference["name"]
    'propose'
    """
    folder = resources.files("webtraj.exploring") / "prompts" / version
    text = (folder / "propose.txt").read_bytes().decode()
    return prompts_lib.read_prompt(text, name="propose", version=version)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelProposer:
    """Asks a model."""

    client: ModelClient
    """The model. It is shared by all episodes, and closed by `aclose`."""
    prompt: prompts_lib.Prompt = dataclasses.field(default_factory=load_proposing_prompt)
    """What it is told."""
    sampling: Sampling = dataclasses.field(default_factory=lambda: Sampling(temperature=0.0))
    """How replies are sampled."""
    max_attempts: int = 3
    """How often a reply is asked for until it can be read."""
    page_tokens: int = 1_500
    """The budget of one page's text; what is beyond it is cut."""
    text_tokens: int = 40_000
    """The budget of all pages together: each then has its share of it."""
    timeout: float | None = None
    """Seconds that one call may take, retries included; None leaves it to the client."""
    name: str = "model"
    version: str = "1"

    def __post_init__(self) -> None:
        for field in ("max_attempts", "page_tokens", "text_tokens"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise errors.InvalidInputError(
                    f"ModelProposer.{field} is a whole number of at least 1; got {value!r}."
                )

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Proposer.settings`."""
        sampling = dataclasses.asdict(self.sampling)
        return {
            "sampling": {name: value for name, value in sampling.items() if value},
            "max_attempts": self.max_attempts,
            "page_tokens": self.page_tokens,
            "text_tokens": self.text_tokens,
        }

    @property
    def model(self) -> str:
        """See `Proposer.model`."""
        return self.client.name

    @property
    def prompt_sha256(self) -> str:
        """See `Proposer.prompt_sha256`."""
        return self.prompt.sha256

    async def propose(self, seen: Seen, limit: int) -> Drafts:
        """See `Proposer.propose`. An episode that is too long for the model is shown shorter."""
        calls: list[ModelCall] = []
        tokens = self.text_tokens
        while True:
            try:
                return await self._propose(self._shown(seen, limit, tokens), calls)
            except errors.ContextOverflowError as error:
                tokens //= 2
                if tokens < _FEWEST_TOKENS:
                    raise
                if error.call is not None:
                    calls.append(error.call)

    async def _propose(self, shown: str, calls: list[ModelCall]) -> Drafts:
        messages = [
            Message.of("system", self.prompt.render("")),
            Message.of("user", shown, self.prompt.ask),
        ]
        problem, text = "", ""
        for _ in range(self.max_attempts):
            call = await self.client.complete(messages, self.sampling, timeout=self.timeout)
            calls.append(call)
            try:
                drafts, rejections = read_reply(call)
            except UnreadableReplyError as error:
                problem, text = str(error), call.text
                messages += [
                    Message.of("assistant", call.text or "(nothing)"),
                    Message.of("user", f"That could not be read: {problem}", self.prompt.ask),
                ]
            else:
                return Drafts(drafts=drafts, rejections=rejections, model_calls=tuple(calls))
        unread = Rejection(f"the reply could not be read: {problem}", text[:_SHOWN])
        return Drafts(rejections=(unread,), model_calls=tuple(calls))

    async def aclose(self) -> None:
        """Closes the client."""
        await self.client.aclose()

    def _shown(self, seen: Seen, limit: int, tokens: int) -> str:
        each = min(self.page_tokens, max(tokens // max(len(seen.sights), 1), 50))
        lines = [_line_of(sight, before, each) for before, sight in _pairs(seen.sights)]
        about = {"site": seen.site, "description": seen.goal}
        return "\n".join(
            (
                f"Propose up to {limit} tasks.",
                "BEGIN EPISODE",
                _dumped(about),
                *lines,
                "END EPISODE",
            )
        )


def read_reply(call: ModelCall) -> tuple[tuple[Draft, ...], tuple[Rejection, ...]]:
    """Returns the drafts in a reply, and those that are malformed.

    Raises:
        UnreadableReplyError: It is no object of the form that was asked for.
    """
    if call.finish_reason in _CUT_OFF:
        raise UnreadableReplyError("it was cut off at its longest; be shorter.")
    text = without_reasoning(call.text).strip()
    fenced = _FENCED.fullmatch(text)
    try:
        data = orjson.loads(fenced[1] if fenced else text)
    except orjson.JSONDecodeError as error:
        raise UnreadableReplyError(f"it is no JSON object ({error}).") from None
    if (
        not isinstance(data, dict)
        or data.keys() != {"tasks"}
        or not isinstance(data["tasks"], list)
    ):
        raise UnreadableReplyError('expected an object with the one field "tasks", a list.')
    drafts: list[Draft] = []
    rejections: list[Rejection] = []
    for item in data["tasks"]:
        try:
            drafts.append(_ProposedTask.model_validate(item).to_draft())
        except pydantic.ValidationError as error:
            rejections.append(Rejection(f"malformed: {_told(error)}", item))
    return tuple(drafts), tuple(rejections)


class _ProposedFact(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    fact: str
    evidence: list[int]


class _ProposedTask(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    goal: str
    start_url: str
    kind: Literal["information", "navigation", "modification"]
    facts: list[_ProposedFact]
    reference_answer: str = ""

    def to_draft(self) -> Draft:
        return Draft(
            goal=self.goal,
            start_url=self.start_url,
            kind=self.kind,
            facts=tuple(Claim(fact.fact, tuple(fact.evidence)) for fact in self.facts),
            reference_answer=self.reference_answer,
        )


def _line_of(sight: Sight, before: Sight | None, tokens: int) -> str:
    """Returns a step as a line of JSON; a page that looks as before is not shown again."""
    data: dict[str, Any] = {"step": sight.index}
    if sight.action:
        target = f"{sight.role} {sight.name}".strip()
        data["did"] = f"{sight.action} ({target})" if target else sight.action
    if sight.error:
        data["not_done"] = sight.error
    data |= {"url": sight.url, "title": sight.title}
    if sight.http_status >= 400:
        data["http_status"] = sight.http_status
    if before is not None and (before.url, before.axtree) == (sight.url, sight.axtree):
        data["page"] = "as before"
    else:
        data["page"], _ = cutting.cut_lines(sight.axtree, tokens, cutting.estimate_tokens)
    return _dumped(data)


def _dumped(data: Mapping[str, Any]) -> str:
    """Returns data as one line of JSON, by whatever a model may take for the end of a line."""
    text = json.dumps(data, ensure_ascii=False)
    return _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _pairs(sights: tuple[Sight, ...]) -> list[tuple[Sight | None, Sight]]:
    return list(zip((None, *sights), sights, strict=False))


def _told(error: pydantic.ValidationError) -> str:
    problems = (
        f"{'.'.join(map(str, problem['loc'])) or 'task'}: {problem['msg']}"
        for problem in error.errors(include_url=False)
    )
    return "; ".join(list(problems)[:3])
