"""`webtraj serve`: serve a model with vLLM, and restart it if it dies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import signals

if TYPE_CHECKING:
    from webtraj.serving import ModelServer

__all__ = ["serve"]


def serve(
    model: Annotated[
        str, typer.Argument(help="A model's folder, or its name on the Hugging Face Hub.")
    ],
    extra: Annotated[
        list[str] | None, typer.Argument(help="More arguments for vLLM, after `--`.")
    ] = None,
    name: Annotated[str, typer.Option(help="The model's name in requests.")] = "",
    weights_version: Annotated[
        str,
        typer.Option(help="The version of the weights to record; vLLM reports `default`."),
    ] = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for a free one.")] = 0,
    python: Annotated[
        str | None,
        typer.Option(help="The Python that has vLLM installed; default: search for one."),
    ] = None,
    install: Annotated[
        bool,
        typer.Option(
            "--install",
            help="If no Python with vLLM is found, install one for this user first (2.5 GB for "
            "CPUs, more for GPUs).",
        ),
    ] = False,
    tensor_parallel: Annotated[int, typer.Option(help="Devices to split each layer over.")] = 1,
    data_parallel: Annotated[int, typer.Option(help="Copies of the model.")] = 1,
    max_model_len: Annotated[
        int | None, typer.Option(help="The maximum number of tokens of a prompt and its reply.")
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(help="The maximum number of requests at a time.")
    ] = None,
    gpu_memory_utilization: Annotated[
        float | None, typer.Option(help="The share of each GPU's memory to use.")
    ] = None,
    kv_cache_gib: Annotated[
        float | None, typer.Option(help="The KV cache's size in GiB; worth setting on a CPU.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="The data type of the weights.")] = "auto",
    eager: Annotated[bool, typer.Option(help="Start faster, but run slower.")] = False,
    images_per_prompt: Annotated[
        int | None, typer.Option(help="The maximum number of images per prompt.")
    ] = None,
    logprobs_mode: Annotated[
        str, typer.Option(help="Which log-probabilities vLLM returns.")
    ] = "processed_logprobs",
    structure_backend: Annotated[
        str, typer.Option(help="The backend for structured output.")
    ] = "guidance",
    lora: Annotated[
        list[str] | None, typer.Option(help="A LoRA adapter, as NAME=FOLDER. Repeatable.")
    ] = None,
    max_lora_rank: Annotated[
        int | None, typer.Option(help="The highest rank of the adapters.")
    ] = None,
    runtime_lora: Annotated[
        bool, typer.Option(help="Allow loading adapters at run time, from this machine only.")
    ] = False,
    runtime_lora_exposed: Annotated[
        bool,
        typer.Option(help="With --runtime-lora: allow it from every machine with access."),
    ] = False,
    dev_mode: Annotated[
        bool, typer.Option(help="Allow replacing weights at run time, from this machine only.")
    ] = False,
    sleep_mode: Annotated[
        bool, typer.Option(help="With --dev-mode: allow freeing the GPU's memory temporarily.")
    ] = False,
    log: Annotated[Path | None, typer.Option(help="The file for vLLM's output.")] = None,
    start_timeout: Annotated[
        float, typer.Option(help="Seconds to wait for the server to start.")
    ] = 900.0,
    restarts: Annotated[int, typer.Option(help="Restarts in a row before giving up.")] = 5,
) -> None:
    """Serve a model with vLLM, on GPUs or on the CPU, until Ctrl-C.

    Print the URL when the server is ready. If the server dies, restart it at the same URL; after
    too many restarts, exit with 1. No process outlives the command.

    Requests name the model by --name, its folder's name, or its path. When serving
    SAVE_PATH/model.pt, the last finished LLaMA-Factory training there is published first.
    """
    from webtraj.serving import ModelServer, RestartPolicy, VllmLaunch, interpreters, vllm

    _publish_first(Path(model))
    if install and interpreters.find_python(interpreters.VLLM, python) is None:
        python = str(interpreters.install_vllm())
    launch = VllmLaunch(
        model=model,
        name=name,
        version=weights_version,
        python=python,
        tensor_parallel=tensor_parallel,
        data_parallel=data_parallel,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        gpu_memory_utilization=gpu_memory_utilization,
        kv_cache_gib=kv_cache_gib,
        dtype=dtype,
        enforce_eager=eager,
        images_per_prompt=images_per_prompt,
        logprobs_mode=_one_of(vllm.LogprobsMode, "--logprobs-mode", logprobs_mode),
        structure_backend=_one_of(vllm.StructureBackend, "--structure-backend", structure_backend),
        lora=dict(map(_name_and_folder, lora or ())),
        max_lora_rank=max_lora_rank,
        runtime_lora=runtime_lora,
        runtime_lora_exposed=runtime_lora_exposed,
        dev_mode=dev_mode,
        sleep_mode=sleep_mode,
        extra_args=tuple(extra or ()),
    )
    server = ModelServer(
        launch,
        host=host,
        port=port,
        log_file=log,
        start_timeout=start_timeout,
        restarts=RestartPolicy(limit=restarts),
    )
    signals.run(_serve(server))


def _publish_first(model: Path) -> None:
    from webtraj.training.llamafactory import checkpoints

    # Never replace a folder that this project did not write.
    trainer = checkpoints.read_about(model).get("trainer")
    ours = model.name == "model.pt" or trainer == "llamafactory"
    if ours and (model.parent / checkpoints.CHECKPOINTS).is_dir():
        if run := checkpoints.publish_finished(model.parent, model.name):
            print(f"Published {run}, a finished training, as {model}.", flush=True)
        elif run := checkpoints.unfinished(model.parent, model.name):
            print(f"Not serving the training in {run}: it has not finished.", flush=True)


async def _serve(server: ModelServer) -> None:
    async with server:
        print(f"Serving {server.model} at {server.base_url} (log: {server.log_file})", flush=True)
        await server.wait()


def _one_of(literal: Any, option: str, value: str) -> Any:
    import typing

    known = typing.get_args(literal)
    if value not in known:
        raise errors.InvalidInputError(
            f"{option} got {value!r}; expected one of {', '.join(known)}."
        )
    return value


def _name_and_folder(text: str) -> tuple[str, str]:
    name, separator, folder = text.partition("=")
    if not (name and separator and folder):
        raise errors.InvalidInputError(f"--lora got {text!r}; expected NAME=FOLDER.")
    return name, folder
