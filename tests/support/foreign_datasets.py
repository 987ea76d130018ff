"""Datasets with hostile or damaged content, and every command that reads a dataset.

A dataset follows from its number alone. Of three, one holds episodes with hostile values in every
channel and in every field of an action; one a golden episode with a field of another type, beside
intact ones; one a golden dataset with other bytes in one of its files.
"""

import asyncio
import collections
import contextlib
import dataclasses
import os
import random
import re
import shutil
import sys
import traceback
import warnings
from pathlib import Path

import orjson
import typer
from click.exceptions import ClickException
from click.testing import CliRunner

import webtraj
from hostile_records import Values, hostile_record
from mutations import WINNER, damaged, mutations
from webtraj import errors
from webtraj.agents.replay import _elements_of, _find_acted_on
from webtraj.cli.app import main, make_app
from webtraj.datasets.exporters import base as exporters
from webtraj.datasets.recovery import rebuild
from webtraj.exploring.seen import read_seen
from webtraj.training.export import export_folder as samples
from webtraj.trajectory import Decision, EndReason, EpisodeEnd, EpisodeInfo, ModelCall, Outcome
from webtraj.view.table import Query
from webtraj.view.viewer import Viewer

GOLDEN = Path(__file__).parents[1] / "golden"
EPISODES = ("v1-json", "v1-pb", "v1-pb.zst")
FOLDERS = (*EPISODES, "v1-open")
TYPED = (errors.WebtrajError, ClickException, SystemExit)
STEPS = (
    "clean", "drop-no-effect", "prune-loops", "judge:environment", "relabel-clicks",
    "relabel-forms", "filter:where=num_steps > 0", "filter-outcome", "dedupe",
    "redact:patterns=email",
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
BUG = re.compile(
    r"Traceback \(most recent|bug in webtraj|\x1b"
    r"|^\S+: [\w-]+: (?:Type|Key|Attribute|Index)Error\b",
    re.MULTILINE,
)
"""A bug's words, those of a failed step of postprocessing included; and what steers a terminal."""


def make(place, number):
    """Makes the dataset of a number."""
    rng = random.Random(number)
    match number % 3:
        case 0:
            asyncio.run(_record(place, number))
        case 1:
            golden = GOLDEN / rng.choice(EPISODES)
            shutil.copytree(golden, place)
            shutil.rmtree(place / "index")
            next(place.glob(f"episodes/{WINNER}.*")).unlink()
            _, name, content = next(mutations(golden, number, 1))
            (place / "episodes" / f"m0.{name}").write_bytes(content)
            with contextlib.suppress(errors.UnsupportedSchemaError):
                rebuild(place)  # Lines that agree with the file, as whoever made it would have.
        case 2:
            shutil.copytree(GOLDEN / rng.choice(FOLDERS), place)
            file = rng.choice(sorted(path for path in place.rglob("*") if path.is_file()))
            file.write_bytes(damaged(file.read_bytes(), rng)[1])


async def _record(place, number):
    """Records two tries at one task, of which the second succeeds."""
    values = Values(number)
    task = "miniwob/click-test" if number % 4 == 0 else "shop"
    async with webtraj.JsonTrajectoryCollector(place, fsync="never") as collector:
        for outcome in (Outcome.FAILURE, Outcome.SUCCESS):
            made = hostile_record(values.random.randrange(10**9))
            name = outcome.name.lower()
            info = EpisodeInfo(episode_id=name, task=task, goal=made.info.goal, seed=1)
            recorder = collector.begin_episode(info)
            for step in made.steps:
                told = None if step.action is None else _decision(step.action, values)
                recorder.record_step(dataclasses.replace(step, decision=told))
            recorder.end_episode(EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome))


def _decision(action, values):
    """Returns a decision as a tool may have written it that is not webtraj; None at times."""
    if values.random.random() < 0.2:
        return None
    text = values.random.choice(("Do it.", values.text()))
    messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    if values.random.random() < 0.2:
        odd = {"role": values.any(), "content": values.any(), values.text(): values.any()}
        messages.append(values.random.choice((odd, values.any())))
    tool = {"function": {name: values.any() for name in ("name", "parameters", "description")}}
    ids = tuple(values.random.choices((1, 2, 0, 10**9), k=3))
    call = ModelCall(
        text=values.text(),
        messages=tuple(messages),
        sampling={n: values.any() for n in (values.text(), "temperature")}
        | {
            "tools": values.random.choice(
                ([tool], [tool["function"]], [values.any()], values.any())
            )
        },
        response=values.any(),
        prompt_token_ids=ids,
        completion_token_ids=ids,
        logprobs=values.random.choice(((), (-0.5,), (-0.5, 0.0, -1e300), (-0.5, -2.0, 0.0))),
    )
    return Decision(action=action, thought=values.text(), memory=values.text(), model_calls=(call,))


