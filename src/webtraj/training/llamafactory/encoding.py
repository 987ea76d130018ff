# mypy: disable-error-code="import-not-found,import-untyped"
"""Encoding of rows by LLaMA-Factory.

A standalone script for its Python. It prints one JSON line for each row that is too long or cannot
be encoded, and a last line with totals::

    python encoding.py train_config.yaml
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from typing import Any

__all__ = ["main"]


def main(path: str) -> None:
    """Encode all rows that a configuration names."""
    from llamafactory.data.converter import SharegptDatasetConverter
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.data.processor import SupervisedDatasetProcessor
    from llamafactory.data.template import get_template_and_fix_tokenizer
    from llamafactory.hparams import DataArguments, ModelArguments
    from llamafactory.model import load_tokenizer
    from omegaconf import OmegaConf

    from datasets import load_dataset

    logging.disable(logging.WARNING)
    values: Any = OmegaConf.to_container(OmegaConf.load(path))
    data = DataArguments(**_some(values, DataArguments))
    model = ModelArguments(**_some(values, ModelArguments))
    cutoff = data.cutoff_len
    data.cutoff_len = 1 << 40  # Cut nothing.
    model.model_max_length = cutoff
    tools = load_tokenizer(model)
    template = get_template_and_fix_tokenizer(tools["tokenizer"], data)
    encoder = SupervisedDatasetProcessor(template, tools["tokenizer"], tools["processor"], data)
    longest = 0
    for attributes in get_dataset_list(
        [*(data.dataset or []), *(data.eval_dataset or [])], data.dataset_dir
    ):
        convert = SharegptDatasetConverter(attributes, data)
        file = f"{data.dataset_dir}/{attributes.dataset_name}"
        rows = load_dataset("json", data_files=[file], split="train")
        for number, row in enumerate(rows):
            told = {"file": attributes.dataset_name, "row": number}
            try:
                made = convert(row)
                tokens, labels = encoder._encode_data_example(
                    prompt=made["_prompt"],
                    response=made["_response"],
                    system=made["_system"],
                    tools=made["_tools"],
                    images=made["_images"] or [],
                    videos=made["_videos"] or [],
                    audios=made["_audios"] or [],
                )
            except Exception as error:  # Anything it would abort with.
                _tell(told | {"error": f"{type(error).__name__}: {error}"[:300]})
                continue
            longest = max(longest, len(tokens))
            if len(tokens) > cutoff:
                _tell(told | {"tokens": len(tokens), "cutoff": cutoff})
            elif all(label < 0 for label in labels):
                _tell(told | {"error": "it has no token to train on"})
    _tell({"longest": longest})


def _some(values: dict[str, Any], kind: type) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(kind) if field.init}
    return {name: value for name, value in values.items() if name in names}


def _tell(entry: dict[str, Any]) -> None:
    sys.stdout.write("\n" + json.dumps({"webtraj": entry}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
