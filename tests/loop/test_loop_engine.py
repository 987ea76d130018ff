"""The loop's engine, with small phases that are real processes."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time

import pytest
from loop_state import read_entries

from webtraj import errors
from webtraj.loop import PhaseFailedError, load_loop_config
from webtraj.loop import run as run_loop
from webtraj.loop.commands import make_phase
from webtraj.loop.phases import NullLoopObserver, Policy, Slot
from webtraj.loop.state import LoopState, begin

SHORT = {
    "iterations": 1,
    "judge": None,
    "postprocess": None,
    "evaluation": None,
    "export": None,
    "publish": {"command": ["{python}", "-IS", "-c", "0"]},
}
"""rollout, train, publish."""
LONG = 300
"""Seconds that nothing takes, on however busy a machine."""


class Notes(NullLoopObserver):
    """Keeps what it is told."""

    def __init__(self):
        self.total = self.done = None
        self.began, self.ended, self.notes, self.failed, self.said = [], [], [], [], []

    def loop_begins(self, total, done):
        self.total, self.done = total, done

    def phase_began(self, phase, *, attempt, log):
        self.began.append(phase.slot.key)

    def phase_said(self, slot, line):
        self.said.append((slot.key, line))

    def phase_ended(self, slot, seconds):
        self.ended.append(slot.key)

    def note(self, text):
        self.notes.append(text)

    def phase_failed(self, slot, why, *, pause):
        self.failed.append((slot.key, why))


@pytest.mark.slow
async def test_phases_run_in_turn_and_everything_is_on_record(small_loop):
    notes = Notes()
    result = await run_loop(small_loop.config(iterations=1), observer=notes)
    names = ["rollout", "judge", "postprocess", "export", "train", "publish", "evaluate"]
    assert notes.ended == [(0, "evaluate"), *((1, name) for name in names)]
    assert (notes.total, notes.done, result.run, result.finished) == (8, 0, 8, True)
    assert (1, "train") in {key for key, _ in notes.said}

    entries = read_entries(small_loop.out / "state.jsonl")
    assert [entry["event"] for entry in entries] == ["loop", *["begun", "ended"] * 8]
    train = {entry["event"]: entry for entry in entries if entry.get("phase") == "train"}
    assert train["begun"]["seed"] == int(train["begun"]["command"][4])
    (digest,) = train["ended"]["outputs"].values()
    assert len(digest) == 64
    assert (small_loop.out / "model.pt" / "result").is_file()
    log = (small_loop.out / "logs/iteration_0001/train.log").read_text()
    assert log.count("unit") == 5

    lines = [json.loads(x) for x in (small_loop.out / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 1]
    assert set(lines[1]["seconds"]) == {*names}


async def test_failed_phase_quotes_its_log_and_can_be_gone_on_with(small_loop, monkeypatch):
    config = small_loop.config(**SHORT)
    monkeypatch.setenv("FAIL", "model.pt")
    with pytest.raises(PhaseFailedError) as raised:
        await run_loop(config)
    told = str(raised.value)
    assert "train of iteration 1 exited with status 1" in told
    assert "the printer is on fire" in told
    assert "--resume" in told
    assert str(small_loop.out / "logs/iteration_0001/train.log") in told

    monkeypatch.delenv("FAIL")
    notes = Notes()
    assert (await run_loop(config, resume=True, observer=notes)).finished
    assert notes.began == [(1, "train"), (1, "publish")]
    assert notes.done == 1


async def test_failed_phase_is_tried_again(small_loop, monkeypatch):
    monkeypatch.setenv("FAIL", "model.pt:1")
    train = {**small_loop.data()["train"], "retries": 1}
    notes = Notes()
    await run_loop(small_loop.config(**SHORT, train=train), observer=notes)
    assert [key for key, _ in notes.failed] == [(1, "train")]
    assert small_loop.starts("training/iteration_0001/model.pt") == 2
    (line,) = (small_loop.out / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["retries"] == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(["{python}", "-c", "import sys; sys.exit(2)"], "status 2", id="wrong-input"),
        pytest.param(
            ["/no/such/program"], "Cannot run '/no/such/program': No such file", id="no-program"
        ),
    ],
)
async def test_what_another_try_would_not_change_is_not_tried_again(small_loop, command, said):
    config = small_loop.config(rollout={"command": command, "retries": 5}, evaluation=None)
    with pytest.raises(PhaseFailedError, match=said):
        await run_loop(config)
    entries = read_entries(small_loop.out / "state.jsonl")
    assert [entry["event"] for entry in entries] == ["loop", "begun", "failed"]


async def test_phase_that_does_not_make_what_it_promises_has_failed(small_loop):
    config = small_loop.config(rollout={"command": ["{python}", "-c", "0"]}, evaluation=None)
    with pytest.raises(
        PhaseFailedError, match=r"exited successfully, but .*iteration_0001' is missing"
    ):
        await run_loop(config)


async def test_folder_of_another_loop_is_refused(small_loop):
    config = small_loop.config(**SHORT)
    await run_loop(config)
    with pytest.raises(errors.InvalidInputError, match=r"Resume it with --resume"):
        await run_loop(config)
    with pytest.raises(errors.InvalidInputError, match="Cannot change seed from 3 to 4"):
        await run_loop(small_loop.config(**SHORT, seed=4), resume=True)


def test_settings_that_are_taken_away_are_told_and_commands_keep_no_secret(tmp_path):
    least = {"out": str(tmp_path), "train": {"model": "a/b"}}
    played, notes = {"preset": ["miniwob/click-test"]}, Notes()
    stored = {"secret_access_key": "tea", "region": "here"}
    before = load_loop_config(given={**least, "rollout": {**played, "attempts": 4}})
    after = load_loop_config(given={**least, "rollout": {**played, "storage_options": stored}})
    slot = Slot(1, "rollout", "rollout")
    with contextlib.closing(LoopState(tmp_path / "state.jsonl")) as state:
        for config in (before, after):
            begin(config, state, resume=True, observer=notes)
        phase = make_phase(after, slot, Policy(version=0))
        state.add_begun(phase, phase.command, 0)
    assert "Changed rollout.attempts from 4 to None." in notes.notes
    text = (tmp_path / "state.jsonl").read_text()
    assert "tea" not in text
    assert "here" in text


@pytest.mark.slow
async def test_loop_may_be_made_longer_and_tells_what_changed(small_loop):
    await run_loop(small_loop.config(**SHORT))
    notes = Notes()
    longer = small_loop.config(**{**SHORT, "iterations": 2})
    result = await run_loop(longer, resume=True, observer=notes)
    assert "Changed iterations from 1 to 2." in notes.notes
    assert result.finished
    assert notes.began[0] == (2, "rollout")


@pytest.mark.slow
async def test_what_was_made_and_removed_before_it_was_trained_on_is_made_again(small_loop):
    given = small_loop.data(iterations=1, evaluation=None)
    broken = {**given["train"], "command": ["{python}", "-IS", "-c", "raise SystemExit(1)"]}
    with pytest.raises(PhaseFailedError, match="The phase train of iteration 1"):
        await run_loop(small_loop.config(iterations=1, evaluation=None, train=broken))
    made = small_loop.results()
    for place in ("processed", "exports"):
        shutil.rmtree(small_loop.out / place / "iteration_0001")
    notes = Notes()
    config = small_loop.config(iterations=1, evaluation=None)
    result = await run_loop(config, resume=True, observer=notes)
    assert result.finished
    assert notes.began == [(1, name) for name in ("postprocess", "export", "train", "publish")]
    assert (notes.total, notes.done) == (6, 2)
    assert [note for note in notes.notes if note.startswith("Running ")] == [
        f"Running {name} of iteration 1 again: its outputs were removed."
        for name in ("postprocess", "export")
    ]
    again = small_loop.results()
    assert {place: again[place] for place in made} == made
    shutil.rmtree(small_loop.out / "exports")  # It was trained on, and nobody needs it now.
    assert (await run_loop(config, resume=True)).run == 0


@pytest.mark.slow
async def test_what_was_recorded_and_removed_is_not_recorded_again(small_loop):
    given = small_loop.data(iterations=1, evaluation=None, judge=None, postprocess=None)
    broken = {**given["export"], "command": ["{python}", "-IS", "-c", "raise SystemExit(1)"]}
    with pytest.raises(PhaseFailedError, match="The phase export of iteration 1"):
        await run_loop(load_loop_config(given={**given, "export": broken}))
    shutil.rmtree(small_loop.out / "train_trajectories" / "iteration_0001")
    notes = Notes()
    with contextlib.suppress(PhaseFailedError):
        await run_loop(load_loop_config(given=given), resume=True, observer=notes)
    assert notes.began[0] == (1, "export")


@pytest.mark.slow
async def test_postprocess_that_comes_later_is_made_up_for(small_loop):
    short = {"judge": None, "evaluation": None}
    await run_loop(small_loop.config(iterations=1, postprocess=None, **short))
    processed = small_loop.data()["postprocess"]["command"]
    command = [part for part in processed if "verdicts" not in part]
    notes = Notes()
    config = small_loop.config(postprocess={"command": command}, **short)
    assert (await run_loop(config, resume=True, observer=notes)).finished
    assert notes.began == [
        (1, "postprocess"),
        *((2, name) for name in ("rollout", "postprocess", "export", "train", "publish")),
    ]
    assert "Running postprocess of iteration 1, which the loop did not have before." in notes.notes


async def test_two_loops_do_not_share_a_folder(small_loop):
    with LoopState(small_loop.out / "state.jsonl"):
        pass
    slow = {"command": ["{python}", "-c", "import time; time.sleep(60)"]}
    first = asyncio.create_task(run_loop(small_loop.config(rollout=slow, evaluation=None)))
    async with asyncio.timeout(LONG):
        while not (small_loop.out / "logs").exists():
            await asyncio.sleep(0.01)
    with pytest.raises(errors.InvalidInputError, match="Another loop is running in"):
        await run_loop(small_loop.config(), resume=True)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_torn_last_line_is_cut_off_and_a_damaged_one_is_told(small_loop):
    state = small_loop.out / "state.jsonl"
    await run_loop(small_loop.config(**SHORT))
    whole = state.read_bytes()
    lines = whole.splitlines(keepends=True)
    state.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    notes = Notes()
    await run_loop(small_loop.config(**SHORT), resume=True, observer=notes)
    assert notes.began == [(1, "publish")]
    assert all(json.loads(line) for line in state.read_bytes().splitlines())

    state.write_bytes(lines[0] + b"{gone\n" + b"".join(lines[1:]))
    with pytest.raises(errors.CorruptDataError, match=r"Line 2 of .* is damaged"):
        await run_loop(small_loop.config(**SHORT), resume=True)


@pytest.mark.slow
async def test_only_one_kind_of_phase_up_to_the_next_of_the_other(small_loop):
    config = small_loop.config(**{**SHORT, "iterations": 2})
    with pytest.raises(errors.InvalidInputError, match=r"rollout of iteration 1.*--only rollout"):
        await run_loop(config, only="update")
    began = []
    for only in ("rollout", "update", "rollout", "update"):
        notes = Notes()
        result = await run_loop(config, resume=True, only=only, observer=notes)
        began.append([name for _, name in notes.began])
    assert began == [["rollout"], ["train", "publish"]] * 2
    assert result.finished


@pytest.mark.slow
async def test_phases_of_ones_own(small_loop):
    extra = {
        "name": "vocabulary", "after": "rollout", "iterations": "first",
        "command": ["{python}", "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])",
                    "{out}/words", "{{latest}} is {latest}, not {{name2}}"],
        "outputs": ["{out}/words"],
    }  # fmt: skip
    notes = Notes()
    await run_loop(small_loop.config(**{**SHORT, "iterations": 2}, extra=[extra]), observer=notes)
    assert [key for key in notes.began if key[1] == "vocabulary"] == [(1, "vocabulary")]
    assert notes.began[1] == (1, "vocabulary")
    latest = f"{small_loop.out}/train_trajectories/iteration_0001"
    assert (small_loop.out / "words").read_text() == f"{{latest}} is {latest}, not {{name2}}"


@pytest.mark.slow
async def test_overlap_plays_one_training_behind(small_loop):
    notes = Notes()
    config = small_loop.config(
        iterations=3, judge=None, postprocess=None, overlap={"enabled": True}
    )
    result = await run_loop(config, observer=notes)
    order = {key: place for place, key in enumerate(notes.began)}
    ended = {key: place for place, key in enumerate(notes.ended)}
    assert order[2, "rollout"] < order[1, "publish"] + 3
    # Weights of iteration 1 are there before iteration 3 is played, and are measured before.
    assert ended[1, "publish"] < ended[3, "rollout"]
    assert ended[1, "evaluate"] < ended[3, "rollout"]
    lines = [line for line in result.lines if line["iteration"]]
    assert [(line["policy"], line["staleness"]) for line in lines] == [(0, 0), (0, 1), (1, 1)]

    in_turn = small_loop.config(
        iterations=3, judge=None, postprocess=None, out=str(small_loop.folder / "in_turn")
    )
    in_turn = await run_loop(in_turn)
    assert [line.get("staleness") for line in in_turn.lines] == [None, 0, 0, 0]
    assert small_loop.results() == small_loop.results(in_turn.out)


def wait_for(process, line):
    for said in process.stdout:
        if said.startswith(line):
            return
    raise AssertionError(process.stderr.read())


@pytest.mark.slow
def test_signal_ends_the_phase_in_good_order(small_loop):
    env = {**os.environ, "UNIT": "1"}
    place = small_loop.out / "train_trajectories/iteration_0001/done"
    with small_loop.start(env=env, **SHORT) as process:
        wait_for(process, "began 1 rollout")
        deadline = time.monotonic() + LONG
        while not place.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 128 + signal.SIGTERM
    assert 0 < len(place.read_text().split()) < 5

    with small_loop.start("--resume", **SHORT) as process:
        _, told = process.communicate(timeout=LONG)
        assert process.returncode == 0, told
    assert small_loop.units()["train_trajectories/iteration_0001/done"] == list("01234")
    assert small_loop.starts("train_trajectories/iteration_0001") == 2


def gradient(small_loop, algorithm):
    """Keys of a loop that trains by policy gradient from the start."""
    train = {**small_loop.data()["train"], "algorithm": algorithm}
    return {"first": {"policy": "some/model"}, "train": train}


FOLDERS = {  # The evaluation of iteration 0 has folder 1.
    "rollout": "train_trajectories/iteration_000{0}",
    "judge": "verdicts/{0}",
    "postprocess": "processed/iteration_000{0}",
    "export": "exports/iteration_000{0}",
    "groups": "groups/iteration_000{0}",
    "train": "training/iteration_000{0}",
    "evaluate": "test_trajectories/iteration_000{1}",
}
"""Where each phase works; publishing has no units of work."""


def holds(small_loop, number, name):
    """Whether a phase holds in the middle of its work; whether publishing has begun."""
    if name in FOLDERS:
        log = small_loop.out / f"logs/iteration_{number:04d}/{name}.log"
        return log.exists() and "holds" in log.read_text()
    entries = read_entries(small_loop.out / "state.jsonl")
    begun = [(e["iteration"], e["phase"]) for e in entries if e["event"] == "begun"]
    return (number, name) in begun


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overlap", "algorithm"),
    [
        pytest.param(False, "sft", id="in-turn", marks=pytest.mark.gate),
        pytest.param(True, "mixed", id="policy-gradient-overlap"),
    ],
)
def test_killed_in_every_phase_it_comes_to_the_same_and_does_nothing_twice(
    small_loop, overlap, algorithm
):
    """SIGKILL while a phase holds after its n-th unit of work, and --resume, for each phase."""
    env = {**os.environ, "UNIT": "0.02"}
    told = {"overlap": {"enabled": overlap}}
    if algorithm != "sft":
        told |= gradient(small_loop, algorithm)
    with small_loop.start(env=env, **told) as process:
        _, errors_told = process.communicate(timeout=LONG)
        assert process.returncode == 0, errors_told
    expected, phases = small_loop.results(), small_loop.units()
    shutil.rmtree(small_loop.out)

    data = {"sft": ["export"], "grpo": ["groups"], "mixed": ["export", "groups"]}[algorithm]
    phases_killed = ("rollout", "judge", "postprocess", *data, "train", "publish", "evaluate")
    keys = [(1 + place % 2, name) for place, name in enumerate(phases_killed)]
    if overlap:
        keys = [(1, "train"), (2, "rollout"), (1, "evaluate"), (2, data[-1])]
    left = {key: place % 4 for place, key in enumerate(keys)}
    arguments: list[str] = []
    while left:
        told_to_hold = [
            f"{FOLDERS[name].format(number, number + 1)}:{unit}"
            for (number, name), unit in left.items()
            if name in FOLDERS
        ]
        holding = {**env, "HOLD": " ".join(told_to_hold)}
        with small_loop.start(*arguments, env=holding, **told) as process:
            while not (reached := [key for key in left if holds(small_loop, *key)]):
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.01)
            process.kill()
        left = {key: unit for key, unit in left.items() if key not in reached}
        arguments = ["--resume"]
    with small_loop.start("--resume", env=env, **told) as process:
        _, errors_told = process.communicate(timeout=LONG)
        assert process.returncode == 0, errors_told
    assert small_loop.results() == expected
    assert small_loop.units() == phases
    assert set(map(tuple, phases.values())) == {tuple("01234")}
    ended = [
        (entry["iteration"], entry["phase"])
        for entry in read_entries(small_loop.out / "state.jsonl")
        if entry["event"] == "ended"
    ]
    assert sorted(ended) == sorted(set(ended))
    assert len(ended) == 13 + 2 * len(data)
    assert (small_loop.out / "groups").exists() == (algorithm != "sft")


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [("sft", "mixed"), ("grpo", "mixed")])
async def test_another_algorithm_before_a_training_makes_the_data_that_it_lacks(
    small_loop, before, after
):
    short = {"iterations": 1, "evaluation": None, "judge": None, "postprocess": None}
    keys = gradient(small_loop, before)
    broken = ["{python}", "-IS", "-c", "raise SystemExit(2)"]
    failing = {**keys, "train": {**keys["train"], "command": broken}}
    config = small_loop.config(**short, **failing)
    with pytest.raises(PhaseFailedError, match="The phase train of iteration 1"):
        await run_loop(config)
    notes = Notes()
    config = small_loop.config(**short, **gradient(small_loop, after))
    assert (await run_loop(config, resume=True, observer=notes)).finished
    lacked = {"sft": "groups", "grpo": "export"}[before]
    assert [name for _, name in notes.began] == [lacked, "train", "publish"]
    assert f"Changed train.algorithm from {before} to {after}." in notes.notes


class DiedError(BaseException):
    """The loop died: nothing is done from then on."""


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 1], ids=["first-evaluation", "last-evaluation"])
async def test_death_before_the_metrics_are_written_costs_no_metrics(small_loop, monkeypatch, left):
    """The last phase of an iteration has no other after it that would write them."""
    from webtraj.loop import metrics

    config = small_loop.config(iterations=1)
    measure = metrics.measure_iteration

    def die(config, state, iteration):
        if iteration == left and state.find_end((left, "evaluate")):
            raise DiedError
        return measure(config, state, iteration)

    with monkeypatch.context() as patch:
        patch.setattr(metrics, "measure_iteration", die)
        with pytest.raises(DiedError):
            await run_loop(config)
    await run_loop(config, resume=True)
    lines = [json.loads(x) for x in (small_loop.out / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 1]
    assert all("evaluate" in line["seconds"] for line in lines)


ONCE = """
import os, pathlib, signal, sys
made = pathlib.Path(sys.argv[1])
if made.exists():
    sys.exit(2)
