"""A Minari dataset: what `minari.load_dataset` loads.

::

    <out>/data/metadata.json      what Minari knows of the dataset, spaces among it
    <out>/data/main_data.hdf5     the episodes

`out` is the dataset's own folder: `MINARI_DATASETS_PATH=runs` and `out="runs/click-v0"` make it
`click-v0`. An episode has one observation more than it has actions, as Minari has it; one without
any action is left out. A termination is a termination; a truncation, and whatever stopped an
episode in the middle, is a truncation, and the episode's metadata tell which (`end_reason`,
`outcome`).

The spaces are made to fit the data (see `minari_spaces`). Infos hold, for each observation, the
`discount`, the times, and `agent/...` of the action that led to it; texts in infos come back as
bytes. Needs the extra `minari`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.base import Ledger
from webtraj.datasets.exporters.columns import Fit, Nest, Pictures, space_text
from webtraj.datasets.exporters.plain import is_blank, to_json, unicode_text
from webtraj.trajectory import reward_value

__all__ = ["MinariExporter", "agent_values", "note_left_out", "number"]

# What formats of arrays keep of a decision: the thought, the reply, and its tokens.

_CALL_FIELDS = (
    "model", "policy_version", "prompt_token_ids", "completion_token_ids", "logprobs",
)  # fmt: skip
_UNPLACED = (
    "provider", "messages", "sampling", "response", "finish_reason", "usage", "start_time",
    "latency", "error",
)  # fmt: skip


def agent_values(step: trajectory_lib.StepRecord) -> dict[str, Any]:
    """Returns the values of the columns `agent/...` of the action that led to a step."""
    decision = step.decision
    if decision is None:
        return {}
    values: dict[str, Any] = {
        "thought": decision.thought,
        "memory": decision.memory,
        "parse_error": decision.parse_error,
    }
    call = _answer(decision)
    if call is not None:
        values["reply"] = call.text
        values.update({name: getattr(call, name) for name in _CALL_FIELDS})
    return {name: value for name, value in values.items() if not is_blank(value)}


def note_left_out(episode: trajectory_lib.EpisodeTrajectory, ledger: Ledger) -> None:
    """Notes what has no column of an episode's decisions and steps."""
    for step in episode.steps:
        decision = step.decision
        if step.ignored_action is not None:
            ledger.note(episode.episode_id, "steps.ignored_action", "has no column; left out")
        if decision is None:
            continue
        if decision.metadata:
            ledger.note(episode.episode_id, "steps.decision.metadata", "has no column; left out")
        if len(decision.model_calls) > 1:
            why = "only the reply that was acted on has columns; the others are left out"
            count = len(decision.model_calls) - 1
            ledger.note(episode.episode_id, "steps.decision.model_calls", why, count)
        call = _answer(decision)
        for name in _UNPLACED if call is not None else ():
            if not is_blank(getattr(call, name)):
                where = f"steps.decision.model_calls.{name}"
                ledger.note(episode.episode_id, where, "has no column; left out")


def number(
    value: Any, field: str, episode: trajectory_lib.EpisodeTrajectory, ledger: Ledger
) -> float:
    """Returns a reward or a discount as one number; NaN for None."""
    if value is None:
        return float("nan")
    item = value.item() if getattr(value, "shape", None) == () else value
    if type(item) not in (int, float, bool):
        ledger.note(episode.episode_id, field, "is no single number; its sum stands for it")
    return reward_value(value)


def _answer(decision: trajectory_lib.Decision) -> trajectory_lib.ModelCall | None:
    """Returns the model call that was acted on: the last one that gave a reply."""
    return next((call for call in reversed(decision.model_calls) if not call.error), None)


