"""The replay buffer: what is let in, what is counted, what is loaded."""

import dataclasses
import hashlib
import secrets
from pathlib import Path

import orjson
import pytest

from rows import each
from webtraj import Outcome, errors, open_dataset
from webtraj.datasets.judgements import Judgements
from webtraj.environments import actions as a
from webtraj.metrics import measure
from webtraj.runs.iterations import Iterations
from webtraj.training.replay import (
    AgentRenderer,
    Filters,
    HeldOut,
    LeakError,
    ReplayBuffer,
    check_parts,
    samples_of,
    weights,
)
from webtraj.training.samples import SampleKey
from webtraj.trajectory import Decision, EndReason, Judgement, ModelCall

ALL = Filters(filter_successful_only=False, filter_same_screenshot=False, distinct=False)


def uncompared(selection):
    """Returns the samples without their advantages, which only a buffer can tell."""
    return [dataclasses.replace(sample, advantage=None) for sample in selection]


def dropped(buffer):
    return {reason.value: n for reason, n in buffer.contents.count_dropped().items()}


def test_samples_are_loaded_as_they_were_recorded(episode, dataset):
    episodes = [episode("e1"), episode("e2", steps=2)]
    buffer = ReplayBuffer.from_datasets(dataset("d", episodes))
    assert len(buffer) == 5
    wanted = [sample for one in episodes for sample in samples_of(one)]
    assert [one.key for one in wanted] == buffer.all.keys
    assert uncompared(buffer.all) == wanted
    assert uncompared([buffer.all[-1]]) == wanted[-1:]
    assert uncompared(buffer.all[1:3]) == wanted[1:3]


@each("format_name", ["json", "pb"])
@each("kind", ["folder", "bucket"])
def test_any_place_and_format_gives_the_same(episode, dataset, format_name, kind):
    episodes = [episode(f"e{n}") for n in range(6)]
    place = f"memory://{secrets.token_hex(8)}/d" if kind == "bucket" else None
    where = dataset(format_name, episodes, format=format_name, place=place)
    buffer = ReplayBuffer.from_datasets(where)
    assert uncompared(buffer.all) == [sample for one in episodes for sample in samples_of(one)]
    assert buffer.all.sha256 == ReplayBuffer.from_datasets(where).all.sha256


def test_episodes_that_none_can_learn_from_are_left_out_and_counted_by_task(episode, dataset):
    hole = {1: {"decision": Decision(action=a.Click("1"), model_calls=(ModelCall(text=""),))}}
    place = dataset(
        "d",
        [
            episode("good", task="t1"),
            episode("unfinished", reason=EndReason.CRASHED),
            episode("infra", outcome=Outcome.ENV_ERROR, reason=EndReason.TERMINATED),
            episode("empty", steps=0),
            episode("short", steps=1),
            episode("failed", outcome=Outcome.FAILURE),
            episode("ungraded", outcome=Outcome.UNKNOWN, task="t2"),
            episode("no-response", step_fields=hole),
            episode("no-action", step_fields={2: {"action": None, "decision": None}}),
            episode("no-observation", step_fields={1: {"observation": None}}),
            episode("none-inside", step_fields={1: {"observation": {"axtree": None}}}),
        ],
    )
    buffer = ReplayBuffer.from_datasets(place, filters=Filters(min_steps=2))
    assert set(buffer.all.episode_ids) == {"good"}
    assert dropped(buffer) == {
        "unfinished": 1,
        "infrastructure": 1,
        "empty": 1,
        "too short": 1,
        "not judged": 1,
        "not successful": 1,
        "None in observation, action or response": 4,
    }
    report = buffer.report()
    assert report.dropped_episodes["not successful"] == {"t0": 1}
    assert report.dropped_episodes["not judged"] == {"t2": 1}
    assert (report.episodes_read, report.samples, report.episodes) == (11, 3, 1)
    # Kept and dropped are all there were.
    assert sum(dropped(buffer).values()) + report.episodes == report.episodes_read


