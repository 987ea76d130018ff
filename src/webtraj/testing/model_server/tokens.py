"""The fake model's tokenizer: every character is a token, whose id is the character's number.

So token ids decode to the text, and whoever has them can check that none was lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from webtraj.testing.model_server.exchange import ModelRequest

__all__ = ["END_OF_TURN", "IMAGE", "TOKENS_PER_IMAGE", "decode", "encode", "logprob", "prompt_ids"]

END_OF_TURN = 0x110000
"""The token that ends a message. The first number that is no character."""
IMAGE = 0x110001
"""The token that a picture is shown as, several times."""
TOKENS_PER_IMAGE = 64


def encode(text: str) -> list[int]:
    """Returns the token ids of a text."""
    return list(map(ord, text))


def decode(ids: Iterable[int]) -> str:
    """Returns the text of token ids, without the special ones.

    >>> decode([*encode("wait"), END_OF_TURN])
    'wait'
    """
    return "".join(chr(number) for number in ids if number < END_OF_TURN)


def logprob(token_id: int) -> float:
    """Returns the log-probability that a token always has."""
    return -(token_id % 7 + 1) / 8


def prompt_ids(request: ModelRequest) -> list[int]:
    """Returns the token ids of a conversation, as the fake model sees it."""
    ids: list[int] = []
    for index, message in enumerate(request.messages):
        ids += encode(f"{message['role']}: ")
        for part in request.parts(index):
            if part["type"] == "text":
                ids += encode(part["text"])
            else:
                ids += [IMAGE] * TOKENS_PER_IMAGE
        ids.append(END_OF_TURN)
    return ids + encode("assistant: ")
