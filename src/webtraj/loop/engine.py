"""Runs a loop's phases, one after the other or in two lanes, and goes on where it was ended.

What a phase is, `phases` says; that it was done, `state` says, and nothing else does.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from webtraj import errors
from webtraj.loop import configuration, metrics, phases, running, servers
from webtraj.loop.building import check_first, make_phase
from webtraj.loop.configuration import LoopConfig
from webtraj.loop.metrics import IterationSink
from webtraj.loop.phases import (
    LoopObserver,
    NullLoopObserver,
    Output,
    Phase,
    PhaseFailedError,
    Policy,
    Slot,
    digest,
)
from webtraj.loop.places import Places
from webtraj.loop.state import Begun, LoopState, begin, own
from webtraj.store import files

__all__ = ["Following", "LoopResult", "Only", "run"]

# What follows from a phase that is done: metrics, a picture, old trainings removed.
#
# All of it can be made again from what is on disk. A loop that died after a phase's line in its
# state was written, and before what follows from that, makes up for it when it goes on.

_logger = logging.getLogger(__name__)

_MEASURED = ("rollout", "postprocess", "evaluate", "publish")
"""The phases after which an iteration is measured."""


class Following:
    """Does what follows from phases, one at a time.

    Args:
        config: The loop's configuration.
        state: What was done.
        slots: All phases of the loop.
        observer: Is told what was measured.
    """

    def __init__(
        self,
        config: LoopConfig,
        state: LoopState,
        slots: Iterable[Slot],
        observer: LoopObserver,
    ) -> None:
        self._config, self._state, self._observer = config, state, observer
        self._keys = [slot.key for slot in slots]
        self._places = Places(config)
        self._sink = IterationSink(config)

    def after(self, slot: Slot) -> None:
        """Does what follows from a phase that has just ended. Blocks."""
        if slot.name == "publish":
            self._prune(slot.iteration)
        if slot.name in _MEASURED:
            self._measure(slot.iteration)

    def catch_up(self, lanes: Sequence[Sequence[Slot]]) -> None:
        """Makes up for what a loop that died has left undone: of each lane's last phase. Blocks."""
        for lane in lanes:
            ended = [slot for slot in lane if self._state.ended(slot.key) is not None]
            if last := next((slot for slot in reversed(ended) if slot.name in _MEASURED), None):
                self.after(last)

    def close(self) -> None:
        """Ends what was begun elsewhere. Blocks; idempotent."""
        self._sink.close()

    def _measure(self, iteration: int) -> None:
        try:
            line = metrics.measure_iteration(self._config, self._state, iteration)
            lines = metrics.write_line(self._places.metrics, line)
            metrics.plot_success(lines, self._places.plot)
            self._observer.measured(line)
            if all(self._state.ended(key) for key in self._keys if key[0] == iteration):
                self._sink.write(line)
        except Exception:
            # They follow from what is on disk, and are no reason to lose a night.
            _logger.warning("No metrics of iteration %d.", iteration, exc_info=True)

    def _prune(self, published: int) -> None:
        keep = self._config.publish.keep
        if keep is None:
            return
        # Weights that may play still are kept in any case.
        last = published - max(keep, 2 + phases.staleness(self._config))
        for number in range(1, last + 1):
            shutil.rmtree(self._places.training(number), ignore_errors=True)


Only = Literal["rollout", "update", "both"]

