"""What a client records of a real vLLM's replies to pictures."""

import io

import httpx
import pytest
import pytest_asyncio
from PIL import Image as Pillow
from vllm_server import client_of, serve

from webtraj.agents.models.base import Image, Message, Sampling

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE_TOKENS = 16
"""How many tokens of the tiny model stand for a picture."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def vision_client(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    async with (
        serve(models / "vision", folder, images_per_prompt=4) as server,
        client_of(server) as client,
    ):
        yield client


def picture(color, size=(160, 210), form="PNG"):
    file = io.BytesIO()
    Pillow.new("RGB", size, color).save(file, form)
    return Image(file.getvalue())


async def look(client, *parts, **settings):
    sampling = Sampling(temperature=0.0, max_tokens=16, **settings)
    return await client.complete([Message.of("user", *parts)], sampling)


async def test_reply_depends_on_the_picture(vision_client):
    red, blue, red_again = [
        await look(vision_client, "What is this?", picture(color))
        for color in ("red", "blue", "red")
    ]
    assert red.text
    assert red.completion_token_ids == red_again.completion_token_ids
    assert red.prompt_token_ids == blue.prompt_token_ids  # A picture's tokens are all the same.
    assert red.logprobs == pytest.approx(red_again.logprobs, abs=1e-4)
    assert red.completion_token_ids != blue.completion_token_ids


async def test_recorded_tokens_are_those_with_the_pictures_in_them(vision_client):
    """Ids become text by the server, and it is what the server says it saw; pictures as tokens."""
    call = await look(
        vision_client,
        "Before:",
        picture("red"),
        "After:",
        picture("blue", size=(320, 180)),
        extra={"return_prompt_text": True},
    )
    assert call.usage["prompt_tokens"] == len(call.prompt_token_ids)
    assert len(call.logprobs) == len(call.completion_token_ids)
    saw = call.response["prompt_text"]
    assert saw.count("<image>") == 2
    expanded = saw.replace(
        "<image>",
        "<fake_token_around_image><global-img>"
        + "<image>" * IMAGE_TOKENS
        + "<fake_token_around_image>",
    )
    root = vision_client.base_url.removesuffix("/v1")
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.post(
            f"{root}/detokenize",
            json={"model": vision_client.model, "tokens": list(call.prompt_token_ids)},
        )
    assert answer.json()["prompt"] == expanded
