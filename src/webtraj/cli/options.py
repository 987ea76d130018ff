"""Options shared by commands: settings, episode conditions, bucket options."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors

if TYPE_CHECKING:
    from webtraj.store.index import EpisodeSummary

__all__ = [
    "ApiKeyVariable",
    "BaseUrl",
    "BucketOptions",
    "EndReason",
    "IMPORTED",
    "Imports",
    "Episode",
    "Host",
    "Csv",
    "Json",
    "JsonLines",
    "MaxSteps",
    "NewPlace",
    "OPTION_HELP",
    "Omissions",
    "Outcome",
    "Overwrite",
    "PLACE_HELP",
    "Parallel",
    "Place",
    "Policy",
    "PolicyName",
    "Port",
    "PresetOptions",
    "Provider",
    "Settings",
    "Site",
    "Task",
    "WHERE_HELP",
    "Where",
    "WritablePlace",
    "condition_of",
    "format_settings",
    "import_now",
    "list_imported_modules",
    "options_for",
    "read_pairs",
    "read_setting",
    "read_settings",
    "storage_options",
    "without_none",
]

IMPORTED = "WEBTRAJ_IMPORT"
"""The variable that names the modules of `--import`, also for commands that a command starts."""

PLACE_HELP = "The dataset's folder, or its URL: s3://bucket/prefix, hf://datasets/ORG/NAME, ..."
WHERE_HELP = "A condition on episodes: \"outcome == 'success' and num_steps <= 10\"."
OPTION_HELP = (
    "For a bucket, as name=value: endpoint=http://host:9000, allow_http=true, region=..., "
    "profile=.... Credentials come from the environment, a profile or the machine."
)

Place = Annotated[str, typer.Argument(help=PLACE_HELP)]
WritablePlace = Annotated[str, typer.Argument(help="The dataset: a folder or a bucket's URL.")]
Episode = Annotated[
    str, typer.Argument(help="An episode's id, the start of one, or a position such as -1.")
]
Settings = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Any setting, such as step_timeout=60."),
]
BucketOptions = Annotated[list[str] | None, typer.Option("--option", help=OPTION_HELP)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
JsonLines = Annotated[
    bool, typer.Option("--json", help="Print JSON on stdout, one object per line.")
]
Csv = Annotated[
    str | None, typer.Option("--csv", metavar="FILE", help="Also write the table as a CSV file.")
]
Parallel = Annotated[int, typer.Option(min=1, help="Episodes at a time.")]

# Which episodes.

Where = Annotated[str | None, typer.Option(help=WHERE_HELP)]
Task = Annotated[str | None, typer.Option(help="Only this task.")]
Site = Annotated[str | None, typer.Option(help="Only this site.")]
Policy = Annotated[str | None, typer.Option(help="Only this policy.")]
Outcome = Annotated[
    str | None, typer.Option(help="Only this outcome: success, failure, env_error, ...")
]
EndReason = Annotated[
    str | None, typer.Option(help="Only this end reason: terminated, truncated, crashed, ...")
]

# Where an export goes.

NewPlace = Annotated[str, typer.Option(help="A new folder or URL.")]
Overwrite = Annotated[bool, typer.Option(help="Replace an earlier export.")]
Omissions = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Also write what was left out or changed as a CSV file."),
]

# Which model.

Provider = Annotated[
    str | None, typer.Option(help="The server's API, such as auto, openai, anthropic or azure.")
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="The model's server, including /v1; default: the vendor's.",
    ),
]
ApiKeyVariable = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The environment variable with the API key for the model's server; default: "
        "OPENAI_API_KEY or ANTHROPIC_API_KEY for those vendors' own servers, none for others.",
        show_default=False,
    ),
]

# Sessions that a server offers to others.

Host = Annotated[
    str,
    typer.Option(help="The address to listen at; anyone who can reach it can use the browsers."),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for a free one.")]
MaxSteps = Annotated[
    int | None, typer.Option(min=1, help="Truncate an episode after this many steps.")
]
PolicyName = Annotated[str, typer.Option(help="The policy's name in the records.")]
PresetOptions = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the presets. Repeatable."),
]

Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Your module or .py file that registers presets, agents, judges or steps. Repeatable.",
    ),
]
"""Modules for `import_now`, which a command calls first."""


def import_now(modules: Sequence[str] | None) -> None:
    """Import modules now, and in every command that this one starts.

    Raises:
        InvalidInputError: A module does not exist, or fails.
    """
    if not modules:
        return
    from webtraj.settings.named import import_modules

    import_modules(modules)
    os.environ[IMPORTED] = os.pathsep.join((*list_imported_modules(), *modules))


def list_imported_modules() -> list[str]:
    """Return the modules of `--import`."""
    return [module for module in os.environ.get(IMPORTED, "").split(os.pathsep) if module]


def without_none(**given: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in given.items() if value is not None}


def condition_of(where: str | None) -> Callable[[EpisodeSummary], bool] | None:
    """Return the condition given with `--where`; None if there is none."""
    from webtraj.datasets.dataset import parse_condition

    return None if where is None else parse_condition(where)


def read_setting(flag: str, text: str) -> tuple[str, Any]:
    """Return the name and value in `KEY=VALUE`; the value is parsed as JSON, else kept as text.

    >>> read_setting("--set", "max_steps=20"), read_setting("--set", "mode=marks")
    (('max_steps', 20), ('mode', 'marks'))

    Raises:
        InvalidInputError: `text` does not have this form; the message names `flag`.
    """
    key, separator, value = text.partition("=")
    if not separator or not key.isidentifier():
        raise errors.InvalidInputError(
            f"{flag} got {text!r:.100}; expected KEY=VALUE, such as max_steps=20."
        )
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def format_settings(given: Iterable[str] | None) -> dict[str, str]:
    """Return the format options given with `--set`, as text."""
    return read_pairs("--set", given, "KEY=VALUE, each key once, such as license=mit")


def read_pairs(flag: str, given: Iterable[str] | None, expected: str) -> dict[str, str]:
    """Return the texts of a repeatable flag, `name=text`, by name.

    Raises:
        InvalidInputError: A text does not have the form `name=text`, or a name occurs twice. The
            message quotes `expected`.
    """
    pairs: dict[str, str] = {}
    for item in given or ():
        name, found, text = item.partition("=")
        if not found or name in pairs:
            raise errors.InvalidInputError(f"{flag} got {item!r:.100}; expected {expected}.")
        pairs[name] = text
    return pairs


def read_settings(given: Iterable[str] | None) -> dict[str, Any]:
    """Return the values given with `--set KEY=VALUE`, by key."""
    return dict(read_setting("--set", text) for text in given or ())


def options_for(
    place: str | os.PathLike[str], given: Iterable[str] | None, *others: str, flag: str = "--option"
) -> dict[str, Any] | None:
    """Return the bucket options for one of several places; a folder takes none.

    Args:
        place: The place.
        given: The values of the flag.
        others: The other places that the flag applies to.
        flag: The flag, for the error message.

    Raises:
        InvalidInputError: There are options, but no place is a bucket; or an option is wrong.
    """
    from webtraj.store.places import is_url

    options = storage_options(given)
    if options and not any(map(is_url, (place, *others))):
        folders = ", ".join(map(repr, map(str, (place, *others))))
        raise errors.InvalidInputError(
            f"{flag} has no effect: it needs a bucket's URL, but got {folders:.300}. Leave it out."
        )
    return options


def storage_options(given: Iterable[str] | None) -> dict[str, Any] | None:
    """Return the bucket options given on the command line, or None.

    >>> storage_options(["endpoint=http://localhost:9000", "allow_http=true", "timeout=5"])
    {'endpoint': 'http://localhost:9000', 'allow_http': True, 'timeout': 5.0}

    Raises:
        InvalidInputError: An option is unknown, or is a secret, which other users could see in the
            process list.
    """
    options: dict[str, Any] = {}
    for item in given or ():
        name, found, value = item.partition("=")
        if not found or name not in _KNOWN:
            raise errors.InvalidInputError(
                f"--option got {item.partition('=')[0]!r:.60}; expected name=value, with a name "
                f"out of {', '.join(_KNOWN)}. Set credentials in the environment or in a profile."
            )
        try:
            options[name] = _KNOWN[name](value)
        except ValueError:
            raise errors.InvalidInputError(
                f"--option {name} got {value!r:.60}; expected "
                f"{'true or false' if _KNOWN[name] is _flag else 'a number'}."
            ) from None
    return options or None


def _flag(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError(value)
    return value.lower() == "true"


_KNOWN: dict[str, Any] = {
    "endpoint": str,
    "region": str,
    "profile": str,
    "allow_http": _flag,
    "virtual_hosted_style_request": _flag,
    "skip_signature": _flag,
    "server_side_encryption": str,
    "sse_kms_key_id": str,
    "timeout": float,
    "connect_timeout": float,
}
