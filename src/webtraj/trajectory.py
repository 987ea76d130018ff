"""The data model: one episode, as recorded and as stored.

Everything here is an immutable record. `webtraj.store` turns records into bytes and
`webtraj.collectors` stores them. Nothing in this module does I/O.

Fields for any value, text or metadata accept everything. Which parts can be stored is decided when
the record is written. Numbers are converted or refused when a record is made (`Record`).

Steps follow dm_env's alignment: a `StepRecord` holds an observation together with the action that
*led to it*, so the first step has no action. `EpisodeTrajectory.transitions` gives the shifted
(observation, action, reward, next observation) view that most learners want.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import functools
import itertools
import math
import operator
import secrets
import time
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from dm_env import StepType

from webtraj import errors
from webtraj.shown import Shown, as_html, short, thumbnail

__all__ = [
    "AGENT_FAILURES",
    "CUT_SHORT",
    "INFRASTRUCTURE_FAILURES",
    "INT_BITS",
    "LAST_TIME",
    "AsData",
    "Decision",
    "Derivation",
    "EndReason",
    "Ending",
    "EpisodeEnd",
    "EpisodeInfo",
    "EpisodeTrajectory",
    "ErrorInfo",
    "FailedAttempt",
    "Judgement",
    "ModelCall",
    "Outcome",
    "Phase",
    "Record",
    "StepRecord",
    "StepType",
    "Transition",
    "counts_for_agent",
    "ended_in_error",
    "ending_of",
    "fit_fields",
    "group_of",
    "has_succeeded",
    "is_broken",
    "is_finished",
    "is_scored",
    "name_of_end",
    "new_episode_id",
    "now",
    "reward_value",
    "sum_of_rewards",
]


class _Named(enum.IntEnum):
    """An enum that is a number in files and a name in text: `str(Outcome.SUCCESS)` is `success`."""

    def __str__(self) -> str:
        """Return the name as tables and conditions write it."""
        return self.name.lower()


class EndReason(_Named):
    """Why an episode's record ends. Zero is never written; it stands for unreadable values."""

    UNKNOWN = 0
    """Not known; unreadable and missing values decode to this."""
    TERMINATED = 1
    """The environment returned LAST with discount 0."""
    TRUNCATED = 2
    """The environment returned LAST with a discount above 0, or the run loop truncated it."""
    INTERRUPTED = 3
    """Another episode began (by `reset`, or by the environment itself) while this one was open."""
    CLOSED = 4
    """The environment was closed, or left without an error, while the episode was open."""
    ERRORED = 5
    """`step`, `reset` or the body of `async with` raised."""
    CANCELLED = 6
    """The task was cancelled in the middle of the episode."""
    CRASHED = 7
    """The process died; recovery found the record unsealed and sealed it."""


class Phase(enum.StrEnum):
    """Where in an episode's life it ended."""

    RESET = "reset"
    STEP = "step"
    CLOSE = "close"
    EXIT = "exit"
    RECOVERY = "recovery"


class Outcome(_Named):
    """The kind of result. Only SUCCESS and FAILURE carry a reward to learn from."""

    UNKNOWN = 0
    SUCCESS = 1
    FAILURE = 2
    BLOCKED = 3
    """The site refused the agent."""
    ENV_ERROR = 4
    """The environment or its browser failed."""
    AGENT_ERROR = 5
    """The agent raised, or returned nothing usable: the agent's failure, without a reward."""
    JUDGE_ERROR = 6
    TIMEOUT = 7
    CANCELLED = 8
    MODEL_ERROR = 9
    """The model's server gave no usable reply."""


INFRASTRUCTURE_FAILURES = (
    Outcome.ENV_ERROR,
    Outcome.MODEL_ERROR,
    Outcome.JUDGE_ERROR,
    Outcome.TIMEOUT,
)
"""Something other than the agent broke, so the episode says nothing about the agent."""
AGENT_FAILURES = (Outcome.FAILURE, Outcome.AGENT_ERROR)
"""The agent did not do the task. Success rates count these with the successes."""
CUT_SHORT = (Outcome.ENV_ERROR, Outcome.MODEL_ERROR, Outcome.TIMEOUT, Outcome.CANCELLED)
"""The episode did not end by itself, even if the environment ended it in good order."""

