"""SkyRL's own generator plays `WebEnv`; only the model is scripted."""

import asyncio
import contextlib
import dataclasses
import functools
import gc
import json
import sys
import time
import types
import typing
import urllib.request
from collections import Counter

import pytest
import typing_extensions

pytest.importorskip("skyrl")

if sys.version_info < (3, 12):
    # SkyRL asks for Python 3.12 for this alone: before it, pydantic takes no other TypedDict. There
    # is no PyTorch for CPUs for Python 3.12 everywhere.
    typing.TypedDict = typing_extensions.TypedDict

import numpy as np
import skyrl_gym
import torch
from PIL import Image
from skyrl.backends.skyrl_train.utils.ppo_utils import compute_grpo_outcome_advantage
from skyrl.train.config import GeneratorConfig, SkyRLGymConfig
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator
from skyrl.train.generators.skyrl_vlm_generator import SkyRLVLMGymGenerator
from skyrl.train.generators.utils import prepare_generator_input
from skyrl_gym.envs.base_text_env import BaseTextEnv

import groups
from webtraj import errors
from webtraj.environments.actions import ClickAt
from webtraj.trajectory import EndReason, Outcome
from webtraj_integrations.sessions import EpisodeFailedError
from webtraj_integrations.skyrl import WebEnv, WebRollouts
from webtraj_integrations.trainers import shared_sessions, task_rows


class Generator(WebRollouts, SkyRLGymGenerator):
    """As documented."""


class SeeingGenerator(WebRollouts, SkyRLVLMGymGenerator):
    """As documented, for pictures."""


class Engine:
    """SkyRL's inference engine, as far as the generator asks it."""

    def __init__(self, model):
        self.model = model
        self.finished = 0

    async def generate(self, asked, model=None):
        replies = [self.model.reply(ids) for ids in asked["prompt_token_ids"]]
        return {
            "responses": [text for text, _ in replies],
            "response_ids": [ids for _, ids in replies],
            "stop_reasons": ["stop"] * len(replies),
            "response_logprobs": [[-0.5] * len(ids) for _, ids in replies],
        }

    async def finish_session(self, session):
        self.finished += 1


class SeeingEngine(Engine):
    """The same for pictures: it renders conversations as vLLM does."""

    model_name = "seeing"

    def __init__(self, model, processor):
        super().__init__(model)
        self.processor = processor
        self.pictures = []

    async def render_chat_completion(self, asked):
        talk = json.loads(json.dumps(asked["json"]["messages"]))
        parts = [
            part for one in talk if isinstance(one["content"], list) for part in one["content"]
        ]
        urls = [part["image_url"]["url"] for part in parts if "image_url" in part]
        self.pictures = [Image.open(urllib.request.urlopen(url)) for url in urls]
        text = self.processor.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
        given = self.processor(text=[text], images=self.pictures or None, return_tensors="pt")
        features = {"kwargs_data": {"image": [given]}} if self.pictures else None
        return {"token_ids": given["input_ids"][0].tolist(), "features": features}

    async def generate(self, asked, model=None):
        [ids] = asked["prompt_token_ids"]
        text, ids = self.model.reply(ids, self.pictures)
        return {"responses": [text], "response_ids": [ids], "stop_reasons": ["stop"]}


def settings(out):
    return {"presets": "miniwob/click-test", "sessions": 4, "out": str(out), "policy": "mine"}


@contextlib.contextmanager
def registering(record, **more):
    """Register `web` as SkyRL's documentation registers environments."""
    skyrl_gym.register(
        id="web",
        entry_point="webtraj_integrations.skyrl:WebEnv",
        kwargs={**settings(record.out), **more},
    )
    yield record
    skyrl_gym.envs.deregister("web")


@pytest.fixture
def registered(record):
    """Register `web` with pages of text."""
    with registering(record):
        yield record


@pytest.fixture
def seen(record):
    """Register `web` with pages that are pictures."""
    with registering(record, dialect="webgym", context={"mode": "coordinates"}):
        yield record


