"""Experiments of BrowserGym and AgentLab, made by BrowserGym's own loop (scripts/)."""

import gzip
import json
import pickle
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from webtraj import EndReason, Outcome, errors
from webtraj.datasets.importers import Problem, Source
from webtraj.testing import assert_valid_trajectory
from webtraj.trajectory import EpisodeTrajectory, StepType
from webtraj_formats.importers import agentlab

DATA = Path(__file__).parent / "data" / "browsergym"


def folder(name):
    (found,) = DATA.glob(f"*scripted-{name}_on*")
    return found


def read(path, **options):
    return list(agentlab.read(Source(path=path, **options)))


def only(path, **options):
    """Returns the episode of a folder that has one and no problems."""
    (found,) = read(path, **options)
    assert isinstance(found, EpisodeTrajectory), found
    assert_valid_trajectory(found)
    return found


@pytest.fixture
def copied(tmp_path):
    """Copies an experiment, to be changed."""

    def copy(name):
        return Path(shutil.copytree(folder(name), tmp_path / folder(name).name))

    return copy


def test_a_study_is_found():
    assert agentlab.recognises(DATA)
    assert agentlab.recognises(folder("solved"))
    assert not agentlab.recognises(DATA.parent / "demos")
    assert len(read(DATA)) == 4


def test_an_action_leads_to_the_next_record():
    episode = only(folder("solved"))
    assert [step.step_type for step in episode.steps] == [
        StepType.FIRST, StepType.MID, StepType.LAST,
    ]  # fmt: skip
    assert [step.action for step in episode.steps] == [None, "noop()", "click('13')"]
    assert [step.reward for step in episode.steps] == [None, 0.0, 1.0]
    assert [step.discount for step in episode.steps] == [None, 1.0, 0.0]
    shown = [step.observation["last_action"] for step in episode.steps]
    assert shown == ["", "noop()", "click('13')"]


def test_what_lies_beside_the_records_is_put_back():
    episode = only(folder("solved"))
    for k, step in enumerate(episode.steps):
        picture = (folder("solved") / f"screenshot_step_{k}.png").read_bytes()
        assert step.observation["screenshot"] == picture
        assert step.observation["goal_object"] == ({"type": "text", "text": "Click the button."},)
    assert isinstance(episode.steps[0].observation["elapsed_time"], np.ndarray)


def test_what_is_known_of_the_episode():
    info = only(folder("solved")).info
    assert info.task == "miniwob.click-test"
    assert info.goal == "Click the button."
    assert info.seed == 3
    assert info.environment == "browsergym"
    assert info.policy == "scripted-solved"
    assert info.versions["browsergym-core"] == "0.14.3"
    assert info.metadata["arguments"]["env_args"].fields["max_steps"] == 10
    assert info.metadata["summary"]["n_steps"] == 2
    assert [step["step"] for step in info.metadata["steps"]] == [0, 1, 2]
    assert info.metadata["steps"][2]["task_info"]["RAW_REWARD_GLOBAL"] == 1
    imported = info.metadata["imported"]
    assert imported["system"] == "agentlab"
    assert imported["file"] == "."
    assert len(imported["sha256"]) == 64
    assert only(folder("solved")).start_time > 1e9


def test_what_the_agent_said_is_the_decision():
    steps = only(folder("solved")).steps
    plain, by_model = steps[1].decision, steps[2].decision
    assert steps[0].decision is None
    assert (plain.thought, plain.model_calls) == ("Wait.", ())
    assert plain.metadata["stats"]["cost"] == 0.5
    assert by_model.thought == "The goal names a button."
    (call,) = by_model.model_calls
    assert call.model == "scripted-1"
    assert [message["role"] for message in call.messages] == ["system", "user"]
    assert call.text == "<action>click('13')</action>"
    assert call.response["role"] == "assistant"
    assert by_model.metadata["stats"]["cost"] == 0.25


def test_a_solved_episode_is_a_success():
    end = only(folder("solved")).end
    assert (end.reason, end.outcome) == (EndReason.TERMINATED, Outcome.SUCCESS)


def test_an_agent_that_gives_no_action_truncates_its_episode():
    episode = only(folder("gave_up"))
    assert episode.end.reason is EndReason.TRUNCATED
    assert episode.end.detail == "the agent gave no action"
    assert episode.steps[-1].last
    assert episode.steps[-1].action == "noop(10)"
    assert episode.end.in_flight_decision.thought == "The goal names a button."
    assert not episode.end.action_in_flight


def test_an_agent_that_raises_is_an_error_and_no_reward():
    episode = only(folder("agent_raised"))
    end = episode.end
    assert (end.reason, end.outcome) == (EndReason.ERRORED, Outcome.AGENT_ERROR)
    assert (end.error.type, end.error.message) == (
        "RuntimeError",
        "the model's server went away",
    )
    assert not any(step.last for step in episode.steps)
    assert not end.action_in_flight