_ID = re.compile(r"([-_\w]+/)*[-_\w]+-v[0-9]+")
_INFO = ("episode_id", "task", "goal", "site", "environment", "policy", "group_id")
_LONGEST = 8_000
"""Characters of the longest text in an episode's metadata: HDF5 allows 64 KB for all."""
_NO_ACTIONS = "Minari keeps transitions, and it has none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MinariExporter:
    """Writes a Minari dataset."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("minari", "gymnasium", "h5py", "numpy", "pillow")

    id: str = ""
    """The dataset's id: `web/click-v0`; by default the folder's name."""
    images: Literal["pixels", "encoded"] = "pixels"
    """Pictures of one size as arrays of pixels, without loss; or all as base64 of their bytes."""
    description: str = "Recorded by webtraj."
    """What Minari shows of the dataset."""

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        dataset_id = self._dataset_id(job.name)
        storage_class = _storage_class()
        fit, pictures = Fit(), Pictures(pixels=self.images == "pixels")
        for episode in job.episodes:
            if episode.num_steps == 0:
                job.ledger.leave_out(episode.episode_id, _NO_ACTIONS)
                continue
            for step in episode.steps:
                fit.see("observation", step.observation)
                pictures.see("observation", step.observation)
                fit.see("agent", agent_values(step))
            for step in episode.steps[1:]:
                fit.see("action", step.action)
                pictures.see("action", step.action)
        columns = fit.columns()
        nests = {name: Nest(name, columns, pictures) for name in ("observation", "action", "agent")}
        data = job.folder / "data"
        # What text a space allows is known at the end. Until then there is a small one: Minari
        # writes its metadata anew for each episode, with a number for each pixel's bounds.
        storage = storage_class.new(
            data,
            observation_space=_placeholder(),
            action_space=_placeholder(),
            data_format="hdf5",
            jpeg_encoding=False,  # Pixels come back as they were.
        )
        storage.update_metadata(
            {
                "dataset_id": dataset_id,
                "minari_version": _version(),
                "description": self.description,
            }
        )
        storage.update_episodes([])  # So that there is a file, if there are no episodes.
        digests: list[str] = []
        for episode in job.episodes:
            buffer = _buffer(len(digests), episode, nests, job.ledger)
            storage.update_episodes([buffer])
            metadata = _metadata(episode, job.ledger)
            storage.update_episode_metadata([metadata], [len(digests)])
            digests.append(_digest(buffer))
            note_left_out(episode, job.ledger)
            job.ledger.wrote(episode)
        _set_spaces(data / "metadata.json", nests)
        storage.update_metadata({"dataset_size": storage.get_size()})
        _check(data, digests)

    def _dataset_id(self, name: str) -> str:
        dataset_id = self.id or name
        if not _ID.fullmatch(dataset_id):
            raise errors.InvalidInputError(
                f"{dataset_id!r:.100} cannot be a Minari dataset's id; name the folder as one, "
                "such as 'click-test-v0': letters, digits, - and _, and a version."
            )
        if dataset_id.rpartition("/")[2] != name:
            raise errors.InvalidInputError(
                f"A Minari dataset lies in a folder of its name: {dataset_id!r:.100} cannot be in "
                f"a folder {name!r:.100}."
            )
        return dataset_id


def _storage_class() -> Any:
    try:
        import h5py  # noqa: F401  (Minari asks for it later.)
        from minari.dataset.minari_storage import MinariStorage
    except ImportError as error:
        raise errors.missing_dependency(
            f"Minari datasets need minari ({error})", "minari"
        ) from error
    return MinariStorage


def _placeholder() -> Any:
    from gymnasium import spaces

    return spaces.Discrete(1)


def _version() -> str:
    import minari

    return str(minari.__version__)


def _buffer(
    index: int,
    episode: trajectory_lib.EpisodeTrajectory,
    nests: dict[str, Nest],
    ledger: base.Ledger,
) -> Any:
    from minari.data_collector import EpisodeBuffer

    def tell(field: str, why: str) -> None:
        ledger.note(episode.episode_id, f"steps.{field}", why)

    steps = episode.steps
    acts = steps[1:]
    if steps[0].action is not None:
        tell("action", "led to the episode's first observation, and has no place")
    if not (episode.terminated or episode.truncated):
        reason = episode.end_reason.name.lower()
        why = f"it stopped in the middle ({reason}); for Minari it is a truncation"
        ledger.note(episode.episode_id, "end", why)
    last = [False] * (len(acts) - 1) + [True]
    ended = np.array(last)
    seed = episode.info.seed
    if seed is not None and not 0 <= seed < 2**63:
        ledger.note(episode.episode_id, "info.seed", f"{seed} is beyond 63 bits; left out")
        seed = None
    numbers = {
        name: [number(getattr(step, name), f"steps.{name}", episode, ledger) for step in acts]
        for name in ("reward", "discount")
    }
    return EpisodeBuffer(
        id=index,
        seed=seed,
        observations=nests["observation"].values([step.observation for step in steps], tell),
        actions=nests["action"].values([step.action for step in acts], tell),
        rewards=np.array(numbers["reward"], float),
        terminations=ended & episode.terminated,
        truncations=ended & (not episode.terminated),
        infos={
            "discount": np.array([np.nan, *numbers["discount"]]),
            "start_time": _times([step.start_time for step in steps]),
            "end_time": _times([step.end_time for step in steps]),
            **_agent(nests["agent"], steps, tell),
        },
    )


def _agent(nest: Nest, steps: tuple[trajectory_lib.StepRecord, ...], tell: Any) -> dict[str, Any]:
    values = nest.values([agent_values(step) for step in steps], tell)
    return {"agent": values} if values else {}


def _times(times: list[float | None]) -> Any:
    return np.array([np.nan if time is None else time for time in times], float)


def _metadata(episode: trajectory_lib.EpisodeTrajectory, ledger: base.Ledger) -> dict[str, Any]:
    """Returns an episode's metadata, as far as HDF5 takes them."""
    info = episode.info
    texts = {
        **{name: getattr(info, name) for name in _INFO},
        "versions": to_json(info.versions),
        "metadata": to_json(info.metadata),
        "end": to_json("" if episode.end is None else episode.end.detail),
        "error": "" if episode.end is None or not episode.end.error else episode.end.error.message,
    }
    found: dict[str, Any] = {
        "end_reason": episode.end_reason.name.lower(),
        "outcome": episode.outcome.name.lower(),
        "attempt": info.attempt,
    }
    for name, text in texts.items():
        sound = unicode_text(text).replace("\0", "\N{SYMBOL FOR NULL}")
        if len(sound) > _LONGEST:
            why = f"is longer than {_LONGEST} characters; left out"
            ledger.note(episode.episode_id, f"info.{name}", why)
            continue
        if sound != text:
            ledger.note(episode.episode_id, f"info.{name}", "has characters that HDF5 lacks")
        found[name] = sound
    return found


