"""The model of examples/two_cores that learns from pixels plays what it learned by vLLM."""

import dataclasses
import subprocess

import pytest
import pytest_asyncio
from vllm_server import TRAINER, client_of, measure_mismatch, serve

from two_cores.experiments import HELD_OUT
from two_cores.learn_from_pixels import agent_of
from webtraj import Outcome, open_dataset
from webtraj.rollouts import RunSpec, collect
from webtraj.training.export import export_samples
from webtraj.training.replay import Filters, ReplayBuffer, weights

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not TRAINER.exists(), reason="the trainer's environment was not made"),
]

PAGES = 24


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """An experiment cut short: its model clicks by what it sees, but mostly wrong."""
    out = tmp_path_factory.mktemp("learned") / "out"
    settings = {"seeds": 1, "demonstrations": 480, "steps": 150, "iterations": 0, "episodes": PAGES}
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    command = [TRAINER, "-m", "two_cores.learn_from_pixels", "--out", out, *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(learned, tmp_path_factory):
    model = learned / "seed_1/supervised/model.pt"
    logs = tmp_path_factory.mktemp("logs")
    async with serve(model, logs, max_model_len=256, images_per_prompt=1) as served:
        yield served


async def play(server, out, temperature, episodes, seed):
    """Plays pages with the served model."""
    spec = RunSpec(preset=["pixels/all"], episodes=episodes, seed=seed, parallel=2, out=str(out))
    async with client_of(server) as client:
        await collect(spec, agent=agent_of(client, temperature))


def replies_in(place):
    """Returns clicks and tokens by page."""
    found = {}
    for episode in open_dataset(place):
        (call,) = episode.steps[1].decision.model_calls
        assert len(call.completion_token_ids) == len(call.logprobs) > 0
        page = (episode.info.task, episode.info.seed)
        found[page] = (episode.steps[1].action, call.completion_token_ids)
    return found


async def test_clicks_are_those_of_the_same_model_in_transformers(learned, server, tmp_path):
    await play(server, tmp_path / "served", 0.0, PAGES, HELD_OUT)
    served = replies_in(tmp_path / "served")
    assert len(served) == PAGES
    assert served == replies_in(learned / "evaluation/supervised_1")
    assert len({ids for _, ids in served.values()}) > 4, "the model does not look"


async def test_sampled_clicks_have_the_log_probabilities_of_training(server, tmp_path):
    played, rows = tmp_path / "played", tmp_path / "rows"
    await play(server, played, 1.0, 8, 3)
    assert len(replies_in(played)) == 8
    every = Filters(
        filter_successful_only=False,
        distinct=False,
        valid_actions_only=False,
        filter_same_screenshot=False,
    )
    sampled = ReplayBuffer.from_datasets(played, filters=every, loss_weights=weights.uniform)
    # The trainer leaves out a group of equal rewards: say that every other attempt succeeded.
    outcomes = (Outcome.FAILURE, Outcome.SUCCESS)
    uneven = [
        dataclasses.replace(
            one, reward=float(number % 2), outcome=outcomes[number % 2], group_id="group"
        )
        for number, one in enumerate(sampled.all)
    ]
    export_samples({"train": uneven}, rows, format="tokens")
    (found,) = measure_mismatch(server.launch.model, "float32", "pil", rows / "train.jsonl")
    assert found["misfits"] == 0
    assert len(found["rows"]) == 8
    assert max(found["rows"].values()) < 1e-4
