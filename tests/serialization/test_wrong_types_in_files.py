"""Files beside the episodes with fields of other types: one typed error that names the file.

Each kind of file is made as the library makes it. Then single values of it are replaced, at random
places, and it is read again: either it is read, or a `WebtrajError` names the file.
"""

import logging
import random
from pathlib import Path

import orjson
import pytest

from mutations import changed, places_in
from webtraj import errors
from webtraj.datasets.exporters.base import read_manifest
from webtraj.datasets.place import open_place
from webtraj.environments.tasks import Fact, FactGroup, TaskSpec
from webtraj.exploring.drafts import Rejection
from webtraj.exploring.proposals import Proposals, Record
from webtraj.judging.quality import Label, read_labels, write_labels
from webtraj.loop import metrics as loop_metrics
from webtraj.loop.state import LoopState
from webtraj.metrics.metrics_report import read_metrics
from webtraj.processing.ledger import Count, Dropped, Entry, Failure, Ledger, Passage
from webtraj.processing.target import Identity
from webtraj.rollouts.configuration.builder import resume_run
from webtraj.rollouts.recording import settle_format
from webtraj.runs.plan import plan_from_bytes, plan_tasks, plan_to_bytes
from webtraj.runs.run import Run
from webtraj.store.layout import DatasetHeader
from webtraj.store.places import open_storage
from webtraj.training.sft.logs import LOG, read_log
from webtraj.trajectory import Outcome
from webtraj.view.labels import LabelBook, PersonLabel

WRONG = [
    None, True, "x", "", "nan", -1, 0, 3.5, 1e308, float("inf"), 2**63, [], {}, [[]], ["x"],
    [None], [3], {"x": None}, {"x": "y"}, {"$": "USD"}, {"$": "ndarray"}, "\0", "golden-1-won",
]  # fmt: skip
TASK = TaskSpec(
    name="buy", goal="Buy it", start_url="https://shop.test/", difficulty=3, max_steps=9,
    facts=(FactGroup((Fact("bought", 2),), "a", "all"),), metadata={"price": {"$": "USD"}, "n": 1},
)  # fmt: skip
PLAN = plan_to_bytes(plan_tasks([TASK, TaskSpec(name="b", preset="miniwob/click-test")]), seed=1)


def lines(*entries):
    return b"".join(orjson.dumps(entry) + b"\n" for entry in entries)


def read_plan(path):
    plan = plan_from_bytes(path.read_bytes(), str(path))
    plan_to_bytes(plan, seed=0)
    for planned in plan:
        assert isinstance(planned.spec.goal, str)
        assert type(planned.seed) is int
        assert planned.spec.level


def read_command(path):
    (path.parent / "plan.jsonl").write_bytes(PLAN)
    resume_run({"agent_options": {"untouched": 1}}, out=str(path.parents[2]), run_id="run")


def read_settings(path):
    run = Run(open_storage(str(path.parents[2])), "run")
    settle_format(None, str(path.parents[2] / "new"), None, run=run)


def read_run_metrics(path):
    read_metrics(Run(open_storage(str(path.parents[2])), "run"))


def read_judges_labels(path):
    for label in read_labels(path).values():
        assert isinstance(label.source, str)


def read_persons_labels(path):
    with LabelBook(open_place(path.parents[1])) as book:
        book.refresh()
        for label in book.labels.values():
            assert isinstance(label.note, str)
        if book.problems:  # One line must not keep people from the others.
            raise errors.CorruptDataError(book.problems[0])


def read_header(path):
    header = DatasetHeader.from_bytes(path.read_bytes(), str(path))
    assert isinstance(header.destination, str)


def read_ledger(path):
    ledger = Ledger(open_storage(str(path.parents[3])), path.parents[1].name)
    for entry in ledger.entries.values():
        entry.to_line()
        assert all(type(count.seen) is int for count in entry.passage.counts)


def read_identity(path):
    str(Identity.from_bytes(path.read_bytes(), str(path)))


def read_state(path):
    with LoopState(path) as state:
        key = (1, "rollout")
        begun = state.find_begun(key)
        assert begun is None or (type(begun.policy) is int and dict(begun.before) is not None)
        state.find_end(key)
        state.seconds(key)
        dict(state.config or {})


def read_loop_metrics(path):
    loop_metrics.write_line(path, {"iteration": 2})


def read_proposals(path):
    for record in [Proposals(open_storage(str(path.parents[3])), "run", "k").read("e1")]:
        assert all(isinstance(rejection.reason, str) for rejection in record.rejections)


def read_an_export(path):
    header, episodes = read_manifest(path)
    header.get("splits", {}).get("train", {}).get("rows")
    {episode["episode_id"]: episode.get("left_out", "") for episode in episodes}


def read_training_log(path):
    assert all(entry["step"] >= 0 for entry in read_log(path.parent))


def proposals(folder):
    record = Record(episode_id="e1", tasks=(TASK,), rejections=(Rejection("no", {"name": "x"}),))
    Proposals(open_storage(str(folder)), "run", "k").keep(record)
    return (folder / "tasks/run/k/e1.json").read_bytes()


