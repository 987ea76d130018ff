"""Whether replies on record are of the weights that their records name: computed anew."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from loop_calls import calls_of

from webtraj import ModelCall, open_dataset

__all__ = ["wrong_answers"]

_LOOKED_AT = 60
"""Replies of a dataset, at most."""
_LIKE = 0.02
"""How far log-probabilities that are computed by another program may be off, in the mean."""


def wrong_answers(place: str, version: str, models: Mapping[str, str]) -> Iterator[str]:
    """Yields a sentence if a dataset's replies are not those of a version's weights.

    Args:
        place: The dataset.
        version: Whose replies they are to be.
        models: The folders of all versions that there are.
    """
    calls = [call for trajectory in open_dataset(place) for call in calls_of(trajectory)]
    replies = list(itertools.islice((call for call in calls if call.logprobs), _LOOKED_AT))
    if not replies:
        yield f"{place}: no reply has its log-probabilities on record"
        return
    off = {name: _off(Path(folder), replies) for name, folder in models.items()}
    nearest = min(off, key=lambda name: off[name])
    if nearest != version or off[version] > _LIKE:
        yield f"{place}: is labelled {version}, and log-probabilities are off by {off}"


def _off(folder: Path, calls: list[ModelCall]) -> float:
    """Returns how far recorded log-probabilities are from a model's own, in the mean."""
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.eval()
    apart: list[float] = []
    for call in calls:
        prompt, reply = call.prompt_token_ids, call.completion_token_ids
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompt, *reply]])).logits[0]
        said = logits[len(prompt) - 1 : -1].log_softmax(-1)
        own = said.gather(1, torch.tensor(reply)[:, None])[:, 0]
        apart += (own - torch.tensor(call.logprobs)).abs().tolist()
    return sum(apart) / len(apart)
