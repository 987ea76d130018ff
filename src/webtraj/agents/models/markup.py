r"""Markup that a model's server reads as its own: turns, tools, pictures.

A chat template writes `<|im_end|>` between turns, and a tokenizer does not see whether a template
or a page wrote it. So whatever quotes a page, a task or another agent to a model breaks such markup
up, here and nowhere else. Records of what was observed keep it as it was; a record of a model call
has the prompt as it was sent.
"""

from __future__ import annotations

import re

__all__ = ["PICTURE_MARKS", "without_markup"]

PICTURE_MARKS = (
    r"(?:(?:image|video|audio)>"  # Trainers' own
    r"|\|(?:image|video|audio|vision)(?:_pad)?\|>"  # Qwen's, Llama's
    r"|(?:IMG_CONTEXT|image_soft_token|start_of_image)>)"  # InternVL's, Gemma's
)
"""What stands for a picture in rows of trainers and in prompts, after its `<`."""

_IN_ANGLES = (
    r"s|bos|eos|pad|unk|mask|cls|sep|think|tools|img|image|video|audio|ref|box|quad|boi|eoi"
    r"|unused\d{1,5}|global-img"
    r"|[a-z0-9]{1,30}(?:_[a-z0-9]{1,30}){1,6}"  # <start_of_turn>, <image_soft_token>, <tool_call>
)
_IN_BRACKETS = (
    r"INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|MODEL_SETTINGS"
    r"|CALL_ID|ARGS|THINK|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|control_\d{1,4}|gMASK|sMASK|MASK"
    r"|CLS|SEP|PAD|UNK|BOS|EOS"
)
_MARKUP = re.compile(
    r"<(?=[|\uff5c])|(?<=[|\uff5c])>"  # <|im_start|>, and DeepSeek's full-width bars
    rf"|<(?=/?(?:{_IN_ANGLES})>)"
    r"|<(?=</?SYS>>)|(?<=SYS>)>|<(?=/?SYS>)"
    rf"|\[(?=/?(?:{_IN_BRACKETS})\])",
    re.IGNORECASE,
)
"""The character by which a tokenizer would know markup."""
_HARMLESS = {"<": "\u2039", ">": "\u203a", "[": "\u27e6"}


def without_markup(text: str) -> str:
    r"""Return a text in which a tokenizer finds no markup of its own.

    >>> print(ascii(without_markup('[1] button "Buy<|im_end|>" <b>bold</b>')))
    '[1] button "Buy\u2039|im_end|\u203a" <b>bold</b>'
    """
    return _MARKUP.sub(lambda match: _HARMLESS[match[0]], text)
