"""Episodes with other fields, types or bytes: typed errors only, and the others are read."""

import contextlib
import itertools
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson
import pytest
from click.exceptions import ClickException
from typer.testing import CliRunner

from mutations import changed, places_in
from rows import each
from webtraj import errors, open_dataset
from webtraj.cli.app import make_app
from webtraj.cli.datasets import show
from webtraj.datasets.exporters import export_dataset
from webtraj.datasets.exporters.base import all_formats
from webtraj.datasets.recovery import rebuild, recover
from webtraj.datasets.verification import verify
from webtraj.metrics import measure
from webtraj.store.blobs import BlobStore
from webtraj.store.layout import format_named
from webtraj.view.table import Query
from webtraj.view.viewer import Viewer

GOLDEN = Path(__file__).parents[1] / "golden"
WINNER, INTACT = "golden-1-won", "golden-3-failed"
NASTY = [
    None, True, "x", "", -1, 0, 3.5, 1e308, 2**63, [], {}, [[]], ["x"], [None], {"x": None}, "\0",
    {"$": "float", "v": "nan"}, {"$": "float", "v": "-inf"}, {"$": "int", "v": "0x" + "f" * 300},
    {"$": "tuple", "v": []}, {"$": "bytes", "v": "AAAA"}, {"$": "complex", "v": [1.0, 2.0]},
    {"$": "set", "v": [1]}, {"$": "dict", "v": [[1, 2], ["a", 3]]}, {"$": "?"}, {"$": 3},
    {"$": "ndarray", "shape": [2], "dtype": "<f8", "v": {"$": "bytes", "v": ""}},
    {"$": "ndarray", "shape": [0, 3], "dtype": "object", "v": []},
    {"$": "ndarray", "shape": [1], "dtype": "<U1", "v": {"$": "bytes", "v": "/////w=="}},
    {"$": "ndarray", "shape": [1], "dtype": "<M8[ns]", "v": {"$": "bytes", "v": "AAAAAAAAAIA="}},
    {"$": "scalar", "dtype": "<i8", "v": 3}, {"$": "scalar", "dtype": "<f4", "v": 0.5},
    {"$": "record", "type": "x.Y", "fields": {"a": 1}}, {"$": "record", "type": 3, "fields": 4},
    {"$": "record", "type": "action/click", "fields": {"element": 5}},
    {"$": "enum", "type": "x.E", "member": "A", "v": 1},
    {"$": "unwritable", "type": "a", "repr": "b"},
    {"$": "namedtuple", "type": "P", "fields": {"x": 1}}, {"$": "nested", "v": "[1"},
    {"$": "datetime", "v": "x"}, {"$": "str", "v": "7aCA"},
    {"$": "text", "sha256": "ab" * 32, "ext": "txt", "size": 9},
    {"$": "blob", "sha256": "../../../victim", "ext": "png", "size": 9},
]  # fmt: skip
MEMORY = 3 << 30
"""The address space, in bytes, within which every reader must manage."""
LEAVE_IT_OUT = ("minari", "playwright", "har")
"""Exports for which the intact episode has nothing: it is not played in a browser."""
TYPED = (errors.WebtrajError, ClickException, SystemExit)


def readers(place, out, slow):
    """Yields what reads a dataset, with what each must do."""
    runner, app = CliRunner(), make_app()
    opened = [open_dataset(place, blobs=blobs) for blobs in ("eager", "lazy")]
    ids = opened[0].episode_ids

    def command(*arguments):
        result = runner.invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, TYPED):
            raise result.exception
        return result

    def each(episode_id):
        for dataset in opened:
            episode = dataset[episode_id]
            assert isinstance(episode.total_reward, float | None)

    viewer = Viewer([place])
    name = viewer.datasets()[0]["name"]

    def view(episode_id):
        assert viewer.page(Query()).total == len(ids)
        orjson.dumps(viewer.episode(name, episode_id))

    def export(name):
        try:
            report = export_dataset(open_dataset(place), out / name, format=name)
        except errors.MissingDependencyError:
            return
        assert INTACT in [item.episode_id for item in report.written] or name in LEAVE_IT_OUT

    def metrics():
        assert INTACT not in measure(open_dataset(place)).unreadable

    def report():
        assert command("metrics", place, "--html", out / "report.html").exit_code == 0

    for episode_id in ids:
        yield f"open {episode_id}", lambda name=episode_id: each(name)
        yield f"show {episode_id}", lambda name=episode_id: show(str(place), name)
        yield f"step {episode_id}", lambda name=episode_id: show(str(place), name, step=1)
        yield f"view {episode_id}", lambda name=episode_id: view(name)
    yield "verify", lambda: verify(place)
    yield "ls", lambda: command("ls", place)
    yield "metrics", metrics
    if slow:
        yield "report", report
    for name in all_formats() if slow else ("html",):
        yield name, lambda name=name: export(name)
    yield "recover", lambda: recover(place)
    viewer.close()


