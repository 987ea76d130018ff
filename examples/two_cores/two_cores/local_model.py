"""A model client that samples in this process, with transformers and without a server.

For models so small that a request to a server costs more than the reply. Records are those of a
server: token ids, and log-probabilities under the temperature that sampled them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Sampling
from webtraj.agents.models.messages import for_template
from webtraj.store.closeable import AsyncClosing
from webtraj.trajectory import ModelCall

__all__ = ["LocalModel"]


class LocalModel(AsyncClosing):
    """A model in a folder as a `ModelClient`. Calls are answered one after the other.

    Args:
        folder: The model, as `webtraj train` publishes it.

    Raises:
        InvalidInputError: The folder has no model that transformers can load.
        MissingDependencyError: torch or transformers is not installed.
    """

    def __init__(self, folder: Path) -> None:
        from webtraj.training.sft.encoding import load_tools
        from webtraj.training.sft.models import load_weights

        # As in training: another library would scale pictures a little differently.
        self._tools = load_tools(folder, image_backend="pil")
        import torch

        self._torch = torch
        self._model = load_weights(folder, self._tools, dtype=torch.float32).eval()
        weights = hashlib.sha256()
        for file in sorted(folder.glob("*.safetensors")):
            weights.update(file.read_bytes())
        self._version = weights.hexdigest()[:16]
        self.name = f"transformers/{folder.name}"

    async def complete(
        self,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        *,
        timeout: float | None = None,
    ) -> ModelCall:
        """See `ModelClient.complete`.

        Raises:
            ModelRefusedError: The sampling settings lack max_tokens, or have something that this
                client cannot do.
        """
        asked = sampling or Sampling()
        cuts = asked.top_p not in (None, 1.0) or asked.top_k not in (None, -1, 0) or asked.min_p
        limit = asked.max_tokens
        more = asked.stop or asked.structure or asked.tools or asked.extra
        if cuts or more or limit is None:
            raise errors.ModelRefusedError(
                "A local model samples from the whole distribution, to the end or the limit: give "
                "max_tokens, and leave out top_p, top_k, min_p, stop, structures, tools and extra "
                "fields."
            )
        temperature = 1.0 if asked.temperature is None else asked.temperature
        start = time.time()
        prompt, given = self._encode(messages)
        reply, logprobs = self._sample(given, temperature, asked.seed, limit)
        ended = reply[-1] == self._tools.tokenizer.eos_token_id
        return ModelCall(
            model=self.name,
            provider="transformers",
            policy_version=self._version,
            messages=tuple(messages),
            sampling={"temperature": temperature, "max_tokens": limit, "seed": asked.seed},
            text=self._tools.tokenizer.decode(reply, skip_special_tokens=True),
            finish_reason="stop" if ended else "length",
            usage={"prompt_tokens": len(prompt), "completion_tokens": len(reply)},
            prompt_token_ids=tuple(prompt),
            completion_token_ids=tuple(reply),
            logprobs=tuple(logprobs),
            start_time=start,
            latency=time.time() - start,
        )

    async def aclose(self) -> None:
        """Do nothing."""

    def _encode(self, messages: Sequence[Message]) -> tuple[list[int], dict[str, Any]]:
        from webtraj.training.sft.pictures import open_image

        tokenizer, processor = self._tools.tokenizer, self._tools.processor
        shaped = [for_template(message, in_parts=processor is not None) for message in messages]
        text = (processor or tokenizer).apply_chat_template(
            shaped, add_generation_prompt=True, tokenize=False
        )
        if processor is None:
            ids = tokenizer.encode(text, add_special_tokens=False, return_tensors="pt")
            return ids[0].tolist(), {"input_ids": ids}
        parts = [part for message in messages for part in message.parts]
        images = [open_image(part) for part in parts if isinstance(part, Image)]
        given = dict(
            processor(text=[text], images=[images] if images else None, return_tensors="pt")
        )
        return given["input_ids"][0].tolist(), given

    def _sample(
        self, given: dict[str, Any], temperature: float, seed: int | None, limit: int
    ) -> tuple[list[int], list[float]]:
        torch = self._torch
        source = None if seed is None else torch.Generator().manual_seed(seed)
        reply: list[int] = []
        logprobs: list[float] = []
        with torch.inference_mode():
            made = self._model(**given, use_cache=True)
            while True:
                scores = made.logits[0, -1].float()
                likely = (scores / (temperature or 1.0)).log_softmax(-1)
                if temperature:
                    token = int(torch.multinomial(likely.exp(), 1, generator=source))
                else:
                    token = int(scores.argmax())
                reply.append(token)
                logprobs.append(min(float(likely[token]), 0.0))
                if token == self._tools.tokenizer.eos_token_id or len(reply) == limit:
                    return reply, logprobs
                ids = torch.tensor([[token]])
                made = self._model(
                    input_ids=ids, past_key_values=made.past_key_values, use_cache=True
                )
