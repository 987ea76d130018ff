"""Asking a vLLM server which weights it answers with, and giving it others while it runs.

The order of the requests keeps every reply true to its label: generation is paused, so that no
reply is begun with one version and ended with another; the weights are read; whatever was computed
with the old ones is forgotten; the new version is named; generation goes on. If any of it fails,
nobody knows which weights the server has, so it stays paused.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import httpx

from webtraj import errors

__all__ = ["BASE_VERSION", "read_version", "reload"]

BASE_VERSION = "default"
"""What vLLM calls the weights that it was started with."""

_NEEDS_DEV_MODE = (
    "The server must have been started with dev_mode=True (`webtraj serve --dev-mode`)."
)
_SNIPPET = 500


async def read_version(client: httpx.AsyncClient) -> str:
    """Returns the version of the weights that the server answers with.

    Raises:
        ModelRefusedError: The server does not tell.
        ModelUnavailableError: It does not answer.
    """
    answer = await _ask(client, "GET", "/weight_info")
    return str(answer.json()["weight_version"])


async def reload(
    client: httpx.AsyncClient, path: str | os.PathLike[str], version: str, *, timeout: float
) -> None:
    """Has the server read weights from a folder, and call them by a version.

    Args:
        client: Goes to the server's root.
        path: A folder with the weights as safetensors, of the same architecture; the server must
            see it by this path.
        version: The version's name.
        timeout: Seconds that each request may take; the first waits for all replies under way.

    Raises:
        InvalidInputError: The folder has no weights, or the version is empty or the base's.
        ModelRefusedError: The server does not take them; it is left paused.
        ModelUnavailableError: It does not answer, or not in time.
    """
    folder = check(path, version)
    ask = functools.partial(_ask, client, "POST", timeout=timeout)
    await ask("/pause?mode=wait")
    kwargs = {"weights_path": folder}
    await ask("/collective_rpc", json={"method": "reload_weights", "kwargs": kwargs})
    await ask("/collective_rpc", json={"method": "repack_weights"})
    await ask("/reset_mm_cache")
    await ask("/reset_encoder_cache")
    forgotten = await ask("/reset_prefix_cache")
    if not forgotten.json()["success"]:
        raise errors.ModelRefusedError(
            f"{client.base_url} has read the weights of version {version!r}, and does not forget "
            "its prefix cache, which is of the old ones. It is left paused; restart it."
        )
    await ask("/update_weight_version", json={"new_version": version})
    await ask("/resume")


def check(path: str | os.PathLike[str], version: str) -> str:
    """Checks what `reload` is given; returns the folder as an absolute path.

    Raises:
        InvalidInputError: The folder has no weights, or the version is empty or the base's.
    """
    if not any(Path(path).glob("*.safetensors")):
        raise errors.InvalidInputError(
            f"{os.fspath(path)!r} holds no *.safetensors; give the folder of a saved model."
        )
    if not version or version == BASE_VERSION:
        raise errors.InvalidInputError(
            f"The weights' version is {version!r}; give one that is neither empty nor "
            f"{BASE_VERSION!r}, which means those that the server was started with."
        )
    return str(Path(path).absolute())


async def _ask(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response:
    where = f"{str(client.base_url).rstrip('/')}{path}"
    try:
        answer = await client.request(method, path, **options)
    except httpx.HTTPError as error:
        raise errors.ModelUnavailableError(
            f"No answer from {where}: {type(error).__name__} {error}. Check that the server runs."
        ) from error
    if answer.is_success:
        return answer
    hint = f" {_NEEDS_DEV_MODE}" if answer.status_code in (404, 405) else ""
    raise errors.ModelRefusedError(
        f"{where} answered {answer.status_code}: {answer.text[:_SNIPPET]}.{hint}"
    )
