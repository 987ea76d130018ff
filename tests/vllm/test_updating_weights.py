"""Updates of a real vLLM that runs on, by an adapter, by a restart, and after a rest.

Each record is held against transformers with the weights that the record names.
"""

import asyncio
import os
import shutil
import signal

import pytest
from vllm_server import client_of

from webtraj import errors
from webtraj.agents.models.base import Message, Sampling
from webtraj.agents.models.limits import RetryPolicy
from webtraj.agents.models.openai import OpenAICompatibleClient
from webtraj.serving import VersionHistory, make_updater
from webtraj.serving.control import Control

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

SAMPLED = Sampling(temperature=1.0, max_tokens=24, seed=5)
PATIENT = RetryPolicy(max_retries=1_000, first_delay=0.1, max_delay=1.0)
TOLERANCE = 2e-3

MODELS = {
    "default": "text-0",
    "clicker@round-1": "text-lora-1",
    "clicker@round-2": "text-lora-2",
    "clicker@round-3": "text-lora-1",
    "round-8": "text-1",
    "round-9": "text-0",
}
"""The model that transformers reads, for what records call the weights."""


def question(n=0):
    return (Message.of("user", f"Task {n}: click the button named 'Go'."),)


def adapter_client(server, **options):
    return OpenAICompatibleClient("clicker", server.base_url, **options)


def check_labels(calls, reference):
    """Each call's log-probabilities are those of the weights that it names, and of no others."""
    sequences = [(call.prompt_token_ids, call.completion_token_ids, 1.0) for call in calls]
    labels = {end for call in calls for end in call.policy_version.split("..")}
    scores = {label: reference(MODELS[label], sequences) for label in labels | {"default"}}
    for n, call in enumerate(calls):
        fits = {
            label
            for label, scored in scores.items()
            if call.logprobs == pytest.approx(scored[n]["logprobs"], abs=TOLERANCE)
        }
        assert fits & set(call.policy_version.split("..")), call.policy_version


async def test_adapters_follow_each_other_under_one_name(text_server, models, reference):
    updater = make_updater("lora", text_server, adapter="clicker", hold=0.0)
    assert updater.model == "text-0"
    restarts = text_server.num_restarts
    calls = []
    async with adapter_client(text_server, version_interval=0.0) as client:
        for version, folder in (("round-1", "lora-1"), ("round-2", "lora-2")):
            await updater.update(models / folder, version)
            call = await client.complete(question(), SAMPLED)
            assert (call.model, call.policy_version) == ("clicker", f"clicker@{version}")
            calls.append(call)
    check_labels(calls, reference)
    assert calls[0].completion_token_ids != calls[1].completion_token_ids
    assert updater.model == "clicker"
    assert text_server.num_restarts == restarts

    async with client_of(text_server) as client:  # The model beneath is still there.
        base = await client.complete(question(), SAMPLED)
    sequence = (base.prompt_token_ids, base.completion_token_ids, 1.0)
    (expected,) = reference("text-0", [sequence])
    assert base.model == "text-0"
    assert base.logprobs == pytest.approx(expected["logprobs"], abs=TOLERANCE)


async def test_adapter_is_read_once_whatever_becomes_of_its_folder(
    text_server, models, reference, tmp_path
):
    folder = shutil.copytree(models / "lora-1", tmp_path / "adapter")
    await make_updater("lora", text_server, adapter="clicker", hold=0.0).update(folder, "round-3")
    shutil.rmtree(folder)
    shutil.copytree(models / "lora-2", folder)  # As a trainer does that saves to one place.
    async with adapter_client(text_server) as client:
        calls = [await client.complete(question(n), SAMPLED) for n in range(3)]
    assert {call.policy_version for call in calls} == {"clicker@round-3"}
    check_labels(calls, reference)


async def test_adapter_that_is_refused_leaves_the_one_before(text_server, models, reference):
    updater = make_updater("lora", text_server, adapter="clicker", hold=0.0)
    await updater.update(models / "lora-2", "round-2")
    pid = text_server.pid
    with pytest.raises(errors.ModelRefusedError, match="rank"):
        await updater.update(models / "lora-wide", "wide")
    assert (text_server.pid, text_server.healthy) == (pid, True)
    async with adapter_client(text_server) as client:
        call = await client.complete(question(), SAMPLED)
    assert call.policy_version == "clicker@round-2"
    check_labels([call], reference)