def commands(place, out):
    """Returns the commands that read a dataset, each as its name and its words."""
    rules = out / "rules.yaml"
    rules.write_text(RULES)
    found = sorted(path.name.partition(".")[0] for path in place.glob("episodes/*"))
    episode = "m0" if "m0" in found else found[0] if found else "golden-open"
    formats = [(name, ("export",), ()) for name in exporters.all_formats()]
    more = ("--render", "--filter", "filter_successful_only=false")
    formats += [(name, ("train", "export"), more) for name in samples.FORMATS]
    told = [
        ("ls", ("ls", place)),
        ("show", ("show", place, episode)),
        ("verify", ("verify", place)),
        ("metrics", ("metrics", place)),
        ("metrics --html", ("metrics", place, "--html", out / "metrics.html")),
        ("metrics of two", ("metrics", place, GOLDEN / "v1-json")),
        ("index", ("index", place, "--rebuild")),
        ("recover", ("recover", place)),
        ("ls --json", ("ls", place, "--json")),
        ("show --step", ("show", place, episode, "--step", "1")),
        ("copy", ("copy", place, out / "copy.pb", "--format", "pb")),
        ("split", ("split", place, out / "parts", "--part", "train=0.5", "--part", "test=0.5")),
        ("judge", ("judge", "run", place, "--judge", f"rules:{rules}", "--when", "always")),
        *(
            (f"export {f}", (*command, place, "--format", f, "--out", out / f"{f}-v0", *words))
            for f, command, words in formats
        ),
        (
            "copy --without",
            ("copy", place, out / "less", "--without", "screenshots,html,credentials"),
        ),
        ("train preview", ("train", "preview", out / "sharegpt-v0")),
    ]
    for step in STEPS:
        name = step.partition(":")[0]
        words = ("postprocess", "--read", place, "--write", out / f"p-{name}", "--step", step)
        told.append((f"postprocess {name}", words))
    return [(said, [str(word) for word in words]) for said, words in told]


def read_all(place, out):
    """Reads a dataset by every command and by the viewer, in this process.

    Returns:
        How often each command had each kind of answer, and the faults: answers that no reader may
        give.
    """
    runner, app = CliRunner(), typer.main.get_command(make_app())
    counts, faults = collections.Counter(), []

    def note(said, error, output=""):
        kind = _kind(error, output)
        counts[said, kind] += 1
        if kind == "FAULT":
            faults.append(f"{said}: {_where(error)} {_around(output)}")

    for said, words in commands(place, out):
        result = runner.invoke(app, words)
        assert result.exit_code != 2 or isinstance(result.exception, errors.WebtrajError), (
            words,
            result.output,
        )
        note(said, result.exception, result.output)
    for said, read in (("view", _view), ("Python", _read_in_python)):
        error = None
        try:
            read(place)
        except (Exception, SystemExit) as raised:
            error = raised
        note(said, error)
    return counts, faults


def _kind(error, output):
    if BUG.search(output) or not (error is None or isinstance(error, TYPED)):
        return "FAULT"
    if isinstance(error, SystemExit):
        return f"exit {error.code}" if error.code else "done"
    return "done" if error is None else type(error).__name__


def _where(error):
    if error is None or error.__traceback__ is None:
        return ""
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    where = f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
    return f"{type(error).__name__} {error!s:.150} {where}"


def _around(output):
    found = BUG.search(output)
    return repr(output[max(found.start() - 200, 0) : found.end() + 200]) if found else ""


def _view(place):
    viewer = Viewer([place])
    try:
        name = viewer.datasets()[0]["name"]
        for row in viewer.page(Query()).rows:
            orjson.dumps(viewer.episode(name, row.summary.episode_id))
    finally:
        viewer.close()


def _read_in_python(place):
    for episode in webtraj.open_dataset(place):
        read_seen(episode)
        for step in episode.steps:
            _elements_of(step.observation)
            _find_acted_on(step.observation)


def run_one(place, out, turn):
    """Runs one of the commands in a process of its own; returns what `read_all` does.

    The process is forked, so that it need not import everything again.
    """
    told = commands(place, out)
    said, words = told[turn % len(told)]
    with (out / "printed").open("wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # There may be threads, all idle.
        if (pid := os.fork()) == 0:
            try:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
                sys.argv = ["webtraj", *words]
                main()
            except SystemExit as ended:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(ended.code or 0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(70)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    printed = (out / "printed").read_text(errors="replace")
    fault = BUG.search(printed) or code not in (0, 1, 2)
    kind = "FAULT" if fault else f"exit {code}" if code else "done"
    return {(said, kind): 1}, [f"{said}: {code} {printed[-600:]}"] if fault else []
