"""`webtraj serve`: serve a model with vLLM, and restart it if it dies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj import errors
from webtraj.cli import signals
from webtraj.cli.options import Port

if TYPE_CHECKING:
    from webtraj.serving import ModelServer

__all__ = ["serve"]


def serve(
    model: Annotated[
        str, typer.Argument(help="A model's folder, or its name on the Hugging Face Hub.")
    ],
    extra: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VLLM OPTION",
            help="vLLM's own options, passed on as they are, such as --max-model-len 8192.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="The model's name in requests.")] = "",
    weights_version: Annotated[
        str,
        typer.Option(help="The version of the weights to record; vLLM reports `default`."),
    ] = "",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Port = 0,
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
    from webtraj.serving import ModelServer, RestartPolicy, VllmLaunch, interpreters

    if model.startswith("-"):
        raise errors.InvalidInputError(
            f"{model!r:.100} stands where the model should. Give the model first, then vLLM's "
            f"options: webtraj serve MODEL {model:.100} ..."
        )
    _publish_first(Path(model))
    if install and interpreters.find_python(interpreters.VLLM, python) is None:
        python = str(interpreters.install_vllm())
    launch = VllmLaunch(
        model=model,
        name=name,
        version=weights_version,
        python=python,
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
        elif run := checkpoints.find_unfinished(model.parent, model.name):
            print(f"Not serving the training in {run}: it has not finished.", flush=True)


async def _serve(server: ModelServer) -> None:
    async with server:
        print(f"Serving {server.model} at {server.base_url} (log: {server.log_file})", flush=True)
        await server.wait()
