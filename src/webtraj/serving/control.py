"""What a vLLM server can be told while it runs, request by request. Most needs its dev mode."""

from __future__ import annotations

from typing import Any, Literal

from webtraj import errors
from webtraj.http import httpx

__all__ = ["Control", "SleepLevel"]

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
