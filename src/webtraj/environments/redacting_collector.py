"""A collector that redacts what it records, and the redaction of what was recorded.

The collector fails closed: a value that cannot be redacted is left out of the record, and an
`UnwritableValueError` reports that, without any of the value in its message.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import (
    EpisodeRecorder,
    NullTrajectoryCollector,
    TrajectoryCollector,
    aclose,
    begin,
    drain,
    flush,
    optional,
    seal,
)
from webtraj.environments.base import Redacts
from webtraj.redaction.redactor import Redactor
from webtraj.redaction.rules import NAME, RedactionRules
from webtraj.store import foreign

__all__ = ["REDACTIONS", "RedactingCollector", "metadata_of", "redact_episode", "with_redaction"]

REDACTIONS: Final = "redactions"
"""Key in `EpisodeInfo.metadata` of an episode's redaction counts by name, if any."""

_REDACTS = ("redact_action", "redact", "take_redactions")

_LEFT_OUT: Final = "<not recorded: redaction failed>"
_FAILED = "The {what} was left out of the record because redacting it raised {error}."

_T = TypeVar("_T")


def with_redaction(collector: TrajectoryCollector, environment: Any) -> TrajectoryCollector:
    """Return `collector`, wrapped in redaction if the environment has secrets."""
    # Not by isinstance, which does not see attributes that a wrapper forwards.
    keeps_secrets = all(hasattr(environment, name) for name in _REDACTS)
    if isinstance(collector, NullTrajectoryCollector) or not keeps_secrets:
        return collector
    return RedactingCollector(collector, environment)


