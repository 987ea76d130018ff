"""Credentials from AWS's shared files, which obstore does not read.

The order is AWS's own: the environment, a web identity, the shared files, then the container or the
instance. obstore handles all but the shared files. Profiles that use roles, single sign-on or
processes instead of keys are left to boto3, if it is installed.
"""

from __future__ import annotations

import configparser
import datetime
import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors

__all__ = ["SharedProfile", "find_profile", "take_profile"]

_FRESH = datetime.timedelta(minutes=5)
_SETTINGS = (
    ("region", "region", ("AWS_REGION", "AWS_DEFAULT_REGION")),
    (
        "endpoint_url",
        "endpoint",
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    ),
)
"""The keys of a profile, with obstore's name and the overriding variables of each."""
_INDIRECT = ("role_arn", "sso_session", "sso_start_url", "credential_process", "login_session")


class SharedProfile:
    """A profile in AWS's shared files, which are read again every few minutes."""

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        """Initialize the profile.

        Args:
            name: The profile's name.
            environ: The environment, which may give the paths of the files.
        """
        self.name = name
        home = Path(environ.get("HOME") or Path.home())
        self._credentials = Path(
            environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials"
        ).expanduser()
        self._config = Path(environ.get("AWS_CONFIG_FILE") or home / ".aws" / "config").expanduser()

    def settings(self) -> dict[str, str] | None:
        """Return the profile's settings in the files; None if they do not have the profile.

        Raises:
            InvalidInputError: A file is malformed.
        """
        section = self.name if self.name == "default" else f"profile {self.name}"
        found = [_section(self._config, section), _section(self._credentials, self.name)]
        if found == [None, None]:
            return None
        return {key: value for part in found if part for key, value in part.items()}

    def provider(self) -> Callable[[], Any] | None:
        """Return a function that gives obstore the profile's credentials; None if it has none.

        Raises:
            MissingDependencyError: They come from somewhere else, and boto3 is not installed.
        """
        settings = self.settings() or {}
        if "aws_access_key_id" in settings:
            return self._keys
        if not any(key in settings for key in _INDIRECT):
            return None
        try:
            boto3 = importlib.import_module("boto3")
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError as error:
            raise errors.MissingDependencyError(
                f"The AWS profile {self.name!r} gets its credentials from a role, single sign-on "
                "or a process, which needs boto3. Install it with: pip install boto3"
            ) from error
        provider: Callable[[], Any] = Boto3CredentialProvider(
            boto3.Session(profile_name=self.name), ttl=_FRESH
        )
        return provider

    def _keys(self) -> dict[str, Any]:
        settings = self.settings() or {}
        try:
            return {
                "access_key_id": settings["aws_access_key_id"],
                "secret_access_key": settings["aws_secret_access_key"],
                "token": settings.get("aws_session_token"),
                "expires_at": datetime.datetime.now(datetime.UTC) + _FRESH,
            }
        except KeyError as error:
            raise errors.StorageDeniedError(
                f"The AWS profile {self.name!r} in {str(self._credentials)!r} has no {error}."
            ) from None

    def __repr__(self) -> str:
        return f"SharedProfile({self.name!r})"


def find_profile(name: str | None, environ: Mapping[str, str] = os.environ) -> SharedProfile | None:
    """Return the profile to take credentials from; None if they come from elsewhere.

    Args:
        name: The requested profile; None to choose as AWS's own tools do.
        environ: The environment.

    Raises:
        InvalidInputError: The profile requested here or by AWS_PROFILE does not exist.
    """
    wanted = name or environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE")
    if name is None and any(
        environ.get(key) for key in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
    ):
        return None
    profile = SharedProfile(wanted or "default", environ)
    if profile.settings() is not None:
        return profile
    if wanted:
        raise errors.InvalidInputError(
            f"No AWS profile {wanted!r} in {str(profile._credentials)!r} or "
            f"{str(profile._config)!r}. Add it, or unset AWS_PROFILE."
        )
    return None


def take_profile(config: dict[str, Any], name: str | None) -> Callable[[], Any] | None:
    """Add the region and the endpoint of the selected profile to an S3 configuration.

    Args:
        config: The configuration, changed in place.
        name: The requested profile, if any.

    Returns:
        A function that returns its credentials; None if they come from elsewhere.
    """
    profile = find_profile(name)
    if profile is None:
        return None
    settings = profile.settings() or {}
    for setting, field, variables in _SETTINGS:
        if setting in settings and not any(map(os.environ.get, variables)):
            config.setdefault(field, settings[setting])
    return profile.provider()


def _section(path: Path, name: str) -> dict[str, str] | None:
    parser = configparser.RawConfigParser(default_section="\0")
    try:
        with path.open(encoding="utf-8") as file:
            parser.read_file(file)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        # The parser's message would quote the line, which may hold a secret.
        raise errors.InvalidInputError(
            f"Cannot read {str(path)!r} as a file of AWS profiles ({type(error).__name__})."
        ) from None
    return dict(parser[name]) if parser.has_section(name) else None