def test_steps_that_none_can_learn_from_are_left_out_and_counted(episode, dataset):
    call = ModelCall(text="x", messages=({"role": "tool", "content": "r"},), response={})
    decisions = {
        1: Decision(action=a.InvalidAction("no", "text"), parse_error="no"),
        2: Decision(action=a.Click("2")),
        3: Decision(action=a.Click("3"), model_calls=(ModelCall(error="503"),)),
        4: Decision(action=a.Click("4"), model_calls=(call,)),
    }
    fields = {step: {"decision": d, "action": d.action} for step, d in decisions.items()}
    place = dataset("d", [episode("e1", steps=5, step_fields=fields)])
    buffer = ReplayBuffer.from_datasets(place)
    assert buffer.all.keys == [SampleKey("e1", 5, 0)]
    assert dropped(buffer) == {
        "invalid action": 1,
        "no model call": 1,
        "no reply text": 1,
        "unreadable prompt": 1,
    }


def still(name):
    """Returns what makes all pages of an episode look alike, with a button and a heading."""
    return lambda step: f'{name}\n[1] button "one"\n[2] heading "two"\n[3] text "three"'


def test_steps_without_effect_go_unless_they_act_on_what_may_hide_it(episode, dataset):
    fields = {step: {} for step in (1, 2, 3)}
    for step, ref in ((1, "1"), (2, "2")):
        fields[step] = {"action": a.Click(ref), "reward": 0.0}
    make = lambda name, **info: episode(  # noqa: E731
        name, page=still(name), step_fields=fields, steps=3, **info
    )
    place = dataset("d", [make("e1"), make("e2", task="miniwob/x")])
    buffer = ReplayBuffer.from_datasets(
        place, filters=Filters(same_screenshot_except=("miniwob/*",))
    )
    # The click on the button (1) and the last step (3) stay, the one on the heading (2) goes.
    assert [key.step for key in buffer.all.keys if key.episode_id == "e1"] == [1, 3]
    assert [key.step for key in buffer.all.keys if key.episode_id == "e2"] == [1, 2, 3]
    assert buffer.report().dropped_steps == {"no effect": {"t0": 1}}
    off = ReplayBuffer.from_datasets(place, filters=Filters(filter_same_screenshot=False))
    assert len(off) == 6


def test_of_the_same_prompt_and_completion_the_latest_stays(episode, dataset, call):
    same = lambda name, step: call("same", step)  # noqa: E731
    places = [dataset(f"d{n}", [episode(f"e{n}", call=same)]) for n in range(3)]
    buffer = ReplayBuffer.from_datasets(places)
    assert buffer.all.episode_ids == ("e2",)
    assert dropped(buffer) == {"duplicate": 6}
    assert len(ReplayBuffer.from_datasets(places, filters=ALL)) == 9


def test_of_the_same_prompt_and_completion_a_success_stays(episode, dataset, call):
    same = lambda name, step: call("same" if step == 1 else name, step)  # noqa: E731
    won = episode("won", call=same)
    lost = episode("lost", call=same, outcome=Outcome.FAILURE)
    every = Filters(filter_successful_only=False, filter_same_screenshot=False)
    buffer = ReplayBuffer.from_datasets(dataset("d", [won, lost]), filters=every)
    assert [key.step for key in buffer.all.keys if key.episode_id == "won"] == [1, 2, 3]
    assert dropped(buffer) == {"duplicate": 1}


@pytest.mark.parametrize("beside", [True, False], ids=["beside it", "on record"])
def test_a_judges_reward_counts_for_its_group_also_if_the_episode_is_left_out(
    episode, dataset, beside
):
    said = Judgement(judge="mine", outcome=Outcome.FAILURE, reward=0.6)
    known = {"group_id": "g", "outcome": Outcome.FAILURE, "judgements": () if beside else (said,)}
    lost = [episode(f"lost{n}", **known) for n in range(3)]
    place = dataset("d", [episode("won", group_id="g"), *lost])
    with Judgements(open_dataset(place).place) as judgements:
        judgements.add([(one.episode_id, said) for one in lost if beside])
    for only in (True, False):
        buffer = ReplayBuffer.from_datasets(place, filters=Filters(filter_successful_only=only))
        advantages = {one.key.episode_id: one.advantage for one in buffer.all}
        assert advantages["won"] == pytest.approx(1.0 - 0.7)


def test_an_episode_relabelled_from_a_held_out_task_is_held_out(episode, dataset):
    relabelled = {"relabelled": {"episode_id": "e1", "task": "secret"}}
    place = dataset("d", [episode("e2", task="hindsight/click", metadata=relabelled)])
    with pytest.raises(LeakError, match="hindsight/click"):
        ReplayBuffer.from_datasets(place, held_out=HeldOut(tasks=("secret",)))