_NOT_AGAIN = frozenset({2, 126, 127})
"""Exit statuses that another try would not change: wrong input, no program."""
_SIGNALLED = 128
"""Exit statuses above this one are those of signals."""
_LONGEST_PAUSE = 60.0
_PLAYING = ("rollout", "evaluate")
_DERIVED = ("judge", "postprocess", "export")
"""Phases whose outputs can be made again of what was recorded."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoopResult:
    """What came of a loop."""

    out: Path
    """Its folder."""
    finished: bool
    """Whether all of its phases are done."""
    run: int
    """How many were run now."""
    lines: tuple[Mapping[str, Any], ...]
    """Its metrics, a line an iteration: see `webtraj.loop.metrics`."""


async def run(
    config: LoopConfig,
    *,
    resume: bool = False,
    only: Only = "both",
    observer: LoopObserver | None = None,
) -> LoopResult:
    """Runs a loop to its end, or goes on with one.

    Being cancelled ends the running phase in good order, and leaves the rest to be gone on with.

    Args:
        config: What to run.
        resume: Whether to go on with a loop that may have been begun in `config.out`. Phases that
            are done are not run again; one that was interrupted is gone on with.
        only: Which phases: those that play and prepare what was played (`rollout`), or those that
            make a model of it (`update`), up to the next one of the other kind.
        observer: Is told what happens.

    Returns:
        What came of it.

    Raises:
        InvalidInputError: The configuration does not fit; or a loop was begun in the folder and is
            not to be gone on with, or another one runs there.
        ModelError: The policy's server does not start, or does not take weights.
        PhaseFailedError: A phase failed, as often as it may.
        StorageError: The loop's folder cannot be written.
    """
    config = configuration.check(config)
    check_first(config)
    places = Places(config)
    with contextlib.ExitStack() as stack:
        own(stack, places)
        state = stack.enter_context(LoopState(places.state))
        begin(config, state, resume=resume, observer=observer or NullLoopObserver())
        files.write_atomically(places.configuration, configuration.to_yaml(config).encode())
        loop = _Loop(config, state, only, observer or NullLoopObserver())
        return await loop.run()


class _Loop:
    """A loop that runs."""

    def __init__(
        self, config: LoopConfig, state: LoopState, only: Only, observer: LoopObserver
    ) -> None:
        self._config, self._state, self._only, self._observer = config, state, only, observer
        self._places = Places(config)
        overlap = config.overlap.enabled and only == "both"
        self._all = phases.lanes(config, overlap=overlap)
        (in_turn,) = phases.lanes(config, overlap=False)
        self._order = {slot.key: place for place, slot in enumerate(in_turn)}
        self._done = {slot.key: asyncio.Event() for lane in self._all for slot in lane}
        self._server = servers.open_server(config, self._update_external)
        self._one_at_a_time = asyncio.Lock()
        self._behind = config.overlap.max_staleness if overlap else 0
        self._run = 0
        slots = [slot for lane in self._all for slot in lane]
        self._following = Following(config, state, slots, observer)

    async def run(self) -> LoopResult:
        lanes = [self._left(lane) for lane in self._all]
        total = sum(map(len, self._all))
        self._observer.loop_begins(total, total - sum(map(len, lanes)))
        for group in ("rollout", "update"):
            await running.until_free(
                self._places.lock(group),
                lambda: self._observer.note("Waiting for a phase that an earlier loop has left."),
            )
        chosen = [self._chosen(lane) for lane in lanes]
        await asyncio.to_thread(self._following.catch_up, self._all)
        try:
            async with asyncio.TaskGroup() as tasks:
                for lane in chosen:
                    tasks.create_task(self._run_lane(lane))
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            await self._server.aclose()
            await asyncio.to_thread(self._following.close)
        finished = all(event.is_set() for event in self._done.values())
        lines = metrics.read_lines(self._places.metrics)
        return LoopResult(
            out=self._places.out, finished=finished, run=self._run, lines=tuple(lines)
        )

    def _left(self, lane: Sequence[Slot]) -> list[Slot]:
        """Returns the phases that are not done, and notes those that are.

        A phase that was passed, since it was not asked for then, is not made up for.
        """
        passed = self._passed()
        left: list[Slot] = []
        for slot in lane:
            if slot.key not in passed:
                left.append(slot)
            elif (slot.iteration, "train") not in passed and self._gone(slot):
                self._observer.note(f"Again {slot}: what it made is not there any more.")
                left.append(slot)
            else:
                self._done[slot.key].set()
        return left

    def _passed(self) -> set[tuple[int, str]]:
        """Returns the phases that are done, or that a later one is done of."""
        ended = [key for key in self._order if self._state.ended(key) is not None]
        farthest: dict[int, int] = {}
        latest: dict[str, int] = {}
        for key in ended:
            iteration, name = key
            farthest[iteration] = max(farthest.get(iteration, -1), self._order[key])
            latest[name] = max(latest.get(name, -1), iteration)
        return {
            (iteration, name)
            for (iteration, name), place in self._order.items()
            if place <= farthest.get(iteration, -1) or iteration < latest.get(name, -1)
        }

    def _gone(self, slot: Slot) -> bool:
        """Returns whether what a phase made was removed.

        That is how one asks for it to be made again, in another way for instance. What was
        recorded is not: it would be other data.
        """
        ended = self._state.ended(slot.key)
        return (
            slot.name in _DERIVED
            and ended is not None
            and not all(Path(path).exists() for path in ended["outputs"])
        )

    def _chosen(self, lane: Sequence[Slot]) -> list[Slot]:
        """Returns those of a lane's phases that are to be run now."""
        if self._only == "both":
            return list(lane)
        if lane and lane[0].group != self._only:
            raise errors.InvalidInputError(
                f"The next phase is {lane[0]}, which --only {self._only} does not run; run it "
                f"first, with --only {lane[0].group}."
            )
        chosen: list[Slot] = []
        for slot in lane:
            if slot.group != self._only:
                break
            chosen.append(slot)
        return chosen

    async def _run_lane(self, lane: Sequence[Slot]) -> None:
        for slot in lane:
            for key in slot.after:
                await self._done[key].wait()
            await self._run_slot(slot)
            self._done[slot.key].set()

    async def _run_slot(self, slot: Slot) -> None:
        policy = await self._policy(slot)
        phase = make_phase(self._config, slot, policy)
        self._check_base(slot)
        begun = self._state.begun(slot.key)
        if begun is not None and await asyncio.to_thread(_found, phase, begun):
            await self._take_as_found(phase)
        else:
            await self._run_phase(phase, policy)
        async with self._one_at_a_time:
            await asyncio.to_thread(self._following.after, slot)

    async def _run_phase(self, phase: Phase, policy: Policy) -> None:
        slot = phase.slot
        log = self._places.log(slot.iteration, slot.name)
        tries = 0
        while True:
            _make_links(phase.links)
            command = phase.next_command
            begun = await asyncio.to_thread(self._state.add_begun, phase, command, policy.version)
            self._observer.phase_began(phase, attempt=begun.attempts, log=str(log))
            start, began = _size(log), time.monotonic()
            status = await self._command(slot, command, log)
            seconds = time.monotonic() - began
            self._run += 1
            why = await asyncio.to_thread(_wrong, phase, status)
            if not why:
                await asyncio.to_thread(self._state.add_ended, phase, seconds)
                self._observer.phase_ended(slot, seconds)
                return
            self._state.add_failed(slot, status, seconds)
            if status > _SIGNALLED and await asyncio.to_thread(_found, phase, begun):
                await self._take_as_found(phase)
                return
            if status in _NOT_AGAIN or tries >= phase.retries:
                tried = f", tried {tries + 1} times" if tries else ""
                raise PhaseFailedError(
                    f"The phase {slot} {why}{tried}. The end of its log, {log}:\n"
                    f"{running.tail(log, start)}\n"
                    "Put right what is wrong, and give the same command with --resume: what is "
                    "done is kept."
                )
            pause = min(2.0**tries, _LONGEST_PAUSE)
            tries += 1
            self._observer.phase_failed(slot, why, pause=pause)
            await asyncio.sleep(pause)
            if slot.name in _PLAYING:
                # If its server had died, there is one again.
                phase = make_phase(self._config, slot, await self._policy(slot))

    async def _take_as_found(self, phase: Phase) -> None:
        await asyncio.to_thread(self._state.add_ended, phase, 0.0, found=True)
        self._observer.phase_ended(phase.slot, 0.0)

    async def _command(self, slot: Slot, command: Sequence[str], log: Path) -> int:
        return await running.run_command(
            command,
            log=log,
            lock=self._places.lock(slot.group),
            patience=self._config.patience,
            said=lambda line: self._observer.phase_said(slot, line),
        )

    async def _policy(self, slot: Slot) -> Policy:
        """Returns who plays, served; for phases that do not play, whose weights they are about."""
        if slot.name not in _PLAYING:
            if slot.name == "train":
                await self._server.rest()
            version = max(slot.iteration - 1, 0)
            return Policy(version=version, weights=self._weights(version))
        version = self._version(slot)
        weights = self._weights(version)
        given = self._config.evaluation if slot.name == "evaluate" else self._config.rollout
        if not weights or given is None or given.played_by == "other":
            return Policy(version=version, weights=weights)
        self._observer.note(f"Weights of {version or 'the beginning'} for {slot}.")
        return await self._server.ensure(version, weights)

    def _weights(self, version: int) -> str:
        """Returns the model of a version; none where an agent without one began the loop."""
        if not version and self._config.first.agent is not None:
            return ""
        return self._places.weights(version)

    def _version(self, slot: Slot) -> int:
        """Returns which iteration's weights play."""
        if slot.name == "evaluate":
            return slot.iteration
        if (begun := self._state.begun(slot.key)) is not None:
            return begun.policy  # A rollout that is gone on with is of one policy.
        first = self._config.first
        if first.agent is not None and slot.iteration <= first.iterations:
            return 0
        # Not the newest there may happen to be: the same seed shall give the same loop.
        return max(slot.iteration - 1 - self._behind, 0)

    def _check_base(self, slot: Slot) -> None:
        if slot.name != "train" or self._config.train.command is not None:
            return
        base = self._places.base(slot.iteration)
        trained = slot.iteration > 1 and self._config.train.begin == "previous"
        if trained and (wrong := Output(base, "model").missing):
            raise errors.InvalidInputError(
                f"The training of iteration {slot.iteration} begins with {base!r}, which {wrong}. "
                "Put it back, or give train.begin=base."
            )

    async def _update_external(self, command: Sequence[str], version: int) -> None:
        log = self._places.out / "logs" / "serve.log"
        start = _size(log)
        slot = Slot(version, "serve", "rollout")
        status = await self._command(slot, command, log)
        if status:
            raise PhaseFailedError(
                f"serve.update_command ended with exit status {status} for the weights of "
                f"iteration {version}. The end of its log, {log}:\n{running.tail(log, start)}"
            )


def _found(phase: Phase, begun: Begun) -> bool:
    """Whether a try whose end nobody saw has made all that the phase promises."""
    return (
        phase.at_once
        and bool(phase.outputs)
        and all(
            not output.missing and digest(output.path) != begun.before.get(output.path, "")
            for output in phase.outputs
        )
    )


def _wrong(phase: Phase, status: int) -> str:
    """Returns what is wrong with a phase that has ended, as the end of a sentence."""
    if status:
        killed = f", ended by signal {status - _SIGNALLED}" if status > _SIGNALLED else ""
        return f"ended with exit status {status}{killed}"
    for output in phase.outputs:
        if wrong := output.missing:
            return f"ended well, but {output.path!r} {wrong}"
    return ""


def _make_links(links: Mapping[str, str]) -> None:
    for name, target in links.items():
        path = Path(name)
        files.make_folder(path.parent)
        path.unlink(missing_ok=True)
        path.symlink_to(Path(target).absolute())


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Returns the first error of several lanes; the others were cancelled for it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
