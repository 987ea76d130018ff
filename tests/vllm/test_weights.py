"""New weights in a real vLLM that runs on: other replies, and records that say whose they are."""

import asyncio

import pytest

from webtraj.agents.models.base import Message, Sampling

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONVERSATION = (Message.of("user", "Click the button named 'Go'."),)
GREEDY = Sampling(temperature=0.0, max_tokens=24)
SAMPLED = Sampling(temperature=1.0, max_tokens=24, seed=5)


async def test_replies_are_of_the_weights_on_record(text_server, client, models, reference):
    before = await client.complete(CONVERSATION, GREEDY)
    await text_server.reload_weights(models / "text-1", "round-1")
    client.invalidate_policy_version()
    after = await client.complete(CONVERSATION, SAMPLED)
    assert after.policy_version == "round-1" == await text_server.weight_version()
    sequence = (after.prompt_token_ids, after.completion_token_ids, 1.0)
    (new,) = reference("text-1", [sequence])
    (old,) = reference("text-0", [sequence])
    assert after.logprobs == pytest.approx(new["logprobs"], abs=2e-3)
    assert after.logprobs != pytest.approx(old["logprobs"], abs=0.1)

    await text_server.reload_weights(models / "text-0", "round-2")
    client.invalidate_policy_version()
    again = await client.complete(CONVERSATION, GREEDY)
    assert again.policy_version == "round-2"
    assert again.completion_token_ids == before.completion_token_ids
    assert again.logprobs == pytest.approx(before.logprobs, abs=1e-5)


async def test_requests_under_way_are_answered_by_one_version_each(
    text_server, client, models, reference
):
    """Weights change in the middle of 24 requests; none is lost, and none is of two versions."""
    base = await text_server.weight_version()
    sampling = Sampling(temperature=1.0, max_tokens=64, seed=9)
    asked = [
        asyncio.ensure_future(client.complete([Message.of("user", f"Task {n}")], sampling))
        for n in range(24)
    ]
    await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    await text_server.reload_weights(models / "text-1", "round-3")
    calls = [*await asyncio.gather(*asked), await client.complete(CONVERSATION, sampling)]
    assert calls[-1].policy_version == "round-3"
    sequences = [(call.prompt_token_ids, call.completion_token_ids, 1.0) for call in calls]
    scores = {base: reference("text-0", sequences), "round-3": reference("text-1", sequences)}
    for n, call in enumerate(calls):
        fits = [
            version
            for version, scored in scores.items()
            if call.logprobs == pytest.approx(scored[n]["logprobs"], abs=2e-3)
        ]
        assert len(fits) == 1
        assert fits[0] in call.policy_version.split("..")
    await text_server.reload_weights(models / "text-0", "round-4")