def test_a_split_keeps_an_episode_and_those_relabelled_from_it_together(episode, dataset):
    made = [
        episode(
            f"e{n}.{k}", metadata={"relabelled": {"episode_id": f"e{n}", "task": "t"}} if k else {}
        )
        for n in range(8)
        for k in range(3)
    ]
    made += [episode(f"e{n}") for n in range(8)]
    parts = ReplayBuffer.from_datasets(dataset("d", made)).all.split(0.4, seed=2)
    sources = [
        {"".join(name.split(".")[0]) for name in part.episode_ids if not name.endswith(".0")}
        for part in (parts.train, parts.validation)
    ]
    assert sources[1]
    assert not sources[0] & sources[1]


def test_caps_keep_the_same_ones_when_data_is_added(episode, dataset):
    few = [episode(f"e{n}", task=f"t{n % 2}", site="s") for n in range(6)]
    more = [episode(f"f{n}", task="t9") for n in range(3)]
    filters = Filters(max_per_task=4)
    small = ReplayBuffer.from_datasets(dataset("small", few), filters=filters)
    large = ReplayBuffer.from_datasets(dataset("large", [*few, *more]), filters=filters)
    assert small.report().tasks == {"t0": 4, "t1": 4}
    assert {key for key in large.all.keys if key.episode_id[0] == "e"} == set(small.all.keys)
    assert dropped(small) == {"over the cap of its task": 10}
    sites = ReplayBuffer.from_datasets(dataset("sites", few), filters=Filters(max_per_site=5))
    assert len(sites) == 5
    assert (
        len(ReplayBuffer.from_datasets(dataset("none", more), filters=Filters(max_per_site=5))) == 9
    )


def test_success_band_leaves_out_what_is_hopeless_or_known(episode, dataset):
    episodes = [
        episode(f"{task}-{n}", task=task, outcome=Outcome.SUCCESS if n < good else Outcome.FAILURE)
        for task, good in (("easy", 4), ("fair", 2), ("hard", 0))
        for n in range(4)
    ]
    place = dataset("d", episodes)
    filters = Filters(success_band=(0.1, 0.9), filter_successful_only=False)
    buffer = ReplayBuffer.from_datasets(place, filters=filters)
    assert set(buffer.report().tasks) == {"fair"}
    assert buffer.report().dropped_episodes == {"outside the success band": {"easy": 4, "hard": 4}}


def test_success_band_counts_an_agents_own_error_as_its_failure_as_metrics_do(episode, dataset):
    episodes = [
        episode(f"e{n}", task="t", outcome=outcome, reason=end)
        for n, (outcome, end) in enumerate(
            [(Outcome.SUCCESS, EndReason.TERMINATED), (Outcome.AGENT_ERROR, EndReason.ERRORED)] * 2
            + [(Outcome.ENV_ERROR, EndReason.ERRORED)]
        )
    ]
    place = dataset("d", episodes)
    buffer = ReplayBuffer.from_datasets(place, filters=Filters(success_band=(0.3, 0.7)))
    rate = measure(open_dataset(place), by=()).overall.success_rate
    assert buffer.report().success_rates == {"t": rate.counts} == {"t": (2, 4)}
    assert set(buffer.report().tasks) == {"t"}


def test_where_is_a_condition_on_episodes(episode, dataset):
    place = dataset("d", [episode("e1", task="a"), episode("e2", task="b")])
    buffer = ReplayBuffer.from_datasets(place, filters=Filters(where="task == 'a'"))
    assert buffer.all.episode_ids == ("e1",)
    assert dropped(buffer) == {"not asked for": 1}


def test_damaged_episodes_are_counted_and_named(episode, dataset):
    import pathlib

    place = dataset("d", [episode("e1"), episode("e2")])
    (pathlib.Path(place) / "episodes" / "e1.json").write_bytes(b"{}")
    buffer = ReplayBuffer.from_datasets(place)
    assert dropped(buffer) == {"unreadable": 1}
    assert "e1" in buffer.report().problems[0]


def test_an_episode_that_changed_meanwhile_is_an_error_and_no_sample(episode, dataset):
    import pathlib

    place = dataset("d", [episode("e1")])
    buffer = ReplayBuffer.from_datasets(place)
    path = pathlib.Path(place) / "episodes" / "e1.json"
    path.write_bytes(path.read_bytes().replace(b"click('2')", b"click('9')"))
    with pytest.raises(errors.CorruptDataError, match=r"e1\.json.*does not match the index"):
        list(buffer.all)


