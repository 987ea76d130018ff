"""Batches made while the model computes, and how fast they are used up."""

from __future__ import annotations

import collections
import concurrent.futures
import time
from collections.abc import Callable, Iterable, Iterator

from webtraj.training.preparing.batches import Batch
from webtraj.training.preparing.planning import MicroBatch, Step

__all__ = ["Meter", "batches_ahead"]

_AHEAD = 2


def batches_ahead(
    steps: Iterable[Step], rank: int, make: Callable[[MicroBatch], Batch]
) -> Iterator[tuple[Step, list[Batch]]]:
    """Yields one process's passes for each step, made ahead in another thread."""

    def made_for(step: Step) -> tuple[Step, list[Batch]]:
        return step, [make(planned) for planned in step.ranks[rank]]

    with concurrent.futures.ThreadPoolExecutor(1, "webtraj-batches") as pool:
        made: collections.deque[concurrent.futures.Future[tuple[Step, list[Batch]]]]
        made = collections.deque()
        for step in steps:
            made.append(pool.submit(made_for, step))
            if len(made) > _AHEAD:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()


class Meter:
    """Measures speed since it was last read."""

    def __init__(self) -> None:
        self._tokens = 0
        self._start = time.perf_counter()

    def count(self, batches: Iterable[Batch]) -> None:
        """Counts batches that the model has computed."""
        self._tokens += sum(batch.num_tokens for batch in batches)

    def read(self) -> dict[str, float]:
        """Returns tokens per second since the last time, and the GPU's highest use of memory."""
        import torch

        now = time.perf_counter()
        read = {"tokens_per_second": round(self._tokens / (now - self._start), 1)}
        if torch.cuda.is_available():
            read["peak_memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 3)
        self._tokens, self._start = 0, now
        return read
