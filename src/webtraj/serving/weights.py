"""Other weights for a vLLM server while it runs.

The order of the requests keeps every reply true to its label: generation is paused, so that no
reply is begun with one version and ended with another; the weights are read; whatever was computed
with the old ones is forgotten; the new version is named; generation goes on. If any of it fails,
nobody knows which weights the server has, so it stays paused.

Clients share a version that they have read for `version_interval` seconds, 1 by default. One that
was read just before a change would be put on a reply that came just after. So the server stays
paused for `hold` seconds after the new version is named: by then, what was read before has expired.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path
from typing import Protocol

from webtraj import errors
from webtraj.serving.control import Control

__all__ = ["BASE_VERSION", "AdapterKeptError", "LoadAdapter", "ReadWeights", "WeightChange"]

BASE_VERSION = "default"
"""What vLLM calls the weights that it was started with."""

_LABEL_SEPARATOR = "@"


class WeightChange(Protocol):
    """Weights that a running server is to answer with."""

    @property
    def label(self) -> str:
        """What the server calls them, and records: `ModelCall.policy_version`."""

    def check(self) -> None:
        """Looks for what can be seen to be wrong without the server.

        Raises:
            InvalidInputError: Something is.
        """

    async def apply(self, control: Control) -> None:
        """Has the server take them. If it fails, the server is left paused.

        Raises:
            AdapterKeptError: It failed, and the server goes on as it was.
            ModelRefusedError: The server does not take them.
            ModelUnavailableError: It does not answer, or not in time.
        """


class AdapterKeptError(Exception):
    """An adapter was refused, and the one before answers. Does not leave this package."""

    def __init__(self, error: errors.ModelError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclasses.dataclass(frozen=True, slots=True)
class ReadWeights:
    """Weights of the same architecture, as safetensors in a folder that the server sees."""

    path: str | os.PathLike[str]
    """The folder."""
    version: str
    """What they are called."""
    hold: float = 0.0
    """Seconds that generation waits once they are named."""

    @property
    def label(self) -> str:
        """The version."""
        return self.version

    def check(self) -> None:
        """See `WeightChange.check`."""
        _check_folder(self.path, "*.safetensors", "a saved model")
        _check_version(self.version)

    async def apply(self, control: Control) -> None:
        """See `WeightChange.apply`."""
        await control.pause()
        await control.read_weights(_absolute(self.path))
        await _go_on(control, self.label, self.hold)


@dataclasses.dataclass(frozen=True, slots=True)
class LoadAdapter:
    """A LoRA adapter in place of the one of the same name, if there was one."""

    adapter: str
    """Its name: the model's in requests, and so in records."""
    path: str | os.PathLike[str]
    """Its folder, as PEFT saves it, which the server sees."""
    version: str
    """What its weights are called."""
    hold: float = 0.0
    """Seconds that generation waits once they are named."""

    @property
    def label(self) -> str:
        """The adapter and its version: the server has one label, and more models than this."""
        return f"{self.adapter}{_LABEL_SEPARATOR}{self.version}"

    def check(self) -> None:
        """See `WeightChange.check`."""
        _check_folder(self.path, "adapter_model.safetensors", "a LoRA adapter as PEFT saves it")
        _check_folder(self.path, "adapter_config.json", "a LoRA adapter as PEFT saves it")
        _check_version(self.version)
        if not self.adapter or _LABEL_SEPARATOR in self.adapter:
            raise errors.InvalidInputError(
                f"The adapter's name is {self.adapter!r}; give one that is not empty and has no "
                f"{_LABEL_SEPARATOR!r}, which separates it from its version."
            )

    async def apply(self, control: Control) -> None:
        """See `WeightChange.apply`."""
        before = (await control.adapters()).get(self.adapter)
        await control.pause()
        try:
            await control.load_adapter(self.adapter, _absolute(self.path))
        except errors.ModelRefusedError as error:
            # vLLM reads and checks an adapter before it lets go of the one before.
            if (await control.adapters()).get(self.adapter) != before:
                raise
            await control.resume()
            raise AdapterKeptError(error) from error
        await _go_on(control, self.label, self.hold)


async def _go_on(control: Control, label: str, hold: float) -> None:
    await control.forget()
    await control.name_version(label)
    await asyncio.sleep(hold)
    await control.resume()


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())


def _check_folder(path: str | os.PathLike[str], pattern: str, what: str) -> None:
    if not any(Path(path).glob(pattern)):
        raise errors.InvalidInputError(
            f"{os.fspath(path)!r} holds no {pattern}; give the folder of {what}."
        )


def _check_version(version: str) -> None:
    if not version or version == BASE_VERSION:
        raise errors.InvalidInputError(
            f"The weights' version is {version!r}; give one that is neither empty nor "
            f"{BASE_VERSION!r}, which means those that the server was started with."
        )
