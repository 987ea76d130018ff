"""`webtraj record`: record what a person, or another program, does in a browser."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import signals
from webtraj.cli.gateway import BaseUrls, Journal, addresses, base_urls
from webtraj.cli.options import BucketOptions, options_for
from webtraj.cli.terminal import pluralize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.demonstrating import Progress, Recorded, Recorder
    from webtraj.environments.browser.environment import BrowserEnvironment
    from webtraj.environments.browser.pool import BrowserPool
    from webtraj.gateway import Gateway, Joiner

__all__ = ["record"]

_TASK = "web"
_ONE_OF = "Give one of: a URL, --preset, or --attach."
_WITH_MODELS = "--models needs --attach, and --base-url needs --models."


def record(
    url: Annotated[str | None, typer.Argument(help="The page to begin at.")] = None,
    out: Annotated[
        str, typer.Option(help="The dataset to record to: a folder or bucket URL.")
    ] = "runs/demonstrations",
    goal: Annotated[str, typer.Option(help="The task's goal, to be recorded.")] = "",
    task: Annotated[str, typer.Option(help="The task's name, to be recorded.")] = _TASK,
    preset: Annotated[
        str | None, typer.Option(help="Record a task of a preset, such as miniwob/click-test.")
    ] = None,
    seed: Annotated[int, typer.Option(help="With --preset: the first episode's seed.")] = 0,
    episodes: Annotated[
        int, typer.Option(min=1, help="Episodes to record, one after another.")
    ] = 1,
    attach: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Record a running Chromium, such as http://127.0.0.1:9222, and change nothing in "
            "it.",
        ),
    ] = None,
    models: Annotated[
        bool,
        typer.Option(help="With --attach: also record the model calls behind each step."),
    ] = False,
    base_url: BaseUrls = None,
    journal: Journal = Path("runs/calls.jsonl"),
    policy: Annotated[
        str | None,
        typer.Option(
            help="The policy's name in the records; default: human, or attached with --attach."
        ),
    ] = None,
    redact: Annotated[
        list[str] | None,
        typer.Option(
            help="Also redact: a pattern such as email, or NAME=CSS-SELECTOR. Repeatable."
        ),
    ] = None,
    observe: Annotated[
        list[str] | None, typer.Option(help="A channel to observe. Repeatable.")
    ] = None,
    option: BucketOptions = None,
    headless: Annotated[bool, typer.Option(hidden=True)] = False,
    debugging_port: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Record what you do in a browser, as episodes of a dataset.

    A browser opens at the URL or task. Act in it. A small window has buttons to pause, undo,
    redact, and stop with a verdict; the same keys work in this terminal. Passwords are never
    recorded.

    With --models, the command prints the addresses of a gateway. Point agents at them to record
    each step with the model calls that led to it.
    """
    from webtraj.rollouts.recording import open_collector, settle_format

    if sum(given is not None for given in (url, preset, attach)) != 1:
        raise errors.InvalidInputError(_ONE_OF)
    if (models and attach is None) or (base_url and not models):
        raise errors.InvalidInputError(_WITH_MODELS)
    if preset is not None and (goal or task != _TASK):
        raise errors.InvalidInputError(
            f"The preset {preset!r:.100} has a goal and a name of its own. Leave out --goal and "
            "--task."
        )
    gateway = joiner = None
    if models:
        from webtraj.gateway import Gateway, Joiner

        joiner = Joiner()
        gateway = Gateway(journal, base_urls=base_urls(base_url), observer=joiner.observe)
    options = options_for(out, option)
    written = settle_format(None, out, options)
    recording = _Recording(
        collect=lambda: open_collector(out, options, written),
        preset=preset, url=url, attach=attach, seed=seed, episodes=episodes,
        policy=policy or ("attached" if attach else "human"),
        named={} if preset else {"goal": goal, "name": task},
        seen={"observe": observe, "redaction": _rules(redact)},
        headless=headless, debugging_port=debugging_port,
        gateway=gateway, joiner=joiner,
    )  # fmt: skip
    recorded = signals.run(recording.run(), stop=recording.stop)
    for episode in recorded:
        print(
            f"{episode.episode_id}: {pluralize(episode.steps, 'step')}, "
            f"{episode.outcome.name.lower()}, reward {episode.reward:g}"
        )
    print(f"Recorded in {out}. To look at it: {errors.command('view', out)}")


