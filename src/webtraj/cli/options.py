"""Options shared by commands: settings, episode conditions, bucket options."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer

__all__ = [
    "HOST_HELP",
    "OPTION_HELP",
    "PLACE_HELP",
    "WHERE_HELP",
    "Json",
    "read_setting",
    "storage_options",
]

PLACE_HELP = "The dataset's folder, or its URL: s3://bucket/prefix, hf://datasets/ORG/NAME, ..."
API_KEY_HELP = (
    "The environment variable that holds the API key for the model's server; default: "
    "OPENAI_API_KEY or ANTHROPIC_API_KEY for those vendors' own servers, none for others."
)
HOST_HELP = "The address to listen at; anyone who can reach it can use the browsers."
OPTION_HELP = (
    "For a bucket, as name=value: endpoint=http://host:9000, allow_http=true, region=..., "
    "profile=.... Credentials come from the environment, a profile or the machine."
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WHERE_HELP = "A condition on episodes: \"outcome == 'success' and num_steps <= 10\"."


def read_setting(flag: str, text: str) -> tuple[str, Any]:
    """Return the name and value in `KEY=VALUE`; the value is parsed as JSON, else kept as text.

    >>> read_setting("--set", "max_steps=20"), read_setting("--set", "mode=marks")
    (('max_steps', 20), ('mode', 'marks'))

    Raises:
        InvalidInputError: `text` does not have this form; the message names `flag`.
    """
    from webtraj import errors

    key, separator, value = text.partition("=")
    if not separator or not key.isidentifier():
        raise errors.InvalidInputError(
            f"{flag} got {text!r:.100}; expected KEY=VALUE, such as max_steps=20."
        )
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def storage_options(given: Iterable[str] | None) -> dict[str, Any] | None:
    """Return the bucket options given on the command line, or None.

    >>> storage_options(["endpoint=http://localhost:9000", "allow_http=true", "timeout=5"])
    {'endpoint': 'http://localhost:9000', 'allow_http': True, 'timeout': 5.0}

    Raises:
        InvalidInputError: An option is unknown, or is a secret, which other users could see in the
            process list.
    """
    from webtraj import errors

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
    "virtual_hosted_style": _flag,
    "anonymous": _flag,
    "sse": str,
    "sse_kms_key_id": str,
    "timeout": float,
    "connect_timeout": float,
}