made.write_text("made")
os.kill(os.getpid(), signal.SIGKILL)
"""
"""Makes its output at once, refuses to make it twice, and dies before it can end well."""


@pytest.mark.parametrize("retries", [0, 1], ids=["no-retry", "retry"])
async def test_phase_that_died_when_it_had_made_all_is_done(small_loop, retries):
    extra = {
        "name": "words", "after": "rollout", "command": ["{python}", "-c", ONCE, "{out}/words"],
        "outputs": ["{out}/words"], "at_once": True, "retries": retries,
    }  # fmt: skip
    assert (await run_loop(small_loop.config(**SHORT, extra=[extra]))).finished
    entries = read_entries(small_loop.out / "state.jsonl")
    words = [entry for entry in entries if entry.get("phase") == "words"]
    assert [entry["event"] for entry in words] == ["begun", "failed", "ended"]
    assert words[-1]["found"]


async def test_phase_whose_outputs_may_be_half_made_is_run_again(small_loop):
    extra = {
        "name": "words", "after": "rollout", "command": ["{python}", "-c", ONCE, "{out}/words"],
        "outputs": ["{out}/words"], "retries": 1,
    }  # fmt: skip
    with pytest.raises(PhaseFailedError, match="status 2"):
        await run_loop(small_loop.config(**SHORT, extra=[extra]))
