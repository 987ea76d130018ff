"""The dataset card: README.md with the metadata that the Hub and `datasets` read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import orjson

import webtraj
from webtraj.datasets.exporters.base import ExportReport
from webtraj.datasets.exporters.hf_tables import Column
from webtraj.datasets.exporters.manifest import MANIFEST
from webtraj.datasets.exporters.plain import unicode_text

__all__ = ["card", "one_line", "quoted", "size_category"]

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