def rows(*scripts):
    """Return prompts as SkyRL's dataset yields them."""
    prompts = []
    for number, row in enumerate(task_rows("miniwob/click-test", len(scripts), seed=3)):
        system = {"role": "system", "content": f"Script: {scripts[number]}"}
        prompt = [system, *row.pop("prompt")]
        prompts.append(
            {"prompt": prompt, "env_class": "web", "env_extras": row, "uid": str(number)}
        )
    return prompts


def generate(model, prompts, samples=1, made=Generator, engine=None, workers=4, **more):
    """Let SkyRL's generator play a batch."""
    config = GeneratorConfig(max_turns=3, max_input_length=100_000, **more)
    config.sampling_params.logprobs = 1
    engine = engine or Engine(model)
    generator = made(config, SkyRLGymConfig(max_env_workers=workers), engine, model.tokenizer)
    batch, _ = prepare_generator_input(prompts, samples, None, "web", "train", global_step=0)
    return asyncio.run(generator.generate(batch, disable_tqdm=True))


def test_groups_are_played_with_their_tokens(registered, tokenizer, script):
    given = generate(script(tokenizer), rows("click", "nonsense click", "fail"), samples=2)
    assert [sum(rewards) for rewards in given["rewards"]] == [1.0] * 4 + [0.0] * 2
    # The second prompt's reply is told in words, and costs a turn. The page is not trained on.
    ids, mask = given["response_ids"][2], given["loss_masks"][2]
    own = tokenizer.decode([token for token, is_own in zip(ids, mask, strict=True) if is_own])
    assert own.startswith("Hello.<|im_end|>click(")
    assert "Your last action was not carried out." in tokenizer.decode(ids)
    prompt = tokenizer.decode(given["prompt_token_ids"][2])
    assert prompt.startswith("<|im_start|>system\nScript: nonsense click<|im_end|>\n")
    assert "Goal: Click the button." in prompt
    assert "Task click-test" not in prompt
    metrics = given["rollout_metrics"]
    assert metrics["environment/success"] == pytest.approx(4 / 6)

    episodes = registered.played()
    assert Counter(one.end.outcome for one in episodes) == {Outcome.SUCCESS: 4, Outcome.FAILURE: 2}
    groups = Counter((one.info.group_id, one.info.seed) for one in episodes)
    assert sorted(groups.values()) == [2, 2, 2]
    assert {seed for _, seed in groups} == {3, 4, 5}
    assert sorted(one.info.attempt for one in episodes) == [0, 0, 0, 1, 1, 1]


def test_more_rollouts_than_pages_wait(registered, tokenizer, script):
    given = generate(script(tokenizer), rows(*["nonsense click"] * 3), samples=2, workers=2)
    assert [sum(rewards) for rewards in given["rewards"]] == [1.0] * 6
    assert len(registered.played()) == 6


@pytest.mark.parametrize(
    ("reward", "replies", "rewards"),
    [
        ("environment", ["wait()"], [0.0]),
        ("environment", ["wait()", "answer('no')"], [0.0, 1.0]),
        ("outcome", ["wait()", "answer('no')"], [0.0, 0.0]),
    ],
)
def test_rewards_along_the_way_count_for_a_finished_rollout_alone(
    registered, reward, replies, rewards
):
    """SkyRL adds up the rewards of turns. This judge pays 0.5 for each."""
    extras = {"task": "click-test", "seed": 1, "max_turns": len(replies)}
    environment = skyrl_gym.make("web", extras=extras, reward=reward)
    environment.init([])
    session = environment._session
    act = session.act

    async def paid(decision):
        turn = await act(decision)
        session._total += 0.5
        return dataclasses.replace(turn, reward=turn.reward + 0.5)

    session.act = paid
    given = [environment.step(reply) for reply in replies]
    environment.close()
    assert [one["reward"] for one in given] == rewards
    assert given[-1]["done"]


def test_a_killed_browser_is_no_reward_and_played_again(registered, tokenizer, script):
    given = generate(script(tokenizer, kills=1), rows("kill"), samples=2)
    assert [sum(rewards) for rewards in given["rewards"]] == [1.0, 1.0]
    episodes = registered.played()
    assert [one.end.outcome for one in episodes] == [Outcome.SUCCESS] * 2
    assert registered.lost
    # A retried attempt stays in its group.
    assert len({one.info.group_id for one in episodes + registered.lost}) == 1
    assert {one.info.attempt for one in episodes} == {0, 1}


