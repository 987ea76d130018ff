"""The encoded samples of a run with counts, and the fingerprint of its starting model."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import logging
import os
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from webtraj import errors
from webtraj.training.samples import Sample
from webtraj.training.sft.batches import Batch, MicroBatch, make_batch
from webtraj.training.sft.encoding import Encoded, Encoder
from webtraj.training.sft.failures import PictureMismatchError
from webtraj.training.sft.policy_gradient import (
    Advantages,
    is_zero,
    temperature_of,
    with_policy,
)
from webtraj.training.sft.settings import SftSettings

__all__ = ["DataReport", "TrainingData", "check_base", "digest_of_base"]

_LOGGER = logging.getLogger(__name__)

_ENDS = 1 << 20
_CHECKED = 100


@dataclasses.dataclass(frozen=True, slots=True)
class DataReport:
    """The account of the given samples."""

    given: int
    """Samples given."""
    used: int
    """Samples trained on."""
    recorded: int
    """Samples trained on with their recorded token ids."""
    no_weight: int
    """Samples left out because their weight is 0."""
    too_long: int
    """Samples dropped because they are longer than `cutoff_len`."""
    tokens: int
    """Tokens in the used samples."""
    trained_tokens: int
    """Tokens trained on."""
    digest: str
    """Digest of the used data: equal if and only if the training data is equal."""
    misfits: int = 0
    """Samples left out because their image tokens and pictures do not fit together."""
    unscored: int = 0
    """Policy gradient: samples left out because they have log-probabilities but no reward."""
    no_spread: int = 0
    """Policy gradient: samples left out because all attempts of their group got the same reward."""
    stale: int = 0
    """Policy gradient: samples left out because they are older than `max_staleness`."""
    groups: int = 0
    """Policy gradient: groups of attempts that are not too old."""
    groups_kept: int = 0
    """Policy gradient: the groups among these whose attempts have different advantages."""
    reward: float | None = None
    """Policy gradient: the mean reward of the attempts in these groups."""
    staleness: float | None = None
    """Policy gradient: the mean age in iterations of the sampled replies that are used."""


class TrainingData:
    """Encoded samples. Token ids stay in memory; images are read again when needed.

    Args:
        samples: The samples. They are read twice if they show images.
        encoder: Encodes them.
        settings: The length limit and the policy settings.

    Raises:
        InvalidInputError: A sample cannot be trained on, or all have weight 0.
    """

    def __init__(self, samples: Iterable[Sample], encoder: Encoder, settings: SftSettings) -> None:
        # A sequence can be read again by index, so it is not copied.
        self._samples = samples if isinstance(samples, Sequence) else list(samples)
        self._encoder = encoder
        self._kept: list[int] = []
        self._encoded: list[Encoded] = []
        limit = min(settings.cutoff_len, encoder.tools.context_len or settings.cutoff_len)
        policy = settings.policy
        advantages = None if policy is None else Advantages(self._samples, policy)
        self.temperature = 1.0 if policy is None else temperature_of(self._samples, policy)
        """The sampling temperature of replies with an advantage."""
        left_out: collections.Counter[str] = collections.Counter()
        too_long: list[Encoded] = []
        ages: list[int] = []
        shaken = hashlib.sha256()
        alien = checked = 0
        for number, sample in enumerate(self._samples):
            advantage = None
            if advantages is not None:
                if advantages.is_stale(sample):
                    left_out["stale"] += 1
                    continue
                if sample.logprobs:
                    advantage = advantages.of(sample)
                    if advantage is None:
                        left_out["unscored"] += 1
                        continue
                    if is_zero(advantage):
                        left_out["no_spread"] += 1
                        continue
            try:
                encoded = encoder.encode(sample)
            except PictureMismatchError as error:
                if not left_out["misfit"]:
                    _LOGGER.warning("Leaving out samples like this one: %s", error)
                left_out["misfit"] += 1
                continue
            if policy is not None:
                encoded = with_policy(encoded, advantage, policy)
            if encoded.weight == 0:
                left_out["no_weight"] += 1
                continue
            if len(encoded) > limit:
                too_long.append(encoded)
                continue
            if encoded.recorded and sample.completion.strip() and checked < _CHECKED:
                checked += 1
                alien += not _says_the_same(encoder, sample)
            self._kept.append(number)
            self._encoded.append(encoded)
            if advantages is not None and advantage is not None:
                ages.append(advantages.age_of(sample))
            for part in (encoded.input_ids, encoded.trained, np.float64(encoded.weight)):
                shaken.update(part.tobytes())
            if encoded.advantage is not None and encoded.behaviour is not None:
                shaken.update(np.float64(encoded.advantage).tobytes())
                shaken.update(encoded.behaviour.tobytes())
            for image in sample.images:
                shaken.update(bytes.fromhex(image.uuid))
            shaken.update(b"/")
        if alien and alien == checked:
            raise errors.InvalidInputError(
                f"The recorded token ids do not match the recorded replies in any of the {checked} "
                "samples checked: they come from another "
                "tokenizer. Train with token_ids: template."
            )
        if too_long and settings.too_long == "refuse":
            longest = max(too_long, key=len)
            raise errors.InvalidInputError(
                f"{len(too_long)} samples are longer than the {limit} tokens that cutoff_len and "
                f"the model allow. {longest.name} is the longest: {len(longest)} tokens. Raise "
                "cutoff_len, or leave them out with too_long: drop."
            )
        groups = [] if advantages is None else advantages.rewards
        rewards = [reward for group in groups for reward in group]
        self.report = DataReport(
            given=len(self._samples),
            used=len(self._encoded),
            recorded=sum(encoded.recorded for encoded in self._encoded),
            no_weight=left_out["no_weight"],
            too_long=len(too_long),
            tokens=sum(self.lengths),
            trained_tokens=sum(int(encoded.trained.sum()) for encoded in self._encoded),
            digest=shaken.hexdigest(),
            misfits=left_out["misfit"],
            unscored=left_out["unscored"],
            no_spread=left_out["no_spread"],
            stale=left_out["stale"],
            groups=len(groups),
            groups_kept=0 if advantages is None else advantages.uneven,
            reward=statistics.fmean(rewards) if rewards else None,
            staleness=statistics.fmean(ages) if ages else None,
        )

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each sample."""
        return [len(encoded) for encoded in self._encoded]

    @property
    def trained_tokens(self) -> list[int]:
        """The number of trained tokens of each sample."""
        return [int(encoded.trained.sum()) for encoded in self._encoded]

    def set_proximal(self, logprobs: Sequence[npt.NDArray[np.float32]]) -> None:
        """Set the log-probabilities of each sample's trained tokens under the starting weights."""
        for number, (encoded, values) in enumerate(zip(self._encoded, logprobs, strict=True)):
            proximal = np.zeros(len(encoded), dtype=np.float32)
            proximal[encoded.trained] = values
            self._encoded[number] = dataclasses.replace(encoded, proximal=proximal)

    def mass(self, samples: Iterable[int]) -> float:
        """Return the denominator of the samples' loss: the sum of their trained tokens' weights."""
        return float(sum(self._encoded[sample].mass for sample in samples))

    def batch(self, planned: MicroBatch, *, masked: bool) -> Batch:
        """Return a planned batch as tensors."""
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
        """Yield one process's share of all samples. All processes get equal numbers."""
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
    """Return a fingerprint of a folder's weights; empty for a name on the Hub.

    For large files it covers only the size and both ends, which any update of the weights changes.
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
    """Check that a model is the one that adapters were trained for.

    Raises:
        InvalidInputError: It is not.
    """
    if digest_of_base(model) != digest:
        raise errors.InvalidInputError(
            f"The weights in {os.fspath(model)!r} changed since its adapters were started. Restore "
            "the model, or train into a new folder."
        )


def _says_the_same(encoder: Encoder, sample: Sample) -> bool:
    text, said = encoder.decode(sample.completion_token_ids).strip(), sample.completion.strip()
    return text in said or said in text


def _token_types(tools: Any) -> int | None:
    """Return the image token's id if the model needs token types; None otherwise."""
    names = getattr(tools.processor, "model_input_names", ()) if tools.processor else ()
    return tools.image_token_id if "mm_token_type_ids" in names else None
