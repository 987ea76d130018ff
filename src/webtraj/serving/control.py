"""Control a running vLLM server: pause it, let it sleep and wake, change its weights.

Most requests need its dev mode.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path
from typing import Any, Literal, Protocol

from webtraj import errors
from webtraj.net.http import httpx

__all__ = [
    "AdapterKeptError",
    "BASE_VERSION",
    "Control",
    "DEFAULT_HOLD",
    "LoadAdapter",
    "ReadWeights",
    "SleepLevel",
    "WeightChange",
]

# Requests to a running vLLM server. Most need its dev mode.

SleepLevel = Literal[0, 1, 2]
"""0 frees nothing; 1 frees the cache and moves the weights to main memory; 2 drops the weights."""

_NEEDS_DEV_MODE = "The server must be started with dev_mode=True (`webtraj serve --dev-mode`)."
_SNIPPET = 500


class Control:
    """Sends control requests to one server. Every method may raise the errors below.

    Args:
        client: A client for the server's root.
        timeout: Time limit of each request in seconds. Pausing waits for all running replies.

    Raises:
        ModelRefusedError: The server rejects the request.
        ModelUnavailableError: The server does not answer in time.
    """

    def __init__(self, client: httpx.AsyncClient, *, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    @property
    def url(self) -> str:
        """The server's root URL."""
        return str(self._client.base_url).rstrip("/")

    async def read_version(self) -> str:
        """Return the version of the current weights."""
        return str((await self._ask("GET", "/weight_info"))["weight_version"])

    async def adapters(self) -> dict[str, str]:
        """Return the folders of the loaded adapters, by name."""
        listed = (await self._ask("GET", "/v1/models"))["data"]
        return {model["id"]: model["root"] for model in listed if model.get("parent")}

    async def pause(self) -> None:
        """Finish the running replies and start no others."""
        await self._ask("POST", "/pause?mode=wait")

    async def resume(self) -> None:
        """Resume after a pause."""
        await self._ask("POST", "/resume")

    async def read_weights(self, folder: str | None) -> None:
        """Read weights from a folder, or again from the last one."""
        kwargs = {} if folder is None else {"weights_path": folder}
        for call in ({"method": "reload_weights", "kwargs": kwargs}, {"method": "repack_weights"}):
            await self._ask("POST", "/collective_rpc", json=call)

    async def load_adapter(self, name: str, folder: str) -> None:
        """Read a LoRA adapter from a folder, replacing an adapter of the same name."""
        adapter = {"lora_name": name, "lora_path": folder, "load_inplace": True}
        await self._ask("POST", "/v1/load_lora_adapter", json=adapter)

    async def forget(self) -> None:
        """Drop everything that was computed with the current weights."""
        await self._ask("POST", "/reset_mm_cache")
        await self._ask("POST", "/reset_encoder_cache")
        if not (await self._ask("POST", "/reset_prefix_cache"))["success"]:
            raise errors.ModelRefusedError(
                f"{self.url} has new weights but did not drop its prefix cache, which belongs to "
                "the old ones. It is left paused; restart it."
            )

    async def name_version(self, version: str) -> None:
        """Set the version of the current weights."""
        await self._ask("POST", "/update_weight_version", json={"new_version": version})

    async def sleep(self, level: SleepLevel) -> None:
        """Finish the running replies and free the device's memory."""
        await self._ask("POST", f"/sleep?level={level}&mode=wait")
        if not (await self._ask("GET", "/is_sleeping"))["is_sleeping"]:
            raise errors.ModelRefusedError(f"{self.url} was put to sleep but is still awake.")

    async def wake_up(
        self, part: Literal["weights", "kv_cache", "scheduling"] | None = None
    ) -> None:
        """Take back the memory, or a part of it. Resume when all of it is back."""
        tags = "" if part is None else f"?tags={part}"
        status = (await self._ask("POST", f"/wake_up{tags}"))["status"]
        if part != "weights" and status != "awake":
            raise errors.ModelRefusedError(f"{self.url} was woken up but is {status}.")

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        """Return the server's reply; None if it is not JSON."""
        where = f"{self.url}{path}"
        try:
            answer = await self._client.request(method, path, timeout=self._timeout, **options)
        except httpx.HTTPError as error:
            raise errors.ModelUnavailableError(
                f"No answer from {where}: {type(error).__name__} {error}. Check that the server is "
                "running."
            ) from error
        if answer.is_success:
            try:
                return answer.json()
            except ValueError:
                return None
        hint = f" {_NEEDS_DEV_MODE}" if answer.status_code in (404, 405) else ""
        raise errors.ModelRefusedError(
            f"{where} answered {answer.status_code}: {answer.text[:_SNIPPET]}.{hint}"
        )