class RedactingCollector(TrajectoryCollector):
    """A collector that redacts everything and passes it on to another collector.

    With rules it works with any environment and may be shared by concurrent episodes. With an
    environment it serves one episode at a time, since `take_redactions` counts one.

    Args:
        collector: Stores the episodes.
        redacts: The redaction: `RedactionRules`, or usually an environment.
        secrets: Only with rules: further values to search for, by name.

    Raises:
        InvalidInputError: A secret is invalid, or was given without rules.
    """

    def __init__(
        self,
        collector: TrajectoryCollector,
        redacts: Redacts | RedactionRules,
        *,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._collector = collector
        self._redacts_of: Callable[[], Redacts]
        if isinstance(redacts, RedactionRules):
            rules, known = redacts, dict(secrets or {})
            Redactor(known, rules=rules)  # Fails now, not at the first episode.
            self._redacts_of = lambda: _ByRules(known, rules=rules)
        elif secrets is not None:
            raise errors.InvalidInputError(
                f"Got `secrets` together with a {type(redacts).__name__}; they go only with "
                "RedactionRules. Pass an environment's secrets to the environment."
            )
        else:
            environment = redacts
            self._redacts_of = lambda: environment

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> EpisodeRecorder:
        """See `TrajectoryCollector.begin_episode`."""
        redacts = self._redacts_of()
        redacts.take_redactions()
        safe, failure = _safely(redacts.redact, info, "episode's description", _bare_info)
        recorder = begin(self._collector, safe)
        return _RedactingRecorder(recorder, redacts, safe, failure)

    async def drain(self) -> None:
        """See `TrajectoryCollector.drain`."""
        await drain(self._collector)

    async def seal(self) -> None:
        """See `TrajectoryCollector.seal`."""
        await seal(self._collector)

    async def flush(self) -> None:
        """See `TrajectoryCollector.flush`."""
        await flush(self._collector)

    async def aclose(self) -> None:
        """See `TrajectoryCollector.aclose`."""
        await aclose(self._collector)


class _RedactingRecorder:
    def __init__(
        self,
        recorder: EpisodeRecorder,
        redacts: Redacts,
        info: trajectory_lib.EpisodeInfo,
        failure: errors.UnwritableValueError | None,
    ) -> None:
        self._recorder = recorder
        self._redacts = redacts
        self._info = info
        self._failures: list[str] = []
        # Raised by the first call that may raise: a bad description must not lose the episode.
        self._untold = failure
        # The last intent, original and redacted. Whether a text is a password depends on its
        # target, which is known only before it is typed.
        self._action: tuple[Any, Any] = (None, None)
        self._decision: tuple[Any, Any] = (None, None)

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        self._info = self._safe(self._redacts.redact, info, "episode's description", _bare_info)
        optional(self._recorder, "record_info")(self._info)
        self._tell()

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        safe_action = self._safe(self._redacts.redact_action, action, "action", _leave_out)
        safe_decision = decision
        if decision is not None and safe_action is not decision.action:
            safe_decision = dataclasses.replace(decision, action=safe_action)
        safe_decision = self._safe(self._redacts.redact, safe_decision, "decision", _bare_decision)
        self._action = (action, safe_action)
        self._decision = (decision, safe_decision)
        optional(self._recorder, "record_intent")(safe_action, decision=safe_decision)
        self._tell()

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        known = dataclasses.replace(
            step,
            action=self._reuse(step.action, self._action),
            decision=self._reuse(step.decision, self._decision),
            ignored_action=self._reuse(step.ignored_action, self._action),
        )
        safe = self._safe(self._redacts.redact, known, "step", _bare_step)
        self._recorder.record_step(safe)
        self._tell()

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        known = dataclasses.replace(
            end,
            in_flight_action=self._reuse(end.in_flight_action, self._action),
            in_flight_decision=self._reuse(end.in_flight_decision, self._decision),
        )
        safe = self._safe(self._redacts.redact, known, "end", self._bare_end)
        counts = dict(self._redacts.take_redactions())
        if counts:
            total = _add_counts(_counts_of(self._info), counts)
            metadata = {**metadata_of(self._info), REDACTIONS: total}
            optional(self._recorder, "record_info")(
                dataclasses.replace(self._info, metadata=metadata)
            )
        self._recorder.end_episode(safe)
        self._tell()

    def _safe(
        self, redact: Callable[[_T], _T], value: _T, what: str, bare: Callable[[_T], _T]
    ) -> _T:
        safe, failure = _safely(redact, value, what, bare)
        if failure is not None:
            self._failures.append(f"{type(failure).__name__}: {failure}")
            self._untold = self._untold or failure
        return safe

    def _tell(self) -> None:
        failure, self._untold = self._untold, None
        if failure is not None:
            raise failure

    def _bare_end(self, end: trajectory_lib.EpisodeEnd) -> trajectory_lib.EpisodeEnd:
        return trajectory_lib.EpisodeEnd(
            reason=end.reason,
            phase=end.phase,
            detail=_LEFT_OUT,
            action_in_flight=end.action_in_flight,
            outcome=end.outcome,
            recording_errors=tuple(self._failures),
        )

    @staticmethod
    def _reuse(value: Any, last: tuple[Any, Any]) -> Any:
        given, safe = last
        return safe if value is given else value


class _ByRules(Redactor):
    """Redaction by rules, for one episode."""

    redact_action = Redactor.redact
    take_redactions = Redactor.take_counts


def redact_episode(
    trajectory: trajectory_lib.EpisodeTrajectory,
    *,
    secrets: Mapping[str, str] | None = None,
    rules: RedactionRules | None = None,
) -> tuple[trajectory_lib.EpisodeTrajectory, dict[str, int]]:
    """Redact a recorded episode. Placeholders of earlier redactions stay unchanged.

    Args:
        trajectory: The episode. It is not changed.
        secrets: Values by name.
        rules: Further secrets, by their form.

    Returns:
        The redacted episode, whose description has the counts of all redactions, and the counts of
        this call.

    Raises:
        InvalidInputError: A name or value is invalid.
    """
    before = _counts_of(trajectory.info)
    redactor = Redactor(secrets, rules=rules, placeholders=before)
    steps = tuple(redactor.redact(step) for step in trajectory.steps)
    end = redactor.redact(trajectory.end)
    # Our own counts hold no secrets. What somebody else keeps under this key may be one.
    metadata = metadata_of(trajectory.info)
    if before:
        del metadata[REDACTIONS]
    info = redactor.redact(dataclasses.replace(trajectory.info, metadata=metadata))
    counts = redactor.take_counts()
    if total := _add_counts(before, counts):
        info = dataclasses.replace(info, metadata={**metadata_of(info), REDACTIONS: total})
    return dataclasses.replace(trajectory, info=info, steps=steps, end=end), counts


def metadata_of(info: trajectory_lib.EpisodeInfo) -> dict[str, Any]:
    """Return an episode's metadata as a plain mapping, whatever type it was given as."""
    plain = {} if info.metadata is None else foreign.to_plain(info.metadata)
    return {**plain} if isinstance(plain, Mapping) else {"value": plain}


def _counts_of(info: trajectory_lib.EpisodeInfo) -> dict[str, int]:
    """Return the redaction counts in an episode's description; empty if they are not counts."""
    known = metadata_of(info).get(REDACTIONS)
    if not isinstance(known, Mapping):
        return {}
    ours = all(
        isinstance(name, str) and NAME.fullmatch(name) and type(count) is int
        for name, count in known.items()
    )
    return dict(known) if ours else {}


def _add_counts(before: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    return {**before, **{name: before.get(name, 0) + count for name, count in counts.items()}}


def _safely(
    redact: Callable[[_T], _T], value: _T, what: str, bare: Callable[[_T], _T]
) -> tuple[_T, errors.UnwritableValueError | None]:
    """Return a redacted value, or a harmless remainder and the error."""
    try:
        return redact(value), None
    except Exception as error:  # The error's text may contain the secret.
        message = _FAILED.format(what=what, error=type(error).__name__)
        return bare(value), errors.UnwritableValueError(message)


def _leave_out(value: Any) -> Any:
    return _LEFT_OUT


def _bare_info(info: trajectory_lib.EpisodeInfo) -> trajectory_lib.EpisodeInfo:
    return trajectory_lib.EpisodeInfo(episode_id=info.episode_id)


def _bare_decision(decision: trajectory_lib.Decision | None) -> trajectory_lib.Decision | None:
    return trajectory_lib.Decision(action=_LEFT_OUT)


def _bare_step(step: trajectory_lib.StepRecord) -> trajectory_lib.StepRecord:
    return dataclasses.replace(
        step, observation=_LEFT_OUT, action=_LEFT_OUT, decision=None, ignored_action=None
    )