def test_a_model_sees_every_page_and_trains_on_what_it_saw(
    seen, processor, seeing_script, monkeypatch
):
    # vLLM packs pictures for the way; here they come as they are.
    wire = types.ModuleType("mm_serde")
    wire.decode_mm_kwargs_item = lambda given: types.SimpleNamespace(get_data=lambda: given)
    name = "vllm.entrypoints.scale_out.token_in_token_out.mm_serde"
    monkeypatch.setitem(sys.modules, name, wire)
    model = seeing_script(processor.tokenizer)
    engine = SeeingEngine(model, processor)
    given = generate(model, rows("nonsense click"), made=SeeingGenerator, engine=engine)
    assert [sum(rewards) for rewards in given["rewards"]] == [1.0]
    [grids], [pixels] = given["image_grid_thw"], given["pixel_values"]
    assert len(grids) == 2
    assert len(pixels) == grids.prod(dim=1).sum()
    ids = given["prompt_token_ids"][0] + given["response_ids"][0]
    assert ids.count(processor.image_token_id) == len(pixels) // 4
    own = [
        one
        for one, is_own in zip(given["response_ids"][0], given["loss_masks"][0], strict=True)
        if is_own
    ]
    assert processor.decode(own).startswith('Hello.<|im_end|>{"name": "computer_use"')
    [episode] = seen.played()
    assert type(episode.steps[-1].action) is ClickAt


@pytest.mark.parametrize("kind", ["image", "video"])
def test_a_reply_with_the_token_of_a_picture_is_not_trained_on(
    seen, processor, seeing_script, kind
):
    model = seeing_script(processor.tokenizer)
    engine = SeeingEngine(model, processor)
    with pytest.raises(EpisodeFailedError, match="for which there is no picture"):
        generate(model, rows(kind), made=SeeingGenerator, engine=engine)
    episodes = seen.played()
    # The reply was not carried out, and each try gave its page back.
    assert {len(one.steps) for one in episodes} == {1}
    assert {one.end.reason for one in episodes} == {EndReason.CLOSED}


def test_a_generator_of_text_is_refused_pictures(seen, tokenizer, script):
    with pytest.raises(errors.InvalidInputError, match="SkyRLVLMGymGenerator"):
        generate(script(tokenizer), rows("click"))


@pytest.mark.parametrize("attempts", groups.GROUPS.values(), ids=groups.GROUPS)
def test_advantages_are_those_of_the_reference(attempts):
    """SkyRL cannot leave out a rollout: where the reference does, the training ends."""
    rewards = asyncio.run(groups.rewards_of_trainers(attempts))
    given, _ = compute_grpo_outcome_advantage(
        torch.tensor([[0.0, reward] for reward in rewards.values()]),
        torch.ones(len(rewards), 2),
        np.array(["g"] * len(rewards)),
        grpo_norm_by_std=False,
    )
    found = dict(zip(rewards, given[:, -1].tolist(), strict=True))
    assert groups.are_close(found, groups.advantages(attempts))


def test_a_dropped_environment_frees_its_page(registered):
    made = functools.partial(skyrl_gym.make, "web", extras={"task": "click-test", "seed": 1})
    environment = made()
    assert isinstance(environment, BaseTextEnv)
    assert isinstance(environment, WebEnv)
    prompt, _ = environment.init([{"role": "user", "content": "Go."}])
    assert [message["role"] for message in prompt] == ["user"]
    shared = shared_sessions(**settings(registered.out))
    assert len(shared.sessions.open) == 1
    del environment
    gc.collect()
    deadline = time.monotonic() + 30
    while shared.sessions.open and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not shared.sessions.open

    several = [made() for _ in range(5)]
    for each in several[:4]:
        each.init([])
    with pytest.raises(errors.InvalidInputError, match="All 4 pages are in use"):
        several[4].init([])
    several[0].close()
    several[0].close()
    several[4].init([])
    for each in several:
        each.close()
    assert [one.end.reason for one in registered.played()] == [EndReason.CLOSED] * 6
