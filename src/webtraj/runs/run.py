"""A run: the files of a recorded rollout, from which it can be resumed after a crash.

The files are beside the episodes, in the same folder or bucket::

    <dataset>/runs/<run id>/plan.jsonl      written before the first episode (see `plan`)
                            settings.json   the `RunSpec`, written just before the plan
                            sessions/<n>    one for each time it was played on several machines
                            underway.json   episodes recently running there, for monitoring

Progress is not written separately, because the episodes show it. An episode's id is
`<run id>-<row>-<try>`, so the dataset's index tells which rows of the plan were played, how often,
and how they ended. Two processes cannot both record the same try.

With several machines, a try may be out of sight: a disconnected machine still has its record, or is
still playing it. So each session numbers its tries separately, `TRIES_A_SESSION` of them from
`<n> * TRIES_A_SESSION`, and a resumed run uses none of those numbers. The numbers between two
sessions are for one machine alone. Both tries are kept, and `webtraj.store.tries` decides which one
counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import os
import random
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import orjson

import webtraj
from webtraj import errors
from webtraj.runs.plan import PlannedEpisode, plan_from_bytes, plan_to_bytes
from webtraj.runs.spec import RunSpec
from webtraj.settings.configuration import MISSING, without_secrets
from webtraj.store import files
from webtraj.store.index import EpisodeSummary
from webtraj.store.storage import FolderStorage, Storage
from webtraj.store.tries import pick_counting
from webtraj.trajectory import (
    EndReason,
    Outcome,
    counts_for_agent,
    is_broken,
    is_finished,
    is_scored,
)

__all__ = [
    "EpisodeResult",
    "Progress",
    "RETRIED",
    "RetryPolicy",
    "Run",
    "SETTINGS",
    "TRIES_A_SESSION",
    "Turn",
    "all_numbers",
    "is_done",
    "new_run_id",
    "options_on_record",
    "progress_of",
    "retry_policy",
    "run_ids",
    "run_of",
    "tries_of",
]

TRIES_A_SESSION = 1000
"""Most tries at a row in one session on several machines."""

_logger = logging.getLogger(__name__)

_RUNS = "runs/"
SETTINGS = "settings.json"
"""Name of the file beside the plan with the settings of a run."""
_PLAN = "plan.jsonl"
_VERSION, _BEGUN, _CONFIGURATION = "webtraj_version", "begun", "configuration"
_BESIDE = {_VERSION, _BEGUN, _CONFIGURATION}
"""Keys of the settings beside the fields of a `RunSpec`."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TIME = re.compile(r"\d{8}T\d{6}-")


def new_run_id() -> str:
    """Return an id that is unique and sorts by time: `20261120T130405-123-9f86d081`.

    The milliseconds order runs that start within the same second.
    """
    return f"{_now()}-{secrets.token_hex(4)}"