_VERDICTS = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNKNOWN)
_BY_ITSELF = (EndReason.TERMINATED, EndReason.TRUNCATED)

# What an end says about the agent: one rule for everything that counts episodes. docs/metrics.md
# explains it. Which try of a planned row counts is in `webtraj.store.tries`.


def is_finished(outcome: Outcome, reason: EndReason) -> bool:
    """Return whether an episode ended by itself: it terminated or was truncated, and nothing broke.

    A judge that fails afterwards does not change that.
    """
    return reason in _BY_ITSELF and outcome not in CUT_SHORT


def counts_for_agent(outcome: Outcome, reason: EndReason) -> bool:
    """Return whether an episode says something about its agent: it finished, or the agent raised.

    A row of a plan with such an episode is done.
    """
    return outcome is Outcome.AGENT_ERROR or is_finished(outcome, reason)


def is_broken(outcome: Outcome, reason: EndReason) -> bool:
    """Return whether the machinery failed an episode: its browser, page, server or judge."""
    return outcome in INFRASTRUCTURE_FAILURES or (
        outcome in _VERDICTS and reason in (EndReason.ERRORED, EndReason.CRASHED)
    )


def ended_in_error(outcome: Outcome, reason: EndReason) -> bool:
    """Return whether an error ended an episode: the machinery's, or the agent's own."""
    return outcome is Outcome.AGENT_ERROR or is_broken(outcome, reason)


def group_of(group_id: str, policy: str, task: str) -> str:
    """Return a key for the attempts that an episode is compared with.

    They share the group id. Without a group id, they share policy and task.
    """
    return group_id or f"{policy}\0{task}"


def is_scored(outcome: Outcome, reason: EndReason) -> bool:
    """Return whether an episode's rewards say what it was worth. Otherwise its reward is None.

    >>> is_scored(Outcome.FAILURE, EndReason.TERMINATED)
    True
    >>> is_scored(Outcome.ENV_ERROR, EndReason.TERMINATED)
    False
    """
    return outcome in _VERDICTS and reason in _BY_ITSELF


def name_of_end(outcome: Outcome, reason: EndReason) -> str:
    """Return the word for how an episode ended: its outcome, or what cut it short.

    >>> name_of_end(Outcome.SUCCESS, EndReason.CRASHED)
    'crashed'
    >>> name_of_end(Outcome.TIMEOUT, EndReason.ERRORED)
    'timeout'
    """
    tells = outcome not in _VERDICTS or is_finished(outcome, reason)
    return (outcome if tells else reason).name.lower()


def has_succeeded(outcome: Outcome, reason: EndReason) -> bool | None:
    """Return whether the agent did its task; None if the episode does not tell.

    >>> has_succeeded(Outcome.AGENT_ERROR, EndReason.ERRORED)
    False
    >>> has_succeeded(Outcome.SUCCESS, EndReason.CRASHED) is None
    True
    """
    if not counts_for_agent(outcome, reason):
        return None
    return outcome is Outcome.SUCCESS if outcome in (Outcome.SUCCESS, *AGENT_FAILURES) else None


class Ending(enum.Enum):
    """How a reply ended, which decides what it can be used for."""

    WHOLE = "the model ended it"
    CALLED = "the model called a tool"
    """Whole, too; its text alone may be empty."""
    CUT = "it was cut off at a limit"
    """An agent acts on it if it holds an action. It is not an example of a whole reply."""
    FILTERED = "a content filter stopped it"
    """An invalid action, and no sample."""
    BROKEN = "the server broke it off"
    """No reply of the model: the call is made again, and fails as unavailable."""
    UNKNOWN = "its finish reason is not known"
    """No word, or one that is not known here."""


