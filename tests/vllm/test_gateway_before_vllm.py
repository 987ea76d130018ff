"""Foreign clients before a real vLLM: what the gateway records, and what they see."""

import anthropic
import openai
import pytest
from vllm_server import is_text_of

from webtraj.gateway import Gateway, read_calls

pytestmark = pytest.mark.asyncio(loop_scope="session")

MESSAGES = [{"role": "user", "content": "Click the button named 'Go'."}]
TOLERANCE = 2e-3
"""Of a log-probability, as in test_text_replies.py."""


async def test_calls_have_the_tokens_of_the_weights(text_server, reference, tmp_path):
    """The client asks for neither tokens nor log-probabilities, and sees none."""
    journal = tmp_path / "calls.jsonl"
    asked = {"model": "text-0", "messages": MESSAGES, "max_tokens": 24, "temperature": 1.0}
    seen = []
    async with (
        Gateway(journal, base_urls=text_server.base_url) as gateway,
        openai.AsyncOpenAI(base_url=gateway.openai_url(), api_key="none") as client,
    ):
        reply = await client.chat.completions.create(**asked, seed=1)
        assert not reply.choices[0].logprobs
        assert not {"prompt_token_ids", "token_ids"} & set(reply.to_dict()["choices"][0])
        seen.append(reply.choices[0].message.content)
        parts = []
        async for chunk in await client.chat.completions.create(**asked, seed=2, stream=True):
            assert "prompt_token_ids" not in chunk.to_dict()
            assert chunk.usage is None
            parts += [choice.delta.content or "" for choice in chunk.choices]
        seen.append("".join(parts))
    calls = [recorded.call for recorded in read_calls(journal)]
    assert [call.text for call in calls] == seen
    sequences = [(call.prompt_token_ids, call.completion_token_ids, 1.0) for call in calls]
    for call, expected in zip(calls, reference("text-0", sequences), strict=True):
        assert "Click the button named 'Go'." in expected["prompt"]
        assert call.logprobs == pytest.approx(expected["logprobs"], abs=TOLERANCE)
        assert is_text_of(call.text, expected["completion"])
        assert call.usage["completion_tokens"] == len(call.completion_token_ids) > 0


async def test_other_apis_are_recorded_as_vllm_answers_them(text_server, tmp_path):
    journal = tmp_path / "calls.jsonl"
    async with Gateway(journal, base_urls=text_server.base_url) as gateway:
        async with openai.AsyncOpenAI(base_url=gateway.openai_url(), api_key="none") as client:
            response = await client.responses.create(
                model="text-0", input=MESSAGES, max_output_tokens=16
            )
        async with anthropic.AsyncAnthropic(
            base_url=gateway.anthropic_url(), api_key="none"
        ) as client:
            message = await client.messages.create(model="text-0", messages=MESSAGES, max_tokens=16)
    calls = [recorded.call for recorded in read_calls(journal)]
    assert [call.error for call in calls] == ["", ""]
    assert [call.text for call in calls] == [response.output_text, message.content[0].text]
    assert all(call.usage for call in calls)