class StepInfo:
    """Pickles as BrowserGym's; `home` makes it AgentLab's."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


@pytest.fixture
def as_browsergym(monkeypatch):
    """Lets pickle find StepInfo where BrowserGym or AgentLab have it."""

    def pickled(home, fields):
        module = types.ModuleType(home)
        module.StepInfo = StepInfo
        parts = home.split(".")
        for i in range(1, len(parts)):
            parent = ".".join(parts[:i])
            monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
        monkeypatch.setitem(sys.modules, home, module)
        monkeypatch.setattr(StepInfo, "__module__", home)
        return gzip.compress(pickle.dumps(StepInfo(**fields)))

    return pickled


@pytest.fixture
def experiment(tmp_path, as_browsergym):
    """Writes an experiment of given records."""

    def write(*records, summary=None, home="agentlab.experiments.loop"):
        where = tmp_path / "2026-11-20_10-00-00_agent-7_on_miniwob.click-test_5"
        where.mkdir()
        for k, record in enumerate(records):
            fields = {"step": k, "action": None, "terminated": False, "truncated": False, **record}
            (where / f"step_{k}.pkl.gz").write_bytes(as_browsergym(home, fields))
        if summary is not None:
            (where / "summary_info.json").write_text(json.dumps(summary))
        return where

    return write


SEEN = {"obs": {"goal": "g"}, "reward": 0}

RAISED = "Exception uncaught by agent or environment in task t.\nTimeoutError:\nslow: \nvery:\nslow"


def test_an_environment_that_raises_leaves_its_action_in_flight(experiment):
    # The record of the step that failed is half filled: its reward is a default, and no reward.
    where = experiment(
        {**SEEN, "action": "click('1')"},
        {"obs": None, "reward": 0},
        summary={"err_msg": RAISED, "stack_trace": "Traceback ..."},
    )
    episode = only(where)
    end = episode.end
    assert (end.reason, end.outcome, end.phase) == (EndReason.ERRORED, Outcome.ENV_ERROR, "step")
    assert (end.error.type, end.error.message) == ("TimeoutError", "slow: \nvery:\nslow")
    assert (end.action_in_flight, end.in_flight_action) == (True, "click('1')")
    assert len(episode.steps) == 1


@pytest.mark.parametrize(
    ("rewards", "outcome"),
    [((0, 1.0), "success"), ((0.5, 0.5), "success"), ((0, 0.5), "failure"), ((0, -1), "failure"),
     ((0, float("nan")), "unknown")],
)  # fmt: skip
def test_the_outcome_of_a_terminated_episode_comes_from_its_rewards(experiment, rewards, outcome):
    first, second = rewards
    episode = only(
        experiment(
            {**SEEN, "action": "a", "reward": 99},  # Of the reset: no reward of an action.
            {**SEEN, "action": "b", "reward": first},
            {**SEEN, "reward": second, "terminated": np.True_},
            summary={},
        )
    )
    assert episode.end.reason is EndReason.TERMINATED
    assert episode.outcome.name.lower() == outcome
    assert episode.steps[0].reward is None


def test_a_record_that_is_damaged_is_reported_and_the_others_are_kept(copied):
    where = copied("solved")
    (where / "step_1.pkl.gz").write_bytes(b"\x1f\x8b damaged")
    episode, problem = read(where)
    assert isinstance(problem, Problem)
    assert problem.where == "step_1.pkl.gz"
    assert isinstance(problem.error, errors.CorruptDataError)
    assert len(episode.steps) == 2
    assert episode.end.recording_errors == (str(problem.error),)
    # Nobody knows by which action the last record came about, nor what was earned before it.
    assert episode.steps[1].action is None
    assert episode.steps[1].reward == 1.0
    assert (episode.lost_step, list(episode.transitions())) == (1, [])


def test_an_experiment_none_of_whose_steps_can_be_read_is_not_imported(copied):
    where = copied("solved")
    for step in where.glob("step_*.pkl.gz"):
        step.write_bytes(b"\x1f\x8b damaged")
    found = read(where)
    assert found
    assert all(isinstance(one, Problem) for one in found)


def test_a_missing_last_record_invents_no_reward(copied):
    where = copied("solved")
    (where / "step_2.pkl.gz").unlink()
    episode, problem = read(where)
    assert "no record of its last step" in str(problem.error)
    assert episode.end.reason is EndReason.TERMINATED  # The summary says so.
    assert episode.outcome is Outcome.UNKNOWN  # An episode that is not whole is no outcome.
    last = episode.steps[-1]
    assert (last.last, last.observation, last.reward) == (True, {}, None)
    assert last.action == "click('13')"
    assert episode.end.recording_errors == (str(problem.error),)


def test_classes_of_others_load_in_arguments_only(copied):
    where = copied("solved")
    evil = b"\x80\x04cposix\nsystem\n(X\x02\x00\x00\x00idtR."
    (where / "exp_args.pkl").write_bytes(evil)
    assert only(where).info.task == "miniwob.click-test"
    (where / "step_1.pkl.gz").write_bytes(gzip.compress(evil))
    problems = [found for found in read(where) if isinstance(found, Problem)]
    assert ["'posix.system'" in str(problem.error) for problem in problems] == [True]


def test_further_classes_can_be_allowed(copied, as_browsergym):
    where = copied("solved")
    content = as_browsergym("somebody.elses.loop", {"step": 1, "obs": {"x": 1}, "reward": 0})
    (where / "step_1.pkl.gz").write_bytes(content)
    assert [type(one) for one in read(where)] == [Problem]  # So that it can be imported later.
    assert len(only(where, allow_classes=("somebody.elses.loop.StepInfo",)).steps) == 3


def test_links_out_of_the_source_are_not_followed(copied, tmp_path):
    where = copied("solved")
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"\x89PNG\r\n\x1a\n secret")
    (where / "screenshot_step_0.png").unlink()
    (where / "screenshot_step_0.png").symlink_to(secret)
    episode, problem = read(where)
    assert "leads out" in str(problem.error)
    assert "screenshot" not in episode.steps[0].observation
