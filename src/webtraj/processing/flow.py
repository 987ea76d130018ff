"""Running one trajectory through the steps.

This module checks each step's result and records it: one `Derivation` per change, and the numbers
seen, changed and dropped. A step's exception becomes a `StepFailedError`.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import orjson

import webtraj
from webtraj import errors
from webtraj.processing.base import Changed, Drop, OrderedStep, Result, Step
from webtraj.processing.ledger import Count, Dropped, Passage
from webtraj.store.layout import check_episode_id
from webtraj.trajectory import Derivation, EpisodeTrajectory

__all__ = ["Carried", "Flow", "Gate", "StepFailedError", "derive", "software"]

# Restoring the dataset's order among episodes that are processed in any order.


class Gate:
    """A gate that lets numbers pass in order, from 0. For one event loop.

    Each number must pass exactly once, even if it has nothing to do: the next one waits for it.
    """

    def __init__(self) -> None:
        self._next = 0
        self._early: set[int] = set()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def turn(self, number: int) -> None:
        """Wait until all lower numbers have passed."""
        if number > self._next:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting[number] = waiter
            try:
                await waiter
            finally:
                self._waiting.pop(number, None)

    def mark_passed(self, number: int) -> None:
        """Mark a number as passed, or as never coming. Idempotent."""
        if number >= self._next:
            self._early.add(number)
        while self._next in self._early:
            self._early.remove(self._next)
            self._next += 1
        waiter = self._waiting.get(self._next)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


_T = TypeVar("_T")
InThread = Callable[[Callable[[], _T]], Awaitable[_T]]


class StepFailedError(Exception):
    """A step raised, or returned an invalid result."""

    def __init__(self, step: str, reason: Exception, passage: Passage) -> None:
        super().__init__(step)
        self.step = step
        """The step's name."""
        self.reason = reason
        """The exception that it raised."""
        self.passage = passage
        """How far the episode got."""


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """A trajectory and the changes so far."""

    trajectory: EpisodeTrajectory
    chain: tuple[Derivation, ...] = ()


class Flow:
    """The steps of a pipeline, for one run, with fresh copies of ordered steps.

    Args:
        steps: The steps.
        in_thread: A function that runs another in a thread.
    """

    def __init__(self, steps: Sequence[Step | OrderedStep], in_thread: InThread[Any]) -> None:
        self._steps = tuple(steps)
        self._in_thread = in_thread
        self._gates = {
            n: Gate() for n, step in enumerate(self._steps) if isinstance(step, OrderedStep)
        }
        self._software = software()

    @property
    def ordered(self) -> bool:
        """Whether any step depends on the dataset's order."""
        return bool(self._gates)

    def replay(self, passage: Passage) -> None:
        """Replay an episode that the ordered steps decided on in an earlier run."""
        for place in self._gates:
            self._tell(place, passage)

    async def repeat(self, number: int, passage: Passage) -> None:
        """Wait for the episode's turn, then `replay` it."""
        for place, gate in self._gates.items():
            await gate.turn(number)
            self._tell(place, passage)
            gate.mark_passed(number)

    def leave(self, number: int) -> None:
        """Note that an episode will not reach any further step. Idempotent."""
        for gate in self._gates.values():
            gate.mark_passed(number)

    async def carry(
        self, number: int, trajectory: EpisodeTrajectory, earlier: Passage | None = None
    ) -> tuple[tuple[Carried, ...], Passage]:
        """Run a trajectory through all steps.

        Args:
            number: Its place in the order of this run, from 0.
            trajectory: The recorded trajectory.
            earlier: How far the trajectory got in an earlier run that failed on it. Ordered steps
                that admitted it then must admit it again, since others may have been dropped as its
                duplicates.

        Returns:
            The resulting trajectories, possibly none, and the passage through the steps.

        Raises:
            StepFailedError: A step failed on it.
        """
        carried: tuple[Carried, ...] = (Carried(trajectory),)
        counts: list[Count] = []
        dropped: list[Dropped] = []
        signatures: dict[int, tuple[Any, ...]] = {}
        for place, step in enumerate(self._steps):
            if not carried:
                break
            try:
                results: list[Result]
                if isinstance(step, OrderedStep):
                    known = () if earlier is None else earlier.signatures.get(place, ())
                    asked = await self._signatures(step, carried)
                    await self._gates[place].turn(number)
                    verdicts = [None if one in known else step.admit(one) for one in asked]
                    self._gates[place].mark_passed(number)
                    signatures[place] = tuple(
                        one for one, verdict in zip(asked, verdicts, strict=True) if not verdict
                    )
                    results = [
                        verdict or one.trajectory
                        for verdict, one in zip(verdicts, carried, strict=True)
                    ]
                else:
                    results = [await self._ask(step, one.trajectory) for one in carried]
                made = [
                    self._collect_result(step, one, result)
                    for one, result in zip(carried, results, strict=True)
                ]
                after = _distinct([new for many, _ in made for new in many])
            except Exception as error:
                way = Passage(counts=tuple(counts), dropped=tuple(dropped), signatures=signatures)
                raise StepFailedError(step.name, error, way) from error
            dropped += [
                Dropped(place, result.reason, result.detail)
                for result in results
                if isinstance(result, Drop)
            ]
            counts.append(Count(len(carried), sum(changed for _, changed in made), len(after)))
            carried = after
        passage = Passage(
            outputs=tuple(one.trajectory.episode_id for one in carried),
            counts=tuple(counts),
            dropped=tuple(dropped),
            signatures=signatures,
        )
        return carried, passage

    async def _ask(self, step: Step, trajectory: EpisodeTrajectory) -> Result:
        if inspect.iscoroutinefunction(type(step).__call__):
            return await _await_result(step(trajectory))
        call = _Call(step, trajectory)
        try:
            return await _await_result(await self._in_thread(call))
        except asyncio.CancelledError:
            call.abandon()
            raise

    async def _signatures(self, step: OrderedStep, carried: Sequence[Carried]) -> tuple[Any, ...]:
        def signatures() -> tuple[Any, ...]:
            # Converted as the ledger does, so that a step sees the same in each run.
            return tuple(
                orjson.loads(orjson.dumps(step.signature(one.trajectory))) for one in carried
            )

        found: tuple[Any, ...] = await self._in_thread(signatures)
        return found

    def _tell(self, place: int, passage: Passage) -> None:
        step = self._steps[place]
        assert isinstance(step, OrderedStep)
        for signature in passage.signatures.get(place, ()):
            step.admit(signature)

    def _collect_result(
        self, step: Step | OrderedStep, one: Carried, result: Result
    ) -> tuple[tuple[Carried, ...], bool]:
        """Return a step's resulting trajectories, and whether they differ from the input."""
        before = one.trajectory
        match result:
            case Drop():
                return (), False
            case EpisodeTrajectory():
                found = Changed((result,))
            case Changed(trajectories=trajectories) if trajectories and all(
                isinstance(trajectory, EpisodeTrajectory) for trajectory in trajectories
            ):
                found = result
            case _:
                raise errors.InvalidInputError(
                    f"The step {step.name!r} returned {result!r:.200}; expected a trajectory, "
                    "Drop(reason), or Changed with at least one trajectory."
                )
        same = len(found.trajectories) == 1 and found.trajectories[0] is before
        if same and not (found.changes or found.model):
            return (one,), False
        derivation = Derivation(
            step=step.name,
            version=step.version,
            software=self._software,
            settings=dict(step.settings),
            model=found.model,
            prompt_sha256=found.prompt_sha256,
            source_episode_id=before.episode_id,
            changes=dict(found.changes),
        )
        made = (Carried(new, (*one.chain, derivation)) for new in found.trajectories)
        return tuple(made), True


