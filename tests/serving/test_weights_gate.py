"""The middleware that vLLM's API runs for us, before an application like vLLM's."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from webtraj.serving import vllm

FILE = Path(vllm.__file__).with_name("vllm_worker") / "webtraj_vllm_worker.py"


class Api:
    """An application with an engine; it answers every path with its name."""

    def __init__(self):
        self.version = "default"
        self.adapters = {"clicker": SimpleNamespace(load_inplace=True)}
        models = SimpleNamespace(lora_requests=self.adapters)
        self.state = SimpleNamespace(engine_client=self, openai_serving_models=models)

    async def get_weight_version(self):
        return self.version

    async def __call__(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def gated(api, monkeypatch):
    """Makes clients of the application behind the gate."""

    def make(**variables):
        for name in ("VERSION", "HOLD"):
            monkeypatch.delenv(f"WEBTRAJ_WEIGHTS_{name}", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(f"WEBTRAJ_WEIGHTS_{name}", value)
        spec = importlib.util.spec_from_file_location("gate_under_test", FILE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        gate = module.WeightsGate(api)

        async def served(scope, receive, send):
            await gate({**scope, "app": api}, receive, send)

        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app=served), base_url="http://gate.test"
        )

    return make


PATHS = ["/v1/chat/completions", "/v1/models", "/health", "/weight_info", "/pause"]


async def test_gate_is_open_unless_told(gated):
    async with gated() as client:
        for path in PATHS:
            assert (await client.get(path)).text == path


async def test_first_weights_are_called_by_their_name_until_there_are_others(gated, api):
    async with gated(VERSION="round-1") as client:
        assert (await client.get("/weight_info")).json() == {"weight_version": "round-1"}
        assert (await client.get("/v1/chat/completions")).status_code == 200
        api.version = "round-2"
        assert (await client.get("/weight_info")).text == "/weight_info"
        api.version = "default"  # Somebody has named them so.
        assert (await client.get("/weight_info")).text == "/weight_info"


async def test_nobody_is_answered_before_the_weights_are_there(gated, api):
    held = ["/v1/chat/completions", "/v1/completions", "/inference/v1/generate", "/weight_info"]
    async with gated(HOLD="1") as client:
        for path in held:
            answer = await client.post(path)
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
        for path in ("/v1/models", "/v1/load_lora_adapter", "/health", "/pause", "/resume"):
            assert (await client.post(path)).status_code == 200
        api.version = "round-2"
        for path in held:
            assert (await client.post(path)).text == path


async def test_adapter_is_read_in_place_once(gated, api):
    async with gated() as client:
        await client.post("/v1/chat/completions")
        assert api.adapters["clicker"].load_inplace
        await client.post("/v1/load_lora_adapter")
        assert not api.adapters["clicker"].load_inplace
