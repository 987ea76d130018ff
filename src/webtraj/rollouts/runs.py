"""A run: a rollout on record, so that it can be gone on with after any death.

Its files lie beside the episodes, in the same folder or bucket::

    <dataset>/runs/<run id>/plan.jsonl      written before the first episode (see `plan`)
                            settings.json   what it was run with, for people
                            sessions/<n>    one each time that it was played on many machines
                            underway.json   what was under way there lately, for those who watch

What has been done is not written down a second time: the episodes say it themselves. An episode's
id is `<run id>-<row>-<try>`, so the dataset's index tells which rows of the plan were played, how
often, and how they ended; and no two processes can both record the same try.

On many machines a try may be out of sight: a machine that was cut off has its record, or is even
playing it still. So each session there has numbers of its own for its tries, `TRIES_A_SESSION` of
them from `<n> * TRIES_A_SESSION`, and whoever goes on with the run takes none of those. Both tries
are kept, and `counting` says which one counts.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

import webtraj
from webtraj import errors
from webtraj.rollouts.plan import PlannedEpisode, plan_from_bytes, plan_to_bytes
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.scheduling import RETRIED, RetryPolicy, Turn
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import Storage

__all__ = ["TRIES_A_SESSION", "Progress", "Run", "counting", "new_run_id", "progress_of"]

TRIES_A_SESSION = 1000
"""How many tries at a row one session on many machines can make."""

_RUNS = "runs/"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def new_run_id() -> str:
    """Returns an id that is unique and sorts by time: `20261120T130405-123-9f86d081`.

    The milliseconds put two runs of one second in order. Ids without them, which were given before,
    sort among those of the same second by chance.
    """
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%dT%H%M%S}-{now.microsecond // 1000:03d}-{secrets.token_hex(4)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A run's files."""

    storage: Storage
    """The dataset."""
    run_id: str

    def __post_init__(self) -> None:
        if not _RUN_ID.fullmatch(self.run_id):
            raise errors.InvalidInputError(
                f"{self.run_id!r:.200} cannot name a run; expected up to 100 characters of "
                "A-Z a-z 0-9 . _ -, the first a letter or digit."
            )

    @classmethod
    def last(cls, storage: Storage) -> Run:
        """Returns the latest run of a dataset.

        Raises:
            InvalidInputError: It has none.
        """
        plans = [entry.key for entry in storage.list(_RUNS) if entry.key.endswith("/plan.jsonl")]
        if not plans:
            raise errors.InvalidInputError(
                f"{storage.url!r} has no run to resume: no plan was written to it."
            )
        return cls(storage, max(plans).split("/")[1])

    def write_plan(
        self, plan: Sequence[PlannedEpisode], *, seed: int, settings: Mapping[str, Any]
    ) -> None:
        """Writes the plan, and what the run is made with.

        Raises:
            StorageConflictError: The run has a plan already.
            StorageError: It cannot be written.
        """
        self.storage.write(self._key("plan.jsonl"), plan_to_bytes(plan, seed=seed), overwrite=False)
        about = {"webtraj_version": webtraj.__version__, "seed": seed, **settings}
        self.storage.write(
            self._key("settings.json"),
            orjson.dumps(about, default=repr, option=orjson.OPT_INDENT_2),
        )

    def read_plan(self) -> tuple[PlannedEpisode, ...]:
        """Returns the plan.

        Raises:
            InvalidInputError: There is none, or it is damaged or from a newer webtraj.
        """
        key = self._key("plan.jsonl")
        try:
            content = self.storage.read(key)
        except errors.StorageMissingError:
            raise errors.InvalidInputError(
                f"{self.storage.url!r} has no run {self.run_id!r} to go on with: there is no {key}."
            ) from None
        return plan_from_bytes(content, key)

    def read_settings(self) -> Mapping[str, Any]:
        """Returns what the run was made with; nothing where that was not kept, or is damaged."""
        try:
            data = orjson.loads(self.storage.read(self._key("settings.json")))
        except (errors.StorageMissingError, orjson.JSONDecodeError):
            return {}
        return data if isinstance(data, dict) else {}

    def read_begun(self, name: str) -> dict[str, Any] | None:
        """Return what a command was given when it began the run; None if another way began it.

        Args:
            name: The command's file beside the plan.

        Raises:
            InvalidInputError: The file is damaged.
            StorageError: It cannot be read.
        """
        key = self._key(name)
        try:
            begun = orjson.loads(self.storage.read(key))
        except errors.StorageMissingError:
            return None
        except orjson.JSONDecodeError as error:
            raise self._damaged(key, str(error)) from error
        if not isinstance(begun, dict):
            raise self._damaged(key, f"it is {begun!r:.60}; expected an object")
        return begun

    def _damaged(self, key: str, why: str) -> errors.InvalidInputError:
        return errors.InvalidInputError(
            f"{key!r} in {self.storage.url!r}, which says what the run was begun with, cannot be "
            f"read: {why}. Restore it from a copy, or start a new run."
        )

    def begin_session(self, *, resumed: bool) -> int:
        """Begins a session on many machines, and returns the number of its first tries.

        Args:
            resumed: Whether the run was played before, be it on one machine. What that one has not
                sent yet is out of sight too.

        Raises:
            StorageError: The session cannot be written.
        """
        session = max(self.sessions(), int(resumed))
        while True:
            try:
                self.storage.write(self._session_key(session), b"{}\n", overwrite=False)
            except errors.StorageConflictError:  # Another was just begun.
                session += 1
            else:
                return session * TRIES_A_SESSION

    def sessions(self) -> int:
        """Returns the number that the next session on many machines has.

        Raises:
            StorageError: The sessions cannot be listed.
        """
        names = (
            entry.key.rpartition("/")[2] for entry in self.storage.list(self._key("sessions/"))
        )
        return max((int(name) + 1 for name in names if name.isdecimal()), default=0)

    def episode_id(self, turn: Turn) -> str:
        """Returns the id of the episode that a turn is."""
        return f"{self.run_id}-{turn.planned.row:06d}-{turn.number:02d}"

    def place_of(self, episode_id: str) -> tuple[int, int] | None:
        """Returns the row and the try that an id tells; None if it is of another run."""
        row, _, number = episode_id.removeprefix(f"{self.run_id}-").partition("-")
        if not episode_id.startswith(f"{self.run_id}-") or not (row + number).isdecimal():
            return None
        return int(row), int(number)

    def _session_key(self, session: int) -> str:
        return self._key(f"sessions/{session:04d}")

    def _key(self, name: str) -> str:
        return f"{_RUNS}{self.run_id}/{name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    done: tuple[EpisodeResult, ...]
    """Every try that was made, by row."""
    left: tuple[Turn, ...]
    """The next try of every row that is not over, by row."""

    @property
    def counting(self) -> tuple[EpisodeResult, ...]:
        """The try that counts of every row that was played, by row."""
        return counting(self.done)