def software() -> str:
    """Return this software's name and version, as derivations record it."""
    return f"webtraj {webtraj.__version__}"


class _Call:
    """A step's call in a thread. It may return a coroutine after the caller was cancelled."""

    def __init__(self, step: Step, trajectory: EpisodeTrajectory) -> None:
        self._step, self._trajectory = step, trajectory
        self._lock = threading.Lock()
        self._abandoned = False
        self._result: Result | Awaitable[Result] | None = None

    def __call__(self) -> Result | Awaitable[Result]:
        result = self._step(self._trajectory)
        with self._lock:
            self._result = result
            if self._abandoned:
                _close(result)
        return result

    def abandon(self) -> None:
        """Close the coroutine that the step returned or will return."""
        with self._lock:
            self._abandoned = True
            _close(self._result)


def _close(result: Any) -> None:
    if inspect.iscoroutine(result):
        result.close()


async def _await_result(result: Result | Awaitable[Result]) -> Result:
    return await result if inspect.isawaitable(result) else result


def _distinct(carried: Iterable[Carried]) -> tuple[Carried, ...]:
    """Return trajectories with distinct ids: `<id>.<n>` where several share one."""
    carried = tuple(carried)
    counts = collections.Counter(one.trajectory.episode_id for one in carried)
    taken = set(counts)
    given: collections.Counter[str] = collections.Counter()
    result = []
    for one in carried:
        old = check_episode_id(one.trajectory.episode_id)
        if counts[old] == 1:
            result.append(one)
            continue
        new = _next_id(old, given, taken)
        info = dataclasses.replace(one.trajectory.info, episode_id=new)
        result.append(
            dataclasses.replace(one, trajectory=dataclasses.replace(one.trajectory, info=info))
        )
    return tuple(result)


def _next_id(old: str, given: collections.Counter[str], taken: set[str]) -> str:
    while True:
        new = f"{old}.{given[old]}"
        given[old] += 1
        if new not in taken:
            taken.add(new)
            return check_episode_id(new)


def derive(
    carried: Carried,
    source: EpisodeTrajectory,
    head: Derivation,
    passage: Mapping[str, Any],
) -> EpisodeTrajectory:
    """Return an output in its final form, with the full record of changes to the source."""
    head = dataclasses.replace(head, changes={"passage": passage})
    chain = (*source.info.derivation, head, *carried.chain)
    info = dataclasses.replace(carried.trajectory.info, derivation=chain)
    return dataclasses.replace(carried.trajectory, info=info)