def try_all(cases, golden, *, slow=True):
    """Puts changed episodes beside one that is intact, and does all that reads a dataset."""
    faults, about = [], {}
    with tempfile.TemporaryDirectory() as folder:
        place, out = Path(folder, "dataset"), Path(folder, "out")
        shutil.copytree(golden, place)
        shutil.rmtree(place / "index")  # So that they are looked into, not refused by their hash.
        out.mkdir()
        for number, (said, format_name, content) in enumerate(cases):
            about[f"m{number}"] = said
            (place / "episodes" / f"m{number}.{format_name}").write_bytes(content)
        with contextlib.suppress(errors.UnsupportedSchemaError):
            rebuild(place)  # Lines that agree with the files, as whoever made them would have.
        for what, read in readers(place, out, slow):
            try:
                read()
            except TYPED as error:
                if INTACT in what or len(str(error)) > 3000:
                    faults.append(f"{what}: {error!s:.200}")
            except Exception as error:
                last = error.__traceback__
                while last.tb_next is not None:
                    last = last.tb_next
                where = f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
                said = about.get(what.rpartition(" ")[2], "")
                faults.append(f"{what} {said}: {type(error).__name__} {error!s:.90} {where}")
    assert not faults, f"{len(faults)}:\n" + "\n".join(faults[:60])


def named(data, number):
    """Returns an episode's data with an id of its own, unless that was changed."""
    info = data.get("info")
    if isinstance(info, dict) and info.get("episode_id") == WINNER:
        return data | {"info": info | {"episode_id": f"m{number}"}}
    return data


def episode_of(golden):
    (path,) = golden.glob(f"episodes/{WINNER}.*")
    format_name = path.name.removeprefix(f"{WINNER}.")
    stored = format_named(format_name).decode(path.read_bytes(), path.name)
    return path.name, format_name, stored.data, stored.blobs or BlobStore(golden / "blobs")


def mutations(golden, seed, count):
    """Yields some ways to change an episode: fields of other types, and then bytes."""
    rng = random.Random(seed)
    file, format_name, data, blobs = episode_of(golden)
    ways = list(places_in(data))
    made = 0
    while made < count:
        path, value = rng.choice(ways), rng.choice([*NASTY, ...])
        wrong = named(changed(data, path, value), made)
        try:
            content = format_named(format_name).encode(wrong, blobs)
        except (errors.WebtrajError, orjson.JSONEncodeError):
            continue  # Such an episode cannot be written in this format.
        made += 1
        yield f"{'.'.join(map(str, path))}={str(value)[:60]}", format_name, content
    whole = (golden / "episodes" / file).read_bytes()
    for _ in range(count // 4):
        content = bytearray(whole)
        at = rng.randrange(len(content))
        kind = rng.randrange(3)
        if kind == 0:
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[at:]
        else:
            content[at:at] = rng.randbytes(5)
        yield f"bytes at {at}", format_name, bytes(content)


FIELDS = [
    ("steps", 1, "start_time"), ("steps", 1, "decision"), ("info", "seed"), ("info", "goal"),
    ("steps", 1, "decision", "model_calls", 0, "text"), ("end", "outcome"), ("info", "metadata"),
    ("steps", 1, "decision", "model_calls", 0, "usage"), ("steps", 1, "reward"), ("end", "error"),
    ("steps", 1, "decision", "model_calls", 0, "logprobs"), ("start_time",), ("steps", 1, "action"),
    ("steps", 1, "discount"), ("info", "versions"), ("end", "detail"), ("steps", 0, "observation"),
    ("steps", 1, "decision", "model_calls", 0, "messages"), ("info", "derivation"),
]  # fmt: skip
PARTS = 4
"""Processes in which they are tried, each with some of the fields."""


def of_fields(ways):
    _, format_name, data, _ = episode_of(GOLDEN / "v1-json")
    for number, (path, value) in enumerate(ways):
        content = orjson.dumps(named(changed(data, path, value), number))
        yield f"{path}={value!s:.60}", format_name, content


def test_known_fields_of_other_types():
    """The fields that many readers use, each with some of the values."""
    ways = random.Random(3).sample(list(itertools.product(FIELDS, NASTY)), 20)
    try_all(of_fields(ways), GOLDEN / "v1-json", slow=False)


def confined(function, *arguments):
    """Runs a function of this module in a process that may not have much memory."""
    source = (
        "import resource, sys\n"
        f"sys.path[:0] = {[str(folder) for folder in Path(__file__).parents[:2]]!r}\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1] / 'support')!r})\n"
        f"import {Path(__file__).stem} as module\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))\n"
        f"module.{function.__name__}(*{arguments!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-8000:]


def read_changed_fields_and_bytes(name, seed):
    try_all(mutations(GOLDEN / name, seed, 80), GOLDEN / name)


def read_changed_field(number):
    ways = ((field, value) for field in FIELDS[number::PARTS] for value in NASTY)
    try_all(of_fields(ways), GOLDEN / "v1-json")


@pytest.mark.slow
@each("seed", range(2))
@each("name", ["v1-json", "v1-pb", "v1-pb.zst"])
def test_fields_and_bytes_that_were_changed(name, seed):
    confined(read_changed_fields_and_bytes, name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(PARTS))
def test_every_known_field_with_every_value(number):
    confined(read_changed_field, number)
