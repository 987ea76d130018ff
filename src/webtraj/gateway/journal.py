"""The gateway's journal: every model call, on disk before and after it.

A line of JSON when a call begins, before it is forwarded, and one when it ends::

    {"call": "...", "at": ..., "run": "", "connection": "127.0.0.1:40312", "dialect": "openai",
     "provider": "vllm", "request": {...}}
    {"call": "...", "latency": ..., "first_byte": ..., "status": 200, "response": {...},
     "failure": "", "error": ""}

Lines are appended whole, so a killed gateway loses the replies of the calls in flight and nothing
else, and the journal has their requests. No headers are written, and no API keys that a header
had.
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

__all__ = ["Journal", "RecordedCall", "merged", "read_calls"]

_LOGGER = logging.getLogger(__name__)
_LOST: Final = "The gateway ended before the reply."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call of an agent to a model."""

    id: str
    """Its name in the journal."""
    run: str
    """The key in the address that the agent used; empty without one."""
    connection: str
    """The agent's end of its connection."""
    call: ModelCall
    """The call, with the attempts that the agent made before as `failed_attempts`."""
    request: Any = dataclasses.field(repr=False)
    """The request's body: equal for attempts of one call."""

    @property
    def start(self) -> float:
        """When it began, in seconds since the epoch (UTC)."""
        return self.call.start_time or 0.0

    @property
    def end(self) -> float:
        """When it ended; infinity for one without an end."""
        return float("inf") if self.call.latency is None else self.start + self.call.latency

    @classmethod
    def of(cls, begun: Mapping[str, Any], ended: Mapping[str, Any] | None) -> RecordedCall:
        """Return the call that a journal's lines tell; without an end, one in flight."""
        told: Mapping[str, Any] = {"error": _LOST} if ended is None else ended
        attempts: tuple[FailedAttempt, ...] = ()
        if failure := told.get("failure"):
            attempts = (
                FailedAttempt(
                    error=failure,
                    status=told["status"] if failure == "status" else None,
                    start_time=begun["at"],
                    latency=told["latency"],
                ),
            )
        call = model_call(
            begun["dialect"],
            begun["request"],
            told.get("response"),
            provider=begun["provider"],
            error=told.get("error", ""),
            start_time=begun["at"],
            latency=told.get("latency"),
            failed_attempts=attempts,
        )
        return cls(
            id=begun["call"],
            run=begun["run"],
            connection=begun["connection"],
            call=call,
            request=begun["request"],
        )


def merged(calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    """Return calls in the order in which they began, attempts at one as one.

    A call with the body of one that failed before it, and is no other's attempt yet, is that one
    made again.
    """
    failed: list[RecordedCall] = []
    found: dict[str, RecordedCall] = {}
    for made in sorted(calls, key=lambda call: call.start):
        before = next((call for call in failed if _is_again(made, call)), None)
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


def _is_again(made: RecordedCall, before: RecordedCall) -> bool:
    same = made.run == before.run and made.request == before.request
    return same and before.end <= made.start


class Journal:
    """A journal that calls are appended to.

    Args:
        path: The file; made if it is missing.

    Raises:
        InvalidInputError: It cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # For this user alone: it has what agents tell their models, passwords among it.
            number = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            self._file = os.fdopen(number, "ab+", buffering=0)
            size = self._file.seek(0, os.SEEK_END)
            if size and os.pread(self._file.fileno(), 1, size - 1) != b"\n":
                self._file.write(b"\n")  # After a line that a power cut tore.
        except OSError as error:
            raise errors.InvalidInputError(
                f"Cannot write the journal {str(self.path)!r}: {errors.reason(error)}."
            ) from error
        self._broken = False

    def append(self, line: Mapping[str, Any]) -> None:
        """Append a line. Never fails: what agents do matters more than its record."""
        try:
            data = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
            if self._broken:
                data = b"\n" + data  # After a line that may have been cut; empty ones are skipped.
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
    """Return the calls of a journal; see `merged`.

    A call without an end, because it is in flight or the gateway was killed, has no latency, and an
    error.

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
            continue  # It was torn.
        if not isinstance(line, dict) or not isinstance(line.get("call"), str):
            raise errors.CorruptDataError(
                f"Line {number} of {str(path)!r} is not one of a gateway's journal."
            )
        (begun if line.get("dialect") in DIALECTS.values() else ended)[line["call"]] = line
    return merged(RecordedCall.of(line, ended.get(call)) for call, line in begun.items())