def counting(results: Iterable[EpisodeResult]) -> tuple[EpisodeResult, ...]:
    """Returns the result that counts of each row, by row; there is one for every row with any.

    Of the tries that ended by themselves or by the agent's own error it is the one with the highest
    number: the one handed out last. A try that was given up for lost, and comes to light later, has
    a lower number and so does not change what was counted. If there is none, it is the last try.
    """
    counted: dict[int, EpisodeResult] = {}
    for result in results:
        other = counted.get(result.row)
        if other is None or _rank(other) <= _rank(result):
            counted[result.row] = result
    return tuple(counted[row] for row in sorted(counted))


def _rank(result: EpisodeResult) -> tuple[bool, int]:
    return result.counts, result.number


def progress_of(
    run: Run,
    plan: Sequence[PlannedEpisode],
    summaries: Iterable[EpisodeSummary],
    retry: RetryPolicy,
) -> Progress:
    """Returns how far a run has come, given the episodes on record.

    A row is over when an episode of it ended by itself or by the agent's own error (which of them
    counts, if there are several, `counting` says), or when infrastructure failures ended as many as
    the retry policy allows. Episodes that were cut
    short, by a death or a cancellation, do not count as tries, and stay as they are.

    The next try has a number above all that are on record, and above all that sessions on other
    machines may have used.

    Raises:
        StorageError: The run's sessions cannot be listed.
    """
    first = run.sessions() * TRIES_A_SESSION
    tries: dict[int, dict[int, EpisodeSummary]] = {}
    for summary in summaries:
        place = run.place_of(summary.episode_id)
        if place is not None and place[0] < len(plan):
            tries.setdefault(place[0], {})[place[1]] = summary
    done: list[EpisodeResult] = []
    left: list[Turn] = []
    for planned in plan:
        made = sorted(tries.get(planned.row, {}).items())
        results = [EpisodeResult.of_summary(summary, planned, number) for number, summary in made]
        done += results
        failures = sum(RETRIED[result.outcome] and not result.finished for result in results)
        if not results:
            left.append(Turn(planned=planned, number=first))
        elif _is_open(results, failures, retry):
            last = results[-1]
            left.append(
                Turn(
                    planned=planned,
                    number=max(last.number + 1, first),
                    failures=failures,
                    retry_of=last.episode_id,
                )
            )
    return Progress(tuple(done), tuple(left))


def _is_open(results: Sequence[EpisodeResult], failures: int, retry: RetryPolicy) -> bool:
    last = results[-1]
    if any(result.counts for result in results):
        return False
    return not last.failed or retry.retries(last.outcome, failures)
