"""An export that leaves something out says which option lets it in."""

import dataclasses
import json
import re

import pytest
from typer.testing import CliRunner

from rows import each
from webtraj import errors
from webtraj import trajectory as t
from webtraj.cli.app import make_app
from webtraj.cli.train_export import _filters
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.actions import Click
from webtraj.environments.actions.verbs import InvalidAction
from webtraj.training.export.configuration import ExportSettings
from webtraj.training.export.export_folder import FORMATS
from webtraj.training.replay import ReplayBuffer

EPISODE_FORMATS = ["atif", "otel", "html"]


def episode(number, actions, outcome=t.Outcome.SUCCESS, *, asked=True, reward=None):
    steps = [t.StepRecord(0, t.StepType.FIRST, {"axtree": f"page {number}"})]
    for step in range(1, actions + 1):
        message = {"role": "user", "content": f"Task {number}, step {step}"}
        calls = (t.ModelCall(messages=(message,), text=f"click('{step}')"),) if asked else ()
        action = Click(str(step))
        decision = t.Decision(action=action, model_calls=calls)
        kind = t.StepType.LAST if step == actions else t.StepType.MID
        seen = {"axtree": f"page {number} {step}"}
        steps.append(t.StepRecord(step, kind, seen, action, 0.0, 1.0, decision=decision))
    info = t.EpisodeInfo(episode_id=f"e{number}", task="t")
    verdicts = [] if reward is None else [t.Judgement(judge="j", outcome=outcome, reward=reward)]
    end = t.EpisodeEnd(reason=t.EndReason.TERMINATED, outcome=outcome, judgements=tuple(verdicts))
    return t.EpisodeTrajectory(info, tuple(steps), end, start_time=1.0, end_time=2.0)


def export(tmp_path, episodes, *words):
    with DatasetWriter(str(tmp_path / "d")) as writer:
        for number, made in enumerate(episodes):
            writer.add(episode(number, **made))
    out = str(tmp_path / "x")
    options = ["--format", "sharegpt", "--out", out, *words]
    return CliRunner().invoke(make_app(), ["train", "export", str(tmp_path / "d"), *options])


NOTHING_LEFT = {
    "a failure": (
        {"actions": 2, "outcome": t.Outcome.FAILURE},
        "--filter filter_successful_only=false (not successful)",
    ),
    "no model asked": ({"actions": 2, "asked": False}, "--render (no model call)"),
}


@pytest.mark.parametrize(("made", "told"), NOTHING_LEFT.values(), ids=NOTHING_LEFT)
def test_an_export_of_nothing_names_the_option(made, told, tmp_path):
    done = export(tmp_path, [made])
    assert isinstance(done.exception, errors.InvalidInputError)
    assert f"These let some in: {told}." in str(done.exception)


def test_a_single_click_is_an_episode_like_others(tmp_path):
    done = export(tmp_path, [{"actions": 1}])
    assert done.exit_code == 0, done.exception
    assert done.output.splitlines()[-1].endswith("train: 1 row (1 of 1 sample, 1 of 1 episode)")


def test_no_success_is_left_out_by_chance_unless_asked_for(tmp_path):
    episodes = [{"actions": 1, "reward": 0.5}] * 12
    done = export(tmp_path, [*episodes, {"actions": 1, "outcome": t.Outcome.FAILURE}])
    said = done.output.splitlines()[-1]
    assert said.endswith(
        "train: 12 rows (12 of 12 samples, 12 of 13 episodes); 1 left out: not successful"
    )
    done = CliRunner().invoke(
        make_app(),
        ["train", "export", str(tmp_path / "d"), "--format", "openai", "--loss-weights", "reward",
         "--out", str(tmp_path / "y")],
    )  # fmt: skip
    said = done.output.splitlines()[-1]
    assert re.search(
        r"train: \d rows \(\d of 12 samples, .*\); \d left out, \d of them: its weight is below 1",
        said,
    )


