"""One trainer, measured: what `benchmarks/training.py` runs in a process of its own for each.

    python training_peers.py NAME JOB.json

It runs in that trainer's own environment, so that webtraj is imported only where it is needed. The
time is that of the steps, with the making of batches and without what comes before and after; and
the median of a step, since a GPU's first steps are mostly preparations.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import json
import resource
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

GPU = torch.cuda.is_available()
DTYPE = torch.bfloat16 if GPU else torch.float32
ADAPTERS = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}


def main() -> None:
    name, job = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    torch.manual_seed(0)
    result = globals()[f"measure_{name}"](job)
    if GPU:
        result["gpu"] = torch.cuda.get_device_name()
        result["gib"] = torch.cuda.max_memory_allocated() / 2**30
    else:
        result["gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print("RESULT", json.dumps(result))


def measure_matmul(job: dict[str, Any]) -> dict[str, Any]:
    """Measures the arithmetic peak: the fastest of some products of square matrices."""
    size, dtype = (8192, torch.bfloat16) if GPU else (1536, torch.float32)
    one = torch.randn(size, size, dtype=dtype, device="cuda" if GPU else "cpu")
    best = float("inf")
    for _ in range(12):
        start = time.perf_counter()
        one @ one
        if GPU:
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return {"flops": 2 * size**3 / best, "threads": torch.get_num_threads(), "gpu": GPU}


def measure_work(job: dict[str, Any]) -> dict[str, Any]:
    """Counts the tokens, and the arithmetic that training on them takes at least.

    That is three times that of the forward pass of each sample by itself: no padding, and logits
    for what is trained on alone.
    """
    from torch.utils.flop_counter import FlopCounterMode

    from webtraj.training.sft.batches import MicroBatch
    from webtraj.training.sft.data import TrainingData
    from webtraj.training.sft.encoding import Encoder
    from webtraj.training.sft.models import load_weights
    from webtraj.training.sft.optimizer_step import token_losses

    settings, samples, tools = ours(job)
    data = TrainingData(samples, Encoder(tools), settings)
    model = load_weights(settings.model, tools, dtype=DTYPE, attention="eager")
    model = model.to("cuda" if GPU else "cpu").eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        for number in range(data.report.used):
            token_losses(model, data.batch(MicroBatch(((number,),)), masked=True))
    report = data.report
    return {
        "tokens": report.tokens,
        "trained": report.trained_tokens,
        "flops": 3 * counter.get_total_flops(),
        "parameters": model.num_parameters(),
    }


def measure_webtraj(job: dict[str, Any]) -> dict[str, Any]:
    from webtraj.training.sft import train

    settings, samples, _ = ours(job)
    watch = Watch()
    result = train(settings, samples, observer=watch)
    return {
        "version": importlib.metadata.version("webtraj"),
        "steps": result.steps,
        **timed(watch.times),
        "loss": sum(watch.losses) / len(watch.losses),
    }


def measure_webtraj_cudnn(job: dict[str, Any]) -> dict[str, Any]:
    """Trains as webtraj does, but lets PyTorch take cuDNN's attention."""
    from webtraj.training.sft import models

    models.attention_for_changing_shapes = contextlib.nullcontext
    return measure_webtraj({**job, "out": str(Path(job["out"]) / "cudnn")})