async def test_no_record_is_wrong_of_clients_that_know_nothing_of_an_update(
    text_server, models, reference
):
    """They share a version for a second, and the server holds for as long."""
    updater = make_updater("lora", text_server, adapter="clicker")
    await updater.update(models / "lora-1", "round-1")
    calls, done = [], asyncio.Event()

    async def ask(client, n):
        while not done.is_set():
            calls.append(await client.complete(question(n), SAMPLED))

    async with adapter_client(text_server) as client:
        asking = [asyncio.ensure_future(ask(client, n)) for n in range(8)]
        await asyncio.sleep(0)
        await updater.update(models / "lora-2", "round-2")
        after = len(calls)
        while len(calls) < after + 16:
            await asyncio.wait(asking, timeout=0.05)
        done.set()
        await asyncio.gather(*asking)
    labels = {call.policy_version for call in calls}
    assert "clicker@round-2" in labels
    assert labels <= {"clicker@round-1", "clicker@round-2", "clicker@round-1..clicker@round-2"}
    check_labels(calls[:: max(1, len(calls) // 48)] + calls[after : after + 16], reference)
    history = VersionHistory(["clicker@round-1", "clicker@round-2"])
    assert {history.of(call).behind for call in calls} <= {0, 1}


async def test_server_that_is_killed_answers_nobody_before_it_has_its_adapter(
    text_server, models, reference
):
    updater = make_updater("lora", text_server, adapter="clicker", hold=0.0)
    await updater.update(models / "lora-2", "round-2")
    restarts = text_server.num_restarts
    async with adapter_client(text_server, retries=PATIENT, version_interval=0.0) as client:
        os.kill(text_server.pid, signal.SIGKILL)
        calls = await asyncio.gather(*(client.complete(question(n), SAMPLED) for n in range(8)))
    assert text_server.num_restarts == restarts + 1
    assert {call.policy_version for call in calls} == {"clicker@round-2"}
    assert not any(call.error for call in calls)
    check_labels(calls, reference)


async def test_engine_that_sleeps_answers_when_it_is_awake(text_server, models, reference):
    """On a CPU this frees nothing, but the requests and what they do to replies are the same."""
    await text_server.reload_weights(models / "text-1", "round-8")
    control = text_server._control
    assert isinstance(control, Control)
    async with client_of(text_server, version_interval=0.0) as client:
        for level in (1, 2):
            await control.sleep(level)
            asked = asyncio.ensure_future(client.complete(question(level), SAMPLED))
            await asyncio.wait([asked], timeout=0.5)
            assert not asked.done()
            if level == 2:
                await control.wake_up("weights")
                await control.read_weights(None)
                await control.forget()
                assert not asked.done()
            await control.wake_up(None if level == 1 else "kv_cache")
            call = await asked
            assert call.policy_version == "round-8"
            check_labels([call], reference)


async def test_pause_lets_nobody_be_answered(text_server):
    async with client_of(text_server) as client:
        async with text_server.resting("pause"):
            asked = asyncio.ensure_future(client.complete(question(), SAMPLED))
            await asyncio.wait([asked], timeout=0.5)
            assert not asked.done()
        assert (await asked).error == ""


async def test_restart_with_other_weights_names_them_from_the_first_reply_on(
    text_server, models, reference
):
    """It ends with the first model, for those who come after."""
    await text_server.reload_weights(models / "text-1", "round-8")
    updater = make_updater("restart", text_server)
    restarts = text_server.num_restarts
    async with client_of(text_server, retries=PATIENT, version_interval=0.0) as client:
        before = await client.complete(question(), SAMPLED)
        async with text_server.resting("stop"):
            assert text_server.pid is None
            await updater.update(models / "text-0", "round-9")
            asked = [asyncio.ensure_future(client.complete(question(n), SAMPLED)) for n in range(4)]
        calls = [before, *await asyncio.gather(*asked)]
    assert text_server.model == "text-0"
    assert text_server.num_restarts == restarts
    assert [call.policy_version for call in calls] == ["round-8"] + ["round-9"] * 4
    check_labels(calls, reference)
