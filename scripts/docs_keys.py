"""Writes the reference of the configuration keys of runs as Markdown, with other names for them.

Run by the documentation's build (`scripts/docs_hooks.py`). By itself it prints the page:

    python scripts/docs_keys.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webtraj.rollouts.configuration.dialects import ORBY, WEBGYM, Dialect
from webtraj.runs.spec import RunSpec
from webtraj.settings.configuration import keys_of

HEAD = """\
# Configuration keys

The keys of `webtraj rollout --config NAME`. `--print-config` prints the values in use. See
[rollouts](../rollouts.md#configurations).
"""


def keys_reference() -> str:
    """Return the page."""
    refused = [f"| `{key}` | {reason} |" for key, reason in WEBGYM.refused.items()]
    return "\n".join(
        [
            HEAD,
            "## Runs\n",
            "`kind: run`: also `key=value` of `webtraj rollout`, and the fields of `RunSpec`.\n",
            *_table(RunSpec),
            "\n## WebGym's names\n",
            "`kind: rollout`. Each key is a setting of runs by another name.\n",
            *_names(WEBGYM),
            "\n## Orby's names\n",
            "`kind: crawl`. Other keys are those of runs.\n",
            *_names(ORBY),
            "\n## Keys of other systems that are refused\n",
            "| key | reason |",
            "|---|---|",
            *refused,
            "",
        ]
    )


def _table(model: Any) -> Iterator[str]:
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for key, field in keys_of(model):
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{key}` | {_default(field)} | {meaning} |"


def _names(dialect: Dialect) -> Iterator[str]:
    """Yield a table of the keys whose names differ from those of runs."""
    yield "| key | setting |"
    yield "|---|---|"
    for key, paths in dialect.table.items():
        if paths and paths != key:
            told = [paths] if isinstance(paths, str) else paths
            yield f"| `{key}` | {', '.join(f'`{path}`' for path in told)} |"


def _default(field: Any) -> str:
    """Return a key's default as YAML has it; empty for a required key."""
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value != "" else "`''`"


if __name__ == "__main__":
    print(keys_reference())
