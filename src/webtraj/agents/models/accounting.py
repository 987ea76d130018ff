"""The tokens, time, failures and cost of model calls, computed from records alone.

So it works on last year's dataset as well as on a running rollout. Users supply the prices: any
that came with webtraj would soon be outdated.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from webtraj import errors
from webtraj import trajectory as trajectory_lib

__all__ = ["Account", "Price", "Tokens", "account_for", "cost_of", "model_calls", "tokens_of"]

_MILLION = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of one call or many, counted the same way for all providers."""

    input: int = 0
    """Prompt tokens, without those read from a cache or written to one at a price."""
    cached_input: int = 0
    """Prompt tokens read from the provider's cache."""
    cache_write: int = 0
    """Prompt tokens written to the provider's cache, if that has its own price."""
    output: int = 0
    """Reply tokens, including thinking."""

    @property
    def total(self) -> int:
        """The sum of all four."""
        return self.input + self.cached_input + self.cache_write + self.output

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            input=self.input + other.input,
            cached_input=self.cached_input + other.cached_input,
            cache_write=self.cache_write + other.cache_write,
            output=self.output + other.output,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A model's price per million tokens, in any currency."""

    input: float
    output: float
    cached_input: float | None = None
    """Default: `input`."""
    cache_write: float | None = None
    """Default: `input`."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and not 0 <= value < math.inf:
                raise errors.InvalidInputError(
                    f"The price {field.name} is {value}; expected an amount per million tokens."
                )

    def of(self, tokens: Tokens) -> float:
        """Return the cost of tokens."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        total = (
            tokens.input * self.input
            + tokens.cached_input * cached
            + tokens.cache_write * written
            + tokens.output * self.output
        )
        return total / _MILLION


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The totals of a set of calls."""

    calls: int = 0
    """The number of calls, including failed ones."""
    failures: int = 0
    """The number of calls without a reply."""
    failed_attempts: int = 0
    """The attempts without a reply, of all calls."""
    uncounted: int = 0
    """The number of calls with a reply but without token counts."""
    tokens: Tokens = Tokens()
    """The counted tokens."""
    cost: float = 0.0
    """The cost of the calls with a price; complete only if `unpriced` is empty."""
    unpriced: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """The number of replies by models without a price, by model."""
    latencies: tuple[float, ...] = ()
    """Seconds of each call with a reply, sorted."""
    model_seconds: float = 0.0
    """Seconds of all calls, added up."""
    environment_seconds: float = 0.0
    """Seconds that the environment took for steps; 0 for calls without an episode."""

    def latency(self, fraction: float) -> float:
        """Return a quantile of the latencies; NaN if there are none.

        >>> Account(latencies=(0.1, 0.2, 0.3, 0.9)).latency(0.5)
        0.2
        """
        if not self.latencies:
            return math.nan
        rank = math.ceil(fraction * len(self.latencies))
        return self.latencies[min(max(rank, 1), len(self.latencies)) - 1]

    @classmethod
    def total(cls, accounts: Iterable[Account]) -> Self:
        """Return the sum of several accounts, such as those of a run's episodes."""
        accounts = list(accounts)
        unpriced: dict[str, int] = {}
        for account in accounts:
            for model, calls in account.unpriced.items():
                unpriced[model] = unpriced.get(model, 0) + calls
        return cls(
            calls=sum(account.calls for account in accounts),
            failures=sum(account.failures for account in accounts),
            failed_attempts=sum(account.failed_attempts for account in accounts),
            uncounted=sum(account.uncounted for account in accounts),
            tokens=sum((account.tokens for account in accounts), Tokens()),
            cost=math.fsum(account.cost for account in accounts),
            unpriced=unpriced,
            latencies=tuple(sorted(s for account in accounts for s in account.latencies)),
            model_seconds=math.fsum(account.model_seconds for account in accounts),
            environment_seconds=math.fsum(account.environment_seconds for account in accounts),
        )


def account_for(
    calls: Iterable[trajectory_lib.ModelCall] | trajectory_lib.EpisodeTrajectory,
    prices: Mapping[str, Price] | None = None,
) -> Account:
    """Return the account of calls, or of all calls of an episode.

    Args:
        calls: The calls, or the episode.
        prices: The prices of models by name or pattern (`qwen*`). An exact name takes precedence;
            then the first matching pattern counts.
    """
    environment_seconds = 0.0
    if isinstance(calls, trajectory_lib.EpisodeTrajectory):
        environment_seconds = math.fsum(
            max(step.end_time - step.start_time, 0.0)  # The clock may have been set back.
            for step in calls.steps
            if step.start_time is not None and step.end_time is not None
        )
        calls = model_calls(calls)
    account = Account.total(_account_for_one(call, prices or {}) for call in calls)
    return dataclasses.replace(account, environment_seconds=environment_seconds)


def _account_for_one(call: trajectory_lib.ModelCall, prices: Mapping[str, Price]) -> Account:
    failed = bool(call.error)
    cost = cost_of(call, prices)
    return Account(
        calls=1,
        failures=int(failed),
        failed_attempts=len(call.failed_attempts),
        uncounted=int(not failed and not call.usage),
        tokens=tokens_of(call),
        cost=cost or 0.0,
        unpriced={call.model: 1} if cost is None and not failed else {},
        latencies=() if failed or call.latency is None else (call.latency,),
        model_seconds=call.latency or 0.0,
    )


def model_calls(
    trajectory: trajectory_lib.EpisodeTrajectory,
) -> Iterator[trajectory_lib.ModelCall]:
    """Yield all model calls of an episode in order, including those of an unfinished decision."""
    for step in trajectory.steps:
        if step.decision is not None:
            yield from step.decision.model_calls
    if trajectory.end is not None and trajectory.end.in_flight_decision is not None:
        yield from trajectory.end.in_flight_decision.model_calls


def tokens_of(call: trajectory_lib.ModelCall) -> Tokens:
    """Return the tokens of a call, as its provider counted them."""
    usage = call.usage
    if "input_tokens_details.cached_tokens" in usage:  # OpenAI's Responses.
        cached = usage["input_tokens_details.cached_tokens"]
        return Tokens(
            input=usage.get("input_tokens", 0) - cached,
            cached_input=cached,
            output=usage.get("output_tokens", 0),
        )
    if "input_tokens" in usage or "output_tokens" in usage:
        # Anthropic counts cached tokens separately.
        return Tokens(
            input=usage.get("input_tokens", 0),
            cached_input=usage.get("cache_read_input_tokens", 0),
            cache_write=usage.get("cache_creation_input_tokens", 0),
            output=usage.get("output_tokens", 0),
        )
    cached = usage.get("prompt_tokens_details.cached_tokens", 0)
    return Tokens(
        input=usage.get("prompt_tokens", 0) - cached,
        cached_input=cached,
        output=usage.get("completion_tokens", 0),
    )


def cost_of(call: trajectory_lib.ModelCall, prices: Mapping[str, Price]) -> float | None:
    """Return the cost of a call; None if its model has no price."""
    price = prices.get(call.model)
    if price is None:
        patterns = (p for p in prices if fnmatch.fnmatchcase(call.model, p))
        price = prices.get(next(patterns, ""))
    return None if price is None else price.of(tokens_of(call))
