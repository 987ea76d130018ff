"""The model proposer: a model sees an episode's pages and proposes tasks as JSON.

The reply is parsed strictly and never executed: one JSON object, with exactly the fields of the
prompt. An unreadable reply is retried with the error; after `max_attempts` the episode has no
proposals, and its record says why. A single malformed proposal is rejected alone.

Page text goes to the model in one block per step, which no page can close
(`webtraj.agents.models.structured_output`). JSON strings would escape line ends too, but not a
tokenizer's turn markup, and a page is hard to read as one line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Literal

import pydantic

from webtraj import errors
from webtraj.agents import contexts
from webtraj.agents import prompts as prompts_lib
from webtraj.agents.models import structured_output
from webtraj.agents.models.base import Message, ModelClient, Sampling, Structure
from webtraj.agents.models.structured_output import Reading
from webtraj.agents.reply_parser import without_reasoning
from webtraj.exploring.drafts import Claim, Draft, Drafts, Rejection
from webtraj.exploring.seen import Seen, Sight
from webtraj.shown import one_line
from webtraj.trajectory import ModelCall

__all__ = ["ModelProposer", "load_proposing_prompt", "read_reply"]

_SHOWN = 500
_FEWEST_TOKENS = 1_000


def load_proposing_prompt(version: str = "v1") -> prompts_lib.Prompt:
    """Return the prompt of a version.

    >>> load_proposing_prompt().reference["name"]
    'propose'
    """
    folder = resources.files("webtraj.exploring") / "prompts" / version
    text = (folder / "propose.txt").read_bytes().decode()
    return prompts_lib.read_prompt(text, name="propose", version=version)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelProposer:
    """A proposer that asks a model."""

    client: ModelClient
    """The model, shared by all episodes and closed by `aclose`."""
    prompt: prompts_lib.Prompt = dataclasses.field(default_factory=load_proposing_prompt)
    """The prompt."""
    sampling: Sampling = dataclasses.field(default_factory=lambda: Sampling(temperature=0.0))
    """The sampling settings."""
    max_attempts: int = 3
    """The number of attempts to get a readable reply."""
    page_tokens: int = 1_500
    """The token budget of one page's text; the rest is cut."""
    text_tokens: int = 40_000
    """The token budget of all pages together, shared equally."""
    timeout: float | None = None
    """The time limit of one call in seconds, retries included; None uses the client's own."""
    name: str = "model"
    version: str = "2"
    _forms: structured_output.Forms = dataclasses.field(
        default_factory=structured_output.Forms, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for field in ("max_attempts", "page_tokens", "text_tokens"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise errors.InvalidInputError(
                    f"ModelProposer.{field} is {value!r}; expected a whole number of at least 1."
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
        """See `Proposer.propose`. An episode that is too long for the model is shortened."""
        calls: list[ModelCall] = []
        tokens = self.text_tokens
        while True:
            try:
                return await self._propose(self._compose(seen, limit, tokens), calls)
            except errors.ContextOverflowError:
                tokens //= 2
                if tokens < _FEWEST_TOKENS:
                    raise

    async def _propose(self, shown: str, calls: list[ModelCall]) -> Drafts:
        messages = [
            Message.of("system", self.prompt.render("")),
            Message.of("user", shown, self.prompt.ask),
        ]
        structure = self.sampling.structure or Structure("json", _SCHEMA)
        answer = await structured_output.ask(
            self.client,
            messages,
            read_reply,
            sampling=dataclasses.replace(self.sampling, structure=structure),
            again=lambda broken: f"Your last reply could not be read: {broken} {self.prompt.ask}",
            attempts=self.max_attempts,
            timeout=self.timeout,
            forms=self._forms,
        )
        calls += answer.calls
        if answer.error is not None:
            raise answer.error
        if answer.value is None:
            unread = Rejection(
                f"the reply could not be read: {answer.broken}", answer.calls[-1].text[:_SHOWN]
            )
            return Drafts(rejections=(unread,), model_calls=tuple(calls))
        return dataclasses.replace(answer.value, model_calls=tuple(calls))

    async def aclose(self) -> None:
        """Close the client."""
        await self.client.aclose()

    def _compose(self, seen: Seen, limit: int, tokens: int) -> str:
        each = min(self.page_tokens, max(tokens // max(len(seen.sights), 1), 50))
        texts = {
            f"step {sight.index}": "\n".join(_describe_step(sight, before, each))
            for before, sight in _pairs(seen.sights)
        }
        about = f"site: {one_line(seen.site)}\ndescription: {one_line(seen.goal)}"
        blocks = structured_output.quote(
            {label: (label, text) for label, text in {"episode": about, **texts}.items()}
        )
        return "\n\n".join((f"Propose up to {limit} tasks.", *blocks.values()))


def read_reply(call: ModelCall) -> Reading[Drafts]:
    """Parse the proposals of a call, ignoring the model's reasoning (`<think>`).

    Malformed proposals are rejected one by one. The whole reply is broken if it does not fit the
    requested schema.
    """
    if incomplete := structured_output.problem_of(call):
        return Reading(broken=incomplete)
    reading = structured_output.read_object(without_reasoning(call.text))
    if reading.value is None:
        return Reading(broken=reading.broken)
    if reading.value.keys() != {"tasks"} or not isinstance(reading.value["tasks"], list):
        return Reading(broken='The reply has not exactly the member "tasks", a list.')
    drafts: list[Draft] = []
    rejections: list[Rejection] = []
    for item in reading.value["tasks"]:
        try:
            drafts.append(_ProposedTask.model_validate(item).to_draft())
        except pydantic.ValidationError as error:
            rejections.append(Rejection(f"malformed: {_problems(error)}", item))
    return Reading(Drafts(drafts=tuple(drafts), rejections=tuple(rejections)))


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


def _object(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object, using only keywords that every server supports."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_FACT = _object(fact=_TEXT, evidence={"type": "array", "items": {"type": "integer"}})
_TASK = _object(
    goal=_TEXT,
    start_url=_TEXT,
    kind={"type": "string", "enum": ["information", "navigation", "modification"]},
    facts={"type": "array", "items": _FACT},
    reference_answer=_TEXT,
)
_SCHEMA = _object(tasks={"type": "array", "items": _TASK})


def _describe_step(sight: Sight, before: Sight | None, tokens: int) -> Iterator[str]:
    """Yield the lines of a step; an unchanged page is not repeated.

    The page comes last: everything after `page:` is its text and cannot be mistaken for anything
    else.
    """
    if sight.action:
        target = f"{sight.role} {sight.name}".strip()
        yield f"did: {one_line(f'{sight.action} ({target})' if target else sight.action)}"
    if sight.error:
        yield f"not done: {one_line(sight.error)}"
    yield f"url: {one_line(sight.url)}"
    yield f"title: {one_line(sight.title)}"
    if sight.http_status >= 400:
        yield f"http status: {sight.http_status}"
    if before is not None and (before.url, before.axtree) == (sight.url, sight.axtree):
        yield "page: as before"
    else:
        text, _ = contexts.cut_lines(sight.axtree, tokens, contexts.estimate_tokens)
        yield f"page:\n{text}"


def _pairs(sights: tuple[Sight, ...]) -> list[tuple[Sight | None, Sight]]:
    return list(zip((None, *sights), sights, strict=False))


def _problems(error: pydantic.ValidationError) -> str:
    problems = (
        f"{'.'.join(map(str, problem['loc'])) or 'task'}: {problem['msg']}"
        for problem in error.errors(include_url=False)
    )
    return "; ".join(list(problems)[:3])
