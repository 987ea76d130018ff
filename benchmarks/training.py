"""The trainer beside transformers' own, on one model and the same samples, in one run.

Run with a Python that has PyTorch: `.venv-train/bin/python benchmarks/training.py`. Without
`--model` it makes a tiny one. It prints tokens per second, padding left out; the share of them that
was trained on; peak memory of the GPU; and with `--peak-tflops`, the share of the card's arithmetic
peak, at six operations for each weight and token.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

import torch
import transformers

from webtraj.agents.models.base import Message
from webtraj.testing.tiny_models import make_text_model
from webtraj.training.preparing.encoding import Encoder
from webtraj.training.preparing.tools import load_tools
from webtraj.training.samples import Sample, SampleKey
from webtraj.training.sft import SftSettings, train

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a folder; default: a tiny model made on the spot")
    parser.add_argument("--samples", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--cutoff-len", type=int, default=1024)
    parser.add_argument("--peak-tflops", type=float)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    corpus = [page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = arguments.model or str(make_text_model(folder / "model", corpus))
        samples = make_samples("\n".join(corpus), arguments.samples)
        settings = SftSettings(
            model=model,
            output=str(folder / "webtraj"),
            batch_size=arguments.batch_size,
            cutoff_len=arguments.cutoff_len,
            too_long="drop",
            log_steps=10**6,
        )
        packed = settings.model_copy(
            update={"packing": True, "output": str(folder / "packed"), "batch_size": 1}
        )
        print(f"{'':24}{'tokens/s':>10}{'trained':>9}{'GiB':>8}{'of peak':>9}")
        for name, measure in {
            "webtraj": lambda: ours(settings, samples),
            "webtraj, packed": lambda: ours(packed, samples),
            "transformers' Trainer": lambda: theirs(settings, samples, folder / "trainer"),
        }.items():
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            tokens, trained, seconds, parameters = measure()
            memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0
            share = ""
            if arguments.peak_tflops:
                done = 6 * parameters * tokens / seconds
                share = f"{done / arguments.peak_tflops / 1e12:.1%}"
            speed = f"{tokens / seconds:>10,.0f}{trained / tokens:>9.1%}"
            print(f"{name:24}{speed}{memory:>8.2f}{share:>9}")


def make_samples(text: str, count: int) -> list[Sample]:
    """Makes prompts of very different lengths with short replies, as web agents have them."""
    chosen = random.Random(0)
    samples = []
    for number in range(count):
        start = chosen.randrange(len(text) - 3000)
        page = text[start : start + chosen.choice((200, 400, 800, 1600))]
        samples.append(
            Sample(
                key=SampleKey("benchmark", number),
                messages=(Message.of("user", page),),
                completion=f"click('{chosen.randrange(100)}')",
            )
        )
    return samples


def ours(settings: SftSettings, samples: list[Sample]) -> tuple[int, int, float, int]:
    """Trains one epoch; the time is that from the first step to the last, with the saving."""
    clock = _Clock()
    result = train(settings, samples, observer=clock)
    seconds = time.perf_counter() - clock.start
    return result.data.tokens, result.data.trained_tokens, seconds, parameters_of(settings)


class _Clock:
    start = 0.0

    def training_begins(self, report: object, *, start: int, total: int) -> None:
        self.start = time.perf_counter()

    def logged(self, entry: object) -> None:
        pass


def theirs(
    settings: SftSettings, samples: list[Sample], output: Path
) -> tuple[int, int, float, int]:
    """Trains one epoch on the same tokens by `transformers.Trainer`, padded to the longest."""
    tools = load_tools(settings.model)
    encoder = Encoder(tools)
    encoded = [one for one in map(encoder.encode, samples) if len(one) <= settings.cutoff_len]
    rows = [
        {
            "input_ids": one.input_ids.tolist(),
            "labels": [
                int(token) if on else -100
                for token, on in zip(one.input_ids, one.trained, strict=True)
            ],
        }
        for one in encoded
    ]
    model = transformers.AutoModelForCausalLM.from_pretrained(settings.model, dtype=torch.float32)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(output),
            per_device_train_batch_size=settings.batch_size,
            num_train_epochs=1,
            learning_rate=settings.learning_rate,
            bf16=torch.cuda.is_available(),
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            save_strategy="no",
            dataloader_pin_memory=torch.cuda.is_available(),
        ),
        train_dataset=rows,
        data_collator=transformers.DataCollatorForSeq2Seq(tools.tokenizer),
    )
    started = time.perf_counter()
    trainer.train()
    trainer.save_model(str(output))
    seconds = time.perf_counter() - started
    trained = sum(int(one.trained.sum()) for one in encoded)
    return sum(map(len, encoded)), trained, seconds, model.num_parameters()


def parameters_of(settings: SftSettings) -> int:
    tools = load_tools(settings.model)
    with torch.device("meta"):
        return int(transformers.AutoModelForCausalLM.from_config(tools.config).num_parameters())


if __name__ == "__main__":
    main()
