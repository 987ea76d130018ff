"""Check templates: the oracle succeeds, and no trick does."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from webtraj import errors
from webtraj.environments import browser
from webtraj_apps import app as app_lib
from webtraj_apps import environment as environment_lib
from webtraj_apps import tasks as tasks_lib
from webtraj_apps import tricks as tricks_lib

__all__ = ["Checked", "check"]

_SEEDS = 5
"""How many seeds of a template one environment plays."""

_OTHERS = 8
"""How many other seeds are tried for other values."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the checks of one template and seed found."""

    template: str
    seed: int
    steps: int
    """The actions of the oracle, the answer included."""
    goal: str
    tricks: Mapping[str, int]
    """How many attempts of an adversary failed, by trick."""
    problems: tuple[str, ...]
    """What is wrong; empty if nothing is."""


async def check(
    templates: Sequence[str],
    *,
    seeds: Iterable[int] = (0, 1, 2),
    parallel: int = 4,
    quick: bool = False,
    perturbation: str | None = None,
    fault: str | None = None,
    pool: browser.BrowserPool | None = None,
) -> AsyncIterator[Checked]:
    """Check templates on seeds, and yield each result when it is known.

    The oracle must succeed, at the second try at the latest. Every trick of an adversary must fail,
    and so must the oracle of the same template with other values. A goal that wants an answer must
    say what to answer with: "It is 42." is not 42. Tricks are left out under a perturbation or a
    fault, which change nothing about the judge.

    Args:
        templates: The templates' names.
        seeds: The seeds.
        parallel: How many episodes play at once.
        quick: Whether to skip the oracle with other values, which takes half of the time.
        perturbation: Other surroundings (see `BrowserEnvironment`).
        fault: What goes wrong meanwhile, by name (see `Fault.of`).
        pool: The browser pool; None shares one.
    """
    seeds = tuple(seeds)
    # A page's scripts and styles come from the browser's cache from the second seed on.
    waiting = [
        (name, seeds[i : i + _SEEDS])
        for name in reversed(templates)
        for i in reversed(range(0, len(seeds), _SEEDS))
    ]
    results: asyncio.Queue[Checked | None] = asyncio.Queue()

    tricks = perturbation is None and fault is None

    async def work() -> None:
        while waiting:
            name, some = waiting.pop()
            async with environment_lib.AppEnvironment(
                name,
                pool=pool,
                observe=("last_action",),
                perturbation=perturbation,
                fault=fault,
            ) as environment:
                for seed in some:
                    await results.put(await _check_one(environment, name, seed, quick, tricks))

    workers = [asyncio.ensure_future(work()) for _ in range(min(parallel, len(waiting)))]
    ended = asyncio.gather(*workers)
    ended.add_done_callback(lambda _: results.put_nowait(None))
    try:
        while (found := await results.get()) is not None:
            yield found
        await ended
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        if ended.done() and not ended.cancelled():
            ended.exception()  # Retrieve it: whoever leaves early does not want it.


async def _check_one(
    environment: environment_lib.AppEnvironment, name: str, seed: int, quick: bool, tricks: bool
) -> Checked:
    template = tasks_lib.find_template(name)
    assignment = template.begin(seed)
    problems = []
    if assignment.answer is not None and "answer " not in assignment.goal.lower():
        problems.append("the goal does not say what to answer with")
    steps, wrong = await _play(environment, seed)
    if wrong:  # On a busy machine an oracle may act before a page's scripts are ready.
        first = wrong
        steps, wrong = await _play(environment, seed)
        if wrong:
            problems.append(f"the oracle fails twice: {first}; {wrong}")
    failed: collections.Counter[str] = collections.Counter()
    if tricks and not wrong:
        before, after = environment.app_task.before, environment.app_task.after
        solved = tricks_lib.Solved(template, assignment, before, after)
        for trick, attempt in tricks_lib.attempts(solved):
            if solved.wrong(attempt):
                failed[trick] += 1
            else:
                problems.append(f"the trick {trick} succeeds: {attempt.what}")
    if not quick and not assignment.infeasible:
        other = _other(template, seed, assignment)
        if other is not None and not (await _play(environment, seed, other))[1]:
            problems.append(f"the oracle of another goal succeeds: {other.goal}")
    return Checked(
        template=name,
        seed=seed,
        steps=steps,
        goal=assignment.goal,
        tricks=dict(failed),
        problems=tuple(problems),
    )


def _other(
    template: tasks_lib.Template, seed: int, assignment: tasks_lib.Assignment
) -> tasks_lib.Assignment | None:
    """Return an assignment with another goal in the same world, or None."""
    for number in range(1, _OTHERS + 1):
        other = template.begin(seed + number * app_lib.CONTENTS)
        same = other.answer == assignment.answer and not (assignment.expect or other.expect)
        if other.goal != assignment.goal and not same and not other.infeasible:
            return other
    return None


async def _play(
    environment: environment_lib.AppEnvironment,
    seed: int,
    other: tasks_lib.Assignment | None = None,
) -> tuple[int, str]:
    """Play the oracle of a seed, or another assignment's.

    Returns:
        The number of actions, and why it failed, if it did.
    """
    environment.set_seed(seed)
    await environment.reset()
    oracle = other and browser.ScriptedSolution(tasks_lib.solution(other, environment.session))
    steps = 0
    try:
        while action := await (oracle.next_action() if oracle else environment.cheat()):
            timestep = await environment.step(action)
            steps += 1
            if timestep.last():
                return steps, environment.app_task.reason or (
                    "" if timestep.reward else f"it takes more than {steps} actions"
                )
            error = timestep.observation.get("last_action", {}).get("error")
            if error:
                return steps, f"action {steps}, {action}: {error}"
    except errors.WebtrajError as error:
        return steps, f"after {steps} actions: {error}"
    return steps, "it ends without an answer"
