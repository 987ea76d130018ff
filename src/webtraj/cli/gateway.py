"""`webtraj gateway`: record the model calls of any agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj.cli import signals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webtraj.gateway import Gateway

__all__ = ["BaseUrls", "Journal", "addresses", "base_urls", "gateway"]

BaseUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url",
        help="Where model calls go: a URL for all APIs, or API=URL for openai, responses or "
        "anthropic; repeat for several. By default, to the vendors.",
    ),
]


Journal = Annotated[Path, typer.Option(help="The file to append model calls to.")]


def gateway(
    journal: Journal = Path("runs/calls.jsonl"),
    base_url: BaseUrls = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for a free one.")] = 0,
) -> None:
    """Forward model calls of agents to their servers, and record each, until Ctrl-C.

    Print the environment variables that lead agents here. They keep their own API keys, which are
    passed on and never recorded.
    """
    from webtraj.gateway import Gateway

    signals.run(_serve(Gateway(journal, base_urls=base_urls(base_url), host=host, port=port)))


async def _serve(gateway: Gateway) -> None:
    import asyncio

    async with gateway:
        print(addresses(gateway), flush=True)
        await asyncio.Event().wait()


def addresses(gateway: Gateway) -> str:
    """Return the lines that set the environment of an agent in a shell."""
    return (
        f"export OPENAI_BASE_URL={gateway.openai_url()}\n"
        f"export ANTHROPIC_BASE_URL={gateway.anthropic_url()}"
    )


def base_urls(given: Sequence[str] | None) -> dict[str, str] | None:
    """Return the URL of each API from `--base-url`. One without an API is for all the others."""
    from webtraj.gateway.dialects import DIALECTS

    named: dict[str, str] = {}
    for text in given or ():
        api, is_named, url = text.partition("=")
        if is_named and "/" not in api:
            named[api] = url
        else:
            named = dict.fromkeys(DIALECTS.values(), text) | named
    return named or None
