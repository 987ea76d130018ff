"""`webtraj serve`: vLLM for a model, watched over until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from webtraj.serving import ModelServer

__all__ = ["serve"]


def serve(
    model: Annotated[str, typer.Argument(help="A model's folder, or its name on the HF Hub.")],
    extra: Annotated[
        list[str] | None, typer.Argument(help="More arguments for vLLM, after `--`.")
    ] = None,
    name: Annotated[str, typer.Option(help="The model's name in requests.")] = "",
    weights_version: Annotated[
        str, typer.Option(help="What records call the weights; vLLM says `default`.")
    ] = "",
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for one that is free.")] = 0,
    python: Annotated[
        str | None, typer.Option(help="The Python that has vLLM; else one is looked for.")
    ] = None,
    install: Annotated[
        bool,
        typer.Option(
            "--install",
            help="If no Python with vLLM is found, make one for this user first (2.5 GB for CPUs, "
            "more for GPUs).",
        ),
    ] = False,
    tensor_parallel: Annotated[int, typer.Option(help="Devices that share each layer.")] = 1,
    data_parallel: Annotated[int, typer.Option(help="Copies of the model.")] = 1,
    max_model_len: Annotated[
        int | None, typer.Option(help="The most tokens of a prompt and its reply.")
    ] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="The most requests at a time.")] = None,
    gpu_memory_utilization: Annotated[
        float | None, typer.Option(help="The share of each GPU's memory to use.")
    ] = None,
    kv_cache_gib: Annotated[
        float | None, typer.Option(help="GiB for keys and values; worth setting on a CPU.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="The numbers' type.")] = "auto",
    eager: Annotated[bool, typer.Option(help="Start sooner and run slower.")] = False,
    images_per_prompt: Annotated[
        int | None, typer.Option(help="The most images of a prompt.")
    ] = None,
    logprobs_mode: Annotated[
        str, typer.Option(help="What log-probabilities are of.")
    ] = "processed_logprobs",
    structure_backend: Annotated[
        str, typer.Option(help="What holds replies to a form.")
    ] = "guidance",
    lora: Annotated[
        list[str] | None, typer.Option(help="A LoRA adapter, as NAME=FOLDER. Repeatable.")
    ] = None,
    max_lora_rank: Annotated[int | None, typer.Option(help="The adapters' highest rank.")] = None,
    runtime_lora: Annotated[
        bool, typer.Option(help="Let adapters be loaded while it runs; on this machine only.")
    ] = False,
    runtime_lora_exposed: Annotated[
        bool,
        typer.Option(help="Let every machine that reaches it load adapters, with --runtime-lora."),
    ] = False,
    dev_mode: Annotated[
        bool, typer.Option(help="Let weights be replaced while it runs; on this machine only.")
    ] = False,
    sleep_mode: Annotated[
        bool, typer.Option(help="With --dev-mode: let it free a GPU's memory for a while.")
    ] = False,
    log: Annotated[Path | None, typer.Option(help="A file for what vLLM prints.")] = None,
    start_timeout: Annotated[float, typer.Option(help="Seconds that a start may take.")] = 900.0,
    restarts: Annotated[int, typer.Option(help="Restarts in a row before it is given up.")] = 5,
) -> None:
    """Serve a model with vLLM, on GPUs or on the CPU, until Ctrl-C.

    Prints the URL when the server can be used. A server that dies is started again at the same
    URL; if that happens too often, this ends with exit code 1. Nothing of it outlives the command.

    Requests name the model as --name says, by its folder's name, or by its path. To serve
    SAVE_PATH/model.pt, the last training that LLaMA-Factory finished there is published first.
    """
    from webtraj.cli import signals
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

    # Any other folder is not ours to replace.
    trainer = checkpoints.read_about(model).get("trainer")
    ours = model.name == "model.pt" or trainer == "llamafactory"
    if ours and (model.parent / checkpoints.CHECKPOINTS).is_dir():
        if run := checkpoints.publish_finished(model.parent, model.name):
            print(f"Published {run}, a finished training, as {model}.", flush=True)
        elif run := checkpoints.unfinished(model.parent, model.name):
            print(f"The training in {run} has not finished; it is not served.", flush=True)


async def _serve(server: ModelServer) -> None:
    async with server:
        print(f"{server.base_url} serves {server.model}. Its log: {server.log_file}", flush=True)
        await server.wait()


def _one_of(literal: Any, option: str, value: str) -> Any:
    import typing

    from webtraj import errors

    known = typing.get_args(literal)
    if value not in known:
        raise errors.InvalidInputError(f"{option} is {value!r}; give one of {', '.join(known)}.")
    return value


def _name_and_folder(text: str) -> tuple[str, str]:
    from webtraj import errors

    name, separator, folder = text.partition("=")
    if not (name and separator and folder):
        raise errors.InvalidInputError(f"--lora is {text!r}; give it as NAME=FOLDER.")
    return name, folder
