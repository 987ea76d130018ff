"""Who serves a loop's weights: real server processes that stand in for vLLM."""

import asyncio
import importlib.util
import sys
from pathlib import Path

import pytest

from webtraj import errors
from webtraj.loop import load_loop_config
from webtraj.loop.servers import open_server

SERVING = Path(__file__).parents[1] / "serving" / "conftest.py"


def _stand_in_module():
    spec = importlib.util.spec_from_file_location("loop_stand_in", SERVING)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def served(tmp_path):
    stand_in = _stand_in_module().StandIn(tmp_path)
    yield stand_in
    assert not stand_in.survivors


def opened(served, run_command=None, train=None, **serve):
    options = {
        "python": str(served.python),
        "environment": served.variables,
        **serve.pop("options", {}),
    }
    serve = {"engine": "vllm", "options": options, **serve}
    first = served.folder / "first"
    if not first.exists():
        served.weights("first")
    config = load_loop_config(
        given={
            "out": str(served.folder / "loop"),
            "first": {"policy": str(first)},
            "rollout": {"preset": ["miniwob/click-test"]},
            "serve": serve,
            **({"train": train} if train else {}),
        }
    )
    return open_server(config, run_command)


@pytest.mark.parametrize(
    ("update", "starts"), [("reload", 1), ("restart", 3)], ids=["reload", "restart"]
)
async def test_server_is_given_each_version_once(served, update, starts):
    first, second = served.folder / "first", served.weights("second")
    third = served.weights("third")
    async with opened(served, update=update) as server:
        played = [
            await server.ensure(version, str(weights))
            for version, weights in ((0, first), (0, first), (1, second), (1, second), (2, third))
        ]
        assert await server._server.weight_version() == "iteration_0002"
    assert [policy.version for policy in played] == [0, 0, 1, 1, 2]
    assert {policy.model for policy in played} == {"policy"}
    assert len({policy.urls for policy in played}) == 1
    assert len(served.processes) == starts


async def test_server_waits_for_the_one_of_a_loop_that_was_killed(served):
    async with opened(served) as left:
        await left.ensure(0, str(served.folder / "first"))
        async with opened(served) as server:
            ensured = asyncio.create_task(server.ensure(0, str(served.folder / "first")))
            await asyncio.sleep(0.5)
            assert not ensured.done()
            assert len(served.processes) == 1
            await left.aclose()
            assert (await ensured).version == 0
    assert len(served.processes) == 2


async def test_server_that_is_started_late_calls_its_weights_by_their_version(served):
    weights = served.weights("trained")
    async with opened(served, update="reload") as server:
        await server.ensure(3, str(weights))
        assert await server._server.weight_version() == "iteration_0003"
    assert len(served.processes) == 1


@pytest.mark.parametrize("how", ["pause", "stop"])
async def test_server_rests_while_a_model_is_trained(served, how):
    weights = served.weights("trained")
    async with opened(served, update="reload", while_training=how) as server:
        await server.ensure(0, str(served.folder / "first"))
        await server.rest()
        assert bool(served.survivors) == (how == "pause")
        await server.ensure(1, str(weights))
        assert await server._server.weight_version() == "iteration_0001"
        await server.rest()
    assert not served.survivors


async def test_training_without_an_adapter_is_told(served):
    train = {"begin": "base", "method": "lora"}
    async with opened(served, update="lora", train=train) as server:
        await server.ensure(0, str(served.folder / "first"))
        with pytest.raises(errors.InvalidInputError, match="needs an adapter"):
            await server.ensure(1, str(served.weights("merged")))


async def test_adapter_of_the_last_checkpoint_is_loaded(served):
    training = served.folder / "loop/training/iteration_0001"
    checkpoint = training / "checkpoint-7"
    checkpoint.mkdir(parents=True)
    (training / "latest").write_text("checkpoint-7")
    (checkpoint / "state.json").write_text('{"step": 7}')
    served.adapter("adapter").rename(checkpoint / "model")
    served.weights("merged").rename(training / "model.pt")
    train = {"begin": "base", "method": "lora"}
    async with opened(served, update="lora", train=train) as server:
        assert (await server.ensure(0, str(served.folder / "first"))).model == "policy"
        assert (await server.ensure(1, str(training / "model.pt"))).model == "policy-lora"
        assert "iteration_0001" in await server._server.weight_version()
    assert len(served.processes) == 1


async def test_external_server_is_given_each_version_by_a_command(served):
    ran = []

    async def run_command(command, version):
        ran.append((command, version))

    command = ["{python}", "push.py", "{weights}", "{version}", "{base_url}"]
    config = load_loop_config(
        given={
            "out": "loop",
            "first": {"policy": str(served.weights("first"))},
            "rollout": {"preset": ["miniwob/click-test"]},
            "serve": {"engine": "external", "url": "http://h/v1", "update_command": command},
        }
    )
    async with open_server(config, run_command) as server:
        for version in (0, 1, 1):
            policy = await server.ensure(version, f"w{version}")
    assert (policy.model, policy.urls) == ("policy", ("http://h/v1",))
    given = [
        [sys.executable, "push.py", f"w{version}", f"iteration_000{version}", "http://h/v1"]
        for version in (0, 1)
    ]
    assert ran == [(given[0], 0), (given[1], 1)]
