"""verl's own agent-loop workers play `WebAgentLoop`; only the server of the model is scripted."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("verl")

import hydra
import numpy as np
import torch
import transformers
import verl
from verl.experimental.agent_loop import AgentLoopWorker
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage
from verl.workers.rollout.replica import TokenOutput

import groups
from vision import vision_config
from webtraj.environments.actions import ClickAt
from webtraj.trajectory import EndReason, Outcome
from webtraj_integrations.sessions import EpisodeFailedError
from webtraj_integrations.trainers import task_rows

LOOP = """\
- name: web
  _target_: webtraj_integrations.verl.WebAgentLoop
  presets: [miniwob/click-test]
  sessions: 4
  out: {out}
"""
PICTURES = (
    LOOP
    + """\
  dialect: webgym
  context: {{mode: coordinates}}
"""
)


class Server:
    """verl's client of the model's servers, as far as an agent loop asks it."""

    def __init__(self, model):
        self.model = model
        self.step = 0

    async def generate(
        self, request_id, *, prompt_ids, sampling_params, image_data, mm_processor_kwargs
    ):
        assert sampling_params["temperature"] == 1.0
        _, ids = self.model.reply(prompt_ids, image_data or [])
        self.step += 1
        steps = {"min_global_steps": self.step, "max_global_steps": self.step}
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields=steps)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory, tokenizer):
    """Return a model without weights."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer.save_pretrained(folder)
    transformers.Qwen3Config(architectures=["Qwen3ForCausalLM"]).save_pretrained(folder)
    return folder


@pytest.fixture
def config(tmp_path, model_folder, record):
    """Return verl's own configuration, with the agent loop as documented."""
    return compose(model_folder, tmp_path / "loop.yaml", LOOP.format(out=record.out))


def compose(model_folder, loop_file, loop):
    loop_file.write_text(loop)
    with hydra.initialize_config_dir(str(Path(verl.__file__).parent / "trainer/config")):
        return hydra.compose(
            "ppo_trainer",
            [
                f"actor_rollout_ref.model.path={model_folder}",
                "+actor_rollout_ref.model.override_config.attn_implementation=eager",
                "actor_rollout_ref.rollout.name=vllm",
                "actor_rollout_ref.rollout.prompt_length=8192",
                "actor_rollout_ref.rollout.response_length=8192",
                "actor_rollout_ref.rollout.n=2",
                "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=3",
                "actor_rollout_ref.rollout.agent.default_agent_loop=web",
                f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loop_file}",
            ],
        )


def rows(*scripts):
    """Return rows as verl's dataset yields them, with the trainer's group."""
    made = task_rows("miniwob/click-test", len(scripts), seed=3, data_source="webtraj")
    for number, row in enumerate(made):
        system = {"role": "system", "content": f"Script: {scripts[number]}"}
        row |= {"raw_prompt": [system, *row.pop("prompt")], "uid": f"group {number}"}
    return made


def generate(config, model, prompts, samples=1):
    """Let verl's worker play a batch, as the first trainer does."""
    repeated = [row for row in prompts for _ in range(samples)]
    columns = {}
    for name in repeated[0]:
        columns[name] = np.empty(len(repeated), dtype=object)
        columns[name][:] = [row[name] for row in repeated]
    columns["session_id"] = np.array([place % samples for place in range(len(repeated))])
    batch = DataProto(batch=None, non_tensor_batch=columns, meta_info={"global_steps": 0})

    async def play():
        return await AgentLoopWorker(config, Server(model)).generate_sequences(batch)

    return asyncio.run(play())


def test_groups_are_played_with_their_tokens(config, tokenizer, script, record):
    given = generate(config, script(tokenizer), rows("click", "nonsense click", "fail"), samples=2)
    assert given.batch["rm_scores"].sum(dim=1).tolist() == [1.0] * 4 + [0.0] * 2
    row = given.batch[2]
    length = int(row["attention_mask"][8192:].sum())
    ids, mask = row["responses"][:length].tolist(), row["response_mask"][:length].tolist()
    own = tokenizer.decode([token for token, is_own in zip(ids, mask, strict=True) if is_own])
    assert own.startswith("Hello.<|im_end|>click(")
    assert mask[-1] == 1  # Nothing follows the last reply.
    assert row["rm_scores"][length - 1] == 1.0
    logprobs = row["rollout_log_probs"][:length].tolist()
    assert logprobs == [-0.5 if is_own else 0.0 for is_own in mask]
    page = tokenizer.decode([token for token, is_own in zip(ids, mask, strict=True) if not is_own])
    assert page.startswith("\n<|im_start|>user\nYour last action was not carried out.")
    assert page.endswith("<|im_end|>\n<|im_start|>assistant\n")
    prompt = tokenizer.decode(row["prompts"][row["attention_mask"][:8192].bool()])
    assert prompt.startswith("<|im_start|>system\nScript: nonsense click<|im_end|>\n")
    assert "Goal: Click the button." in prompt
    assert given.non_tensor_batch["__num_turns__"].tolist() == [3, 3, 5, 5, 3, 3]
    first, last = (given.non_tensor_batch[f"{end}_global_steps"][2] for end in ("min", "max"))
    assert first < last

    episodes = record.played()
    assert Counter(one.end.outcome for one in episodes) == {Outcome.SUCCESS: 4, Outcome.FAILURE: 2}
    groups = Counter((one.info.group_id, one.info.seed) for one in episodes)
    assert groups == {("group 0", 3): 2, ("group 1", 4): 2, ("group 2", 5): 2}
    assert sorted(one.info.attempt for one in episodes) == [0, 0, 0, 1, 1, 1]
    known = {one.info.episode_id for one in episodes}
    assert {*given.non_tensor_batch["webtraj_episode"]} == known


