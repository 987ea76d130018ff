"""Run a loop's phases, in one lane or two, and resume it where it ended.

`phases` defines the phases. Only `state` records which of them are done.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from webtraj import errors
from webtraj.loop import config_file, configuration, metrics, phases, process, servers
from webtraj.loop.commands import check_first, make_phase
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
from webtraj.serving.process import tail
from webtraj.store import files

__all__ = ["LoopResult", "Only", "run"]

_logger = logging.getLogger(__name__)

Only = Literal["rollout", "update", "both"]

_NOT_AGAIN = frozenset({2, 126, 127})
"""Exit statuses that a retry would not change: invalid input, no program."""
_SIGNALLED = 128
"""Exit statuses above this one come from signals."""
_LONGEST_PAUSE = 60.0
_MEASURED = ("rollout", "postprocess", "evaluate", "publish")
"""Phases after which an iteration is measured."""
_PLAYING = ("rollout", "evaluate")
_DERIVED = ("postprocess", "export", "groups")
"""Phases whose outputs can be made again from the recordings."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoopResult:
    """Result of running a loop."""

    out: Path
    """The loop's folder."""
    finished: bool
    """Whether all phases are done."""
    run: int
    """Number of phases run now."""
    lines: tuple[Mapping[str, Any], ...]
    """The loop's metrics, one line per iteration: see `webtraj.loop.metrics`."""


async def run(
    config: LoopConfig,
    *,
    resume: bool = False,
    only: Only = "both",
    observer: LoopObserver | None = None,
) -> LoopResult:
    """Run or resume a loop.

    If cancelled, it stops the running phase cleanly, and the loop can be resumed.

    Args:
        config: The loop's configuration.
        resume: Whether to resume a loop that may exist in `config.out`. Done phases are skipped,
            and an interrupted one is resumed.
        only: Which phases to run: those that record and prepare episodes (`rollout`), or those that
            train a model on them (`update`). The loop stops before the next phase of the other
            group.
        observer: Receives the loop's events.

    Returns:
        The loop's metrics, and whether it is finished.

    Raises:
        InvalidInputError: The configuration is inconsistent; or the folder already has a loop and
            `resume` is false, or another loop is running there.
        MissingDependencyError: A new loop needs vLLM or LLaMA-Factory, and it is not installed.
        ModelError: The policy's server does not start, or rejects weights.
        PhaseFailedError: A phase failed, retries included.
        StorageError: The loop's folder cannot be written.
    """
    config = config_file.check_loop(config)
    check_first(config)
    places = Places(config)
    if not places.state.exists():  # Otherwise a loop that cannot start would claim its folder.
        servers.check_programs(config, only)
    with contextlib.ExitStack() as stack:
        own(stack, places)
        state = stack.enter_context(LoopState(places.state))
        begin(config, state, resume=resume, observer=observer or NullLoopObserver())
        files.write_atomically(places.configuration, configuration.to_yaml(config).encode())
        loop = _Loop(config, state, only, observer or NullLoopObserver())
        return await loop.run()


