"""Pointing prompts as token ids, with new names in each copy, for models made from scratch.

A small model that sees each prompt once, with its recorded names, learns the names. So each sample
is written several times, with other names for its elements and words each time, and the model
learns what stays the same. Each name is one token (`two_cores.scratch`), so the copies differ in
those ids only.

::

    {"prompt_token_ids": [...], "completion_token_ids": [...], "loss_weight": 1.0, "task": "...",
     "sample": "<episode>/<step>/<call>"}
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import random
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pydantic

from two_cores.decisions import PointingRenderer
from two_cores.pointing import ACT, ANSWERS, ELEMENTS, USUAL, WORDS
from two_cores.scratch import END
from webtraj import errors
from webtraj.agents.models.base import Text
from webtraj.settings.named import make_of
from webtraj.training.export.base import LeftOut, Row, SampleFormat, copies_of
from webtraj.training.export.pictures import Pictures
from webtraj.training.samples import Sample, name_of

if TYPE_CHECKING:
    import tokenizers

__all__ = ["PointingFormat"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PointingFormat(SampleFormat):
    """A format of pointing prompts as token ids."""

    name: ClassVar[str] = "pointing"
    is_text: ClassVar[bool] = False
    """Its replies are two tokens, where the server cuts them; `end` says whether they are ended."""

    model: str = ""
    """The folder of the model to train, for its tokenizer."""
    copies: Annotated[int, pydantic.Field(ge=1)] = 1
    """The number of copies of each sample, each with other names."""
    cutoff_len: Annotated[int, pydantic.Field(ge=1)] = 256
    """The most tokens in a sample; longer ones are left out."""
    seed: int = 0
    """Seed of the names."""
    weights: Literal["copies", "column"] = "column"
    """`column` writes a sample's weight beside it; `copies` writes a heavier sample more often."""
    end: bool = False
    """Whether a reply ends with the model's end token. A model that samples until then needs it;
    webtraj's agent asks for two tokens."""

    def __post_init__(self) -> None:
        if not self.model or not (Path(self.model) / "tokenizer.json").is_file():
            raise errors.InvalidInputError(
                f"The format 'pointing' needs the model's folder, for its tokenizer.json; got "
                f"model={self.model!r}. `python -m two_cores.scratch DATASET --out FOLDER` "
                "makes one."
            )

    def renderer(self, options: Mapping[str, Any]) -> PointingRenderer:
        """See `SampleFormat.renderer`."""
        made: PointingRenderer = make_of(PointingRenderer, "pointing", options, kind="renderer")
        return made

    def row(self, sample: Sample, pictures: Pictures) -> Row | LeftOut:
        """See `SampleFormat.row`."""
        text = "".join(
            part.text
            for message in sample.messages
            for part in message.parts
            if isinstance(part, Text)
        )
        if not text.endswith(ACT):
            return LeftOut("its prompt is none of a pointing agent")
        if not math.isfinite(sample.loss_weight):
            return LeftOut("its weight is no number")
        for name in ANSWERS:
            if name in sample.completion:
                self._id(name)  # Models of earlier versions have no such token.
        prompt = self._tokenizer.encode(text, add_special_tokens=False).ids
        completion = self._tokenizer.encode(sample.completion, add_special_tokens=False).ids
        if self.end:
            completion = [*completion, self._id(END)]
        if len(prompt) + len(completion) > self.cutoff_len:
            return LeftOut(f"longer than {self.cutoff_len} tokens")
        copies: int | LeftOut = self.copies
        loss_weight = float(sample.loss_weight)
        if self.weights == "copies":
            weight = sample.loss_weight * self.copies
            copies = copies_of(dataclasses.replace(sample, loss_weight=weight), self.seed)
            loss_weight = 1.0
        if isinstance(copies, LeftOut):
            return copies
        data = {
            "prompt_token_ids": prompt,
            "completion_token_ids": completion,
            "loss_weight": loss_weight,
            "task": sample.task,
            "sample": name_of(sample.key),
        }
        held = dataclasses.replace(
            sample,
            messages=(),
            prompt_token_ids=tuple(prompt),
            completion_token_ids=tuple(completion),
            loss_weight=loss_weight,
        )
        return Row(data, copies, sample=held)

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """See `SampleFormat.write`."""
        super().write(self._copied(rows, split), folder, split)

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`. It does not depend on the names."""
        total = hashlib.sha256()
        called: dict[int, int] = {}
        for ids in (sample.prompt_token_ids, sample.completion_token_ids):
            told = [
                -1 - called.setdefault(number, len(called)) if number in self._named else number
                for number in ids
            ]
            total.update(array("q", told).tobytes() + b"\0")
        total.update(repr((sample.key, sample.loss_weight, sample.task)).encode())
        return total.digest()

    def _copied(self, rows: Iterable[Row], split: str) -> Iterator[Row]:
        names = random.Random(f"{self.seed}/{split}")
        for row in rows:
            for _ in range(row.copies):
                called: dict[int, int] = {}
                for group in self._interchangeable(row):
                    called.update(zip(group, names.sample(group, len(group)), strict=True))
                ids = {
                    key: [called.get(number, number) for number in row.data[key]]
                    for key in ("prompt_token_ids", "completion_token_ids")
                }
                yield Row({**row.data, **ids})

    @functools.cached_property
    def _tokenizer(self) -> tokenizers.Tokenizer:
        try:
            import tokenizers
        except ImportError as error:
            raise errors.missing_dependency(
                "The format 'pointing' needs the package tokenizers",
                "train",
            ) from error
        return tokenizers.Tokenizer.from_file(str(Path(self.model) / "tokenizer.json"))

    @functools.cached_property
    def _groups(self) -> tuple[tuple[int, ...], ...]:
        """The token ids of names, grouped by interchangeable names."""
        return tuple(tuple(self._id(name) for name in group) for group in (ELEMENTS, WORDS))

    def _interchangeable(self, row: Row) -> Iterator[tuple[int, ...]]:
        """Yield the row's names by kind: the usual ones alone, unless it has others."""
        used = {*row.data["prompt_token_ids"], *row.data["completion_token_ids"]}
        for group, usual in zip(self._groups, USUAL, strict=True):
            yield group if used.intersection(group[usual:]) else group[:usual]

    @functools.cached_property
    def _named(self) -> frozenset[int]:
        return frozenset(number for group in self._groups for number in group)

    def _id(self, name: str) -> int:
        found = self._tokenizer.token_to_id(name)
        if found is None:
            raise errors.InvalidInputError(
                f"The model {self.model!r} has no token {name!r}. Pointing prompts need a model "
                "made by `python -m two_cores.scratch` of this version: make a new one."
            )
        return int(found)
