"""The reference of a configuration's keys, made from what the keys say of themselves."""

from __future__ import annotations

from typing import Any

import pydantic

from webtraj.rollouts.configuration.checking import keys_of

__all__ = ["reference"]


def reference(model: type[pydantic.BaseModel]) -> str:
    """Returns a table in Markdown of all keys, with their defaults and what they mean.

    >>> from webtraj.rollouts.configuration.crawl import CrawlConfig
    >>> print(reference(CrawlConfig).splitlines()[2])
    | `kind` | `crawl` | Says which keys there are. |
    """
    rows = ["| key | default | |", "|---|---|---|"]
    for key, field in keys_of(model):
        default = (
            ""
            if field.is_required()
            else f"`{_written(field.get_default(call_default_factory=True, validated_data={}))}`"
        )
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        rows.append(f"| `{key}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def _written(value: Any) -> str:
    """Returns a value as YAML has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return "''" if value == "" else str(value)