_WORDS = {
    Ending.WHOLE: (
        "stop end_turn stop_sequence completed "
        "eos eos_token complete"  # text-generation-inference, Cohere
    ),
    Ending.CALLED: "tool_calls tool_use function_call tool_call",
    Ending.CUT: (
        "length max_tokens max_output_tokens incomplete pause_turn "
        "model_context_window_exceeded model_length max_length error_limit "  # Mistral, Cohere
        "repetition"  # vLLM stops a model that repeats itself
    ),
    Ending.FILTERED: (
        "content_filter content_filtered refusal "
        "guardrail_intervened sensitive error_toxic "  # Bedrock, Zhipu, Cohere
        "safety image_safety recitation blocklist prohibited_content spii language"  # Gemini
    ),
    Ending.BROKEN: (
        "abort aborted error failed cancelled canceled timeout in_progress queued "
        "network_error insufficient_system_resource user_cancel"  # Zhipu, DeepSeek, Cohere
    ),
}
_ENDINGS = {word: ending for ending, words in _WORDS.items() for word in words.split()}


def ending_of(finish_reason: str) -> Ending:
    """Return how a reply ended, from the provider's finish reason.

    >>> ending_of("end_turn").name, ending_of("MAX_TOKENS").name, ending_of("abort").name
    ('WHOLE', 'CUT', 'BROKEN')
    """
    return _ENDINGS.get(finish_reason.strip().lower(), Ending.UNKNOWN)


LAST_TIME = 253402300800.0
"""The year 10000, in seconds since the epoch: Python's calendar ends before it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Within:
    """The bounds of a number, as part of a field's annotation."""

    least: float
    below: float
    what: str
    """What the number is, for errors."""


Timestamp = Annotated[float, Within(0.0, LAST_TIME, "seconds since 1970, before the year 10000")]
"""Seconds since the epoch (UTC)."""
Count = Annotated[int, Within(0, 2**63, "a whole number of 0 or more")]
"""A number of things, or a position among them."""


INT_BITS = 1000
"""The most bits of an integer in a record's field: more than any seed has, and few enough to
convert to float and to print."""


class Record(Shown):
    """A record that checks its fields of numbers, and of mappings of text or counts.

    Numbers of other libraries become Python's, and sequences of them become tuples. A value that a
    field cannot hold is refused here, when the record is made, because no reader would accept it.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, usual, least, below in _usual_numbers(cls):
            value = getattr(self, name)
            if type(value) is not usual or not least <= value < below:
                _convert_field(self, name, value)


def _convert_field(record: Record, name: str, value: Any) -> None:
    cls: Any = type(record)
    convert, expected = _conversions(cls)[name]
    try:
        converted = convert(value)
    except Exception as error:  # Converting a foreign value may run any code.
        if isinstance(error, _ItemError):
            name, value = f"{name}[{error.number}]", error.item
        raise errors.InvalidInputError(
            f"{cls.__name__}.{name} is {_start_of(value)}; expected {expected}."
        ) from error
    if converted is not value:
        object.__setattr__(record, name, converted)


class _ItemError(ValueError):
    """An item of a sequence is wrong."""

    def __init__(self, number: int, item: Any) -> None:
        super().__init__(number)
        self.number = number
        self.item = item


def _hints(cls: Any) -> dict[str, Any]:
    """Return the annotations of a record's fields."""
    record: Any = next(base for base in cls.__mro__ if base.__module__ == __name__)
    hints = typing.get_type_hints(record, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(record)}


@functools.cache
def _conversions(cls: Any) -> dict[str, tuple[Callable[[Any], Any], str]]:
    """Return the conversion of each field that does not hold everything, and what it holds."""
    return {name: known for name, hint in _hints(cls).items() if (known := _conversion(hint))}


@functools.cache
def _usual_numbers(cls: Any) -> tuple[tuple[str, type, Any, Any], ...]:
    """Return the type and bounds of numbers that these fields hold without a conversion."""
    hints = _hints(cls)
    return tuple((name, *_usual(hints[name])) for name in _conversions(cls))


