"""Finding the one action in a model's reply: reasoning, prose, fences and tags around it.

The rules are few and safe. Reasoning (`<think>...</think>`) is set aside. Then what is tagged or
fenced as the action is it. Text around it is let pass, a second candidate never is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from webtraj.environments.actions.dialects.base import MAX_REPLY, ParseError

__all__ = ["fenced", "json_object", "only", "spoken_part", "structured", "tagged", "without_nulls"]

_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)\n?^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>")


def spoken_part(reply: str) -> str:
    """Returns a reply without the model's reasoning and end tokens.

    Raises:
      ParseError: If nothing is left, or there is far too much.
    """
    if len(reply) > MAX_REPLY:
        raise ParseError(
            "too_long", f"The reply has {len(reply)} characters; at most {MAX_REPLY} are read."
        )
    # The opening tag is often part of the prompt, so that only the closing one is in the reply.
    before, closed, after = reply.partition("</think>")
    text = after if closed else before
    for token in _END_TOKENS:
        text = text.strip().removesuffix(token)
    text = text.strip()
    if not text:
        raise ParseError("empty", "The reply is empty; reply with one action.")
    if "</think>" in text:
        raise ParseError("malformed", "The reply ends its reasoning twice; reply with one action.")
    if "<think>" in text:
        raise ParseError("no_action", "The reply breaks off while thinking; reply with one action.")
    return text


def tagged(text: str, tag: str) -> list[str]:
    """Returns what stands in `<tag>...</tag>`. The last closing tag may be missing.

    A server that stops at the closing tag leaves it out.
    """
    parts = text.split(f"<{tag}>")[1:]
    return [part.partition(f"</{tag}>")[0].strip() for part in parts]


def fenced(text: str) -> list[str]:
    """Returns the contents of the code fences in a text."""
    if text.count("```") == 2 and text.startswith("```") and text.endswith("```"):
        inner = text[3:-3]
        if "\n" not in inner:
            return [inner.strip()]
    return [match.strip() for match in _FENCE.findall(text)]


def only(candidates: list[str]) -> str:
    """Returns the only candidate; raises `ParseError` if there are several."""
    if len(candidates) > 1:
        raise ParseError(
            "several_actions",
            f"The reply holds {len(candidates)} actions; exactly one was expected.",
        )
    return candidates[0]


def structured(reply: Any) -> Any:
    """Returns a structured reply as it is, and text as the one JSON object that it holds."""
    if not isinstance(reply, str):
        return reply
    text = spoken_part(reply)
    candidates = fenced(text)
    if not candidates and not text.startswith("{"):
        raise ParseError("no_action", "The reply holds no call; reply with one action.")
    return json_object(only(candidates or [text]))


def without_nulls(args: Mapping[Any, Any]) -> dict[str, Any]:
    """Returns arguments without those that are null: JSON's way of leaving one out.

    Raises:
      ParseError: If a name is no string.
    """
    if not all(isinstance(name, str) for name in args):
        raise ParseError("bad_arguments", "The arguments' names are not strings.")
    return {name: arg for name, arg in args.items() if arg is not None}


def json_object(text: str) -> dict[str, Any]:
    """Returns the JSON object that a text is, read strictly.

    Raises:
      ParseError: On anything but one object: broken JSON, NaN, a key given twice, another type.
    """
    try:
        parsed = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=float
        )
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise ParseError(
                "several_actions", "More follows the JSON object; exactly one was expected."
            ) from None
        raise ParseError(
            "malformed",
            f"The JSON breaks off or is malformed at character {error.pos}: {error.msg}.",
        ) from None
    except RecursionError:
        raise ParseError("malformed", "The JSON is nested too deeply.") from None
    except ValueError as error:
        raise ParseError("malformed", f"The JSON is malformed: {error}.") from None
    if not isinstance(parsed, dict):
        raise ParseError("malformed", f"A JSON object was expected; got a {type(parsed).__name__}.")
    return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
