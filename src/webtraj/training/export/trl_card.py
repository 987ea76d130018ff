"""The dataset card of samples: README.md with the metadata that the Hub and `datasets` read."""

from __future__ import annotations

from collections.abc import Mapping

import webtraj
from webtraj.datasets.exporters.base import MANIFEST
from webtraj.datasets.exporters.hf_tables import Column
from webtraj.datasets.exporters.huggingface import one_line, quoted, size_category
from webtraj.training.export.base import ExportReport

__all__ = ["card"]

_ON_THE_HUB = {"val": "validation"}


def card(title: str, license_id: str, columns: Mapping[str, Column], report: ExportReport) -> str:
    """Returns the card.

    Args:
        title: The dataset's title.
        license_id: The licence's identifier on the Hub.
        columns: The table's columns.
        report: What was exported.
    """
    splits = report.splits
    lines = [
        "---",
        f"pretty_name: {quoted(title)}",
        f"license: {license_id}",
        "tags:",
        "- web-agents",
        "- trl",
        "- webtraj",
        "size_categories:",
        f"- {size_category(sum(split.rows for split in splits.values()))}",
        "configs:",
        "- config_name: default",
        "  data_files:",
    ]
    for name in splits:
        lines += [f"  - split: {_ON_THE_HUB.get(name, name)}"]
        lines += [f"    path: {quoted(f'data/{name}-*.parquet')}"]
    lines += [
        "---",
        "",
        f"# {one_line(title)}",
        "",
        "Decisions of web agents, one a row: the prompt as it was sent, and the reply.",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        'samples = load_dataset("<this dataset>")',
        "```",
        "",
        "| split | rows | samples | episodes |",
        "|---|---|---|---|",
        *(
            f"| {_ON_THE_HUB.get(name, name)} | {split.rows} | {split.samples} "
            f"| {len(split.episodes)} |"
            for name, split in splits.items()
        ),
        "",
        "| column | what it is |",
        "|---|---|",
        *(f"| `{name}` | {column.meaning} |" for name, column in columns.items()),
        "",
        f"Exported by webtraj {webtraj.__version__} (`webtraj export --format {report.format}`).",
        f"`{MANIFEST}` names every episode, the filters and the options.",
    ]
    left_out = [
        f"- {name}: {count} {'sample' if count == 1 else 'samples'}: {one_line(why)}"
        for name, split in splits.items()
        for why, count in sorted(split.left_out.items())
    ]
    if left_out:
        lines += ["", "Left out:", "", *left_out]
    return "\n".join(lines) + "\n"
