"""`webtraj gateway`: record the model calls of any agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj.cli import signals
from webtraj.cli.options import Port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webtraj.gateway import Gateway

__all__ = ["BaseUrls", "Journal", "addresses", "base_urls", "gateway"]

BaseUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url",
        help="The model's server: a URL for all APIs, or API=URL for openai, responses or "
        "anthropic; default: the vendors'. Repeatable.",
    ),
]
Journal = Annotated[Path, typer.Option(help="The file to append model calls to.")]


def gateway(
    journal: Journal = Path("runs/calls.jsonl"),
    base_url: BaseUrls = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Port = 0,
) -> None:
    """Forward agents' model calls to their servers and record each one, until Ctrl-C.

    Print the environment variables that point agents here. Agents keep their own API keys, which
    are forwarded and never recorded.
    """
    from webtraj.gateway import Gateway

    signals.run(_serve(Gateway(journal, base_urls=base_urls(base_url), host=host, port=port)))


async def _serve(gateway: Gateway) -> None:
    import asyncio

    async with gateway:
        print(addresses(gateway), flush=True)
        await asyncio.Event().wait()


def addresses(gateway: Gateway) -> str:
    """Return the shell commands that point an agent at a gateway."""
    return (
        f"export OPENAI_BASE_URL={gateway.openai_url()}\n"
        f"export ANTHROPIC_BASE_URL={gateway.anthropic_url()}"
    )


def base_urls(given: Sequence[str] | None) -> dict[str, str] | None:
    """Return the URL of each API from `--base-url`. A URL without an API counts for the rest."""
    from webtraj.gateway.dialects import DIALECTS

    named: dict[str, str] = {}
    for text in given or ():
        api, is_named, url = text.partition("=")
        if is_named and "/" not in api:
            named[api] = url
        else:
            named = dict.fromkeys(DIALECTS.values(), text) | named
    return named or None