class Watch:
    """Looks on while webtraj trains."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.losses: list[float] = []

    def training_begins(self, report: object, *, start: int, total: int) -> None:
        self.times.append(time.perf_counter())

    def logged(self, entry: dict[str, Any]) -> None:
        self.times.append(time.perf_counter())
        self.losses.append(entry["loss"])


def timed(times: list[float]) -> dict[str, float]:
    """Returns how long steps took: from when the first began, and when each ended."""
    steps = [end - start for start, end in itertools.pairwise(times)]
    return {"seconds": times[-1] - times[0], "median": statistics.median(steps)}


def measure_transformers(job: dict[str, Any]) -> dict[str, Any]:
    """Trains by transformers.Trainer, on the token ids and pixels that webtraj prepares."""
    import transformers

    from webtraj.training.sft.encoding import Encoder

    _, samples, tools = ours(job)
    encoder = Encoder(tools)
    encoded = [encoder.encode(sample) for sample in samples]

    def collate(numbers: list[int]) -> dict[str, Any]:
        rows = [encoded[number] for number in numbers]
        width = max(map(len, rows))
        made: dict[str, Any] = {"input_ids": [], "attention_mask": [], "labels": []}
        for row in rows:
            ids, rest = row.input_ids.tolist(), width - len(row)
            labels = [i if on else -100 for i, on in zip(ids, row.trained, strict=True)]
            made["input_ids"].append(ids + [tools.tokenizer.pad_token_id] * rest)
            made["attention_mask"].append([1] * len(ids) + [0] * rest)
            made["labels"].append(labels + [-100] * rest)
        made = {key: torch.tensor(value) for key, value in made.items()}
        if tools.processor is not None:
            if "mm_token_type_ids" in tools.processor.model_input_names:
                made["mm_token_type_ids"] = (made["input_ids"] == tools.image_token_id).long()
            made |= encoder.pixels([samples[number] for number in numbers])
        return made

    kind = (
        transformers.AutoModelForCausalLM
        if tools.processor is None
        else transformers.AutoModelForImageTextToText
    )
    model = kind.from_pretrained(
        job["model"], dtype=torch.float32 if job["method"] == "full" else DTYPE
    )
    if job["method"] == "lora":
        model = peft_model(model)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(**common(job, "trainer"), remove_unused_columns=False),
        train_dataset=list(range(len(encoded))),  # type: ignore[arg-type]
        data_collator=collate,
    )
    return trained_by(trainer, "transformers")


def measure_subclass(job: dict[str, Any]) -> dict[str, Any]:
    """Train with a subclass of transformers.Trainer that uses webtraj's model, batches and loss.

    Then train from the middle checkpoint, and again after that checkpoint was truncated.
    """
    trainer = on_transformers(job, "subclass")
    result = trained_by(trainer, "transformers")
    if job["method"] == "lora":
        return result
    whole = trainer.model.state_dict()
    middle = Path(job["out"]) / "subclass" / f"checkpoint-{trainer.state.max_steps // 2}"
    again = on_transformers(job, "subclass")
    again.train(resume_from_checkpoint=str(middle))
    same = all(torch.equal(whole[name], value) for name, value in again.model.state_dict().items())
    weights = middle / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    for later in middle.parent.glob("checkpoint-*"):
        if later != middle:
            shutil.rmtree(later)
    try:
        on_transformers(job, "subclass").train(resume_from_checkpoint=True)
    except Exception as error:
        cut = f"{type(error).__name__}: {error}"
    else:
        cut = "resumes"
    return {**result, "exact": same, "after_a_cut": cut}


def on_transformers(job: dict[str, Any], name: str) -> Any:
    """Return a transformers.Trainer with webtraj's batches, optimizer and loss."""
    import transformers

    from webtraj.training.sft import models
    from webtraj.training.sft.batches import Plan
    from webtraj.training.sft.data import TrainingData
    from webtraj.training.sft.encoding import Encoder
    from webtraj.training.sft.optimizer_step import make_optimizer, token_losses, weighted_sum

    settings, samples, tools = ours(job)
    data = TrainingData(samples, Encoder(tools), settings)
    plan = Plan(
        data.lengths,
        batch_size=settings.batch_size,
        accumulation=settings.accumulation,
        seed=settings.seed,
    )
    steps = list(plan.steps())

    class Steps(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return len(steps)

        def __getitem__(self, number: int) -> dict[str, Any]:
            step = steps[number]
            passes = [data.batch(planned, masked=True) for planned in step.ranks[0]]
            ids = torch.cat([batch.inputs["input_ids"].flatten() for batch in passes])
            return {"input_ids": ids, "passes": passes, "mass": data.mass(step.samples)}

    class Subclass(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            # Resuming skips batches, which needs a batch sampler.
            return torch.utils.data.DataLoader(Steps(), batch_size=1, collate_fn=lambda one: one[0])

        def create_optimizer(self, *more: Any) -> Any:
            self.optimizer = make_optimizer(self.model, settings)
            return self.optimizer

        def training_step(self, model: Any, inputs: Any, *more: Any) -> Any:
            # A step's passes differ in number, so the Trainer cannot accumulate them.
            model.train()
            losses = []
            for batch in self._prepare_inputs(inputs)["passes"]:
                with self.compute_loss_context_manager():
                    nll, weights, _, _ = token_losses(model, batch)
                    loss = weighted_sum(nll, weights) / inputs["mass"]
                self.accelerator.backward(loss)
                losses.append(loss.detach())
            return sum(losses)

    arguments = {
        **common(job, name),
        "gradient_accumulation_steps": 1,
        "save_strategy": "steps",
        "save_steps": plan.num_steps // 2,
    }
    torch.manual_seed(settings.seed)
    return Subclass(
        model=models.load_model(settings, tools),
        args=transformers.TrainingArguments(
            **arguments, remove_unused_columns=False, save_total_limit=None
        ),
        train_dataset=Steps(),
    )


def measure_trl(job: dict[str, Any]) -> dict[str, Any]:
    from transformers import AutoProcessor
    from trl import SFTConfig, SFTTrainer

    from datasets import load_dataset

    files = str(Path(job["trl"]) / "data" / "train-*.parquet")
    data = load_dataset(
        "parquet", data_files=files, split="train", cache_dir=str(Path(job["out"]) / "datasets")
    )
    trainer = SFTTrainer(
        model=job["model"],
        args=SFTConfig(
            **common(job, "trl"),
            max_length=None,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "float32" if job["method"] == "full" else DTYPE},
        ),
        peft_config=adapters() if job["method"] == "lora" else None,
        train_dataset=data.select_columns(["prompt", "completion", "images"]),
        processing_class=AutoProcessor.from_pretrained(job["model"]),
    )
    return trained_by(trainer, "trl")


def measure_llamafactory(job: dict[str, Any]) -> dict[str, Any]:
    from llamafactory.train.tuner import run_exp

    clock = clock_callback()
    run_exp(
        args={
            **common(job, "llamafactory"),
            "model_name_or_path": job["model"],
            "stage": "sft",
            "do_train": True,
            "finetuning_type": job["method"],
            **({"lora_rank": 16, "lora_alpha": 32} if job["method"] == "lora" else {}),
            "freeze_vision_tower": False,
            "freeze_multi_modal_projector": False,
            "disable_gradient_checkpointing": True,
            "dataset_dir": job["sharegpt"],
            "media_dir": job["sharegpt"],
            "dataset": "webtraj_train",
            "template": job["template"],
            "cutoff_len": job["cutoff_len"],
            "image_max_pixels": 1 << 22,
            "preprocessing_num_workers": 1,
            "overwrite_cache": True,
        },
        callbacks=[clock],
    )
    return {**clock.result(), "version": importlib.metadata.version("llamafactory")}


def adapters() -> Any:
    import peft

    return peft.LoraConfig(**ADAPTERS)


def peft_model(model: Any) -> Any:
    import peft

    return peft.get_peft_model(model, adapters())


def common(job: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns what all trainers on transformers.Trainer are told alike."""
    return {
        "output_dir": str(Path(job["out"]) / name),
        "per_device_train_batch_size": job["batch_size"],
        "gradient_accumulation_steps": job["accumulation"],
        "num_train_epochs": 1,
        "learning_rate": job["learning_rate"],
        "lr_scheduler_type": "constant",
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "bf16": GPU,
        "use_cpu": not GPU,
        "report_to": "none",
        "disable_tqdm": True,
        "logging_strategy": "no",
        "save_strategy": "no",
        "dataloader_pin_memory": GPU,
        "seed": 0,
    }


def trained_by(trainer: Any, package: str) -> dict[str, Any]:
    clock = clock_callback()
    trainer.add_callback(clock)
    clock.loss = trainer.train().training_loss
    return {**clock.result(), "version": importlib.metadata.version(package)}


def clock_callback() -> Any:
    import transformers

    class Clock(transformers.TrainerCallback):
        loss: float | None = None

        def __init__(self) -> None:
            self.times: list[float] = []

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self.times.append(time.perf_counter())

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if GPU:
                torch.cuda.synchronize()
            self.times.append(time.perf_counter())

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any
        ) -> None:
            self.loss = (logs or {}).get("train_loss", self.loss)

        def result(self) -> dict[str, Any]:
            return {"steps": len(self.times) - 1, **timed(self.times), "loss": self.loss}

    return Clock()


def ours(job: dict[str, Any]) -> tuple[Any, Any, Any]:
    from webtraj.training.sft import SftSettings, open_samples
    from webtraj.training.sft.encoding import load_tools

    settings = SftSettings(
        model=job["model"],
        out=str(Path(job["out"]) / "webtraj"),
        method=job["method"],
        batch_size=job["batch_size"],
        accumulation=job["accumulation"],
        cutoff_len=job["cutoff_len"],
        learning_rate=job["learning_rate"],
        schedule="constant",
        log_steps=1,
    )
    return settings, open_samples([job["sharegpt"]]), load_tools(job["model"])


if __name__ == "__main__":
    main()