# Changes of a running vLLM server's weights.
#
# The order of requests keeps every reply's label correct. Generation is paused, so that no reply
# starts with one version and ends with another. The weights are read, everything computed with the
# old ones is dropped, the new version is named, and generation resumes. If any step fails, the
# server's weights are unknown, so it stays paused.
#
# Clients share a version that they have read for `version_interval` seconds, 1 by default. A
# version read just before a change would be put on a reply that comes just after. So the server
# stays paused for `hold` seconds after the new version is named, until earlier readings expire.

DEFAULT_HOLD = 1.0
"""Seconds for which clients share a version by default (`ClientOptions.version_interval`)."""

BASE_VERSION = "default"
"""vLLM's name for its initial weights."""

_LABEL_SEPARATOR = "@"


class WeightChange(Protocol):
    """New weights for a running server."""

    @property
    def label(self) -> str:
        """The weights' label on the server and in records: `ModelCall.policy_version`."""

    def check(self) -> None:
        """Check everything that can be checked without the server.

        Raises:
            InvalidInputError: The weights or their names are invalid.
        """

    async def apply(self, control: Control) -> None:
        """Apply the weights. After a failure, the server is left paused.

        Raises:
            AdapterKeptError: The change failed, and the server continues unchanged.
            ModelRefusedError: The server rejects the weights.
            ModelUnavailableError: The server does not answer in time.
        """


class AdapterKeptError(Exception):
    """An adapter was rejected, and the previous one stays. Internal to this package."""

    def __init__(self, error: errors.ModelError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclasses.dataclass(frozen=True, slots=True)
class ReadWeights:
    """Weights of the same architecture, as safetensors in a folder visible to the server."""

    path: str | os.PathLike[str]
    """Folder of the weights."""
    version: str
    """Version of the weights."""
    hold: float = 0.0
    """Seconds that generation waits after they are named."""

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
    """A LoRA adapter, replacing one of the same name."""

    adapter: str
    """Name of the adapter: the model's name in requests and records."""
    path: str | os.PathLike[str]
    """Folder of the adapter as saved by PEFT, visible to the server."""
    version: str
    """Version of its weights."""
    hold: float = 0.0
    """Seconds that generation waits after they are named."""

    @property
    def label(self) -> str:
        """The adapter and its version, since the server has one label but several models."""
        return f"{self.adapter}{_LABEL_SEPARATOR}{self.version}"

    def check(self) -> None:
        """See `WeightChange.check`."""
        _check_folder(self.path, "adapter_model.safetensors", "a LoRA adapter as PEFT saves it")
        _check_folder(self.path, "adapter_config.json", "a LoRA adapter as PEFT saves it")
        _check_version(self.version)
        if not self.adapter or _LABEL_SEPARATOR in self.adapter:
            raise errors.InvalidInputError(
                f"Invalid adapter name {self.adapter!r}; give one that is not empty and does not "
                f"contain {_LABEL_SEPARATOR!r}, which separates it from its version."
            )

    async def apply(self, control: Control) -> None:
        """See `WeightChange.apply`."""
        before = (await control.adapters()).get(self.adapter)
        await control.pause()
        try:
            await control.load_adapter(self.adapter, _absolute(self.path))
        except errors.ModelRefusedError as error:
            # vLLM reads and checks an adapter before it drops the previous one.
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
            f"No {pattern} in {os.fspath(path)!r}; give the folder of {what}."
        )


def _check_version(version: str) -> None:
    if not version or version == BASE_VERSION:
        raise errors.InvalidInputError(
            f"Invalid version of the weights {version!r}; give one that is neither empty nor "
            f"{BASE_VERSION!r}, which means the server's initial weights."
        )
