"""Datasets to export, as fixtures: a conftest.py imports the names that its tests use."""

import asyncio
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

import export_episodes
import webtraj
from export_episodes import SHOP_ACTIONS, info, play_shop, recorded, shop_script
from webtraj import errors
from webtraj.cli import export as export_command
from webtraj.datasets.exporters import export_dataset
from webtraj.datasets.recovery import recover
from webtraj.testing.fakes import CatchEnvironment
from webtraj.trajectory import EpisodeInfo, Outcome


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A dataset of a browser's shape: one episode terminated, one closed in the middle."""
    folder = tmp_path_factory.mktemp("shop")
    recorded(folder, shop_script(), play_shop, info(1), Outcome.SUCCESS)

    async def stop_early(env):
        await play_shop(env, SHOP_ACTIONS[:2])

    recorded(folder, shop_script(), stop_early, info(2, group_id="g"))
    return webtraj.open_dataset(folder)


@pytest.fixture(scope="session")
def catch(tmp_path_factory):
    """A dataset of arrays and numbers: three episodes of Catch, whole."""
    folder = tmp_path_factory.mktemp("catch")

    async def run():
        async with webtraj.JsonTrajectoryCollector(folder, fsync="never") as collector:
            inner = CatchEnvironment()
            async with webtraj.TrajectoryCollectingEnvironment(
                inner, collector, episode_info=EpisodeInfo(task="catch")
            ) as env:
                for number in range(3):
                    timestep = await env.reset()
                    while not timestep.last():
                        timestep = await env.step(number)

    asyncio.run(run())
    return webtraj.open_dataset(folder)


@pytest.fixture(scope="session")
def wrecks(tmp_path_factory):
    """Episodes that came to no end: a reset that raised, a step that did, and a crash."""
    folder = tmp_path_factory.mktemp("wrecks")

    async def fail(env):
        with pytest.raises(RuntimeError):
            await play_shop(env, SHOP_ACTIONS[:2])

    recorded(folder, [RuntimeError("no page")], fail, info(1))
    recorded(folder, [*shop_script()[:2], RuntimeError("lost it")], fail, info(2))

    subprocess.run([sys.executable, export_episodes.__file__, str(folder)], check=False)
    recover(folder)
    return webtraj.open_dataset(folder)


@pytest.fixture
def export(tmp_path):
    """Exports a dataset to a new folder; returns the folder and the report."""

    def run(dataset, format, name="out", **more):  # noqa: A002
        out = tmp_path / name
        return out, export_dataset(dataset, out, format=format, **more)

    return run


@pytest.fixture
def run_export(tmp_path):
    """Runs the command; returns the folder and what was printed."""
    app = typer.Typer()
    app.command()(export_command.export)

    def run(dataset, *arguments, out="out", code=0):
        words = [str(dataset.path), "--out", str(tmp_path / out), *map(str, arguments)]
        result = CliRunner().invoke(app, words)
        if isinstance(result.exception, errors.WebtrajError):
            raise result.exception
        assert result.exit_code == code, result.output
        return tmp_path / out, result.output

    return run
