"""Writes the reference of the configuration keys as Markdown: of runs, loops and trainings.

Run by the documentation's build (`scripts/docs_hooks.py`). By itself it prints the page:

    python scripts/docs_keys.py
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webtraj.judging.configuration import JudgeConfig
from webtraj.loop.configuration import LoopConfig
from webtraj.processing.configuration import ProcessingConfig
from webtraj.rollouts.configuration.dialects import ORBY, WEBGYM, Dialect
from webtraj.runs.spec import RunSpec
from webtraj.settings.configuration import keys_of
from webtraj.training.export.configuration import ExportSettings
from webtraj.training.llamafactory.configuration import UpdateConfig, UpdateSettings
from webtraj.training.sft.settings import TrainConfig, TrainingSettings

HEAD = """\
# Configuration keys

The keys of files for `--config`, and of `key=value`. `--print-config` prints the values in use.
[Rollouts](../rollouts.md#configurations) explains configurations.
"""
COMMANDS: Mapping[type[Any], str] = {
    RunSpec: "webtraj rollout",
    JudgeConfig: "webtraj judge run",
    ProcessingConfig: "webtraj postprocess",
    ExportSettings: "webtraj train export",
    TrainingSettings: "webtraj train",
    UpdateSettings: "webtraj train update",
}
"""The commands by their settings."""


def keys_reference() -> str:
    """Return the page."""
    refused = [f"| `{key}` | {reason} |" for key, reason in WEBGYM.refused.items()]
    return "\n".join(
        [
            HEAD,
            "## Runs\n",
            "`kind: run`: also `key=value` of `webtraj rollout`, and the fields of `RunSpec`.\n",
            *_table(keys_of(RunSpec)),
            "\n## Loops\n",
            "The keys of `webtraj loop`. These sections have the settings of a command as well:\n",
            *(f"- `{name}`: `{COMMANDS[model]}`" for name, model in _sections(LoopConfig)),
            "",
            *_table(_keys_of_loops()),
            "\n## Training\n",
            "The keys of `webtraj train`.\n",
            *_table(keys_of(TrainConfig)),
            "\n## Training by LLaMA-Factory\n",
            "The keys of `webtraj train update`. Keys without a meaning are LLaMA-Factory's.\n",
            *_table(keys_of(UpdateConfig)),
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


def _keys_of_loops() -> Iterator[tuple[str, Any]]:
    """Yield the keys of a loop that are not settings of a command."""
    of_commands = {
        f"{name}.{key}" for name, model in _sections(LoopConfig) for key, _ in keys_of(model)
    }
    return ((key, field) for key, field in keys_of(LoopConfig) if key not in of_commands)


def _sections(config: Any, prefix: str = "") -> Iterator[tuple[str, type[Any]]]:
    """Yield the sections that have the settings of a command, with these settings."""
    for name, field in config.model_fields.items():
        for kind in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(kind, type) and hasattr(kind, "model_fields"):
                for settings in COMMANDS.keys() & set(kind.__mro__):
                    yield f"{prefix}{name}", settings
                yield from _sections(kind, f"{prefix}{name}.")


def _table(keys: Iterable[tuple[str, Any]]) -> Iterator[str]:
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for key, field in keys:
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
