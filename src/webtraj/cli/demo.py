"""`webtraj demo`: from an installed package to a played episode on the screen."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj import errors

if TYPE_CHECKING:
    from webtraj.rollouts.rollout import Rollout

__all__ = ["demo"]

TASKS = (
    "click-button",
    "click-checkboxes",
    "click-tab-2",
    "login-user",
    "email-inbox",
    "use-autocomplete",
)
AGENTS = ("random", "oracle")
"""In the order in which they play: the viewer shows the latest episodes first."""
EPISODES = 24
"""Episodes of each agent, on all tasks together."""

_SELECTORS = [f"miniwob/{task}" for task in TASKS]


def demo(
    out: Annotated[str, typer.Option(help="The folder of the dataset.")] = "runs/demo",
    view: Annotated[
        bool | None,
        typer.Option(
            "--view/--no-view", help="Open the viewer at the end; by default in a terminal."
        ),
    ] = None,
) -> None:
    """Play real web pages, record every episode and show them in the viewer.

    Two agents play six MiniWoB++ tasks in a headless browser: one that clicks at random, and the
    oracle, which knows the answers. No account, model or network is needed. A demo that was
    interrupted continues; one that is complete is only shown.
    """
    from webtraj.cli import rollout_run
    from webtraj.cli.view import view as show

    rates = []
    for number, (agent, built) in enumerate(_rollouts(out).items(), 1):
        print(f"{number}. The {agent} agent plays {len(TASKS)} tasks.", flush=True)
        continue_by = errors.command("demo", "--out", out)
        total = rollout_run.play(built, None, continue_by).total
        tried = total.successes + total.failures
        rate = "-" if total.success_rate is None else f"{total.success_rate:.0%}"
        rates.append(f"{agent} {rate} ({total.successes} of {tried})")
        print()
    print(f"Success rate: {', '.join(rates)}.")
    quoted = shlex.quote(out)
    print(f"Every step is recorded in {out}. To list and read the episodes:")
    print(f"    webtraj ls {quoted}")
    print(f"    webtraj show {quoted}", flush=True)
    if view is None:
        view = sys.stdin.isatty() and sys.stdout.isatty()
    if view:
        show([out])
    else:
        print(f"To look at them in your browser:\n    webtraj view {quoted}")


def _rollouts(out: str) -> dict[str, Rollout]:
    """Return each agent's rollout: a new one, or the one begun in `out` by an earlier demo.

    Raises:
        InvalidInputError: The folder holds something else.
    """
    from webtraj.rollouts.configuration.builder import build_rollout, resume_run
    from webtraj.runs.run import Run
    from webtraj.runs.spec import RunSpec
    from webtraj.store.places import open_storage

    storage = open_storage(out)
    keys = [entry.key for entry in storage.list("")]
    begun: dict[str, str] = {}
    for run_id in sorted({key.split("/")[1] for key in keys if key.startswith("runs/")}):
        values = Run(storage, run_id).read_settings()
        if values.get("preset") == _SELECTORS and values.get("agent") in AGENTS:
            begun[values["agent"]] = run_id
    if keys and not begun:
        raise errors.InvalidInputError(
            f"{out!r} holds something other than a demo. Choose another folder with --out, or "
            "delete this one."
        )
    return {
        agent: resume_run({}, out=out, run_id=begun[agent])
        if agent in begun
        else build_rollout(
            RunSpec(preset=_SELECTORS, agent=agent, episodes=EPISODES, parallel=4, out=out)
        )
        for agent in AGENTS
    }
