"""Live metrics from configuration and command, in a real event file of TensorBoard's."""

import asyncio
import sys

import pytest

from webtraj import errors
from webtraj.rollouts import RunSpec
from webtraj.rollouts.configuration.builder import build_rollout, resume_run

ORACLE = ("policy_config.agent=oracle", "env_config.train_tasks=[ladder/climb, ladder/slip]")


def numbers(folder):
    """Returns the points of each number in a run's folder, as TensorBoard reads them."""
    loader_lib = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    points = {}
    for path in sorted(folder.iterdir()):
        for event in loader_lib.EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                number = (
                    value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value
                )
                points.setdefault(value.tag, []).append((event.step, number))
    return points


async def test_tensorboard_has_the_numbers_of_a_configured_rollout(build, world):
    rollout = build(*ORACLE, f"metrics.tensorboard={world}/events")
    await rollout.play()
    points = numbers(world / "events" / rollout.run_id)
    assert points["rollout/success_rate"][-1] == (2, 0.5)
    assert points["rollout/planned"][-1] == (2, 2.0)


async def test_a_resumed_run_goes_on_with_its_numbers(tmp_path):
    given = {
        "preset": ["ladder/climb", "ladder/hang"],
        "metrics": {"tensorboard": str(tmp_path / "events")},
    }
    rollout = build_rollout(RunSpec(**given, out=str(tmp_path / "data")))
    playing = asyncio.ensure_future(rollout.play())
    await until(lambda: list((tmp_path / "data" / "episodes").glob("*")))
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    await resume_run({"max_steps": 1}, out=str(tmp_path / "data")).play()
    points = numbers(tmp_path / "events" / rollout.run_id)
    steps = [step for step, _ in points["rollout/success_rate"]]
    assert steps == sorted(steps)
    # The one that was cut off, too, has ended once.
    assert steps[-1] == 3


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("package", "given"),
    [
        ("tensorboard", {"tensorboard": "events"}),
        ("wandb", {"wandb": {"project": "demo", "mode": "offline"}}),
    ],
)
async def test_what_is_not_installed_is_missed_before_anything_begins(
    tmp_path, monkeypatch, package, given
):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    rollout = build_rollout(
        RunSpec(preset=["ladder/climb"], metrics=given, out=str(tmp_path / "data"))
    )
    with pytest.raises(errors.MissingDependencyError, match=rf"\[{package}\]"):
        await rollout.play()
    assert not (tmp_path / "data").exists()