def _set_spaces(path: Path, nests: dict[str, Nest]) -> None:
    metadata = json.loads(path.read_bytes())
    for name in ("observation", "action"):
        metadata[f"{name}_space"] = space_text(nests[name].space())
    path.write_text(json.dumps(metadata))


def _check(data: Path, digests: list[str]) -> None:
    """Loads the dataset as Minari does, and compares it with what was written.

    Raises:
        StorageError: It is not the same.
    """
    import minari

    dataset = minari.MinariDataset(data)
    if dataset.total_episodes != len(digests):
        raise base.unequal(str(data.name), "a number of episodes")
    for episode, digest in zip(dataset, digests, strict=True):
        if _digest(episode) != digest:
            raise base.unequal(str(data.name), f"episode {episode.id}")


def _digest(episode: Any) -> str:
    """Returns a hash of what Minari reads of an episode, spaces apart."""
    total = hashlib.sha256()
    for name in ("observations", "actions", "rewards", "terminations", "truncations"):
        _count(getattr(episode, name), total)
    return total.hexdigest()


def _count(values: Any, total: Any) -> None:
    if isinstance(values, dict):
        for key in sorted(values):
            total.update(repr(key).encode())
            _count(values[key], total)
    elif isinstance(values, list):
        total.update(json.dumps(values).encode())
    else:
        array = np.asarray(values)
        total.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
