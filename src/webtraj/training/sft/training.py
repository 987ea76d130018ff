"""The training loop, on the devices that accelerate is configured for."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import io
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from webtraj import errors
from webtraj.store import files
from webtraj.training.samples import Sample
from webtraj.training.sft import checkpoints, models
from webtraj.training.sft.batches import Batch, MicroBatch, Plan, Step
from webtraj.training.sft.data import DataReport, TrainingData, check_base, digest_of_base
from webtraj.training.sft.encoding import Encoder, ModelTools, load_tools
from webtraj.training.sft.failures import TrainingError
from webtraj.training.sft.logs import NullTrainObserver, TrainLog, TrainObserver
from webtraj.training.sft.optimizer_step import (
    compute_sampled_logprobs,
    evaluate,
    learning_rate,
    make_optimizer,
    make_step,
)
from webtraj.training.sft.policy_gradient import PolicyGradient
from webtraj.training.sft.settings import SftSettings

__all__ = ["Meter", "TrainResult", "batches_ahead", "make_accelerator", "train"]

# Devices: one process or several, weights whole or sharded.


def make_accelerator(settings: SftSettings) -> Any:
    """Return accelerate's Accelerator for a run.

    Raises:
        InvalidInputError: FSDP is configured, and accelerate would not shard the weights, or would
            shard them in an unsupported way.
        MissingDependencyError: accelerate is not installed.
    """
    try:
        import accelerate
    except ImportError as error:
        raise errors.missing_dependency("Training needs accelerate", "train") from error
    accelerator = accelerate.Accelerator(
        mixed_precision="bf16" if models.computes_in_bf16(settings) else "no"
    )
    _check_sharding(accelerator)
    return accelerator


def _check_sharding(accelerator: Any) -> None:
    wanted = os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"
    if wanted and not checkpoints.is_sharded(accelerator):  # accelerate ignores it silently.
        raise errors.InvalidInputError(
            "FSDP needs several GPUs; this run has "
            f"{accelerator.num_processes} process(es) on {accelerator.device.type}. Launch it "
            "without FSDP."
        )
    if checkpoints.is_sharded(accelerator) and accelerator.state.fsdp_plugin.fsdp_version != 2:
        raise errors.InvalidInputError(
            "fsdp_version is 1, which flattens all weights into one vector, so weight_decay could "
            "not skip biases. Set fsdp_version: 2 in accelerate's configuration."
        )


_LOGGER = logging.getLogger(__name__)

_FAR = 0.5
"""Mean log-probability mismatch per token that staleness alone does not explain."""
_PROXIMAL = "proximal.npy"
"""File of log-probabilities under the starting weights, in sample order: float32."""

# Batches prefetched while the model computes, and throughput.

_AHEAD = 2


def batches_ahead(
    steps: Iterable[Step], rank: int, make: Callable[[MicroBatch], Batch], *, ahead: int = _AHEAD
) -> Iterator[tuple[Step, list[Batch]]]:
    """Yield each step with one process's passes, prepared some steps ahead in another thread.

    Args:
        steps: The steps.
        rank: The process.
        make: Makes a batch.
        ahead: How many steps to prepare ahead; 0 uses no thread.
    """

    def make_batches(step: Step) -> tuple[Step, list[Batch]]:
        return step, [make(planned) for planned in step.ranks[rank]]

    if not ahead:
        yield from map(make_batches, steps)
        return
    with concurrent.futures.ThreadPoolExecutor(1, "webtraj-batches") as pool:
        made: collections.deque[concurrent.futures.Future[tuple[Step, list[Batch]]]]
        made = collections.deque()
        for step in steps:
            made.append(pool.submit(make_batches, step))
            if len(made) > ahead:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()


class Meter:
    """A meter of throughput since the last reading."""

    def __init__(self) -> None:
        self._tokens = 0
        self._start = time.perf_counter()

    def count(self, batches: Iterable[Batch]) -> None:
        """Count the tokens of computed batches."""
        self._tokens += sum(batch.num_tokens for batch in batches)

    def read(self) -> dict[str, float]:
        """Return tokens per second since the last reading, and the GPU's peak memory."""
        import torch

        now = time.perf_counter()
        read = {"tokens_per_second": round(self._tokens / (now - self._start), 1)}
        if torch.cuda.is_available():
            read["peak_memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 3)
        self._tokens, self._start = 0, now
        return read


@dataclasses.dataclass(frozen=True, slots=True)
class TrainResult:
    """The result of a training run."""

    steps: int
    """Steps done."""
    planned: int
    """Steps planned."""
    resumed_from: int
    """The step this run resumed from; 0 for a new run. If equal to `planned`, nothing was left."""
    loss: float | None
    """The loss of the last step; None if this call made no step."""
    eval_loss: float | None
    """The loss of the last evaluation; None if this call made none."""
    checkpoint: Path
    """The folder of the last checkpoint."""
    data: DataReport
    """The account of the samples."""

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.steps == self.planned


def train(
    settings: SftSettings,
    samples: Iterable[Sample],
    *,
    eval_samples: Iterable[Sample] = (),
    observer: TrainObserver | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> TrainResult:
    """Train a model on samples.

    The loss of a step is the weighted mean negative log-likelihood of all its trained tokens,
    independent of their distribution over passes and devices.

    A run in `settings.out` resumes from its latest checkpoint. On CPUs its weights end up
    bit-identical to those of an uninterrupted run.

    Args:
        settings: The run's settings.
        samples: The samples to train on. A sequence is read lazily.
        eval_samples: Samples to evaluate on.
        observer: Receives progress.
        stopped: Called after every step. If it returns True, the run saves a checkpoint and stops.

    Raises:
        InvalidInputError: The model, a sample or a setting is wrong; `out` holds a run with
            other data or settings; or FSDP is configured in an unsupported way.
        TrainingError: There is nothing to train on.
        NonFiniteLossError: The loss of some samples is not finite. The message names them.
        MissingDependencyError: PyTorch, transformers or accelerate is not installed.
    """
    tools = load_tools(settings.model, image_backend=settings.image_backend)
    return _Run(settings, tools, samples, eval_samples, observer or NullTrainObserver()).run(
        stopped
    )


class _Run:
    def __init__(
        self,
        settings: SftSettings,
        tools: ModelTools,
        samples: Iterable[Sample],
        eval_samples: Iterable[Sample],
        observer: TrainObserver,
    ) -> None:
        models.check_packing(settings, tools)
        self._settings = settings
        self._tools = tools
        self._observer = observer
        self._output = Path(settings.out)
        self._accelerator = make_accelerator(settings)
        encoder = Encoder(
            tools,
            loss_on=settings.loss_on,
            token_ids=settings.token_ids,
            template_options=settings.template_options,
        )
        self._data = TrainingData(samples, encoder, settings)
        self._eval_data = TrainingData(
            eval_samples, encoder, settings.model_copy(update={"policy": None})
        )
        self._policy = None
        if settings.policy is not None:
            found = {"temperature": self._data.temperature}
            self._policy = PolicyGradient(settings.policy.model_copy(update=found))
        self._masked = settings.attention != "flash_attention_2"
        world = self._accelerator.num_processes
        self._plan = Plan(
            self._data.lengths,
            batch_size=settings.batch_size,
            accumulation=settings.accumulation,
            world=world,
            row_length=settings.cutoff_len if settings.packing else None,
            epochs=settings.epochs,
            max_steps=settings.max_steps,
            seed=settings.seed,
        )
        report = self._data.report
        if not self._plan.num_steps and settings.no_samples == "refuse":
            raise TrainingError(
                f"Nothing to train on: of {report.given} samples, {report.no_weight} have "
                f"weight 0, {report.too_long} are too long, and {report.misfits} have pictures "
                "that do not fit their token ids."
                + (
                    f" {report.no_spread} are in groups whose attempts all got the same reward or "
                    f"all failed, {report.unscored} have no reward, and {report.stale} are too "
                    "old. Play more attempts, or keep the weights with no_samples=keep."
                    if settings.policy is not None
                    else ""
                )
            )
        self._state = {
            "settings": settings.what_matters(),
            "data": report.digest,
            "world": world,
            "base": digest_of_base(settings.model),
            "dtype": str(getattr(tools.config, "dtype", None) or "float32").rpartition(".")[2],
            "planned": self._plan.num_steps,
        }

    def run(self, stopped: Callable[[], bool]) -> TrainResult:
        import torch

        checkpoint = self._latest()
        start = 0 if checkpoint is None else checkpoint.step
        if checkpoint is not None and start >= self._plan.num_steps:
            return self._result(start, start, None, None)
        torch.manual_seed(self._settings.seed)
        model = models.load_model(
            self._settings,
            self._tools,
            checkpoint=None if checkpoint is None else checkpoint.model,
        )
        model, optimizer = self._accelerator.prepare(model, make_optimizer(model, self._settings))
        torch.manual_seed(self._settings.seed + self._accelerator.process_index)
        if checkpoint is not None:
            checkpoints.load_progress(
                checkpoint, accelerator=self._accelerator, model=model, optimizer=optimizer
            )
        log = None
        if self._accelerator.is_main_process:
            files.make_folder(self._output)
        policy = self._settings.policy
        if policy is not None and policy.proximal and self._plan.num_steps:
            self._data.set_proximal(self._proximal(model, fresh=checkpoint is None))
        if self._accelerator.is_main_process:
            log = TrainLog(self._settings, start, self._observer)
            self._observer.training_begins(
                self._data.report, start=start, total=self._plan.num_steps
            )
            if policy is not None and not start:
                log.write({"step": 0, **_describe_groups(self._data.report)})
        if not self._plan.num_steps:
            self._save(model, optimizer, 0)
        try:
            with models.attention_for_changing_shapes():
                return self._loop(model, optimizer, start, log, stopped)
        finally:
            if log is not None:
                log.close()

    def _latest(self) -> checkpoints.Checkpoint | None:
        checkpoint = checkpoints.find_latest(self._output)
        if checkpoint is None:
            return None
        if not self._settings.resume:
            raise errors.InvalidInputError(
                f"{str(self._output)!r} already holds a run. Choose a new folder, or set resume."
            )
        if self._settings.method == "lora":
            check_base(self._settings.model, checkpoint.state["base"])
        was, now = checkpoint.state, self._state
        if was["settings"] != now["settings"]:
            other = [
                key for key, value in now["settings"].items() if was["settings"].get(key) != value
            ]
            why = f"with other settings: {', '.join(sorted(other))}"
        elif was["data"] != now["data"]:
            why = "with other samples"
        elif was["world"] != now["world"]:
            why = f"with {was['world']} processes, and now there are {now['world']}"
        else:
            return checkpoint
        raise errors.InvalidInputError(
            f"{str(self._output)!r} holds a run {why}. Use what it started with, or choose "
            "a new folder."
        )

    def _loop(
        self,
        model: Any,
        optimizer: Any,
        start: int,
        log: TrainLog | None,
        stopped: Callable[[], bool],
    ) -> TrainResult:
        settings = self._settings
        loss = eval_loss = None
        saved = start
        meter = Meter()
        number = start
        fed = batches_ahead(
            self._plan.steps(start),
            self._accelerator.process_index,
            self._batch,
            # On a CPU, another thread only takes time from the model's.
            ahead=0 if self._accelerator.device.type == "cpu" else _AHEAD,
        )
        for number, (step, batches) in enumerate(fed, start + 1):
            rate = learning_rate(settings, number, self._plan.num_steps)
            loss, norm, reported = make_step(
                self._accelerator,
                model,
                optimizer,
                batches,
                mass=self._data.mass(step.samples),
                rate=rate,
                max_grad_norm=settings.max_grad_norm,
                policy=self._policy,
            )
            if number == 1 and reported.get("policy_mismatch", 0.0) > _FAR:
                _LOGGER.warning(
                    "The recorded log-probabilities differ from the model's by %.2f per token on "
                    "average. Replies were probably sampled from other weights, at another "
                    "temperature than policy.temperature=%g, or under a grammar (enforce_actions).",
                    reported["policy_mismatch"],
                    self._data.temperature,
                )
            meter.count(batches)
            last = number == self._plan.num_steps
            end = last or self._anyone(stopped())
            entry = {
                "step": number, "epoch": step.epoch, "loss": loss, "lr": rate, "grad_norm": norm,
                **reported,
            }  # fmt: skip
            first = number == 1 and self._policy is not None  # Its mismatch is that of serving.
            if log is not None and (end or first or number % settings.log_steps == 0):
                log.write(entry | meter.read())
            if self._eval_data.report.used and (last or _due(number, settings.eval_steps)):
                shares = self._shares(self._eval_data)
                measured = evaluate(self._accelerator, model, (batch for _, batch in shares))
                eval_loss = measured["eval_loss"]
                if log is not None:
                    log.write({"step": number, **measured})
            if end or _due(number, settings.save_steps):
                self._save(model, optimizer, number)
                saved = number
            if end:
                break
        return self._result(saved, start, loss, eval_loss)

    def _proximal(self, model: Any, *, fresh: bool) -> list[npt.NDArray[np.float32]]:
        """Return the log-probabilities under the starting weights, from disk in a resumed run."""
        path = self._output / _PROXIMAL
        if fresh:
            accelerator, temperature = self._accelerator, self._data.temperature
            shares = self._shares(self._data)
            found = compute_sampled_logprobs(accelerator, model, shares, temperature=temperature)
            if accelerator.is_main_process:
                written = io.BytesIO()
                np.save(written, np.concatenate(found))
                files.write_atomically(path, written.getvalue())
            return found
        values = np.load(path, allow_pickle=False)
        return np.split(values, np.cumsum(self._data.trained_tokens)[:-1])

    def _batch(self, planned: MicroBatch) -> Batch:
        return self._data.batch(planned, masked=self._masked)

    def _shares(self, data: TrainingData) -> Iterator[tuple[MicroBatch, Batch]]:
        """Yield this process's share of all samples of some data, in order."""
        ours = self._accelerator
        size = self._settings.batch_size
        for share in data.in_order(size, ours.num_processes, ours.process_index):
            yield share, data.batch(share, masked=self._masked)

    def _save(self, model: Any, optimizer: Any, step: int) -> None:
        try:
            checkpoints.save_checkpoint(
                self._output,
                {"step": step, **self._state},
                accelerator=self._accelerator,
                model=model,
                optimizer=optimizer,
                tools=self._tools,
                keep=self._settings.keep_checkpoints,
            )
        except OSError as error:
            raise errors.StorageError(
                f"Cannot write the checkpoint of step {step} to {str(self._output)!r}: {error}. "
                "The previous one is intact. Free some space, then resume the run."
            ) from error

    def _anyone(self, stopped: bool) -> bool:
        """Return whether any process should stop, so that all stop at the same step."""
        if self._accelerator.num_processes == 1:
            return stopped
        import torch

        told = torch.tensor([int(stopped)], device=self._accelerator.device)
        return bool(self._accelerator.reduce(told, reduction="sum"))

    def _result(
        self, steps: int, start: int, loss: float | None, eval_loss: float | None
    ) -> TrainResult:
        path = self._output / f"checkpoint-{steps}"
        return TrainResult(
            steps, self._plan.num_steps, start, loss, eval_loss, path, self._data.report
        )


def _describe_groups(report: DataReport) -> dict[str, Any]:
    """Return the account of the groups, for the log."""
    values = {
        "groups": report.groups, "groups_kept": report.groups_kept, "reward": report.reward,
        "staleness": report.staleness, "no_spread": report.no_spread, "unscored": report.unscored,
        "stale": report.stale,
    }  # fmt: skip
    return {f"policy_{name}": value for name, value in values.items() if value is not None}


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