def test_more_rollouts_than_pages_wait(config, tokenizer, script, record):
    given = generate(config, script(tokenizer), rows(*["nonsense click"] * 3), samples=2)
    assert given.batch["rm_scores"].sum().item() == 6.0
    assert len(record.played()) == 6


@pytest.mark.parametrize(("verbs", "turns"), [("nonsense", 3), ("long", 0)])
def test_limits_end_a_rollout_without_reward(config, tokenizer, script, record, verbs, turns):
    given = generate(config, script(tokenizer), rows(verbs))
    assert given.batch["rm_scores"].sum().item() == 0.0
    [episode] = record.played()
    assert (len(episode.steps) - 1, episode.end.reason) == (turns, EndReason.CLOSED)


def test_a_killed_browser_is_no_reward_and_played_again(config, tokenizer, script, record):
    given = generate(config, script(tokenizer, kills=1), rows("kill"), samples=2)
    assert given.batch["rm_scores"].sum(dim=1).tolist() == [1.0, 1.0]
    episodes = record.played()
    assert [one.end.outcome for one in episodes] == [Outcome.SUCCESS] * 2
    assert record.lost
    assert {one.info.group_id for one in episodes + record.lost} == {"group 0"}
    assert {one.info.attempt for one in episodes} == {0, 1}


@pytest.fixture
def seeing_model(tmp_path, processor, monkeypatch):
    """Return the folder of a model that takes pictures."""
    folder = tmp_path / "model"
    processor.tokenizer.save_pretrained(folder)
    vision_config(processor).save_pretrained(folder)
    # To load a processor of videos takes torchvision.
    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", lambda *_, **__: processor)
    return folder


@pytest.fixture
def seeing_config(tmp_path, seeing_model, record):
    """Return the same for a model that sees pages as pictures."""
    return compose(seeing_model, tmp_path / "loop.yaml", PICTURES.format(out=record.out))


def test_a_model_sees_every_page_and_trains_on_what_it_saw(
    seeing_config, processor, seeing_script, record
):
    model = seeing_script(processor.tokenizer)
    given = generate(seeing_config, model, rows("nonsense click"), samples=2)
    assert given.batch["rm_scores"].sum(dim=1).tolist() == [1.0, 1.0]
    for row in (given[0], given[1]):
        seen = row.non_tensor_batch["multi_modal_inputs"]
        patches = seen["image_grid_thw"].prod(dim=1)
        assert len(patches) == 2
        assert len(seen["pixel_values"]) == patches.sum()
        is_picture = row.batch["input_ids"] == processor.image_token_id
        assert is_picture.sum() == patches.sum() // 4
        assert not row.batch["response_mask"][is_picture[8192:]].any()
    episodes = record.played()
    assert {type(one.steps[-1].action) for one in episodes} == {ClickAt}


@pytest.mark.parametrize("pages", [PICTURES, LOOP], ids=["pictures", "text"])
@pytest.mark.parametrize("kind", ["image", "video"])
def test_a_reply_with_the_token_of_a_picture_is_not_trained_on(
    tmp_path, seeing_model, record, processor, seeing_script, pages, kind
):
    config = compose(seeing_model, tmp_path / "loop.yaml", pages.format(out=record.out))
    with pytest.raises(EpisodeFailedError, match="for which there is no picture"):
        generate(config, seeing_script(processor.tokenizer), rows(kind))


def test_a_model_of_text_is_refused_pictures(tmp_path, model_folder, script, tokenizer, record):
    config = compose(model_folder, tmp_path / "loop.yaml", PICTURES.format(out=record.out))
    with pytest.raises(ValueError, match="Use a VL base model"):
        generate(config, script(tokenizer), rows("click"))


@pytest.mark.parametrize("attempts", groups.GROUPS.values(), ids=groups.GROUPS)
def test_advantages_are_those_of_the_reference(attempts):
    rewards = asyncio.run(groups.rewards_of_trainers(attempts))
    given, _ = compute_grpo_outcome_advantage(
        torch.tensor([[0.0, reward] for reward in rewards.values()]),
        torch.ones(len(rewards), 2),
        np.array(["g"] * len(rewards)),
        norm_adv_by_std_in_grpo=False,
    )
    found = dict(zip(rewards, given[:, -1].tolist(), strict=True))
    assert groups.are_close(found, groups.advantages(attempts))
