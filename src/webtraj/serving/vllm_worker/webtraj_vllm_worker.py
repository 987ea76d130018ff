"""Code that vLLM's processes load. It uses only the standard library.

Only this folder is put on their path (`vllm.VllmLaunch`), so that they see no other module of
webtraj. `WebtrajWorker` is for the workers, `WeightsGate` and `UserGate` for the API server.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

__all__ = ["UserGate", "WebtrajWorker", "WeightsGate"]

_HOSTS = Path(__file__).parents[2] / "net/hosts.py"

_BASE_VERSION = "default"
_ADMINISTRATION = ("/v1/models", "/v1/load_lora_adapter")
_RETRY_AFTER = b"1"


class WebtrajWorker:
    """Methods that vLLM adds to its worker class (`--worker-extension-cls`)."""

    get_model: Any  # Provided by vLLM's worker.

    def repack_weights(self) -> None:
        """Repack replaced weights in layers on a CPU.

        When vLLM 0.32 reloads weights, the output layer of a model with tied embeddings shares the
        new weights, but still multiplies with a packed copy of the old ones. Layers that keep only
        a packed copy have already been repacked.
        """
        for layer in self.get_model().modules():
            if hasattr(layer, "cpu_linear") and layer.weight.numel():
                layer.quant_method.process_weights_after_loading(layer)


class WeightsGate:
    """ASGI middleware (`--middleware`) that corrects weight labels where vLLM 0.32 is wrong.

    * vLLM calls its initial weights `default`. With `WEBTRAJ_WEIGHTS_VERSION`, `/weight_info`
      returns that version instead, even without dev mode.
    * A restarted server is meant to have newer weights than its initial ones, or an adapter, but
      would answer before it gets them. With `WEBTRAJ_WEIGHTS_HOLD`, requests get 503, which clients
      retry, until the weights have been named.
    * An adapter loaded in place is read from its folder again at each step of the model, which is
      slow, and changes the weights if the folder changes. Here it is read once.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._version = os.environ.get("WEBTRAJ_WEIGHTS_VERSION", "")
        self._holds = bool(os.environ.get("WEBTRAJ_WEIGHTS_HOLD"))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        path = scope.get("path", "")
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._holds and _is_about_weights(path) and await self._is_unnamed(scope):
            await _answer(send, 503, {"error": "The server does not have its weights yet."})
        elif self._version and path == "/weight_info" and await self._is_unnamed(scope):
            await _answer(send, 200, {"weight_version": self._version})
        else:
            await self._app(scope, receive, send)
            if path == "/v1/load_lora_adapter":
                for adapter in scope["app"].state.openai_serving_models.lora_requests.values():
                    adapter.load_inplace = False

    async def _is_unnamed(self, scope: Any) -> bool:
        """Return whether the engine still has its initial weights."""
        engine = scope["app"].state.engine_client
        if await engine.get_weight_version() == _BASE_VERSION:
            return True
        self._holds, self._version = False, ""
        return False


class UserGate:
    """ASGI middleware that admits only local programs of the server's user, and no web pages.

    vLLM's API key does not protect control requests, so the kernel is asked for the owner of the
    connection. If it cannot tell, every user of this machine is admitted.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        spec = importlib.util.spec_from_file_location("webtraj_hosts", _HOSTS)
        assert spec is not None
        assert spec.loader is not None
        self._hosts = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._hosts)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] == "lifespan" or (
            not self._is_of_a_page(scope)
            and (
                not self._hosts.knows_owners()
                or self._hosts.is_mine(scope["client"], scope["server"])
            )
        ):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _answer(send, 401, {"error": "Only the user who serves this model may use it."})

    def _is_of_a_page(self, scope: Any) -> bool:
        """Return whether a web page sent the request, through the user's own browser."""
        headers = dict(scope.get("headers") or ())
        name = self._hosts.host_of(headers.get(b"host", b"").decode("latin-1"))
        return b"origin" in headers or not self._hosts.is_loopback(name)


def _is_about_weights(path: str) -> bool:
    if path in _ADMINISTRATION:
        return False
    return path.startswith(("/v1/", "/inference/")) or path == "/weight_info"


async def _answer(send: Any, status: int, content: dict[str, str]) -> None:
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", _RETRY_AFTER),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