def test_only_the_last_iterations_that_hold_episodes_count(episode, tmp_path, dataset):
    iterations = Iterations(str(tmp_path / "runs"), "train")
    for number in range(1, 8):
        iterations.claim(number)
        if number != 6:  # Claimed, and given up before its first episode.
            dataset("x", [episode(f"e{number}")], place=iterations.dataset(number))
    buffer = ReplayBuffer.from_datasets(iterations)
    assert buffer.contents.iterations == (3, 4, 5, 7)
    assert {sample.iteration for sample in buffer.all} == {3, 4, 5, 7}
    assert buffer.report().policy_ages == {0: 3, 1: 3, 2: 3, 3: 3}
    assert ReplayBuffer.from_datasets(iterations, last_n_iterations=None).contents.iterations == (
        1, 2, 3, 4, 5, 7,
    )  # fmt: skip
    with pytest.raises(errors.InvalidInputError, match="No dataset to train on"):
        ReplayBuffer.from_datasets(Iterations(str(tmp_path / "runs"), "test"))


HELD_OUT = {
    "name": {"tasks": ("secret",)},
    "glob": {"tasks": ("sec*",)},
    "site": {"sites": ("*.held.org",)},
    "file": {"tasks": ("FILE",)},
}


@each("name", HELD_OUT)
def test_held_out_tasks_in_the_data_are_an_error(episode, dataset, tmp_path, name):
    given = {key: tuple(value) for key, value in HELD_OUT[name].items()}
    if name == "file":
        path = tmp_path / "test.jsonl"
        path.write_bytes(orjson.dumps({"name": "secret", "goal": "x", "start_url": "http://x/"}))
        given = {"tasks": (path,)}
    place = dataset(name, [episode("e1"), episode("e2", task="secret", site="a.held.org")])
    with pytest.raises(LeakError, match="'secret'"):
        ReplayBuffer.from_datasets(place, held_out=HeldOut(**given))
    buffer = ReplayBuffer.from_datasets(place, held_out=HeldOut(**given, on_leak="drop"))
    assert buffer.all.episode_ids == ("e1",)
    assert dropped(buffer) == {"held out": 1}


def test_oracle_episodes_are_samples_only_if_rendered_and_say_so(episode, dataset):
    oracle = episode("e1", call=lambda name, step: None, page=lambda n: f'[{n + 1}] button "{n}"')
    place = dataset("d", [oracle])
    assert dropped(ReplayBuffer.from_datasets(place)) == {"no model call": 3}
    buffer = ReplayBuffer.from_datasets(place, render=AgentRenderer())
    assert list(buffer.all) == list(samples_of(oracle, render=AgentRenderer()))
    assert buffer.report().rendered == 3
    assert buffer.settings()["render"]["dialect"] == "webtraj"


def test_failures_count_nothing_and_advantages_compare_with_all_attempts(episode, dataset):
    attempts = [
        episode(f"e{n}", group_id="g", outcome=Outcome.SUCCESS if n == 0 else Outcome.FAILURE)
        for n in range(4)
    ]
    place = dataset("d", [*attempts, episode("alone", task="other")])
    buffer = ReplayBuffer.from_datasets(place, filters=ALL)
    by_id = {sample.key.episode_id: sample for sample in buffer.all}
    assert (by_id["e0"].loss_weight, by_id["e1"].loss_weight) == (1.0, 0.0)
    assert (by_id["e0"].advantage, by_id["e1"].advantage) == (0.75, -0.25)
    assert by_id["alone"].advantage is None
    positive = buffer.all.positive()
    assert {key.episode_id for key in positive.keys} == {"e0", "alone"}
    # The failures that a filter leaves out are compared with all the same.
    strict = ReplayBuffer.from_datasets(place)
    assert {s.key.episode_id: s.advantage for s in strict.all} == {"e0": 0.75, "alone": None}
    drawn = buffer.sample(100, weights.advantage())
    assert drawn.episode_ids == ("e0",)
    assert {s.loss_weight for s in buffer.all.with_loss_weights(weights.advantage())} == {0, 0.75}