def _now() -> str:
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%dT%H%M%S}-{now.microsecond // 1000:03d}"


def run_ids(storage: Storage) -> list[str]:
    """Return the ids of a dataset's runs, sorted by name; default names sort by time.

    Raises:
        StorageError: The runs cannot be listed.
    """
    keys = (entry.key for entry in storage.list(_RUNS))
    return sorted(
        key.removeprefix(_RUNS).removesuffix(f"/{_PLAN}")
        for key in keys
        if key.endswith(f"/{_PLAN}") and key.count("/") == 2
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """The files of one run."""

    storage: Storage
    """The dataset."""
    run_id: str

    def __post_init__(self) -> None:
        if not _RUN_ID.fullmatch(self.run_id):
            raise errors.InvalidInputError(
                f"Invalid run id {self.run_id!r:.200}; expected up to 100 characters of "
                "A-Z a-z 0-9 . _ -, the first a letter or digit."
            )

    @classmethod
    def last(cls, storage: Storage) -> Run:
        """Return the latest run of a dataset.

        Raises:
            InvalidInputError: The dataset has no run.
        """
        runs = [cls(storage, run_id) for run_id in run_ids(storage)]
        if not runs:
            raise errors.InvalidInputError(
                f"No run to resume in {storage.url!r}: no plan was written there."
            )
        return runs[0] if len(runs) == 1 else max(runs, key=cls._find_begin)

    @classmethod
    def find(cls, storage: Storage, name: str) -> Run:
        """Return a run by its id, or the latest run for "last".

        Raises:
            InvalidInputError: The dataset has no such run.
        """
        known = run_ids(storage)
        if name == "last" and known:
            return cls.last(storage)
        if name not in known:
            some = ", ".join(sorted(known)[-5:]) or "none"
            raise errors.InvalidInputError(
                f"No run {name!r:.200} in {storage.url!r}; its latest runs are: {some}."
            )
        return cls(storage, name)

    @classmethod
    def find_unfinished(
        cls, storage: Storage, run_ids: Iterable[str], max_retries: int | None
    ) -> Run | None:
        """Return the latest of some runs that is not done; None if all are done.

        Args:
            storage: The dataset.
            run_ids: The runs.
            max_retries: The number of retries that decides whether a run is done; None for each
                run's own.

        Raises:
            StorageError: The runs or the index cannot be read.
        """
        runs = sorted(
            (cls(storage, run_id) for run_id in run_ids), key=cls._find_begin, reverse=True
        )
        from webtraj.datasets.dataset import IndexTail

        _, summaries = IndexTail(storage).read()
        for run in runs:
            with contextlib.suppress(errors.InvalidInputError):  # A damaged plan plays nothing.
                policy = retry_policy(run.read_settings())
                if max_retries is not None:
                    policy = dataclasses.replace(policy, max_retries=max_retries)
                if progress_of(run, run.read_plan(), summaries, policy).left:
                    return run
        return None

    def write_plan(
        self, plan: Sequence[PlannedEpisode], *, seed: int, settings: Mapping[str, Any]
    ) -> None:
        """Write the run's settings, and then the plan, so that no plan lacks settings.

        Raises:
            StorageConflictError: The run already has a plan.
            StorageError: The files cannot be written.
        """
        content = plan_to_bytes(plan, seed=seed)
        if self.storage.size(self._key(_PLAN)) is not None:
            raise self._conflict()
        about = {_VERSION: webtraj.__version__, _BEGUN: _now(), **settings}
        self.storage.write(
            self._key(SETTINGS),
            orjson.dumps(about, default=_not_in_json, option=orjson.OPT_INDENT_2),
        )
        try:
            self.storage.write(self._key(_PLAN), content, overwrite=False)
        except errors.StorageConflictError:
            raise self._conflict() from None

    def _conflict(self) -> errors.StorageConflictError:
        return errors.StorageConflictError(
            f"The run {self.run_id!r} is in {self.storage.url!r} already. Resume it, or give "
            "the new run another id."
        )

    def discard_settings(self) -> bool:
        """Delete a run's settings if it has no plan; return whether it has none.

        Raises:
            StorageError: The store cannot be read or written.
        """
        if self.storage.size(self._key(_PLAN)) is not None:
            return False
        self.storage.delete(self._key(SETTINGS))
        return True

    def check_access(self) -> None:
        """Check that this machine may read and write the store. Changes nothing.

        Raises:
            StorageDeniedError: It may not.
            StorageError: The store does not answer.
        """
        key = self._key(_PLAN)
        with contextlib.suppress(errors.StorageConflictError):
            self.storage.write(key, self.storage.read(key), overwrite=False)

    def read_plan(self) -> tuple[PlannedEpisode, ...]:
        """Return the plan.

        Raises:
            InvalidInputError: The plan is missing, damaged or from a newer webtraj.
        """
        key = self._key(_PLAN)
        try:
            content = self.storage.read(key)
        except errors.StorageMissingError:
            raise errors.InvalidInputError(
                f"No run {self.run_id!r} to resume in {self.storage.url!r}: {key} is missing."
            ) from None
        return plan_from_bytes(content, key)

    def read_settings(self) -> Mapping[str, Any]:
        """Return the run's settings; an empty mapping if they are missing or damaged."""
        try:
            return self._read_settings() or {}
        except errors.InvalidInputError:
            return {}

    def read_record(self) -> dict[str, Any] | None:
        """Return the fields of the `RunSpec` that started the run; None if it has no settings.

        Raises:
            InvalidInputError: The settings are damaged.
            StorageError: The settings cannot be read.
        """
        settings = self._read_settings()
        if settings is None:
            return None
        return {key: value for key, value in settings.items() if key not in _BESIDE}

    def _read_settings(self) -> dict[str, Any] | None:
        key = self._key(SETTINGS)
        try:
            settings = orjson.loads(self.storage.read(key))
        except errors.StorageMissingError:
            return None
        except orjson.JSONDecodeError as error:
            raise self._make_damage_error(key, str(error)) from error
        if not isinstance(settings, dict):
            raise self._make_damage_error(key, f"it is {settings!r:.60}; expected an object")
        return settings

    def _find_begin(self) -> str:
        """Return when the run began, in the form in which default ids begin; empty if unknown."""
        if _TIME.match(self.run_id):
            return self.run_id
        return str(self.read_settings().get(_BEGUN, ""))

    def _make_damage_error(self, key: str, why: str) -> errors.InvalidInputError:
        return errors.InvalidInputError(
            f"Cannot read {key!r} in {self.storage.url!r}, the settings of the run: "
            f"{why}. Restore it from a copy, or start a new run."
        )

    @contextlib.contextmanager
    def playing(self) -> Iterator[None]:
        """Lock the run while the context lasts, so that no other process plays it.

        Buckets and some file systems have no locks. There, two processes can play one run.

        Raises:
            StorageConflictError: Another process plays the run.
        """
        with contextlib.ExitStack() as stack:
            if isinstance(self.storage, FolderStorage):
                folder = self.storage.root / _RUNS / self.run_id
                try:
                    stack.enter_context(files.lock_file(folder / ".playing", wait=False))
                except BlockingIOError:
                    raise errors.StorageConflictError(
                        f"Another process plays the run {self.run_id!r} in {self.storage.url!r}. "
                        "Wait until it ends, or stop it, and resume then. `webtraj view` shows "
                        "its progress."
                    ) from None
                except errors.StorageError as error:
                    _logger.info("Playing %s without a lock: %s", self.run_id, error)
            yield

    def begin_session(self, *, resumed: bool) -> int:
        """Start a session on several machines and return the number of its first tries.

        Args:
            resumed: Whether the run was played before, on one machine or several. A single machine
                may also have unsent records.

        Raises:
            StorageError: The session cannot be written.
        """
        # One machine alone used the numbers of the session in between (`progress_of`).
        session = self.sessions() + int(resumed)
        while True:
            try:
                self.storage.write(self._session_key(session), b"{}\n", overwrite=False)
            except errors.StorageConflictError:  # Another session just started.
                session += 1
            else:
                return session * TRIES_A_SESSION

    def sessions(self) -> int:
        """Return the number of the next session on several machines.

        Raises:
            StorageError: The sessions cannot be listed.
        """
        names = (
            entry.key.rpartition("/")[2] for entry in self.storage.list(self._key("sessions/"))
        )
        return max((int(name) + 1 for name in names if name.isdecimal()), default=0)

    def episode_id(self, turn: Turn) -> str:
        """Return the id of a turn's episode."""
        return f"{self.run_id}-{turn.planned.row:06d}-{turn.number:02d}"

    def place_of(self, episode_id: str) -> tuple[int, int] | None:
        """Return the row and try in an episode id; None if it belongs to another run."""
        row, _, number = episode_id.removeprefix(f"{self.run_id}-").partition("-")
        if not episode_id.startswith(f"{self.run_id}-") or not (row + number).isdecimal():
            return None
        return int(row), int(number)

    def _session_key(self, session: int) -> str:
        return self._key(f"sessions/{session:04d}")

    def _key(self, name: str) -> str:
        return f"{_RUNS}{self.run_id}/{name}"


# Tries at the rows of a plan.


def run_of(
    storage: Storage,
    *,
    run_id: str | None = None,
    resume: bool | str,
    max_retries: int | None = None,
) -> Run:
    """Return the run to play; a new run has no plan yet.

    To resume without an id, it is the latest run that is not done, or the latest if all are done.

    Args:
        storage: The dataset.
        run_id: The id of a new run, or of the one to resume.
        resume: Whether to resume a run, or its id.
        max_retries: The number of retries of the resumed run; None for its own.

    Raises:
        InvalidInputError: `resume` and `run_id` name different runs, or there is none to resume.
    """
    if not resume:
        return Run(storage, run_id or new_run_id())
    wanted = resume if isinstance(resume, str) else run_id
    if run_id is not None and wanted != run_id:
        raise errors.InvalidInputError(
            f"resume names the run {resume!r} and run_id the run {run_id!r}; give one of them."
        )
    if wanted is not None:
        return Run(storage, wanted)
    last = Run.last(storage)
    known = run_ids(storage)
    found = Run.find_unfinished(storage, known, max_retries) if len(known) > 1 else None
    if found is None or found.run_id == last.run_id:
        return last
    _logger.warning(
        "The latest run, %s, is complete. Resuming %s, which is not.", last.run_id, found.run_id
    )
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One try at a planned episode."""

    planned: PlannedEpisode
    number: int = 0
    """Number of earlier tries."""
    failures: int = 0
    """Number of earlier tries that ended in an error; others were cut short."""
    retry_of: str = ""
    """Episode id of the last try."""

    @property
    def site(self) -> str:
        """The site it visits, or the task's preset if it has none."""
        return self.planned.spec.site or self.planned.spec.preset


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """Result of one episode of a rollout."""

    task: str
    """Name of the task."""
    seed: int | None
    """Seed of the environment; None if it takes no seed."""
    attempt: int
    """Number of this attempt at the task in this rollout, from 0."""
    episode_id: str
    """Id of the recorded episode; empty if not recorded, or failed before the first step."""
    end_reason: EndReason
    """Why the episode ended."""
    outcome: Outcome
    """Outcome, such as success or failure."""
    num_steps: int
    """Environment steps after the first observation."""
    total_reward: float | None
    """Sum of all rewards; None unless the episode was scored."""
    seconds: float
    """Duration in seconds."""
    error: str = ""
    """Error message, if any; the record holds the full error."""
    row: int = -1
    """Row of the planned episode in the plan; -1 without a plan."""
    number: int = 0
    """Number of earlier tries at this planned episode."""
    site: str = ""
    """The task's site, if it has one."""
    level: str = "unknown"
    """The task's difficulty level."""
    group: int | None = None
    """Number of its group of attempts with the same seed; None if it is in none."""
    cause: BaseException | None = dataclasses.field(default=None, repr=False, compare=False)
    """The exception, if it was raised in this process."""

    @property
    def failed(self) -> bool:
        """Whether the episode ended in an error, including the agent's own.

        An environment may also end it normally and report that its machinery failed.
        """
        return self.end_reason is EndReason.ERRORED or (
            self.end_reason in (EndReason.TERMINATED, EndReason.TRUNCATED)
            and self.outcome in RETRIED
        )

    @property
    def counts(self) -> bool:
        """Whether the result counts for the agent: it finished the episode or made an error itself.

        A row of the plan with such a result is done.
        """
        return counts_for_agent(self.outcome, self.end_reason)

    @property
    def broke(self) -> bool:
        """Whether the machinery failed, and so the result does not count for the agent."""
        return is_broken(self.outcome, self.end_reason) and not self.counts

    @property
    def finished(self) -> bool:
        """Whether the episode terminated or was truncated, and the machinery worked."""
        return is_finished(self.outcome, self.end_reason)

    @classmethod
    def of(cls, planned: PlannedEpisode, number: int, **ended: Any) -> EpisodeResult:
        """Return the result of a try at a planned episode. Only a scored episode has a reward.

        Args:
            planned: The planned episode.
            number: The number of earlier tries.
            ended: The fields that say how the try ended.
        """
        result = cls(
            attempt=planned.attempt,
            row=planned.row,
            number=number,
            site=planned.spec.site,
            level=planned.spec.level,
            group=planned.group,
            **ended,
        )
        scored = is_scored(result.outcome, result.end_reason)
        return result if scored else dataclasses.replace(result, total_reward=None)

    @classmethod
    def of_summary(
        cls, summary: EpisodeSummary, planned: PlannedEpisode, number: int
    ) -> EpisodeResult:
        """Return the result of a recorded episode."""
        start, end = summary.start_time, summary.end_time
        return cls.of(
            planned,
            number,
            task=summary.task or planned.task,
            seed=summary.seed,
            episode_id=summary.episode_id,
            end_reason=summary.end_reason,
            outcome=summary.outcome,
            num_steps=summary.num_steps,
            total_reward=summary.total_reward,
            seconds=0.0 if start is None or end is None else max(end - start, 0.0),
        )


# Retries: when to try a failed episode again, as an attempt with a record of its own.

RETRIED = frozenset({Outcome.ENV_ERROR, Outcome.TIMEOUT, Outcome.MODEL_ERROR})
"""Outcomes after which another try may help. An agent's error counts as its failure and is final. A
judge's error is fixed by judging again, and a resumed rollout plays cancelled episodes again."""

_HOPELESS = (
    errors.ForkDepartedError,
    errors.InvalidInputError,
    errors.MissingDependencyError,
    errors.ModelRefusedError,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Number and timing of retries after an episode ended in an error."""

    max_retries: int = 0
    """Tries after the first."""
    pause: float = 1.0
    """Longest pause before the first retry, in seconds; doubled before each further one."""
    max_pause: float = 60.0
    """Upper limit of the pause, in seconds."""

    def __post_init__(self) -> None:
        if not all_numbers(self) or min(self.max_retries, self.pause, self.max_pause) < 0:
            raise errors.InvalidInputError(f"RetryPolicy takes numbers of 0 or more; got {self}.")

    @classmethod
    def of(cls, spec: RunSpec) -> Self:
        """Return the policy of a run."""
        return cls(**{field: getattr(spec, name) for field, name in _RETRY.items()})

    def retries(self, outcome: Outcome, tries: int, error: BaseException | None = None) -> bool:
        """Return whether to try again.

        Args:
            outcome: Outcome of the last try.
            tries: Number of failed tries so far, including the last.
            error: Error of the last try, if known.
        """
        if outcome not in RETRIED or tries > self.max_retries:
            return False
        return not isinstance(error, _HOPELESS)

    def leaves_open(self, result: EpisodeResult, tries: int) -> bool:
        """Return whether a row needs another try after this result of its last try.

        Args:
            result: The result.
            tries: As for `retries`.
        """
        if result.counts:
            return False
        return not result.failed or self.retries(result.outcome, tries, result.cause)

    def delay(self, tries: int, source: random.Random) -> float:
        """Return a random number of seconds to wait after `tries` tries, up to the pause.

        The randomness keeps episodes that failed together from being retried together.
        """
        longest: float = min(self.max_pause, self.pause * 2 ** (tries - 1))
        return source.uniform(0, longest)


def retry_policy(settings: Mapping[str, Any]) -> RetryPolicy:
    """Return the retry policy in a run's settings, or the default policy."""
    kept = {field: settings[name] for field, name in _RETRY.items() if name in settings}
    try:
        return RetryPolicy(**kept)
    except (errors.InvalidInputError, TypeError, ValueError):
        return RetryPolicy()


_RETRY = {"max_retries": "max_retries", "pause": "retry_pause", "max_pause": "max_retry_pause"}
"""Fields of `RetryPolicy`, and their names in `RunSpec`."""


def options_on_record(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as JSON data; in place of secrets and objects, `MISSING`."""
    content = orjson.dumps(
        without_secrets(options), default=_not_in_json, option=orjson.OPT_PASSTHROUGH_DATACLASS
    )
    recorded: dict[str, Any] = orjson.loads(content)
    return recorded


def _not_in_json(value: Any) -> str:
    """Return a path as text; for any other object, the mark of a value to give again."""
    return os.fspath(value) if isinstance(value, os.PathLike) else MISSING


def all_numbers(settings: Any) -> bool:
    """Return whether each field of a dataclass is a number or None."""
    return all(
        value is None or isinstance(value, int | float) for value in dataclasses.astuple(settings)
    )


# Progress: what was played, and what is left.


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run."""

    done: tuple[EpisodeResult, ...]
    """Every try made so far, by row."""
    left: tuple[Turn, ...]
    """The next try of every row that is not done, by row."""

    @property
    def counting(self) -> tuple[EpisodeResult, ...]:
        """The counting try of every row that was played, by row."""
        return pick_counting(self.done)


def progress_of(
    run: Run,
    plan: Sequence[PlannedEpisode],
    summaries: Iterable[EpisodeSummary],
    retry: RetryPolicy,
) -> Progress:
    """Return a run's progress, given the recorded episodes.

    A row is done when one of its episodes finished or failed by the agent's own error, or when
    infrastructure failures used up the retry policy. Of several episodes, `webtraj.store.tries`
    says which one counts. Episodes cut short by a crash or a cancellation do not count as tries and
    stay as they are.

    The next try's number is above all recorded ones and above all that sessions on several machines
    may have used.

    Raises:
        StorageError: The run's sessions cannot be listed.
    """
    first = run.sessions() * TRIES_A_SESSION
    tries: dict[int, dict[int, EpisodeSummary]] = {}
    for planned, number, summary in tries_of(run, plan, summaries):
        tries.setdefault(planned.row, {})[number] = summary
    done: list[EpisodeResult] = []
    left: list[Turn] = []
    for planned in plan:
        made = sorted(tries.get(planned.row, {}).items())
        results = [EpisodeResult.of_summary(summary, planned, number) for number, summary in made]
        done += results
        if not results:
            left.append(Turn(planned=planned, number=first))
        elif not is_done(results, retry):
            last = results[-1]
            left.append(
                Turn(
                    planned=planned,
                    number=max(last.number + 1, first),
                    failures=_failures_of(results),
                    retry_of=last.episode_id,
                )
            )
    return Progress(tuple(done), tuple(left))


def tries_of(
    run: Run, plan: Sequence[PlannedEpisode], summaries: Iterable[EpisodeSummary]
) -> Iterator[tuple[PlannedEpisode, int, EpisodeSummary]]:
    """Yield the episodes that belong to a run, with their rows and the numbers of their tries."""
    for summary in summaries:
        place = run.place_of(summary.episode_id)
        if place is not None and place[0] < len(plan):
            yield plan[place[0]], place[1], summary


def is_done(tries: Sequence[EpisodeResult], retry: RetryPolicy) -> bool:
    """Return whether a row needs no further try, given its tries in order (at least one)."""
    counted = any(result.counts for result in tries)
    return counted or not retry.leaves_open(tries[-1], _failures_of(tries))


def _failures_of(tries: Sequence[EpisodeResult]) -> int:
    return sum(result.outcome in RETRIED for result in tries)
