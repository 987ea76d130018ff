"""Datasets whose records hold any value in any place: every command that reads them ends in words.

WEBTRAJ_FOREIGN_DATASETS sets how many datasets are tried, in this process; each holds four episodes
with hostile values in every channel and every field of an action. One of ten is also read by the
command line, in a process of its own.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from click.exceptions import ClickException
from typer.testing import CliRunner

import webtraj
from hostile_records import hostile_record
from webtraj import errors
from webtraj.agents.replay import _acted_on, _elements_of
from webtraj.cli.app import make_app
from webtraj.datasets.exporters.base import all_formats
from webtraj.environments.browser.observation import refs_in, text_in
from webtraj.exploring.seen import seen_in
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, Outcome
from webtraj.view.table import Query
from webtraj.view.viewer import Viewer

COUNT = int(os.environ.get("WEBTRAJ_FOREIGN_DATASETS", "2"))
TYPED = (errors.WebtrajError, ClickException, SystemExit)
SAMPLES = ("sharegpt", "openai", "trl", "tokens", "preferences")
STEPS = (
    "clean", "drop-no-effect", "prune-loops", "judge:environment", "relabel-clicks",
    "relabel-forms", "filter", "filter-outcome", "dedupe", "redact",
)  # fmt: skip
RULES = """\
rules:
  - tasks: "*"
    success:
      any:
        - {element: {role: button, name: Go}}
        - {last_action: {verb: click, name: Go}}
        - {did: {verb: fill, text: a}}
        - {url: {path: /a}}
        - {text: a}
"""


async def record(place, seeds):
    async with webtraj.JsonTrajectoryCollector(place, fsync="never") as collector:
        for seed in seeds:
            made = hostile_record(seed)
            task = "miniwob/click-test" if seed % 4 == 0 else "shop"
            info = EpisodeInfo(episode_id=f"e{seed}", task=task, goal=made.info.goal, seed=1)
            recorder = collector.begin_episode(info)
            for step in made.steps:
                recorder.record_step(step)
            outcome = (Outcome.SUCCESS, Outcome.FAILURE)[seed % 2]
            recorder.end_episode(EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome))


def commands(place, out):
    """The commands that read a dataset, by name."""
    rules = out / "rules.yaml"
    rules.write_text(RULES)
    yield ("ls", place)
    yield ("show", place, "1")
    yield ("verify", place)
    yield ("metrics", place, "--html", out / "metrics.html")
    yield ("index", place, "--rebuild")
    yield ("copy", place, out / "copy.pb", "--format", "pb")
    yield ("split", place, out / "parts", "--part", "train=0.5", "--part", "test=0.5")
    yield ("judge", "run", place, "--judge", f"rules:{rules}", "--when", "always")
    for name in (*all_formats(), *SAMPLES):
        yield ("export", place, "--format", name, "--out", out / name)
    yield ("export", place, "--format", "json", "--shareable", "--out", out / "shared")
    for name in STEPS:
        yield ("postprocess", "--read", place, "--write", out / f"p-{name}", "--step", name)


def command_line(*words):
    return [str(word) for word in words]


def read(place, out):
    """Do with a dataset all there is to do; return the faults."""
    runner, app, faults = CliRunner(), make_app(), []
    for words in commands(place, out):
        result = runner.invoke(app, command_line(*words))
        error = result.exception
        if error is not None and not isinstance(error, TYPED):
            last = error.__traceback__
            while last.tb_next is not None:
                last = last.tb_next
            where = f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
            faults.append(f"{words[0]} {words[-1]}: {type(error).__name__} {error!s:.150} {where}")
        assert "No such option" not in result.output, (words, result.output)
        assert "No such command" not in result.output, (words, result.output)
        assert result.exit_code != 2, result.output
    viewer = Viewer([place])
    name = viewer.datasets()[0]["name"]
    viewer.page(Query())
    for episode in webtraj.open_dataset(place):
        seen_in(episode)
        orjson.dumps(viewer.episode(name, episode.episode_id))
        for step in episode.steps:
            _elements_of(step.observation)
            _acted_on(step.observation)
    viewer.close()
    return faults


@pytest.mark.parametrize("number", range(COUNT))
def test_every_command_reads_what_others_recorded(number, tmp_path):
    place, out = tmp_path / "dataset", tmp_path / "out"
    out.mkdir()
    asyncio.run(record(place, range(4 * number, 4 * number + 4)))
    faults = read(place, out)
    assert not faults, "\n".join(faults)
    if number % 10 == 0:
        (tmp_path / "again").mkdir()
        for words in list(commands(place, tmp_path / "again"))[number // 10 % 7 :: 7]:
            done = subprocess.run(
                [sys.executable, "-m", "webtraj.cli", *command_line(*words)],
                check=False,
                capture_output=True,
                text=True,
            )
            assert "Traceback" not in done.stderr
            assert "bug in webtraj" not in done.stderr
            assert done.returncode in (0, 1, 2)


@pytest.mark.parametrize(
    "line",
    [r'[1] button "\q"', r'[1] button "\ud800"', r'text "\x41"', '[1] button "\t"', r'text "\u12"'],
)
def test_a_text_that_is_no_json_is_read_as_it_stands(line):
    told = text_in(line) if line.startswith("text") else refs_in(line)[0].name
    assert told
    told.encode()
