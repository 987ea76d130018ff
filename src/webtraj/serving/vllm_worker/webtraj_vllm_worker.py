"""What vLLM's workers learn from webtraj; loaded by them, with nothing but the standard library.

Its folder alone is put on their path (`vllm.VllmLaunch`), so that they see no other module of ours.
"""

from __future__ import annotations

from typing import Any

__all__ = ["WebtrajWorker"]


class WebtrajWorker:
    """Methods that vLLM adds to its worker class (`--worker-extension-cls`)."""

    get_model: Any  # The worker's own.

    def repack_weights(self) -> None:
        """Has layers on a CPU forget the packed copy of weights that were replaced.

        When vLLM 0.32 reloads weights, the output layer of a model with tied embeddings shares the
        new ones, but goes on multiplying with a copy that was packed from the old ones. Layers
        that keep no weights beside their packed copy have been packed again already.
        """
        for layer in self.get_model().modules():
            if hasattr(layer, "cpu_linear") and layer.weight.numel():
                layer.quant_method.process_weights_after_loading(layer)
