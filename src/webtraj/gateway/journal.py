"""The gateway's journal: a file with every model call.

It gets a line of JSON before a call is forwarded, and another when the call ends::

    {"call": "...", "at": ..., "run": "", "dialect": "openai", "provider": "vllm",
     "request": {...}}
    {"call": "...", "latency": ..., "first_byte": ..., "status": 200, "response": {...},
     "failure": "", "error": ""}

Each line is a single write, so a killed gateway loses only the replies of calls in flight; the
journal has their requests. Headers are not written, and API keys are removed from bodies.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from webtraj import errors
from webtraj.gateway.dialects import DIALECTS, model_call
from webtraj.trajectory import FailedAttempt, ModelCall

__all__ = ["Journal", "RecordedCall", "merge_attempts", "read_calls"]

_LOGGER = logging.getLogger(__name__)
_LOST: Final = "The gateway ended before the reply."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call of an agent to a model."""

    id: str
    """Its name in the journal."""
    run: str
    """The run in the agent's base URL (see `Gateway.openai_url`); empty without one."""
    call: ModelCall
    """The call, with the agent's earlier attempts at it as `failed_attempts`."""

    @property
    def start(self) -> float:
        """When it began, in seconds since the epoch (UTC)."""
        return self.call.start_time or 0.0

    @property
    def end(self) -> float:
        """When it ended; infinity for a call without an end."""
        return float("inf") if self.call.latency is None else self.start + self.call.latency

    @classmethod
    def of(cls, begun: Mapping[str, Any], ended: Mapping[str, Any] | None) -> RecordedCall:
        """Return the call that two lines of a journal record; in flight if `ended` is None."""
        result: Mapping[str, Any] = {"error": _LOST} if ended is None else ended
        attempts: tuple[FailedAttempt, ...] = ()
        if failure := result.get("failure"):
            attempts = (
                FailedAttempt(
                    error=failure,
                    status=result["status"] if failure == "status" else None,
                    start_time=begun["at"],
                    latency=result["latency"],
                ),
            )
        call = model_call(
            begun["dialect"],
            begun["request"],
            result.get("response"),
            provider=begun["provider"],
            error=result.get("error", ""),
            start_time=begun["at"],
            latency=result.get("latency"),
            failed_attempts=attempts,
        )
        return cls(id=begun["call"], run=begun["run"], call=call)

    def is_attempt_at(self, other: RecordedCall) -> bool:
        """Return whether two calls ask a model the same, by any API, streamed or not."""
        mine, theirs = self.call, other.call
        return (
            self.run == other.run
            and mine.model == theirs.model
            and mine.messages == theirs.messages
            and mine.sampling == theirs.sampling
        )


def merge_attempts(calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    """Return calls in the order of their start, with all attempts at a call merged.

    A call repeats an earlier one that failed if they have the same request. Each failed call is
    repeated at most once.
    """
    failed: list[RecordedCall] = []
    found: dict[str, RecordedCall] = {}
    for made in sorted(calls, key=lambda call: call.start):
        before = next((call for call in failed if _repeats(made, call)), None)
        if before is not None:
            failed.remove(before)
            del found[before.id]
            call = dataclasses.replace(
                made.call,
                start_time=before.start,
                latency=None if made.call.latency is None else made.end - before.start,
                failed_attempts=(*before.call.failed_attempts, *made.call.failed_attempts),
            )
            made = dataclasses.replace(made, call=call)
        found[made.id] = made
        if made.call.error:
            failed.append(made)
    return list(found.values())


def _repeats(made: RecordedCall, before: RecordedCall) -> bool:
    return before.end <= made.start and made.is_attempt_at(before)


class Journal:
    """An append-only file of model calls.

    Args:
        path: The file; created if it does not exist.

    Raises:
        InvalidInputError: It cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Readable by this user only: agents may send passwords to their models.
            number = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            self._file = os.fdopen(number, "ab+", buffering=0)
            size = self._file.seek(0, os.SEEK_END)
            if size and os.pread(self._file.fileno(), 1, size - 1) != b"\n":
                self._file.write(b"\n")  # A power failure cut the last line off.
        except OSError as error:
            raise errors.InvalidInputError(
                f"Cannot write the journal {str(self.path)!r}: {errors.reason(error)}."
            ) from error
        self._broken = False

    def append(self, line: Mapping[str, Any]) -> None:
        """Append a line. An error is logged, not raised: it must not break the agent's call."""
        try:
            data = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
            if self._broken:
                data = b"\n" + data  # The last line may be cut off. Readers skip empty lines.
            if self._file.write(data) != len(data):
                raise OSError("the line was cut")
            self._broken = False
        except (OSError, TypeError, ValueError) as error:
            if not self._broken:
                _LOGGER.error("Model calls are not recorded in %s: %s", self.path, error)
            self._broken = True

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()


def read_calls(path: str | os.PathLike[str]) -> list[RecordedCall]:
    """Return a journal's calls in the order of their start, with attempts at a call merged.

    A call that is in flight, or was when the gateway was killed, has an error and no latency.

    Raises:
        CorruptDataError: It is not a gateway's journal.
        InvalidInputError: It cannot be read.
    """
    begun: dict[str, Any] = {}
    ended: dict[str, Any] = {}
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise errors.InvalidInputError(
            f"Cannot read the journal {str(path)!r}: {errors.reason(error)}."
        ) from error
    for number, text in enumerate(lines, 1):
        try:
            line = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue  # An empty line, or one that was cut off.
        if not isinstance(line, dict) or not isinstance(line.get("call"), str):
            raise errors.CorruptDataError(
                f"Line {number} of {str(path)!r} is not a line of a gateway's journal."
            )
        (begun if line.get("dialect") in DIALECTS.values() else ended)[line["call"]] = line
    return merge_attempts(RecordedCall.of(line, ended.get(call)) for call, line in begun.items())
