"""Datasets on disk for the replay buffer: episodes with prompts, pictures and token ids."""

import pytest

from webtraj import trajectory as trajectory_lib
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments import actions as a
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)


def shot(text):
    """Returns what is long enough to lie beside the episode."""
    return b"\xff\xd8\xff" + text.encode() * 300


def make_call(name, step, **fields):
    prompt = [
        {"role": "system", "content": "Act."},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": shot(f"{name} {step}")}},
                {"type": "text", "text": f"Task {name}, step {step}"},
            ],
        },
    ]
    known = {
        "model": "m",
        "policy_version": "7",
        "messages": tuple(prompt),
        "text": f"Action: click('{step}')",
        "response": {"choices": []},
        "finish_reason": "stop",
        "prompt_token_ids": (1, 2, 3),
        "completion_token_ids": (4, 5),
        "logprobs": (-0.5, -0.25),
    }
    return ModelCall(**(known | fields))


def make_episode(
    name,
    *,
    steps=3,
    outcome=Outcome.SUCCESS,
    reason=EndReason.TERMINATED,
    page=None,
    call=make_call,
    judgements=(),
    step_fields=None,
    **info,
):
    """Returns an episode of some actions; `page` names what each observation shows."""
    page = page or (lambda step: f"{name} page {step}")
    records = []
    for step in range(steps + 1):
        seen = {"url": "http://x/", "axtree": page(step), "screenshot": shot(page(step))}
        fields = {}
        if step:
            made = call(name, step)
            action = a.Click(str(step))
            fields = {
                "action": action,
                "reward": float(step == steps and outcome is Outcome.SUCCESS),
                "discount": float(step != steps),
                "decision": Decision(
                    action=action, thought="why", model_calls=() if made is None else (made,)
                ),
            }
        kind = StepType.FIRST if step == 0 else StepType.LAST if step == steps else StepType.MID
        fields |= (step_fields or {}).get(step, {})
        records.append(StepRecord(step, kind, fields.pop("observation", seen), **fields))
    known = {"episode_id": name, "task": "t0", "goal": f"do {name}", "policy": "model/m"} | info
    return trajectory_lib.EpisodeTrajectory(
        EpisodeInfo(**known),
        tuple(records),
        EpisodeEnd(reason=reason, outcome=outcome, judgements=judgements),
        start_time=1000.0,
        end_time=1001.0,
    )


@pytest.fixture
def episode():
    return make_episode


@pytest.fixture(scope="session")
def make():
    return make_episode


@pytest.fixture
def call():
    return make_call


@pytest.fixture
def dataset(tmp_path):
    """Writes episodes into a dataset of a name, and returns where it is."""

    def write(name, episodes, **options):
        place = options.pop("place", None) or str(tmp_path / name)
        with DatasetWriter(place, **options) as writer:
            for one in episodes:
                writer.add(one)
        return place

    return write
