# mypy: disable-error-code="import-not-found,import-untyped"
"""Reading of a training's files by LLaMA-Factory.

A standalone script for its Python, to be run in the folder of the configuration. It prints one JSON
line for each problem, and a last line with totals::

    python encoding.py train_config.yaml
    {"webtraj": {"where": "finetune_train.json, row 3", "what": "it is dropped"}}
    {"webtraj": {"version": "0.9.5", "rows": {"webtraj_train": 12}, "longest": 310}}
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

__all__ = ["main"]


def main(path: str) -> None:
    """Parse a configuration, and encode all rows that it names."""
    # More GPUs would need the launcher, which is not what is checked.
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    from importlib.metadata import version

    from llamafactory.hparams import get_train_args
    from omegaconf import OmegaConf
    from transformers.integrations import is_deepspeed_available

    logging.disable(logging.WARNING)
    values: Any = OmegaConf.to_container(OmegaConf.load(path))
    rows: dict[str, int] = {}
    longest = None
    try:
        # DeepSpeed needs the launcher too.
        if values.pop("deepspeed", None) and not is_deepspeed_available():
            raise ImportError("deepspeed is not installed in LLaMA-Factory's environment")
        arguments = get_train_args(values)
        longest = _encode(arguments, rows)
    except Exception as error:  # Anything it would abort with.
        _tell({"where": path, "what": _said(error)})
    _tell({"version": version("llamafactory"), "rows": rows, "longest": longest})


def _encode(arguments: Any, counts: dict[str, int]) -> int:
    """Encode all rows, count them, and return the length of the longest."""
    from llamafactory.data.converter import get_dataset_converter
    from llamafactory.data.loader import _get_dataset_processor
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.data.template import get_template_and_fix_tokenizer
    from llamafactory.model import load_tokenizer

    from datasets import load_dataset

    model, data, _, finetuning, _ = arguments
    cutoff = data.cutoff_len
    data.cutoff_len = 1 << 40  # Cut nothing.
    data.packing = data.neat_packing = False  # Packs are padded to cutoff_len.
    tools = load_tokenizer(model)
    template = get_template_and_fix_tokenizer(tools["tokenizer"], data)
    stage = {"dpo": "rm"}.get(finetuning.stage, finetuning.stage)
    encoder = _get_dataset_processor(data, stage, template, **tools)
    longest = 0
    names = [*(data.dataset or []), *(data.eval_dataset or [])]
    for name, about in zip(names, get_dataset_list(names, data.dataset_dir), strict=True):
        convert = get_dataset_converter(about.formatting, about, data)
        file = os.path.join(data.dataset_dir, about.dataset_name)  # noqa: PTH118
        rows = load_dataset("json", data_files=[file], split="train")
        counts[name] = len(rows)
        for number, row in enumerate(rows):
            where = f"{about.dataset_name}, row {number}"
            try:
                made = encoder.preprocess_dataset({k: [v] for k, v in convert(row).items()})
            except Exception as error:  # Anything it would abort with.
                _tell({"where": where, "what": _said(error)})
                continue
            parts = [key for key in made if key.endswith("input_ids")]
            length = max((len(made[key][0]) for key in parts), default=0)
            longest = max(longest, length)
            labels = [label for key in made if key.endswith("labels") for label in made[key][0]]
            if not parts:
                _tell({"where": where, "what": "it is no pair of prompt and reply, and is dropped"})
            elif length > cutoff:
                what = f"it has {length} tokens, is cut, and cutoff_len is {cutoff}"
                _tell({"where": where, "what": what})
            elif all(label < 0 for label in labels):
                _tell({"where": where, "what": "it has no token to train on"})
    return longest


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _tell(entry: dict[str, Any]) -> None:
    sys.stdout.write("\n" + json.dumps({"webtraj": entry}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