def judges_labels(folder):
    write_labels(
        folder / "l.jsonl", [Label("e1", Outcome.SUCCESS, "a"), Label("e2", Outcome.FAILURE)]
    )
    return (folder / "l.jsonl").read_bytes()


ENTRY = Entry(
    number=3, source="e1", sha256="ab", task="t", failure=Failure("judge", "ValueError", "no"),
    passage=Passage(
        outputs=("o1",), counts=(Count(1, 0, 1),), dropped=(Dropped(1, "short"),),
        signatures={2: ("a", {"$": "USD"})},
    ),
)  # fmt: skip
RUN = "runs/run/"
FILES = {
    "plan": (RUN + "plan.jsonl", lambda _: PLAN, read_plan),
    "settings": (
        RUN + "settings.json",
        lambda _: lines(
            {
                "preset": ["miniwob/click-test"],
                "agent": "random",
                "seed": 3,
                "agent_options": {},
                "parallel": 2,
                "metrics": {},
            }
        ),
        read_command,
    ),
    "run metrics": (
        RUN + "metrics.json",
        lambda _: lines({"kind": "metrics", "version": 1, "overall": {}}),
        read_run_metrics,
    ),
    "judges' labels": ("labels.jsonl", judges_labels, read_judges_labels),
    "persons' labels": (
        "labels/a.jsonl",
        lambda _: PersonLabel(
            episode_id="e1", label="success", note="n", source="a", time=3.0
        ).to_line(),
        read_persons_labels,
    ),
    "header": ("dataset.json", lambda _: DatasetHeader(format="pb").to_bytes(), read_header),
    "ledger": ("processing/ab12/ledger/a.jsonl", lambda _: ENTRY.to_line(), read_ledger),
    "pipeline": (
        "processing/pipeline.json",
        lambda _: Identity(
            "ab", ({"name": "clean", "version": "1", "settings": {"a": 1}},)
        ).to_bytes(),
        read_identity,
    ),
    "loop state": (
        "state.jsonl",
        lambda _: lines(
            {"event": "loop", "version": 1, "config": {"seed": 1}, "time": 1.0},
            {
                "event": "begun",
                "iteration": 1,
                "phase": "rollout",
                "attempt": 1,
                "command": ["x"],
                "seed": 7,
                "policy": 0,
                "before": {"p": "d"},
                "time": 1.0,
            },
            {
                "event": "ended",
                "iteration": 1,
                "phase": "rollout",
                "seconds": 8.1,
                "found": False,
                "outputs": {"p": "d"},
                "time": 1.0,
            },
        ),
        read_state,
    ),
    "loop metrics": (
        "metrics.jsonl",
        lambda _: lines({"iteration": 1, "seconds": {}}),
        read_loop_metrics,
    ),
    "proposals": ("tasks/run/k/e1.json", proposals, read_proposals),
    "export": (
        "export.jsonl",
        lambda _: lines(
            {"webtraj_export": 1, "format": "trl", "splits": {"train": {"rows": 3}}},
            {"episode_id": "e1", "sha256": "ab", "left_out": "why"},
        ),
        read_an_export,
    ),
    "training log": (LOG, lambda _: lines({"step": 1, "loss": 2.0}), read_training_log),
}


def mutated(content, rng):
    """Returns the content with one value replaced or removed, and what was done."""
    rows = [orjson.loads(row) for row in ([content] if b"\n " in content else content.splitlines())]
    path = rng.choice(list(places_in(rows)))
    value = rng.choice([*WRONG, ...])
    written = b"".join(orjson.dumps(row) + b"\n" for row in changed(rows, path, value))
    # orjson writes no such number, and reads this one.
    written = written.replace(b"null", b"1e999") if value == float("inf") else written
    return written, f"{'.'.join(map(str, path))}={value!s:.40}"


@pytest.mark.parametrize("kind", FILES)
def test_a_wrong_type_is_an_error_that_names_the_file(kind, tmp_path, caplog):
    caplog.set_level(logging.ERROR)
    name, make, read = FILES[kind]
    path = tmp_path / "place" / name
    path.parent.mkdir(parents=True)
    (tmp_path / "place" / "dataset.json").write_bytes(DatasetHeader().to_bytes())
    content = make(tmp_path)
    path.write_bytes(content)
    read(path)
    rng, faults, refused = random.Random(7), [], 0
    for _ in range(60):
        wrong, what = mutated(content, rng)
        path.write_bytes(wrong)
        try:
            read(path)
        except errors.WebtrajError as error:
            refused += 1
            known_type = what.startswith("0.agent")  # The agents tell which names they know.
            if path.name not in str(error) and not known_type:
                faults.append(f"{what}: does not name the file: {error!s:.150}")
        except Exception as error:
            last = error.__traceback__
            while last.tb_next is not None:
                last = last.tb_next
            where = f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
            faults.append(f"{what}: {type(error).__name__} {error!s:.90} {where}")
    assert not faults, f"{len(faults)}:\n" + "\n".join(dict.fromkeys(faults))
    assert refused
