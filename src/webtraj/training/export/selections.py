"""Exporting what a replay buffer holds: samples of a selection, or pairs of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.datasets.place import Place
from webtraj.training.export.base import ExportReport, SampleFormat
from webtraj.training.export.preferences import preferences_of
from webtraj.training.export.running import export_samples
from webtraj.training.replay import Parts, Selection
from webtraj.training.samples import Sample

__all__ = ["PAIRED", "export_selection"]

PAIRED = ("preferences", "trl-preferences")
"""The formats whose rows are pairs."""


def export_selection(
    selection: Selection | Parts,
    out: Place,
    *,
    format: str | SampleFormat = "sharegpt",  # noqa: A002  (As in export_dataset.)
    options: Mapping[str, Any] | None = None,
    pairs_per_prompt: int = 1,
    least_margin: float = 0.0,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> ExportReport:
    """Writes the samples of a replay buffer in the files of a trainer, and what they came by.

    Args:
        selection: What was drawn; or both parts of it, once it is split.
        out: A new folder or bucket's URL.
        format: A name of `FORMATS`, or a format.
        options: For a name: the format's options.
        pairs_per_prompt: For formats of pairs, as `preferences_of` takes it.
        least_margin: Likewise.
        overwrite: Whether an earlier export is replaced.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.

    Raises:
        InvalidInputError: There is something at `out`, or nothing to write.
        CorruptDataError: An episode has changed, or a row does not read back.
        MissingDependencyError: The format needs a package that is not installed.
        StorageError: It cannot be written.
    """
    splits = {"train": selection} if isinstance(selection, Selection) else _splits(selection)
    name = format if isinstance(format, str) else format.name
    origin: dict[str, Any] = {}
    episodes: dict[str, str] = {}
    samples: dict[str, Iterable[Sample]] = dict(splits)
    for split, part in splits.items():
        if not len(part):
            part.buffer.require_samples()
            raise errors.InvalidInputError(f"There is no sample for {split!r} to export.")
        provenance = part.provenance()
        episodes |= {one["episode_id"]: one["sha256"] for one in provenance.pop("episodes")}
        chosen = {key: provenance.pop(key) for key in ("selection", "num_samples", "sha256")}
        if name in PAIRED:
            pairs = preferences_of(
                part, pairs_per_prompt=pairs_per_prompt, least_margin=least_margin
            )
            samples[split] = pairs
            chosen["preferences"] = {
                "pairs_per_prompt": pairs_per_prompt,
                "least_margin": least_margin,
                **pairs.counts,
            }
        origin = {**provenance, "splits": {**origin.get("splits", {}), split: chosen}}
    report = next(iter(splits.values())).buffer.report()
    origin["left_out"] = {"episodes": report.dropped_episodes, "steps": report.dropped_steps}
    return export_samples(
        samples,
        out,
        format=format,
        options=options,
        origin=origin,
        episodes=episodes,
        overwrite=overwrite,
        storage_options=storage_options,
    )


def _splits(parts: Parts) -> dict[str, Selection]:
    if not len(parts.validation):
        return {"train": parts.train}
    return {"train": parts.train, "val": parts.validation}
