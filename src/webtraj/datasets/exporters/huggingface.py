"""Parquet files with a dataset card, as the Hugging Face Hub and its `datasets` expect them.

::

    <out>/README.md                                    the card: configs, licence, how it was made
    <out>/steps/train-00000-of-00003.parquet           a row a step
    <out>/trajectories/train-00000-of-00001.parquet    a row an episode

The columns stand in `hf_tables`, and in the card. Pictures are structs of bytes and path with the
schema metadata that `datasets` reads, so that they are its `Image` feature, and any other reader
sees a struct. The library itself is not needed. Needs the extra `parquet`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import orjson
import pydantic

import webtraj
from webtraj import errors
from webtraj.datasets import splitting
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.base import MANIFEST, ExportReport
from webtraj.datasets.exporters.hf_tables import STEPS, TRAJECTORIES, Column, RowWriter, ShardWriter
from webtraj.datasets.exporters.plain import unicode_text

__all__ = ["HuggingFaceExporter", "card", "one_line", "quoted", "size_category"]

# The dataset card: README.md with the metadata that the Hub and `datasets` read.

_SIZES = (
    (1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)  # fmt: skip


def card(
    title: str,
    license_id: str,
    configs: Mapping[str, Mapping[str, Column]],
    counts: Mapping[str, Mapping[str, int]],
    report: ExportReport,
) -> str:
    """Returns the card.

    Args:
        title: The dataset's title.
        license_id: The licence's identifier on the Hub.
        configs: The columns of each table.
        counts: The rows of each table, by split.
        report: What was exported.
    """
    total = sum(counts["steps"].values())
    # Text in JSON is text in YAML.
    lines = [
        "---",
        f"pretty_name: {quoted(title)}",
        f"license: {license_id}",
        "tags:",
        "- web-agents",
        "- trajectories",
        "- webtraj",
        "size_categories:",
        f"- {size_category(total)}",
        "configs:",
    ]
    for config, splits in counts.items():
        lines += [f"- config_name: {config}"]
        lines += ["  default: true"] if config == "steps" else []
        lines += ["  data_files:"]
        for split in splits:
            lines += [f"  - split: {split}", f"    path: {quoted(f'{config}/{split}-*.parquet')}"]
    lines += ["---", "", f"# {one_line(title)}", "", *_about(counts, report)]
    for config, columns in configs.items():
        lines += ["", f"## `{config}`", "", "| column | type | what it is |", "|---|---|---|"]
        lines += [f"| `{name}` | {c.kind} | {c.meaning} |" for name, c in columns.items()]
    lines += ["", "## How it was made", "", *_made(report)]
    return "\n".join(lines) + "\n"


def _about(counts: Mapping[str, Mapping[str, int]], report: ExportReport) -> list[str]:
    ends = Counter(item.end_reason.name.lower() for item in report.written)
    outcomes = Counter(item.outcome.name.lower() for item in report.written)
    steps = sum(counts["steps"].values())
    return [
        f"Recorded episodes of web agents: {len(report.written)} episodes, {steps} steps.",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        'steps = load_dataset("<this dataset>", "steps")',
        'trajectories = load_dataset("<this dataset>", "trajectories")',
        "```",
        "",
        "| split | episodes | steps |",
        "|---|---|---|",
        *(
            f"| {split} | {rows} | {counts['steps'][split]} |"
            for split, rows in counts["trajectories"].items()
        ),
        "",
        f"Ends: {_counted(ends)}. Outcomes: {_counted(outcomes)}.",
        "",
        "A step's action is the one that led to its observation. Episodes that are not `finished`",
        "stopped in the middle; an outcome other than `success` and `failure` says nothing of the",
        "agent.",
    ]


def _made(report: ExportReport) -> list[str]:
    lines = [
        f"Exported by webtraj {webtraj.__version__} (`webtraj export --format huggingface`).",
        f"`{MANIFEST}` names every episode and the options.",
    ]
    if report.left_out:
        lines += ["", f"{len(report.left_out)} episodes were left out:", ""]
        whys = Counter(item.why for item in report.left_out)
        lines += [f"- {one_line(why)} ({count})" for why, count in sorted(whys.items())]
    if report.notes:
        lines += ["", "Values that are not as they were recorded:", ""]
        notes = Counter((note.field, note.why) for note in report.notes)
        lines += [
            f"- `{one_line(field)}` of {count} episodes {one_line(why)}."
            for (field, why), count in sorted(notes.items())
        ]
    return lines


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def size_category(rows: int) -> str:
    """Returns what the Hub calls a dataset's size.

    >>> size_category(1_200)
    '1K<n<10K'
    """
    return next((name for limit, name in _SIZES if rows < limit), "n>10M")


def quoted(text: str) -> str:
    """Returns a text as YAML has it."""
    return orjson.dumps(unicode_text(text)).decode()


def one_line(text: str) -> str:
    """Returns a text without line breaks."""
    return " ".join(unicode_text(text).split())


CONFIGS = {"steps": STEPS, "trajectories": TRAJECTORIES}
_SPLIT_NAME = re.compile(r"\w+(\.\w+)*")  # The rule of `datasets`.
_LICENSE = re.compile(r"[a-z0-9.-]{1,64}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class HuggingFaceExporter:
    """Writes Parquet files and a card."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow",)

    splits: str = ""
    """Shares or conditions by name, `;` between: `train=0.9;test=0.1`. By default all is `train`.
    Episodes that belong to no split are left out."""
    together: str = "episode"
    """For shares: what is kept in one split: episode, task, site or group."""
    seed: int = 0
    """For shares: another one gives another split."""
    license: str = "unknown"
    """The licence, by its identifier on the Hub: `mit`, `cc-by-4.0`, ..."""
    title: str = ""
    """The card's title; by default the folder's name."""
    shard_mb: Annotated[int, pydantic.Field(ge=1, le=480)] = 400
    """Megabytes of a file, about: the next row begins another one."""

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        if not _LICENSE.fullmatch(self.license):
            raise errors.InvalidInputError(
                f"The licence {self.license!r:.80} is no identifier; expected one of the Hub's, "
                "such as mit, apache-2.0 or cc-by-4.0."
            )
        split_of, names = self._assigned(job)
        with _writers(job.folder, names, self.shard_mb << 20) as writers:
            for episode in job.episodes:
                split = split_of.get(episode.episode_id)
                if split is None:
                    job.ledger.leave_out(episode.episode_id, "it belongs to none of the splits")
                    continue
                rows = RowWriter(episode, job.ledger)
                for row in rows.steps():
                    writers["steps", split].add(row)
                writers["trajectories", split].add(rows.trajectory())
                job.ledger.wrote(episode)
        counts: dict[str, dict[str, int]] = {config: {} for config in CONFIGS}
        for (config, split), writer in writers.items():
            writer.check()
            counts[config][split] = writer.num_rows
        readme = card(
            self.title or job.name, self.license, CONFIGS, counts, job.ledger.report("huggingface")
        )
        (job.folder / "README.md").write_text(readme, encoding="utf-8")

    def _assigned(self, job: base.Job) -> tuple[Mapping[str, str], list[str]]:
        """Returns the split of each episode, and the names of all splits."""
        summaries = job.episodes.summaries
        if not self.splits:
            return dict.fromkeys(summaries, "train"), ["train"]
        parts: dict[str, float | str] = {}
        for item in self.splits.split(";"):
            name, found, what = (part.strip() for part in item.partition("="))
            if not found or name in parts or not _SPLIT_NAME.fullmatch(name):
                raise errors.InvalidInputError(
                    f"The split {item!r:.100} is none, or there twice; expected name=share or "
                    "name=condition, such as train=0.9;test=0.1."
                )
            parts[name] = _share(what)
        assigned = splitting.assign(
            summaries.values(),
            parts,
            together=self.together,  # type: ignore[arg-type]  # It is checked there.
            seed=self.seed,
        )
        return {i: name for name, ids in assigned.items() for i in ids}, list(parts)


class _Writers(dict[tuple[str, str], ShardWriter]):
    """The writers by config and split; closed together, whatever happens."""

    def __enter__(self) -> _Writers:
        return self

    def __exit__(self, exc_type: Any, exc: Any, traceback: Any) -> None:
        for writer in self.values():
            writer.close(failed=exc is not None)


def _writers(folder: Path, splits: list[str], shard_bytes: int) -> _Writers:
    return _Writers(
        ((config, split), ShardWriter(folder / config, split, columns, shard_bytes))
        for config, columns in CONFIGS.items()
        for split in splits
    )


def _share(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