def _usual(hint: Any) -> tuple[type, Any, Any]:
    """Return the type and bounds of numbers that need no conversion, if there are any.

    NaN is within no bounds, so it needs conversion.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _usual(next(argument for argument in arguments if argument is not type(None)))
    if origin is Annotated:
        return arguments[0], arguments[1].least, arguments[1].below
    return _USUAL.get(hint, (_ItemError, 0, 0))  # No value has this type.


def _conversion(hint: Any) -> tuple[Callable[[Any], Any], str] | None:
    """Return the conversion for an annotation, and the type it holds; None for other types."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        known = _conversion(inner)
        return known and (_or_none(known[0]), f"{known[1]}, or None")
    if origin is Annotated:
        bounds = arguments[1]
        return functools.partial(_within, _NUMBERS[arguments[0]][0], bounds), bounds.what
    if origin is tuple and arguments[0] in _NUMBERS:
        convert, expected = _NUMBERS[arguments[0]]
        return functools.partial(_row, arguments[0], convert), f"a sequence, each item {expected}"
    if origin is collections.abc.Mapping and arguments[1] is not Any:
        return (_counts, "a mapping of counts") if arguments[1] is int else (_mapping, "a mapping")
    return _NUMBERS.get(hint)


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _whole(value: Any) -> int:
    if type(value) is not int:
        number = float(value)
        if isinstance(value, (str, bytes)) or not number.is_integer():
            raise ValueError
        is_index = hasattr(type(value), "__index__") and not isinstance(value, np.bool_)
        value = operator.index(value) if is_index else int(number)
    if value.bit_length() > INT_BITS:
        raise OverflowError
    return int(value)


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, (str, bytes)):
        raise TypeError
    return float(value)


_NUMBERS: dict[Any, tuple[Callable[[Any], Any], str]] = {
    int: (_whole, f"a whole number of at most {INT_BITS} bits"),
    float: (_number, "a number"),
    bool: (bool, "true or false"),
}


_USUAL: dict[Any, tuple[type, Any, Any]] = {
    int: (int, 1 - 2**INT_BITS, 2**INT_BITS),
    float: (float, -math.inf, math.inf),
    bool: (bool, False, 2),
}
"""Types and bounds of numbers that need no conversion, where a field has no bounds of its own."""


def _within(convert: Callable[[Any], Any], bounds: Within, value: Any) -> Any:
    number = convert(value)
    if not bounds.least <= number < bounds.below:  # NaN is never within bounds.
        raise ValueError
    return number


def _row(kind: type, convert: Callable[[Any], Any], value: Any) -> tuple[Any, ...]:
    items: Any = () if value is None else value
    if hasattr(type(items), "tolist"):  # An array or a tensor.
        items = items.tolist()
    if not isinstance(items, Sequence) or isinstance(items, (str, bytes)):
        raise TypeError  # An iterator would be consumed.
    if set(map(type, items)) <= {kind} and (kind is float or _fits(items)):
        return tuple(items)
    made = []
    for number, item in enumerate(items):
        try:
            made.append(convert(item))
        except Exception as error:
            raise _ItemError(number, item) from error
    return tuple(made)


def _fits(numbers: Sequence[int]) -> bool:
    return not numbers or max(max(numbers), -min(numbers)).bit_length() <= INT_BITS


def _mapping(value: Any) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError
    return value


_MOST_COUNTS = 1000


def _counts(value: Any) -> dict[str, int]:
    if hasattr(type(value), "model_dump"):  # As the providers' own clients have it.
        value = value.model_dump()
    counts: dict[str, int] = {}
    for name, count in itertools.islice(_mapping(value).items(), _MOST_COUNTS):
        if isinstance(count, Mapping):
            counts |= {f"{name}.{inner}": number for inner, number in _counts(count).items()}
        elif isinstance(count, (int, float, np.number)) and float(count).is_integer():
            counts[str(name)] = _whole(count)
    return counts