@dataclasses.dataclass(kw_only=True)
class _Recording:
    """One run of the command."""

    collect: Callable[[], TrajectoryCollector]
    preset: str | None
    url: str | None
    attach: str | None
    seed: int
    episodes: int
    policy: str
    named: Mapping[str, Any]
    """The goal and name of a task that is not a preset's."""
    seen: Mapping[str, Any]
    """What to observe and to redact."""
    headless: bool
    debugging_port: int | None
    gateway: Gateway | None
    """Records the model calls of agents."""
    joiner: Joiner | None
    """Finds the model calls behind each step."""
    _recorder: Recorder | None = None
    _paused: bool = False

    async def run(self) -> list[Recorded]:
        """Record the episodes, and close everything."""
        import asyncio

        from webtraj.collectors.base import aclose
        from webtraj.demonstrating import bar as bar_lib
        from webtraj.demonstrating.recorder import Recorder

        environment, pool = self._make_environment()
        collector = self.collect()
        bar = None if self.attach else bar_lib.Bar(pool, lambda: recorder)
        recorder = self._recorder = Recorder(
            environment,
            collector,
            policy=self.policy,
            metadata={"source": "attach" if self.attach else "record"},
            decisions=self.joiner,
            on_progress=lambda progress: self._show(progress, bar),
        )
        recorded: list[Recorded] = []
        stack = contextlib.AsyncExitStack()
        try:
            if bar is not None:
                await bar.open()
            if self.gateway is not None:
                await stack.enter_async_context(self.gateway)
                printing = asyncio.ensure_future(_print_addresses(self.gateway, recorder))
                stack.callback(printing.cancel)
            with bar_lib.terminal_keys(self._on_key) as has_keys:
                if has_keys:
                    for key, (_, does) in bar_lib.KEYS.items():
                        print(f"  {key}  {does}")
                for _ in range(self.episodes):
                    recorded.append(await recorder.record_episode())
                    if recorded[-1].stopped:
                        break
        finally:
            if bar is not None:
                await bar.close()
            await stack.aclose()
            await recorder.close()
            await pool.close()
            await aclose(collector)
        return recorded

    def stop(self) -> bool:
        """Stop the episode and the series, as `q` does; return whether there is an episode."""
        if self._recorder is None or not self._recorder.is_recording:
            return False
        self._recorder.stop()
        return True

    def _make_environment(self) -> tuple[BrowserEnvironment, BrowserPool]:
        from webtraj import demonstrating

        if self.attach is not None:
            return demonstrating.borrow_environment(self.attach, **self.named, **self.seen)
        port = self.debugging_port
        arguments = () if port is None else (f"--remote-debugging-port={port}",)
        pool = demonstrating.make_headed_pool(arguments=arguments, headless=self.headless)
        if self.preset is not None:
            made = demonstrating.preset_environment(
                self.preset, pool=pool, seed=self.seed, **self.seen
            )
        else:
            assert self.url is not None
            made = demonstrating.page_environment(self.url, pool=pool, **self.named, **self.seen)
        return made, pool

    def _show(self, progress: Progress, bar: Any) -> None:
        self._paused = progress.paused
        if bar is not None:
            bar.show(progress)
        if progress.notice:
            print(progress.notice, flush=True)

    def _on_key(self, key: str) -> None:
        from webtraj.demonstrating import bar as bar_lib

        if key in bar_lib.KEYS and self._recorder is not None:
            bar_lib.obey(self._recorder, bar_lib.KEYS[key][0], paused=self._paused)


async def _print_addresses(gateway: Gateway, recorder: Recorder) -> None:
    """Print the gateway's addresses once the recorder records."""
    await recorder.wait_until_begun()
    print(addresses(gateway), flush=True)


def _rules(given: Sequence[str] | None) -> Any:
    """Return redaction rules from `--redact`: names of kinds, and selectors with a name."""
    if not given:
        return None
    from webtraj.redaction import RedactionRules

    selectors = dict(text.split("=", 1) for text in given if "=" in text)
    patterns = [text for text in given if "=" not in text]
    return RedactionRules(patterns=patterns, selectors=selectors)
