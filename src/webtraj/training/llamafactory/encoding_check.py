# mypy: disable-error-code="import-not-found,import-untyped"
"""A check of a training's files with LLaMA-Factory's own code.

A standalone script for its Python. It runs in the folder of the configuration, and prints a JSON
line for each problem and a last line with totals::

    python encoding_check.py train_config.yaml
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
    """Parse a configuration and encode all its rows."""
    # With several GPUs, LLaMA-Factory insists on its launcher.
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
        # With DeepSpeed, LLaMA-Factory insists on its launcher, too.
        if values.pop("deepspeed", None) and not is_deepspeed_available():
            raise ImportError("deepspeed is not installed in LLaMA-Factory's environment")
        arguments = get_train_args(values)
        longest = _encode(arguments, rows)
    except Exception as error:  # A training would abort with the same error.
        _print({"where": path, "what": _words(error)})
    _print({"version": version("llamafactory"), "rows": rows, "longest": longest})


def _encode(arguments: Any, counts: dict[str, int]) -> int:
    """Encode all rows, count them, and return the length of the longest."""
    from llamafactory.data.converter import SharegptDatasetConverter
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.data.processor import SupervisedDatasetProcessor
    from llamafactory.data.template import get_template_and_fix_tokenizer
    from llamafactory.model import load_tokenizer

    from datasets import load_dataset

    model, data, _, finetuning, _ = arguments
    if finetuning.stage != "sft":
        raise ValueError(f"the stage is {finetuning.stage!r}; only sft can be checked")
    cutoff = data.cutoff_len
    data.cutoff_len = 1 << 40  # Cut nothing.
    tools = load_tokenizer(model)
    template = get_template_and_fix_tokenizer(tools["tokenizer"], data)
    encoder = SupervisedDatasetProcessor(template, tools["tokenizer"], tools["processor"], data)
    longest = 0
    names = [*(data.dataset or []), *(data.eval_dataset or [])]
    for name, about in zip(names, get_dataset_list(names, data.dataset_dir), strict=True):
        if about.formatting != "sharegpt":
            raise ValueError(f"{name} has the formatting {about.formatting!r}; expected sharegpt")
        convert = SharegptDatasetConverter(about, data)
        file = os.path.join(data.dataset_dir, about.dataset_name)  # noqa: PTH118
        rows = load_dataset("json", data_files=[file], split="train")
        counts[name] = len(rows)
        for number, row in enumerate(rows):
            where = f"{about.dataset_name}, row {number}"
            try:
                made = encoder.preprocess_dataset({k: [v] for k, v in convert(row).items()})
            except Exception as error:  # A training would abort with the same error.
                _print({"where": where, "what": _words(error)})
                continue
            if not made:
                _print(
                    {"where": where, "what": "it is not a prompt with one reply, and is dropped"}
                )
                continue
            length = len(made["input_ids"][0])
            longest = max(longest, length)
            if length > cutoff:
                what = f"it has {length} tokens and is cut, because cutoff_len is {cutoff}"
                _print({"where": where, "what": what})
            elif all(label < 0 for label in made["labels"][0]):
                _print({"where": where, "what": "it has no token to train on"})
    return longest


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _print(entry: dict[str, Any]) -> None:
    sys.stdout.write("\n" + json.dumps({"webtraj": entry}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