@pytest.mark.parametrize("name", [*FORMATS, *EPISODE_FORMATS])
def test_every_export_names_an_unreadable_episode_and_exits_with_1(name, tmp_path):
    with DatasetWriter(str(tmp_path / "d")) as writer:
        for number, outcome in enumerate((*[t.Outcome.SUCCESS] * 2, t.Outcome.FAILURE)):
            whole = episode(number, 1, outcome)
            seen = [
                dataclasses.replace(step, observation={"axtree": "same"}) for step in whole.steps
            ]
            (call,) = whole.steps[1].decision.model_calls
            ids = {"prompt_token_ids": (1, 2), "completion_token_ids": (3,), "logprobs": (-0.5,)}
            said = {"messages": ({"role": "user", "content": "Go."},), "text": f"reply {outcome}"}
            decision = t.Decision(
                action=Click("1"), model_calls=(dataclasses.replace(call, **ids, **said),)
            )
            seen[1] = dataclasses.replace(seen[1], decision=decision)
            info = dataclasses.replace(whole.info, group_id="g")
            writer.add(dataclasses.replace(whole, info=info, steps=tuple(seen)))
    (path,) = (tmp_path / "d").rglob("e0.json")
    path.write_bytes(path.read_bytes()[:-40])
    options = ["--format", name, "--out", str(tmp_path / "x")]
    command = ["train", "export"] if name in FORMATS else ["export"]
    done = CliRunner().invoke(make_app(), [*command, str(tmp_path / "d"), *options])
    assert done.exit_code == 1, done.exception
    assert "e0" in done.output
    assert (tmp_path / "x").exists()


def _with_an_invalid_action(number, outcome):
    made = episode(number, 3, outcome)
    reply = "I would rather not."
    first, step, *rest = made.steps
    action = InvalidAction(text=reply, kind="no_action", reason="There is no action.")
    (call,) = step.decision.model_calls
    ids = {"prompt_token_ids": (1, 2), "completion_token_ids": (3,), "logprobs": (-0.5,)}
    decision = dataclasses.replace(
        step.decision,
        action=action,
        parse_error="There is no action.",
        model_calls=(dataclasses.replace(call, text=reply, **ids),),
    )
    wrong = dataclasses.replace(step, action=action, decision=decision)
    return dataclasses.replace(made, steps=(first, wrong, *rest))


@each(
    ("format_name", "given", "kept"),
    [
        ("tokens", {}, True),
        ("preferences", {}, True),
        ("trl-preferences", {}, True),
        ("tokens", {"valid_actions_only": True}, False),
        ("sharegpt", {}, False),
        ("sharegpt", {"valid_actions_only": False}, True),
    ],
)
def test_reinforcement_keeps_the_agents_invalid_actions(format_name, given, kept, tmp_path):
    """Left out, rewards would go to what the model did beside them."""
    filters = _filters(format_name, ExportSettings(filters=given), {})
    with DatasetWriter(str(tmp_path)) as writer:
        writer.add(_with_an_invalid_action(1, t.Outcome.SUCCESS))
        writer.add(_with_an_invalid_action(2, t.Outcome.FAILURE))
    buffer = ReplayBuffer.from_datasets(tmp_path, filters=filters)
    said = {sample.completion for sample in buffer.all}
    assert ("I would rather not." in said) is kept


def test_a_preview_shows_the_prompts_that_an_export_with_the_same_options_has(tmp_path):
    def run(*words):
        done = CliRunner().invoke(make_app(), ["train", *map(str, words)])
        if isinstance(done.exception, errors.WebtrajError):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output

    def prompts(place, *words):
        lines = run("preview", place, "--samples", 9, "--json", *words).splitlines()
        return [json.loads(line)["messages"] for line in lines]

    dataset, seen = tmp_path / "d", []
    with DatasetWriter(str(dataset)) as writer:
        writer.add(episode(0, 2, asked=False))
    for number, options in enumerate(([], ["render_options.prompt=bare"])):
        out, words = tmp_path / str(number), ["--render", *options]
        run("export", dataset, "--format", "openai", "--out", out, *words)
        assert prompts(dataset, *words) == prompts(out)
        seen.append(prompts(out))
    assert len(seen[0]) == len(seen[1]) == 2
    assert seen[0] != seen[1]
    for words, message in {
        (dataset, "render_options.prompt=bare"): "render_options needs render",
        (dataset, "--render", "render_options.mod=text"): "No option 'mod'",
        (out, "--render"): "is an export, whose prompts are made already",
    }.items():
        with pytest.raises(errors.InvalidInputError, match=message):
            run("preview", *words)