class _Loop:
    """A running loop."""

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
        self._sink = IterationSink(config)

    async def run(self) -> LoopResult:
        lanes = [self._find_left(lane) for lane in self._all]
        total = sum(map(len, self._all))
        self._observer.loop_begins(total, total - sum(map(len, lanes)))
        for group in ("rollout", "update"):
            await process.until_free(
                self._places.lock(group),
                lambda: self._observer.note("Waiting for a phase left running by an earlier loop."),
            )
        chosen = [self._choose(lane) for lane in lanes]
        await asyncio.to_thread(self._catch_up)
        try:
            async with asyncio.TaskGroup() as tasks:
                for lane in chosen:
                    tasks.create_task(self._run_lane(lane))
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            await self._server.aclose()
            await asyncio.to_thread(self._sink.close)
        finished = all(event.is_set() for event in self._done.values())
        lines = metrics.read_lines(self._places.metrics)
        return LoopResult(
            out=self._places.out, finished=finished, run=self._run, lines=tuple(lines)
        )

    def _find_left(self, lane: Sequence[Slot]) -> list[Slot]:
        """Return the phases that are not done, and mark the others as done.

        A phase that was skipped because it was not configured is not run later, unless its data is
        needed now.
        """
        passed = self._find_passed()
        left: list[Slot] = []
        for slot in lane:
            if slot.key not in passed:
                left.append(slot)
            elif (slot.iteration, "train") not in passed and self._is_gone(slot):
                self._observer.note(f"Running {slot} again: its outputs were removed.")
                left.append(slot)
            elif (slot.iteration, "train") not in passed and self._is_needed(slot):
                left.append(slot)
            elif slot.name == "postprocess" and self._is_owed(slot, passed):
                self._observer.note(f"Running {slot}, which the loop did not have before.")
                left.append(slot)
            else:
                self._done[slot.key].set()
        return left

    def _find_passed(self) -> set[tuple[int, str]]:
        """Return the phases that are done, or skipped because a later one is done."""
        ended = [key for key in self._order if self._state.find_end(key) is not None]
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

    def _is_gone(self, slot: Slot) -> bool:
        """Return whether a phase's outputs were removed.

        Users remove outputs to have them made again. Recordings are not made again, since the new
        ones would differ.
        """
        ended = self._state.find_end(slot.key)
        return (
            slot.name in _DERIVED
            and ended is not None
            and not all(Path(path).exists() for path in ended["outputs"])
        )

    def _is_needed(self, slot: Slot) -> bool:
        """Return whether the training needs data that its previous algorithm did not need."""
        return slot.name in ("export", "groups") and self._state.find_end(slot.key) is None

    def _is_owed(self, slot: Slot, passed: Collection[tuple[int, str]]) -> bool:
        """Return whether a later export needs data of this iteration that was never processed."""
        processed = self._places.processed_dataset(slot.iteration)
        return self._state.find_end(slot.key) is None and any(
            name == "export" and processed in self._places.training_datasets(iteration)
            for iteration, name in self._order.keys() - passed
        )

    def _choose(self, lane: Sequence[Slot]) -> list[Slot]:
        """Return those of a lane's phases that should run now."""
        if self._only == "both":
            return list(lane)
        if lane and lane[0].group != self._only:
            raise errors.InvalidInputError(
                f"The next phase is {lane[0]}, which --only {self._only} does not run. Run it "
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
        begun = self._state.find_begun(slot.key)
        if begun is not None and await asyncio.to_thread(_has_outputs, phase, begun):
            await self._take_as_found(phase)
        else:
            await self._run_phase(phase, policy)
        async with self._one_at_a_time:
            await asyncio.to_thread(self._follow_up, slot)

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
            if status > _SIGNALLED and await asyncio.to_thread(_has_outputs, phase, begun):
                await self._take_as_found(phase)
                return
            if status in _NOT_AGAIN or tries >= phase.retries:
                tried = f", tried {tries + 1} times" if tries else ""
                raise PhaseFailedError(
                    f"The phase {slot} {why}{tried}. The end of its log, {log}:\n"
                    f"{tail(log, start)}\n"
                    "Fix the cause, then run the same command with --resume; done phases are kept."
                )
            pause = min(2.0**tries, _LONGEST_PAUSE)
            tries += 1
            self._observer.phase_failed(slot, why, pause=pause)
            await asyncio.sleep(pause)
            if slot.name in _PLAYING:
                # If its server died, start one again.
                phase = make_phase(self._config, slot, await self._policy(slot))

    async def _take_as_found(self, phase: Phase) -> None:
        await asyncio.to_thread(self._state.add_ended, phase, 0.0, found=True)
        self._observer.phase_ended(phase.slot, 0.0)

    async def _command(self, slot: Slot, command: Sequence[str], log: Path) -> int:
        return await process.run_command(
            command,
            log=log,
            lock=self._places.lock(slot.group),
            patience=self._config.patience,
            said=lambda line: self._observer.phase_said(slot, line),
        )

    async def _policy(self, slot: Slot) -> Policy:
        """Return the served policy; for phases that do not play, the weights that they need."""
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
        source = f"iteration {version}" if version else "the start of the loop"
        self._observer.note(f"Using the weights of {source} for {slot}.")
        return await self._server.ensure(version, weights)

    def _weights(self, version: int) -> str:
        """Return the model of a version; empty if an agent without a model started the loop."""
        if not version and self._config.first.agent is not None:
            return ""
        return self._places.weights(version)

    def _version(self, slot: Slot) -> int:
        """Return the iteration of the weights that play."""
        if slot.name == "evaluate":
            return slot.iteration
        if (begun := self._state.find_begun(slot.key)) is not None:
            return begun.policy  # A resumed rollout keeps its policy.
        first = self._config.first
        if first.agent is not None and slot.iteration <= first.iterations:
            return 0
        # Not simply the newest weights: the same seed must give the same loop.
        return max(slot.iteration - 1 - self._behind, 0)

    def _check_base(self, slot: Slot) -> None:
        if slot.name != "train" or self._config.train.command is not None:
            return
        base = self._places.base(slot.iteration)
        trained = slot.iteration > 1 and self._config.train.begin == "previous"
        if trained and (wrong := Output(base, "model").missing):
            raise errors.InvalidInputError(
                f"The training of iteration {slot.iteration} starts from {base!r}, which {wrong}. "
                "Restore it, or set train.begin=base."
            )

    async def _update_external(self, command: Sequence[str], version: int) -> None:
        log = self._places.out / "logs" / "serve.log"
        start = _size(log)
        slot = Slot(version, "serve", "rollout")
        status = await self._command(slot, command, log)
        if status:
            raise PhaseFailedError(
                f"serve.update_command exited with status {status} for the weights of "
                f"iteration {version}. The end of its log, {log}:\n{tail(log, start)}"
            )

    # Follow-up work after a phase: metrics, the plot, removal of old trainings.
    #
    # All of it can be made again from what is on disk. A loop that died after it recorded a phase
    # as done, but before the follow-up, catches up when it resumes.

    def _follow_up(self, slot: Slot) -> None:
        """Do the follow-up work of a phase that just ended. Blocks."""
        if slot.name == "publish":
            self._prune(slot.iteration)
        if slot.name in _MEASURED:
            self._measure(slot.iteration)

    def _catch_up(self) -> None:
        """Repeat the follow-up work of each lane's last phase, for a resumed loop. Blocks."""
        for lane in self._all:
            ended = [slot for slot in lane if self._state.find_end(slot.key) is not None]
            if last := next((slot for slot in reversed(ended) if slot.name in _MEASURED), None):
                self._follow_up(last)

    def _measure(self, iteration: int) -> None:
        try:
            line = metrics.measure_iteration(self._config, self._state, iteration)
            metrics.write_line(self._places.metrics, line)
            self._observer.measured(line)
            if all(self._state.find_end(key) for key in self._done if key[0] == iteration):
                self._sink.write(line)
        except Exception:
            # Metrics can be made again, so an error must not end the loop.
            _logger.warning("Could not measure iteration %d.", iteration, exc_info=True)

    def _prune(self, published: int) -> None:
        keep = self._config.publish.keep
        if keep is None:
            return
        # Keep weights that may still play.
        last = published - max(keep, 2 + phases.staleness(self._config))
        for number in range(1, last + 1):
            shutil.rmtree(self._places.training_folder(number), ignore_errors=True)


def _has_outputs(phase: Phase, begun: Begun) -> bool:
    """Return whether an interrupted try made all promised outputs."""
    return (
        phase.at_once
        and bool(phase.outputs)
        and all(
            not output.missing and digest(output.path) != begun.before.get(output.path, "")
            for output in phase.outputs
        )
    )


def _wrong(phase: Phase, status: int) -> str:
    """Return the problem with a phase that ended, as the end of a sentence."""
    if status:
        killed = f", killed by signal {status - _SIGNALLED}" if status > _SIGNALLED else ""
        return f"exited with status {status}{killed}"
    for output in phase.outputs:
        if wrong := output.missing:
            return f"exited successfully, but {output.path!r} {wrong}"
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
    """Return the first error of several lanes; the others were cancelled because of it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
