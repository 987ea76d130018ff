"""Serve the browser's verbs to an MCP client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import signals
from webtraj.cli.options import (
    BucketOptions,
    Host,
    Imports,
    MaxSteps,
    PolicyName,
    Port,
    PresetOptions,
    import_now,
    read_settings,
    storage_options,
)

if TYPE_CHECKING:
    from webtraj_integrations.mcp import BrowserTools
    from webtraj_integrations.sessions import Sessions

__all__ = ["mcp"]


def mcp(
    preset: Annotated[
        list[str] | None,
        typer.Option(
            help="Tasks, each with a goal and a reward: miniwob/click-test, miniwob/all; may be "
            "repeated. Without one, a session is free to browse."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where sessions without a preset start; allowed there."),
    ] = None,
    goal: Annotated[
        str, typer.Option(help="The goal of sessions without a preset; else the client gives it.")
    ] = "",
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Allow only such pages: example.com, *.example.com, http://localhost:8000. "
            "Default: the public web, nothing private. Repeatable.",
        ),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Deny such pages, even if allowed. Repeatable."),
    ] = None,
    uploads: Annotated[
        Path | None, typer.Option(help="Allow uploads from this folder, and offer a tool for it.")
    ] = None,
    settle: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=10,
            help="Seconds without a request after which a page without a preset has settled; "
            "less is faster and may miss late content. Default: 0.35, or 0.6 after typing.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="Record every session there: a folder, or a bucket's URL."),
    ] = None,
    pictures: Annotated[
        bool, typer.Option(help="Record a picture of every step, if anything is recorded.")
    ] = True,
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP, instead of standard input.")
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = 8931,
    sessions: Annotated[
        int, typer.Option(min=1, help="The most sessions at a time, each with its own page.")
    ] = 4,
    session_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds of silence after which a session is closed.")
    ] = 1800.0,
    page_tokens: Annotated[
        int, typer.Option(min=100, help="The most tokens of a page's text in a result.")
    ] = 20_000,
    max_steps: MaxSteps = None,
    seed: Annotated[int, typer.Option(help="The base seed of sessions that give none.")] = 0,
    policy: PolicyName = "",
    options: PresetOptions = None,
    option: BucketOptions = None,
    imports: Imports = None,
) -> None:
    """Serve the browser's verbs to an MCP client, and record every session as an episode.

    Over standard input and output, until the client closes them; with --http, until Ctrl-C.
    """
    import_now(imports)
    from webtraj.net.local_pages import listen
    from webtraj_integrations import mcp as mcp_lib
    from webtraj_integrations.sessions import Sessions

    free: dict[str, Any] = {"--start": start, "--goal": goal or None, "--allow": allow}
    free |= {"--deny": deny, "--uploads": uploads, "--settle": settle}
    misplaced = [name for name, value in free.items() if value is not None] if preset else []
    if misplaced:
        raise errors.InvalidInputError(
            f"{misplaced[0]} is for sessions without a preset; the task of a preset decides that. "
            f"Leave out {misplaced[0]} or --preset."
        )
    settings = read_settings(options)
    start_url = start or "about:blank"
    shared = Sessions(
        preset or [mcp_lib.free_task(start_url, goal)],
        sessions=sessions,
        out=out,
        context=mcp_lib.CONTEXT,
        max_steps=max_steps,
        seed=seed,
        policy=policy,
        options={
            "observe": mcp_lib.make_observe(pictures=pictures and out is not None),
            **({} if preset else mcp_lib.free_access(allow, deny, uploads, settle)),
            **settings,
        },
        storage_options=storage_options(option),
    )
    tools = mcp_lib.BrowserTools(
        shared,
        shared=http,
        session_timeout=session_timeout,
        page_tokens=page_tokens,
        uploads=uploads is not None,
    )
    if http:
        listen("The MCP server", host, port).close()  # Fails before a dataset is made.
    signals.run(_serve_http(shared, tools, host, port) if http else _serve_stdio(shared, tools))


async def _serve_stdio(sessions: Sessions, tools: BrowserTools) -> None:
    from webtraj_integrations import mcp as mcp_lib

    async with sessions, tools:
        await mcp_lib.serve_stdio(tools)


async def _serve_http(sessions: Sessions, tools: BrowserTools, host: str, port: int) -> None:
    import asyncio

    from webtraj_integrations import mcp as mcp_lib

    async with sessions, tools, mcp_lib.serving_http(tools, host=host, port=port) as url:
        print(
            f"{sessions.size} sessions at a time at {url} (Ctrl-C ends it)",
            flush=True,
        )
        await asyncio.Event().wait()