def test_report_counts_what_there_is(episode, dataset):
    buffer = ReplayBuffer.from_datasets(dataset("d", [episode("e1"), episode("e2", site="s")]))
    report = buffer.report(buffer.sample(10, replacement=True))
    assert report.samples == 10
    assert report.distinct_samples <= 6
    assert report.actions == {"click": 10}
    assert report.effective_sample_size == pytest.approx(10)
    assert report.prompt_tokens["p50"] == 3.0
    assert report.estimated_tokens == 0
    assert report.policy_versions == {"7": 10}
    assert report.solved_tasks == 1
    assert orjson.loads(orjson.dumps(report.to_data()))["tasks"] == {"t0": 10}
    assert ("distinct samples", str(report.distinct_samples)) in report.rows()


def test_provenance_names_the_files_and_is_the_same_for_the_same(episode, dataset):
    from webtraj import open_dataset

    place = dataset("d", [episode(f"e{n}") for n in range(8)])
    one, other = (
        ReplayBuffer.from_datasets(place, seed=3).sample_with_recency(10) for _ in range(2)
    )
    assert orjson.dumps(one.provenance()) == orjson.dumps(other.provenance())
    assert list(one) == list(other)
    sha256 = {s.episode_id: s.sha256 for s in open_dataset(place).summaries}
    told = one.provenance()
    assert {e["episode_id"]: e["sha256"] for e in told["episodes"]} == {
        name: sha256[name] for name in one.episode_ids
    }
    assert sum(len(e["steps"]) for e in told["episodes"]) == 10
    another = ReplayBuffer.from_datasets(place, seed=4).sample_with_recency(10)
    assert another.provenance()["sha256"] != told["sha256"]


def test_splits_keep_units_together_and_parts_apart(episode, dataset):
    episodes = [
        episode(f"e{n}", task=f"t{n % 8}", site=f"s{n % 4}", steps=2, group_id=f"g{n // 2}")
        for n in range(16)
    ]
    selection = ReplayBuffer.from_datasets(dataset("d", episodes)).all
    for by in ("episode", "group", "task", "site"):
        parts = selection.split(0.25, by=by)
        assert len(parts.train) + len(parts.validation) + parts.left_out == len(selection)
        assert parts.left_out == 0
        check_parts(parts.train, parts.validation, by=("episode", "prompt", "page"))
        names = {"episode": "key", "group": "group_id", "task": "task", "site": "site"}[by]
        unit = lambda s: s.key.episode_id if names == "key" else getattr(s, names)  # noqa: B023, E731
        assert not {unit(s) for s in parts.train} & {unit(s) for s in parts.validation}
    assert len(selection.split(0.0).validation) == 0


def test_what_is_trained_on_in_another_episode_is_not_validated_on(episode, dataset):
    # All attempts at a task begin on the same page, with the same goal.
    episodes = [
        episode(f"e{n}", goal="same", page=lambda step, n=n: f"e{n} {step}" if step else "first")
        for n in range(30)
    ]
    selection = ReplayBuffer.from_datasets(dataset("d", episodes)).all
    parts = selection.split(0.3)
    validated = len(parts.validation.episode_ids)
    assert parts.left_out == validated > 0
    assert all(key.step > 1 for key in parts.validation.keys)
    with pytest.raises(LeakError, match="1 page is in both"):
        selection.split(0.3, shared="error")
    assert selection.split(0.3, shared="allow").left_out == 0
    with pytest.raises(LeakError, match="episodes are in both"):
        check_parts(selection, selection)


def test_nothing_to_validate_on_is_an_error_that_says_why(episode, dataset):
    same = [episode(f"e{n}", goal="same", page=lambda step: f"p{step}") for n in range(10)]
    selection = ReplayBuffer.from_datasets(
        dataset("d", same), filters=Filters(filter_same_screenshot=False)
    ).all
    with pytest.raises(errors.InvalidInputError, match="Split by='task'"):
        selection.split(0.3)


def test_an_empty_buffer_says_what_became_of_the_episodes(episode, dataset):
    buffer = ReplayBuffer.from_datasets(dataset("d", [episode("e1", outcome=Outcome.FAILURE)]))
    assert len(buffer) == 0
    assert buffer.report().samples == 0
    assert buffer.all.provenance()["episodes"] == []
    with pytest.raises(errors.InvalidInputError, match="not successful: 1"):
        buffer.require_samples()
    for draw in (buffer.sample, buffer.sample_with_recency):
        with pytest.raises(errors.InvalidInputError, match="nothing to draw from"):
            draw(1)


