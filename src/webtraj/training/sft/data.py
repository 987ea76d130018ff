"""What a run is trained on, encoded and accounted for; and the model it begins with, by content."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from webtraj import errors
from webtraj.training.samples import Sample
from webtraj.training.sft.batches import Batch, MicroBatch, make_batch
from webtraj.training.sft.encoding import Encoded, Encoder, images_of
from webtraj.training.sft.policy_gradient import Advantages, is_zero, with_policy
from webtraj.training.sft.settings import SftSettings

__all__ = ["DataReport", "TrainingData", "check_base", "digest_of_base"]

_ENDS = 1 << 20
_CHECKED = 100


@dataclasses.dataclass(frozen=True, slots=True)
class DataReport:
    """What became of the samples that were given."""

    given: int
    """How many there were,"""
    used: int
    """and how many are trained on."""
    recorded: int
    """Of those, how many with the token ids on record."""
    no_weight: int
    """How many have the weight 0, and are left out."""
    too_long: int
    """How many were longer than `cutoff_len`, and dropped."""
    tokens: int
    """How many tokens are used,"""
    trained_tokens: int
    """and how many of them trained on."""
    digest: str
    """Of all that is used: equal if and only if the same is trained on."""
    unscored: int = 0
    """Policy gradient: how many have log-probabilities and no reward, and are left out."""
    no_spread: int = 0
    """How many are of a group whose attempts all got the same reward, and are left out."""
    stale: int = 0
    """How many are older than `max_staleness` allows, and are left out."""


class TrainingData:
    """Samples, encoded. Token ids are kept in memory, images are read again when needed.

    Args:
        samples: The samples; read twice if they show images.
        encoder: Encodes them.
        settings: How long they may be.

    Raises:
        InvalidInputError: One cannot be trained on, or all are of the weight 0.
    """

    def __init__(self, samples: Iterable[Sample], encoder: Encoder, settings: SftSettings) -> None:
        # What can be read by number is not kept in memory a second time.
        self._samples = samples if isinstance(samples, Sequence) else list(samples)
        self._encoder = encoder
        self._kept: list[int] = []
        self._encoded: list[Encoded] = []
        limit = min(settings.cutoff_len, encoder.tools.context_len or settings.cutoff_len)
        policy = settings.policy
        advantages = None if policy is None else Advantages(self._samples, policy)
        no_weight = unscored = no_spread = stale = 0
        too_long: list[Encoded] = []
        shaken = hashlib.sha256()
        alien = checked = 0
        for number, sample in enumerate(self._samples):
            advantage = None
            if advantages is not None:
                if advantages.is_stale(sample):
                    stale += 1
                    continue
                if sample.logprobs:
                    advantage = advantages.of(sample)
                    if advantage is None:
                        unscored += 1
                        continue
                    if is_zero(advantage):
                        no_spread += 1
                        continue
            encoded = encoder.encode(sample)
            if policy is not None:
                encoded = with_policy(encoded, advantage, policy)
            if encoded.weight == 0:
                no_weight += 1
                continue
            if len(encoded) > limit:
                too_long.append(encoded)
                continue
            if encoded.recorded and sample.completion.strip() and checked < _CHECKED:
                checked += 1
                alien += not _says_the_same(encoder, sample)
            self._kept.append(number)
            self._encoded.append(encoded)
            for part in (encoded.input_ids, encoded.trained, np.float64(encoded.weight)):
                shaken.update(part.tobytes())
            if encoded.advantage is not None and encoded.behaviour is not None:
                shaken.update(np.float64(encoded.advantage).tobytes())
                shaken.update(encoded.behaviour.tobytes())
            for image in images_of(sample):
                shaken.update(bytes.fromhex(image.uuid))
            shaken.update(b"/")
        if alien and alien == checked:
            raise errors.InvalidInputError(
                f"The token ids on record spell other replies than those on record, in all "
                f"{checked} samples that were looked at: they were recorded with another "
                "tokenizer. Train with token_ids: template."
            )
        if too_long and settings.too_long == "refuse":
            longest = max(too_long, key=len)
            raise errors.InvalidInputError(
                f"{len(too_long)} samples are longer than the {limit} tokens that cutoff_len and "
                f"the model allow. {longest.name} is the longest, with {len(longest)} tokens. Give "
                "a larger cutoff_len, or leave them out with too_long: drop."
            )
        self.report = DataReport(
            given=len(self._samples),
            used=len(self._encoded),
            recorded=sum(encoded.recorded for encoded in self._encoded),
            no_weight=no_weight,
            too_long=len(too_long),
            tokens=sum(self.lengths),
            trained_tokens=sum(int(encoded.trained.sum()) for encoded in self._encoded),
            digest=shaken.hexdigest(),
            unscored=unscored,
            no_spread=no_spread,
            stale=stale,
        )

    @property
    def lengths(self) -> list[int]:
        """The samples' numbers of tokens."""
        return [len(encoded) for encoded in self._encoded]

    @property
    def trained_tokens(self) -> list[int]:
        """The samples' numbers of trained tokens."""
        return [int(encoded.trained.sum()) for encoded in self._encoded]

    def set_proximal(self, logprobs: Sequence[npt.NDArray[np.float32]]) -> None:
        """Take the log-probabilities of each sample's trained tokens under the starting weights."""
        for number, (encoded, values) in enumerate(zip(self._encoded, logprobs, strict=True)):
            proximal = np.zeros(len(encoded), dtype=np.float32)
            proximal[encoded.trained] = values
            self._encoded[number] = dataclasses.replace(encoded, proximal=proximal)

    def mass(self, samples: Iterable[int]) -> float:
        """Returns the denominator of the samples' loss: their trained tokens' weights, summed."""
        return float(sum(self._encoded[sample].mass for sample in samples))

    def batch(self, planned: MicroBatch, *, masked: bool) -> Batch:
        """Returns a planned batch as tensors."""
        tools = self._encoder.tools
        shown: list[Sample] = []
        if tools.processor is not None:
            shown = [self._samples[self._kept[i]] for row in planned.rows for i in row]
        pad = tools.tokenizer.pad_token_id
        return make_batch(
            [[self._encoded[sample] for sample in row] for row in planned.rows],
            pad_id=pad if pad is not None else 0,
            counts=planned.counts,
            masked=masked,
            image_token_id=_token_types(tools),
            pixels=self._encoder.pixels(shown),
        )

    def in_order(self, batch_size: int, world: int, rank: int) -> Iterator[MicroBatch]:
        """Yields one process's share of all samples, each once; as many batches for each."""
        by_length = sorted(range(len(self._encoded)), key=lambda i: -len(self._encoded[i]))
        batches = [
            MicroBatch(tuple((i,) for i in by_length[start : start + batch_size]))
            for start in range(0, len(by_length), batch_size)
        ]
        if batches:
            missing = -len(batches) % world
            batches += [dataclasses.replace(batches[-1], counts=False)] * missing
        yield from batches[rank::world]


