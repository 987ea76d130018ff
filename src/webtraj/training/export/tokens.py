"""Exact tokens for reinforcement learning: `train.jsonl`, one sampled reply per line.

::

    {"prompt_ids": [...], "completion_ids": [...], "logprobs": [...], "mask": [0, ..., 1, ...],
     "temperature": 1.0, "reward": 1.0, "outcome": "success", "advantage": 0.5, "group": "...",
     "weight": 1.0, "policy": "...", "policy_version": "...", "iteration": 3, "task": "...",
     "finish_reason": "stop", "sample": "<episode>/<step>/<call>",
     "images": ["images/<sha256>.png"], "grids": [...], "processor": {...}}

Token ids are those that the server saw and sampled; nothing is tokenised again. Log-probabilities
are under the weights that sampled the tokens, as GRPO-style trainers need for off-policy
correction. `mask` covers prompt and completion, and is 1 for the sampled tokens that are trained. A
reply that was cut off at a limit is here, too; `finish_reason` distinguishes it.

Pictures in a prompt appear as the server's placeholder ids. A row refers to them by their SHA-256;
the export holds each once, however many rows show it. With `model`, `grids` and `processor` say
what the model's processor makes of each (`webtraj.training.sft.pictures`), and rows whose ids do
not fit are left out. Without it, both are empty, and the report counts pictures as unchecked.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from array import array
from typing import ClassVar

import orjson

from webtraj import errors
from webtraj.training.export.base import LeftOut, Row, SampleFormat
from webtraj.training.export.pictures import Pictures
from webtraj.training.samples import Sample, name_of

__all__ = ["TokensFormat"]

_BELOW = 2**31
"""No vocabulary is as large."""
_LEAST, _MOST = -100.0, 1e-4
"""The bounds of a log-probability. Servers write -9999 and the like for one that they do not know;
a little above 0 is rounding."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokensFormat(SampleFormat):
    """A format of the recorded token ids."""

    name: ClassVar[str] = "tokens"
    is_text: ClassVar[bool] = False

    logprobs: bool = True
    """Whether to leave out samples without recorded log-probabilities."""
    model: str = ""
    """The folder of the model that replied, with its processor. If given, rows say what it makes of
    each picture, and samples whose placeholders do not fit their pictures are left out."""

    def row(self, sample: Sample, pictures: Pictures) -> Row | LeftOut:
        """See `SampleFormat.row`."""
        if not sample.recorded:
            return LeftOut("no model was asked for it")
        if not sample.prompt_token_ids or not sample.completion_token_ids:
            return LeftOut("its token ids are not on record")
        if sample.logprobs and len(sample.logprobs) != len(sample.completion_token_ids):
            return LeftOut("it has another number of log-probabilities than of sampled tokens")
        if self.logprobs and not sample.logprobs:
            return LeftOut("its log-probabilities are not on record")
        if not all(_LEAST < value <= _MOST for value in sample.logprobs):
            return LeftOut(f"a log-probability of it is not between {_LEAST:g} and 0")
        if sample.mask and len(sample.mask) != len(sample.completion_token_ids):
            return LeftOut("its mask has another number of entries than of sampled tokens")
        if sample.reward is None:
            return LeftOut("it has no reward")
        if not all(map(math.isfinite, (sample.reward, sample.advantage or 0, sample.loss_weight))):
            return LeftOut("its reward, advantage or weight is not a number")
        prompt, completion = sample.prompt_token_ids, sample.completion_token_ids
        if not all(0 <= token < _BELOW for token in (*prompt, *completion)):
            return LeftOut("a token id of it is negative or has more than 31 bits")
        try:
            for image in sample.images:
                pictures.check(image)
        except errors.CorruptDataError:
            return LeftOut("a picture of its prompt cannot be decoded")
        changes: dict[str, int] = {}
        if self.model:
            from webtraj.training.sft.encoding import image_tokens_of

            tokens = image_tokens_of(self.model)
            if tokens.misfit((*prompt, *completion), sample.images):
                return LeftOut("its pictures do not fit its token ids")
            if sample.images:
                grids = tokens.grids(sample.images)
                sample = dataclasses.replace(sample, grids=grids, processor=tokens.processor)
        elif sample.images and not sample.grids:
            changes["unchecked_pictures"] = len(sample.images)
        return Row(
            {
                "prompt_ids": list(prompt),
                "completion_ids": list(completion),
                "logprobs": list(sample.logprobs),
                "mask": [0] * len(prompt)
                + [int(kept) for kept in sample.mask or [True] * len(completion)],
                "temperature": sample.temperature,
                "reward": sample.reward,
                "outcome": sample.outcome.name.lower(),
                "advantage": sample.advantage,
                "group": sample.group_id,
                "weight": sample.loss_weight,
                "policy": sample.policy,
                "policy_version": sample.policy_version,
                "iteration": sample.iteration,
                "task": sample.task,
                "finish_reason": sample.finish_reason,
                "images": [pictures.put(image) for image in sample.images],
                "grids": list(sample.grids),
                "processor": sample.processor or None,
                "sample": name_of(sample.key),
            },
            changes=changes,
            sample=sample,
        )

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        total = hashlib.sha256()
        for ids in (sample.prompt_token_ids, sample.completion_token_ids):
            total.update(array("q", ids).tobytes() + b"\0")
        total.update((b"" if all(sample.mask) else bytes(sample.mask)) + b"\0")
        total.update(array("d", sample.logprobs).tobytes())
        numbers = (sample.reward, sample.advantage, sample.loss_weight, sample.temperature)
        rest = (
            sample.key, [None if number is None else float(number) for number in numbers],
            sample.group_id, sample.policy, sample.policy_version, sample.task,
            sample.finish_reason, sample.outcome.name,
            [image.uuid for image in sample.images],
        )  # fmt: skip
        if sample.grids:
            made = [sample.grids, sample.processor]
            total.update(orjson.dumps(made, option=orjson.OPT_SORT_KEYS))
        total.update(repr(rest).encode("utf-8", "surrogatepass"))
        return total.digest()
