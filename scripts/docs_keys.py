"""Writes the reference of the configuration keys as Markdown: of runs, loops and trainings.

Run by the documentation's build (`scripts/docs_hooks.py`). By itself it prints the page:

    python scripts/docs_keys.py
"""

from __future__ import annotations

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
PHASES: Mapping[str, tuple[type[Any], str]] = {
    "rollout": (RunSpec, "`webtraj rollout`"),
    "evaluation": (RunSpec, "`webtraj rollout`"),
    "first.rollout": (RunSpec, "`webtraj rollout`"),
    "groups.rollout": (RunSpec, "`webtraj rollout`"),
    "judge": (JudgeConfig, "`webtraj judge run`"),
    "postprocess": (ProcessingConfig, "`webtraj postprocess`"),
    "export": (ExportSettings, "`webtraj train export`"),
    "groups.train": (TrainingSettings, "`webtraj train`"),
    "train": (TrainingSettings, "`webtraj train`"),
    "train.llamafactory": (UpdateSettings, "`webtraj train update`"),
}
"""The sections of a loop that have the settings of a command, and the command."""


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
            *(f"- `{section}`: {command}" for section, (_, command) in PHASES.items()),
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
        f"{section}.{key}" for section, (model, _) in PHASES.items() for key, _ in keys_of(model)
    }
    return ((key, field) for key, field in keys_of(LoopConfig) if key not in of_commands)


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
