"""Which phases a loop has, in which order, and what each waits for.

Turn by turn, there is one lane: each phase comes after the one before it. With overlap there are
two, which run at once: one plays, the other trains::

    playing    evaluate 0 | rollout 1 | rollout 2        | evaluate 1 | rollout 3 ...
    training                          | export 1, train 1             | export 2, train 2 ...

So from the second iteration on, a rollout is played with weights that are one training older than
turn by turn: it needs those of iteration k - 2, and waits for them. With a `max_staleness` above 1
they are as many trainings older.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from webtraj.loop.sections import PHASES, ExtraConfig, LoopConfig

__all__ = ["Group", "Slot", "lanes", "staleness"]

Group = Literal["rollout", "update"]
"""Whether a phase plays and prepares what was played, or makes a model of it."""

_UPDATE = ("export", "train", "publish")


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A phase's place in the loop."""

    iteration: int
    """From 1; 0 before the first."""
    name: str
    """The phase's."""
    group: Group
    """Which kind of work it is."""
    after: tuple[tuple[int, str], ...] = ()
    """Phases of the other lane that it waits for, each by iteration and name."""

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from all others."""
        return self.iteration, self.name

    def __str__(self) -> str:
        return f"{self.name} of iteration {self.iteration}"


def lanes(config: LoopConfig, *, overlap: bool | None = None) -> tuple[tuple[Slot, ...], ...]:
    """Returns the loop's phases: one lane, or two that run at once.

    Args:
        config: The loop's configuration.
        overlap: Whether there are two; by default as configured.
    """
    if not (config.overlap.enabled if overlap is None else overlap):
        return (tuple(_turn_by_turn(config)),)
    return tuple(_playing(config)), tuple(_training(config))


def staleness(config: LoopConfig) -> int:
    """Returns how many trainings behind the weights that play are, at most."""
    return config.overlap.max_staleness if config.overlap.enabled else 0


def _turn_by_turn(config: LoopConfig) -> Iterator[Slot]:
    if _evaluated(config, 0):
        yield Slot(0, "evaluate", "rollout")
    for number in range(1, config.iterations + 1):
        yield from _slots(config, number, "rollout")
        yield from _slots(config, number, "update")
        if _evaluated(config, number):
            yield Slot(number, "evaluate", "rollout")


def _playing(config: LoopConfig) -> Iterator[Slot]:
    behind = config.overlap.max_staleness
    if _evaluated(config, 0):
        yield Slot(0, "evaluate", "rollout")
    for number in range(1, config.iterations + behind + 1):
        if number <= config.iterations:
            weights = number - 1 - behind
            after = ((weights, "publish"),) if weights > 0 else ()
            for slot in _slots(config, number, "rollout"):
                needs = after if slot.name == "rollout" else ()
                yield dataclasses.replace(slot, after=needs)
        trained = number - behind
        if trained > 0 and _evaluated(config, trained):
            yield Slot(trained, "evaluate", "rollout", ((trained, "publish"),))


def _training(config: LoopConfig) -> Iterator[Slot]:
    for number in range(1, config.iterations + 1):
        slots = list(_slots(config, number, "update"))
        last = list(_slots(config, number, "rollout"))[-1]
        yield dataclasses.replace(slots[0], after=(last.key,))
        yield from slots[1:]


def _slots(config: LoopConfig, number: int, group: Group) -> Iterator[Slot]:
    """Yields the phases of an iteration that play, or those that train; without the evaluation."""
    for name in PHASES[:-1]:
        if _group(name) != group:
            continue
        if name not in ("judge", "postprocess", "export") or getattr(config, name) is not None:
            yield Slot(number, name, group)
        for extra in config.extra:
            if extra.after == name and _wanted(extra, number):
                yield Slot(number, extra.name, group)


def _group(name: str) -> Group:
    return "update" if name in _UPDATE else "rollout"


def _wanted(extra: ExtraConfig, number: int) -> bool:
    return extra.iterations == "every" or number == 1


def _evaluated(config: LoopConfig, number: int) -> bool:
    evaluation = config.evaluation
    return evaluation is not None and (
        number % evaluation.every == 0 or number == config.iterations
    )
