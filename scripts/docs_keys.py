"""Writes the reference of the configuration keys of runs, rollouts and crawls as Markdown.

Run by the documentation's build (`scripts/docs_hooks.py`). By itself it prints the page:

    python scripts/docs_keys.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webtraj.rollouts.configuration.rollout import REFUSED, CrawlConfig, RolloutConfig
from webtraj.runs.spec import RunSpec
from webtraj.settings.configuration import keys_of

HEAD = """\
# Configuration keys

The keys of `webtraj rollout --config-name NAME`, with the default that holds where no file sets
another. `--print-config` prints the values in use. See [rollouts](../rollouts.md#configurations).
"""


def keys_reference() -> str:
    """Return the page."""
    refused = [f"| `{key}` | {reason} |" for key, reason in REFUSED.items()]
    return "\n".join(
        [
            HEAD,
            "## Runs\n",
            "`kind: run`: also `key=value` of `webtraj rollout`, and the fields of `RunSpec`.\n",
            *_table(RunSpec),
            "\n## Rollouts\n",
            *_table(RolloutConfig),
            "\n## Crawls\n",
            *_table(CrawlConfig),
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