def fit_fields(record: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return new values for a dataclass's fields, without values that a `Record` cannot hold.

    Such a field gets its default, or keeps its value if it has no default.
    """
    cls: Any = type(record)
    if not issubclass(cls, Record):
        return dict(changes)
    conversions = _conversions(cls)
    fitted = dict(changes)
    for field in dataclasses.fields(record):
        if field.name in changes and field.name in conversions:
            convert, _ = conversions[field.name]
            try:
                fitted[field.name] = convert(changes[field.name])
            except Exception:  # As above.
                fitted[field.name] = _default_of(field, getattr(record, field.name))
    return fitted


def _default_of(field: dataclasses.Field[Any], otherwise: Any) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return otherwise if field.default is dataclasses.MISSING else field.default


def _start_of(value: Any) -> str:
    try:
        return short(value)[:200]
    except Exception:  # Showing a foreign value may run any code.
        return f"a {type(value).__qualname__}"


def now() -> float:
    """Return the current time, clamped to `Timestamp`: a wrong clock must not spoil a record."""
    clock = time.time()
    return clock if 0.0 <= clock < LAST_TIME else min(max(clock, 0.0), LAST_TIME - 1.0)


def new_episode_id() -> str:
    """Return a unique id that sorts by time: `20261120T130405-9f86d081884c7d65`."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(8)}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Derivation(Shown):
    """One processing step that made this episode from a recorded one."""

    step: str
    """The name of the step: `judge`, `drop-no-effect`, ..."""
    version: str = ""
    """Its version; equal versions with equal settings do the same."""
    software: str = ""
    """The software that provides the step, and its version: `webtraj 0.3.0`."""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The step's settings."""
    model: str = ""
    """The model that the step called; empty if none."""
    prompt_sha256: str = ""
    """SHA-256 of the prompt template."""
    source: str = ""
    """The source dataset, without credentials; only on the first of a chain."""
    source_episode_id: str = ""
    """The id of the source episode."""
    source_sha256: str = ""
    """SHA-256 of the source episode's file; if judgements are beside it, of that hash and of them.
    Only on the first of a chain."""
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the step changed, such as the original indices of the steps it dropped."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EpisodeInfo(Record):
    """Facts about an episode that are known before its first step or right after it."""

    episode_id: str = dataclasses.field(default_factory=new_episode_id)
    """Unique; 1 to 128 characters of `A-Z a-z 0-9 . _ -`, the first a letter or digit."""
    task: str = ""
    """The task's name, the same for all attempts at it: `miniwob/click-test`."""
    goal: str = ""
    """The instruction given to the agent."""
    site: str = ""
    """The web site or domain, if any."""
    seed: int | None = None
    """The seed given to `reset`."""
    environment: str = ""
    """The environment's name, usually its class."""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Versions of the software involved: packages, browser."""
    policy: str = ""
    """The policy that acted: agent, model and weights."""
    group_id: str = ""
    """Shared by attempts that are compared with each other (as in GRPO)."""
    attempt: Count = 0
    """Index of this attempt within its group, from 0."""
    parent_episode_id: str = ""
    """The episode that this one continues or branches off from."""
    retry_of: str = ""
    """The episode that this one retries after an infrastructure failure, or replaces."""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Anything else worth keeping."""
    derivation: tuple[Derivation, ...] = ()
    """The processing steps that made this episode, in order; empty for a recorded one."""


class AsData:
    """A value that records keep as plain data, such as a client's message."""

    __slots__ = ()

    def to_data(self) -> Any:
        """Return the data."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FailedAttempt(Record):
    """An attempt of a model call that gave no reply. It was repeated, or the call failed."""

    error: str = ""
    """`status` if the server answered with an HTTP error, `reply` if its answer was incomplete,
    `timeout` if its time was up, else `connection`."""
    status: Count | None = None
    """The HTTP status of an error."""
    start_time: Timestamp | None = None
    """When it began, in seconds since the epoch (UTC)."""
    latency: float | None = None
    """Seconds until it failed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ModelCall(Record):
    """One request to a model and its reply, complete enough to train on without re-tokenising."""

    model: str = ""
    """The model's name on the server."""
    provider: str = ""
    """The kind of endpoint: `vllm`, `openai`, `anthropic`, ..."""
    policy_version: str = ""
    """The weights that answered, as reported by the server."""
    messages: tuple[Any, ...] = ()
    """The messages as sent, in the provider's shape; images are bytes. A
    `webtraj.agents.models.Message` is converted to OpenAI's shape."""
    sampling: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Sampling parameters: temperature, top_p, max_tokens, seed, ..."""
    response: Any = None
    """The raw response body."""
    text: str = ""
    """The text of the reply."""
    finish_reason: str = ""
    """Why generation stopped, in the provider's word: `stop`, `length`, ...; see `ending_of`."""
    usage: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Token counts, as reported by the provider. Nested ones are named `outer.inner`; what is no
    whole number, such as a price, is left out."""
    prompt_token_ids: tuple[int, ...] = ()
    """The prompt's token ids, exactly as the model saw them."""
    completion_token_ids: tuple[int, ...] = ()
    """The sampled token ids, in order."""
    logprobs: tuple[float, ...] = ()
    """Natural-log probability of each completion token; empty if not known."""
    start_time: Timestamp | None = None
    """When the request was sent, in seconds since the epoch (UTC)."""
    latency: float | None = None
    """Seconds from the first attempt to the full reply, failed attempts and the waits between them
    included, the wait for the first excluded."""
    error: str = ""
    """The error, if the call gave no reply."""
    failed_attempts: tuple[FailedAttempt, ...] = ()
    """The attempts that gave no reply, in order; of a failed call all."""

    def __post_init__(self) -> None:
        Record.__post_init__(self)
        if isinstance(self.messages, (list, tuple)):
            messages = tuple(
                # `isinstance` would look at `__class__`, which a foreign object may define.
                m.to_data() if issubclass(type(m), AsData) else m
                for m in self.messages
            )
            object.__setattr__(self, "messages", messages)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Decision(Shown):
    """An agent's decision for one step, and how it was reached."""

    action: Any = None
    """The chosen action, as passed to `step`."""
    thought: str = ""
    """The reasoning given for it."""
    memory: str = ""
    """Notes that the agent keeps for later steps."""
    parse_error: str = ""
    """Why the reply could not be parsed as an action; empty if it could."""
    model_calls: tuple[ModelCall, ...] = ()
    """Every model call made for this decision, in order, failed ones included."""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Anything else worth keeping."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class StepRecord(Record):
    """One timestep as the environment emitted it, with the action that led to it."""

    index: Count
    """Position in the episode, from 0."""
    step_type: StepType
    """FIRST, MID or LAST."""
    observation: Any
    """The observation, as emitted: any nesting of mappings, sequences, arrays, bytes, records."""
    action: Any = None
    """The action that led to this observation; None on FIRST."""
    reward: Any = None
    """The reward as emitted: None on FIRST, else usually a float."""
    discount: Any = None
    """The discount as emitted: None on FIRST; 0 on a termination, above 0 on a truncation."""
    start_time: Timestamp | None = None
    """When `step` or `reset` was called, in seconds since the epoch (UTC)."""
    end_time: Timestamp | None = None
    """When it returned, in seconds since the epoch (UTC)."""
    decision: Decision | None = None
    """The agent's decision behind the action, if the agent provided one."""
    ignored_action: Any = None
    """On FIRST: the action passed to `step`, which dm_env's rule ignores."""

    def _repr_html_(self) -> str:
        rows = [
            (field.name, short(value, width=300))
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) is not None and field.name != "observation"
        ]
        seen = self.observation
        channels = seen.items() if isinstance(seen, Mapping) else [("observation", seen)]
        rows += [(str(name)[:80], short(value, width=300)) for name, value in channels]
        picture = thumbnail(seen)
        shown = [*rows, ("screenshot", picture)] if picture else rows
        return as_html(f"Step {self.index}", ("field", "value"), shown)

    @property
    def step_index(self) -> int:
        """The step's index, under ARES's name."""
        return self.index

    @property
    def timestamp(self) -> float | None:
        """When the step finished, under ARES's name."""
        return self.end_time

    @property
    def first(self) -> bool:
        """Whether the step begins its episode."""
        return self.step_type is StepType.FIRST

    @property
    def last(self) -> bool:
        """Whether the step ends its episode."""
        return self.step_type is StepType.LAST


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ErrorInfo(Shown):
    """An exception, kept as text."""

    type: str
    """The exception's class, with its module unless that is `builtins`."""
    message: str = ""
    """`str()` of the exception."""
    traceback: str = ""
    """The formatted traceback, causes included."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Judgement(Record):
    """One judge's verdict on an episode, with its evidence."""

    judge: str = ""
    """The judge's name: `environment`, `rules`, `model`, ... If a judge leaves it out, its name and
    version and the reward are filled in."""
    version: str = ""
    """The version of the judge's code, prompts and settings: equal versions ask the same."""
    outcome: Outcome = Outcome.UNKNOWN
    """The verdict. JUDGE_ERROR if the judge could not reach a reliable one."""
    reward: float | None = None
    """The reward of a success or failure; None for any other verdict."""
    reason: str = ""
    """The explanation for people; the error, if the judge failed."""
    findings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Details: each criterion, the screenshots used, votes."""
    model_calls: tuple[ModelCall, ...] = ()
    """Every model call of the judge, in order, failed ones included."""
    time: Timestamp | None = None
    """When the verdict was reached, in seconds since the epoch (UTC)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EpisodeEnd(Record):
    """How an episode's record ended."""

    reason: EndReason
    phase: Phase | None = None
    """Where it ended; None if not known."""
    detail: str = ""
    """More about the reason, for people: which limit truncated it, for example."""
    error: ErrorInfo | None = None
    """The exception that ended the episode, if any."""
    action_in_flight: bool = False
    """Whether an action was passed to the environment and its result never seen."""
    in_flight_action: Any = None
    """That action. It may or may not have taken effect."""
    in_flight_decision: Decision | None = None
    """The decision behind that action, if the agent provided one."""
    outcome: Outcome = Outcome.UNKNOWN
    """The episode's outcome, if known."""
    violations: tuple[str, ...] = ()
    """Violations of the environment contract, in order."""
    recording_errors: tuple[str, ...] = ()
    """Errors while recording this episode, in order."""
    judgements: tuple[Judgement, ...] = ()
    """Judges' verdicts, in order. `outcome` is the last one's."""

    def with_judgement(self, judgement: Judgement) -> EpisodeEnd:
        """Return the end with a judgement added, and its outcome unless that is UNKNOWN."""
        return dataclasses.replace(
            self,
            outcome=judgement.outcome or self.outcome,
            judgements=(*self.judgements, judgement),
        )


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Transition(Shown):
    """One (observation, action, reward, next observation) tuple of an episode."""

    observation: Any
    action: Any
    reward: Any
    discount: Any
    next_observation: Any
    decision: Decision | None = None


