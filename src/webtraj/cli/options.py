"""What commands have in common: settings, conditions on episodes, options of buckets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

__all__ = ["OPTION_HELP", "PLACE_HELP", "WHERE_HELP", "read_setting", "storage_options"]

PLACE_HELP = "The dataset's folder, or its URL: s3://bucket/prefix, ..."
API_KEY_HELP = (
    "The environment variable that holds the API key of the model's server; default: "
    "OPENAI_API_KEY and ANTHROPIC_API_KEY for these vendors' own servers, none for others."
)
OPTION_HELP = (
    "For a bucket, as name=value: endpoint=http://host:9000, allow_http=true, region=..., "
    "profile=.... Credentials come from the usual places."
)
WHERE_HELP = "A condition on episodes: \"outcome == 'success' and num_steps <= 10\"."


def read_setting(flag: str, text: str) -> tuple[str, Any]:
    """Returns the name and the value that `KEY=VALUE` sets; the value is JSON, or else text.

    >>> read_setting("--set", "max_steps=20"), read_setting("--set", "mode=marks")
    (('max_steps', 20), ('mode', 'marks'))

    Raises:
        InvalidInputError: It has no such form; the message names `flag`.
    """
    from webtraj import errors

    key, separator, value = text.partition("=")
    if not separator or not key.isidentifier():
        raise errors.InvalidInputError(
            f"{flag} takes KEY=VALUE, such as max_steps=20; got {text!r:.100}."
        )
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def storage_options(given: Iterable[str] | None) -> dict[str, Any] | None:
    """Returns the options of buckets that a command line gives, or None.

    >>> storage_options(["endpoint=http://localhost:9000", "allow_http=true", "timeout=5"])
    {'endpoint': 'http://localhost:9000', 'allow_http': True, 'timeout': 5.0}

    Raises:
        InvalidInputError: One is no such option, or a secret, which others could see there.
    """
    from webtraj import errors

    options: dict[str, Any] = {}
    for item in given or ():
        name, found, value = item.partition("=")
        if not found or name not in _KNOWN:
            raise errors.InvalidInputError(
                f"--option {name!r:.60} is not known; expected name=value with one of the names "
                f"{', '.join(_KNOWN)}. Credentials come from the environment, a profile or the "
                "machine."
            )
        try:
            options[name] = _KNOWN[name](value)
        except ValueError:
            raise errors.InvalidInputError(
                f"--option {name}={value!r:.60} is not understood; expected "
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
