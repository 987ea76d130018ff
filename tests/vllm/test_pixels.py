"""The model of examples/two_cores that learns from pixels, served by vLLM, plays what it learns."""

import dataclasses
import subprocess

import pytest
from vllm_serving import TRAINER, client_of, measure_mismatch, serve

from two_cores.pixel_model import OPTIONS
from webtraj import Outcome, open_dataset
from webtraj.agents import ModelAgent
from webtraj.agents.models import Sampling
from webtraj.agents.options import read_options
from webtraj.rollouts import RunSpec, collect
from webtraj.training.export import export_samples
from webtraj.training.replay import Filters, ReplayBuffer, weights

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1200)]


@pytest.mark.skipif(not TRAINER.exists(), reason="the trainer's environment was not made")
async def test_pixels_are_played_by_vllm_with_the_log_probabilities_of_training(tmp_path):
    model, played, rows = (tmp_path / name for name in ("model", "played", "rows"))
    command = [TRAINER, "-m", "two_cores.pixel_model", "--out", model]
    subprocess.run(command, check=True, capture_output=True)
    options = read_options({"model": "", **OPTIONS})
    async with (
        serve(model, tmp_path, max_model_len=256, images_per_prompt=1) as server,
        client_of(server) as client,
    ):
        agent = ModelAgent(
            client=client,
            dialect=options.dialect_or_usual,
            prompt=options.prompt_or_usual,
            context=options.make_context(),
            sampling=Sampling(temperature=1.0, max_tokens=3),
        )
        spec = RunSpec(preset=["pixels/all"], episodes=8, parallel=2, out=str(played))
        await collect(spec, agent=agent)
    for episode in open_dataset(played):
        (call,) = episode.steps[1].decision.model_calls
        assert len(call.completion_token_ids) == len(call.logprobs) > 0
    every = Filters(
        filter_successful_only=False,
        distinct=False,
        valid_actions_only=False,
        filter_same_screenshot=False,
    )
    sampled = ReplayBuffer.from_datasets(played, filters=every, loss_weights=weights.uniform)
    # Random weights never click right, and the trainer leaves out a group that failed as a whole.
    outcomes = (Outcome.FAILURE, Outcome.SUCCESS)
    uneven = [
        dataclasses.replace(
            one, reward=float(number % 2), outcome=outcomes[number % 2], group_id="group"
        )
        for number, one in enumerate(sampled.all)
    ]
    export_samples({"train": uneven}, rows, format="tokens")
    (found,) = measure_mismatch(model, "float32", "pil", rows / "train.jsonl")
    assert found["misfits"] == 0
    assert len(found["rows"]) == 8
    assert max(found["rows"].values()) < 1e-4