_PARTS = {"info": EpisodeInfo, "end": EpisodeEnd}
"""The records within an episode, by the field that holds them."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class EpisodeTrajectory(Record):
    """One complete episode."""

    info: EpisodeInfo
    steps: tuple[StepRecord, ...] = ()
    end: EpisodeEnd | None = None
    """How it ended; None while it is still open."""
    start_time: Timestamp | None = None
    """When the episode began, in seconds since the epoch (UTC)."""
    end_time: Timestamp | None = None
    """When it ended; for a crashed episode, when its last record was written."""

    if not TYPE_CHECKING:  # Type checkers would take any name for an attribute.

        def __getattr__(self, name):
            found = (where for where, record in _PARTS.items() if name in record.__slots__)
            hint = "".join(f": it is `{where}.{name}`" for where in found)
            raise AttributeError(f"An EpisodeTrajectory has no {name!r}{hint}.")

    def __repr__(self) -> str:
        return f"<EpisodeTrajectory {self._title}>"

    def _repr_html_(self) -> str:
        rows = (
            (step.index, _action_of(step), _reward_of(step), thumbnail(step.observation))
            for step in self.steps
        )
        title = " · ".join(filter(None, (self._title, self.info.goal[:300])))
        columns = ("step", "action", "reward", "screenshot")
        return as_html(title, columns, itertools.islice(rows, 50), total=len(self.steps))

    @property
    def _title(self) -> str:
        ended = "open" if self.end is None else f"{self.end_reason.name}, {self.outcome.name}"
        total = self.total_reward
        reward = "no reward" if total is None else f"reward {total:g}"
        return (
            f"{self.episode_id!r:.140} of {self.info.task!r:.100}: "
            f"{self.num_steps} steps, {reward}, {ended}"
        )

    @property
    def episode_id(self) -> str:
        """The episode's id."""
        return self.info.episode_id

    @property
    def task_name(self) -> str:
        """The task's name, under ARES's name."""
        return self.info.task

    @property
    def num_steps(self) -> int:
        """Number of transitions: the steps after the first observation."""
        return max(len(self.steps) - 1, 0)

    @property
    def total_reward(self) -> float | None:
        """Sum of all rewards except FIRST's; None if the episode was not scored.

        An array counts as its sum, and anything else that is not a number as NaN. See `is_scored`.
        """
        if not is_scored(self.outcome, self.end_reason):
            return None
        return sum_of_rewards(step.reward for step in self.steps if not step.first)

    @property
    def end_reason(self) -> EndReason:
        """The end's reason; UNKNOWN while the episode is open."""
        return EndReason.UNKNOWN if self.end is None else self.end.reason

    @property
    def outcome(self) -> Outcome:
        """The end's outcome; UNKNOWN while the episode is open."""
        return Outcome.UNKNOWN if self.end is None else self.end.outcome

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """The end's judgements, in order; empty while the episode is open."""
        return () if self.end is None else self.end.judgements

    @property
    def terminated(self) -> bool:
        """Whether the environment terminated the episode."""
        return self.end_reason is EndReason.TERMINATED

    @property
    def truncated(self) -> bool:
        """Whether the episode was truncated, by the environment or by its run loop."""
        return self.end_reason is EndReason.TRUNCATED

    @property
    def finished(self) -> bool:
        """Whether the episode ended by itself, and nothing broke. See `is_finished`."""
        return is_finished(self.outcome, self.end_reason)

    @property
    def lost_step(self) -> int | None:
        """The lowest index of a step that could not be recorded; None if none is missing."""
        return next((n for n, step in enumerate(self.steps) if step.index != n), None)

    def transitions(self) -> Iterator[Transition]:
        """Yield the episode as (o, a, r, d, o') tuples, in order.

        Their number is `num_steps`, minus the steps that could not be recorded.
        """
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            if after.index != before.index + 1:
                continue
            yield Transition(
                observation=before.observation,
                action=after.action,
                reward=after.reward,
                discount=after.discount,
                next_observation=after.observation,
                decision=after.decision,
            )


def _action_of(step: StepRecord) -> str:
    """Return a step's action as a table shows it."""
    if step.first:
        return ""
    return step.action[:200] if isinstance(step.action, str) else short(step.action)


def _reward_of(step: StepRecord) -> str:
    return "" if step.reward is None else short(step.reward)


def sum_of_rewards(rewards: Iterable[Any]) -> float | None:
    """Return the sum of steps' rewards; None if no step has one. See `reward_value`."""
    given = [reward_value(reward) for reward in rewards if reward is not None]
    return float(sum(given)) if given else None


def reward_value(reward: Any) -> float:
    """Return a reward, scalar or nested arrays, as one number: the sum of its elements.

    Returns:
        0 for None; NaN if any element is not a number.
    """
    if type(reward) is float:
        return reward
    if reward is None:
        return 0.0
    if isinstance(reward, Mapping):
        return sum(reward_value(value) for value in reward.values())
    if isinstance(reward, (list, tuple)):
        return sum(reward_value(value) for value in reward)
    try:
        with np.errstate(all="ignore"):
            total = np.sum(reward)
        return float("nan") if np.iscomplexobj(total) else float(total)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
