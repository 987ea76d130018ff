"""Exact tokens for reinforcement learning: `train.jsonl`, one sampled reply per line.

::

    {"prompt_ids": [...], "completion_ids": [...], "logprobs": [...], "mask": [0, ..., 1, ...],
     "temperature": 1.0, "reward": 1.0, "advantage": 0.5, "group": "...", "weight": 1.0,
     "policy_version": "...", "iteration": 3, "task": "...", "images": ["images/<sha256>.png"],
     "sample": "<episode>/<step>/<call>"}

Token ids are those that the server saw and sampled; nothing is tokenised again. Log-probabilities
are under the weights that sampled the tokens, as GRPO-style trainers need for off-policy
correction. `mask` covers prompt and completion, and is 1 for sampled tokens. Pictures in a prompt
appear as the server's placeholder ids.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from webtraj import errors
from webtraj.agents.models.base import Message
from webtraj.training.export import base
from webtraj.training.export.base import ExportReport, LeftOut, Row, key_of, name_of
from webtraj.training.export.pictures import PictureReader, Pictures, images_of
from webtraj.training.samples import Sample

__all__ = ["TokensFormat"]

_BELOW = 2**31
"""No vocabulary is as large."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokensFormat:
    """A format of the recorded token ids."""

    name: ClassVar[str] = "tokens"
    version: ClassVar[int] = 1

    logprobs: bool = True
    """Whether to leave out samples without recorded log-probabilities."""

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
        if not all(map(math.isfinite, sample.logprobs)):
            return LeftOut("a log-probability of it is no number")
        if sample.reward is None:
            return LeftOut("it has no reward")
        if not all(map(math.isfinite, (sample.reward, sample.advantage or 0, sample.loss_weight))):
            return LeftOut("its reward, advantage or weight is no number")
        prompt, completion = sample.prompt_token_ids, sample.completion_token_ids
        if not all(0 <= token < _BELOW for token in (*prompt, *completion)):
            return LeftOut("a token id of it is negative or has more than 31 bits")
        try:
            names = [pictures.put(image) for image in images_of(sample)]
        except errors.CorruptDataError:
            return LeftOut("a picture of its prompt cannot be decoded")
        return Row(
            {
                "prompt_ids": list(prompt),
                "completion_ids": list(completion),
                "logprobs": list(sample.logprobs),
                "mask": [0] * len(prompt) + [1] * len(completion),
                "temperature": sample.temperature,
                "reward": sample.reward,
                "advantage": sample.advantage,
                "group": sample.group_id,
                "weight": sample.loss_weight,
                "policy_version": sample.policy_version,
                "iteration": sample.iteration,
                "task": sample.task,
                "images": names,
                "sample": name_of(sample.key),
            }
        )

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """See `SampleFormat.write`."""
        base.write_lines(folder / f"{split}.jsonl", rows)

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`. There are no other files."""

    def read(self, folder: Path, split: str) -> Iterable[Mapping[str, Any]]:
        """See `SampleFormat.read`."""
        return base.read_lines(folder / f"{split}.jsonl")

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`. Its only message has the pictures and no text."""
        images = tuple(pictures.get(name) for name in row["images"])
        return Sample(
            key=key_of(row["sample"]),
            messages=(Message("user", images),) if images else (),
            completion="",
            prompt_token_ids=tuple(row["prompt_ids"]),
            completion_token_ids=tuple(row["completion_ids"]),
            logprobs=tuple(row["logprobs"]),
            temperature=row.get("temperature"),
            reward=row["reward"],
            advantage=row["advantage"],
            group_id=row["group"],
            loss_weight=row["weight"],
            policy_version=row["policy_version"],
            iteration=row.get("iteration", 0),
            task=row["task"],
        )

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        total = hashlib.sha256()
        for ids in (sample.prompt_token_ids, sample.completion_token_ids):
            total.update(array("q", ids).tobytes() + b"\0")
        total.update(array("d", sample.logprobs).tobytes())
        rest = (
            sample.key, sample.reward, sample.advantage, sample.group_id, sample.loss_weight,
            sample.policy_version, sample.task, sample.temperature,
            [image.uuid for image in images_of(sample)],
        )  # fmt: skip
        total.update(repr(rest).encode("utf-8", "surrogatepass"))
        return total.digest()