def digest_of_base(model: str) -> str:
    """Returns what tells a folder's weights from others; empty for a name on the Hub.

    Of large files, only size and both ends are looked at: an update of weights changes all of them.
    """
    folder = Path(model)
    if not folder.is_dir():
        return ""
    shaken = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        shaken.update(f"{path.name}:{size}:".encode())
        with path.open("rb") as file:
            shaken.update(file.read(_ENDS))
            file.seek(max(size - _ENDS, 0))
            shaken.update(file.read(_ENDS))
    return shaken.hexdigest()


def check_base(model: str, digest: str) -> None:
    """Checks that a model is still the one that adapters were trained for.

    Raises:
        InvalidInputError: It is not.
    """
    if digest_of_base(model) != digest:
        raise errors.InvalidInputError(
            f"{os.fspath(model)!r} has other weights than when its adapters were begun; put the "
            "model back, or train into a new folder."
        )


def _says_the_same(encoder: Encoder, sample: Sample) -> bool:
    text, said = encoder.decode(sample.completion_token_ids).strip(), sample.completion.strip()
    return text in said or said in text


def _token_types(tools: Any) -> int | None:
    """Returns the image token's id, if the model wants to be told which tokens are images."""
    names = getattr(tools.processor, "model_input_names", ()) if tools.processor else ()
    return tools.image_token_id if "mm_token_type_ids" in names else None
