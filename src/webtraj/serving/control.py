"""What a vLLM server can be told while it runs: to rest, to wake, to take other weights.

Most needs its dev mode.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path
from typing import Any, Literal, Protocol

from webtraj import errors
from webtraj.http import httpx

__all__ = [
    "AdapterKeptError",
    "BASE_VERSION",
    "Control",
    "LoadAdapter",
    "ReadWeights",
    "SleepLevel",
    "WeightChange",
]

# What a vLLM server can be told while it runs, request by request. Most needs its dev mode.

SleepLevel = Literal[0, 1, 2]
"""0 frees nothing; 1 frees the cache and moves the weights to main memory; 2 forgets those too."""

_NEEDS_DEV_MODE = (
    "The server must have been started with dev_mode=True (`webtraj serve --dev-mode`)."
)
_SNIPPET = 500


class Control:
    """Talks to one server. Every method raises the same.

    Args:
        client: Goes to the server's root.
        timeout: Seconds that each request may take; pausing waits for all replies under way.

    Raises:
        ModelRefusedError: The server does not do it. By every method.
        ModelUnavailableError: It does not answer, or not in time. By every method.
    """

    def __init__(self, client: httpx.AsyncClient, *, timeout: float) -> None:
        self._client = client
        self._timeout = timeout

    @property
    def url(self) -> str:
        """The server's root."""
        return str(self._client.base_url).rstrip("/")

    async def read_version(self) -> str:
        """Returns the version of the weights that it answers with."""
        return str((await self._ask("GET", "/weight_info"))["weight_version"])

    async def adapters(self) -> dict[str, str]:
        """Returns the folders of the adapters that it has, by name."""
        listed = (await self._ask("GET", "/v1/models"))["data"]
        return {model["id"]: model["root"] for model in listed if model.get("parent")}

    async def pause(self) -> None:
        """Has it finish the replies under way, and begin no others."""
        await self._ask("POST", "/pause?mode=wait")

    async def resume(self) -> None:
        """Has it go on after a pause."""
        await self._ask("POST", "/resume")

    async def read_weights(self, folder: str | None) -> None:
        """Has it read weights from a folder, or again from the one that it read last."""
        kwargs = {} if folder is None else {"weights_path": folder}
        await self._call("reload_weights", kwargs=kwargs)
        await self._call("repack_weights")

    async def load_adapter(self, name: str, folder: str) -> None:
        """Has it read a LoRA adapter from a folder, in place of the one of that name."""
        adapter = {"lora_name": name, "lora_path": folder, "load_inplace": True}
        await self._ask("POST", "/v1/load_lora_adapter", json=adapter)

    async def forget(self) -> None:
        """Has it forget all that it computed with its weights."""
        await self._ask("POST", "/reset_mm_cache")
        await self._ask("POST", "/reset_encoder_cache")
        if not (await self._ask("POST", "/reset_prefix_cache"))["success"]:
            raise errors.ModelRefusedError(
                f"{self.url} has new weights, and does not forget its prefix cache, which is of "
                "the old ones. It is left paused; restart it."
            )

    async def name_version(self, version: str) -> None:
        """Says what its weights are called from now on."""
        await self._ask("POST", "/update_weight_version", json={"new_version": version})

    async def sleep(self, level: SleepLevel) -> None:
        """Has it finish the replies under way, and free the memory of its device."""
        await self._ask("POST", f"/sleep?level={level}&mode=wait")
        if not (await self._ask("GET", "/is_sleeping"))["is_sleeping"]:
            raise errors.ModelRefusedError(f"{self.url} was put to sleep, and is awake.")

    async def wake_up(
        self, part: Literal["weights", "kv_cache", "scheduling"] | None = None
    ) -> None:
        """Has it take its memory again, or a part of it, and go on once it has all of it."""
        tags = "" if part is None else f"?tags={part}"
        status = (await self._ask("POST", f"/wake_up{tags}"))["status"]
        if part != "weights" and status != "awake":
            raise errors.ModelRefusedError(f"{self.url} was woken up, and is {status}.")

    async def _call(self, method: str, **options: Any) -> None:
        await self._ask("POST", "/collective_rpc", json={"method": method, **options})

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        """Returns what the server answers; None if that is no JSON."""
        where = f"{self.url}{path}"
        try:
            answer = await self._client.request(method, path, timeout=self._timeout, **options)
        except httpx.HTTPError as error:
            raise errors.ModelUnavailableError(
                f"No answer from {where}: {type(error).__name__} {error}. Check that the server "
                "runs."
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


# Other weights for a vLLM server while it runs.
#
# The order of the requests keeps every reply true to its label: generation is paused, so that no
# reply is begun with one version and ended with another; the weights are read; whatever was
# computed with the old ones is forgotten; the new version is named; generation goes on. If any of
# it fails, nobody knows which weights the server has, so it stays paused.
#
# Clients share a version that they have read for `version_interval` seconds, 1 by default. One that
# was read just before a change would be put on a reply that came just after. So the server stays
# paused for `hold` seconds after the new version is named: by then, what was read before has
# expired.

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