BAD = {
    "flag": {"filter_successful_only": 1},
    "cap": {"max_per_task": 0},
    "steps": {"min_steps": -1},
    "band": {"success_band": (0.9, 0.1)},
    "patterns": {"same_screenshot_except": "miniwob/*"},
}


@each("name", BAD)
def test_wrong_filters_are_refused_by_name(name):
    with pytest.raises(errors.InvalidInputError, match=f"Filters.{next(iter(BAD[name]))}"):
        Filters(**BAD[name])


def test_wrong_settings_are_refused(episode, dataset):
    place = dataset("d", [episode("e1"), episode("e2")])
    with pytest.raises(errors.InvalidInputError, match="last_n_iterations"):
        ReplayBuffer.from_datasets(place, last_n_iterations=0)
    with pytest.raises(errors.NotADatasetError):
        ReplayBuffer.from_datasets(f"{place}-not")
    with pytest.raises(errors.InvalidInputError, match="list of names"):
        HeldOut(tasks="t0")
    with pytest.raises(errors.InvalidInputError, match="on_leak"):
        HeldOut(on_leak="ignore")
    selection = ReplayBuffer.from_datasets(place).all
    with pytest.raises(errors.InvalidInputError, match="shared="):
        selection.split(0.5, shared="maybe")
    with pytest.raises(errors.InvalidInputError, match="split\\(by="):
        selection.split(0.5, by="step")
    with pytest.raises(errors.InvalidInputError, match="validation ratio"):
        selection.split(1.0)


@pytest.fixture
def processes(monkeypatch):
    """Makes two processes scan any dataset in a folder; returns the pools that were made."""
    from webtraj.training.replay import scanner

    pools = []

    class Pool(scanner.Workers):
        def __init__(self, *args):
            super().__init__(*args)
            pools.append(self)

    for name, value in (("_LARGE", 1), ("_BATCH", 3), ("Workers", Pool)):
        monkeypatch.setattr(scanner, name, value)
    monkeypatch.setattr(scanner.workers, "cores", lambda: 2)
    monkeypatch.setattr(scanner.values, "registered_types", tuple)  # Not those of other tests.
    return pools


def mixed_episodes(episode):
    return [
        episode(f"e{n:02}", task=f"t{n % 3}", steps=n % 4,
                outcome=Outcome.SUCCESS if n % 5 else Outcome.FAILURE)
        for n in range(20)
    ]  # fmt: skip


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("render", [AgentRenderer()])
def test_processes_read_what_one_reads(episode, dataset, processes, render):
    episodes = mixed_episodes(episode)
    places = [dataset(name, episodes, format=name) for name in ("json", "pb")]
    damaged = Path(places[0]) / "episodes" / "e03.json"
    damaged.write_bytes(b"{}")
    many = ReplayBuffer.from_datasets(places, filters=ALL, render=render)
    (pool,) = processes
    assert [process.poll() for process in pool._processes] == [-9, -9]  # Alive until closed.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("webtraj.training.replay.scanner._LARGE", 10_000)
        one = ReplayBuffer.from_datasets(places, filters=ALL, render=render)
    assert len(processes) == 1
    assert many.contents.steps.tobytes() == one.contents.steps.tobytes()
    assert many.contents.episodes.tobytes() == one.contents.episodes.tobytes()
    assert many.contents.episode_ids == one.contents.episode_ids
    assert many.report() == one.report()
    assert many.all.sha256 == one.all.sha256


ODD = {
    "role": (["user"], "unreadable prompt"),
    "content": ({"$": "text", "sha256": 5, "ext": "txt", "size": 9000}, "unreadable"),
}


@pytest.mark.parametrize("field", ODD)
def test_odd_prompts_are_counted(episode, dataset, field):
    value, reason = ODD[field]
    place = Path(dataset("d", [episode("e1"), episode("e2")]))
    path = place / "episodes" / "e1.json"
    data = orjson.loads(path.read_bytes())
    data["steps"][1]["decision"]["model_calls"][0]["messages"][0][field] = value
    path.write_bytes(orjson.dumps(data))
    (index,) = (place / "index").glob("*.jsonl")
    lines = [orjson.loads(one) for one in index.read_bytes().splitlines()]
    for one in lines:
        if one["episode_id"] == "e1":
            one["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    index.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in lines))
    assert dropped(ReplayBuffer.from_datasets(place)) == {reason: 1}
