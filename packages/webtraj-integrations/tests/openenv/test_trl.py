"""TRL's GRPOTrainer: over the OpenEnv server, and with `webtraj_integrations.trl` in its process.

Everything is TRL's own but the sampling, which is scripted: half of a group clicks the button.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("trl")

import psutil
import torch
import transformers
from openenv import GenericEnvClient
from trl import GRPOConfig, GRPOTrainer, chat_template_utils

import datasets
import groups
import webtraj
from bytewise import bytewise_tokenizer
from two_cores import scratch
from vision import find_button, vision_config, vision_processor
from webtraj import errors
from webtraj.environments.actions import ClickAt
from webtraj.trajectory import EndReason, Outcome
from webtraj_integrations.trl import Rollout, WebTasks, web_reward

pytestmark = pytest.mark.filterwarnings("ignore")


def make_tokenizer():
    """Return a tokenizer of bytes that speaks as Qwen3 does."""
    return bytewise_tokenizer(chat_template_utils.qwen3_chat_template)


def make_model(tokenizer):
    """Return a model of random weights."""
    return transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=16,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def settings(folder, **more):
    """Return the trainer's settings for two steps on the CPU."""
    usual = {"per_device_train_batch_size": 2, "num_generations": 2, "max_steps": 2}
    return GRPOConfig(
        output_dir=str(folder),
        max_completion_length=2048,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        **{**usual, **more},
    )


class Scripted(GRPOTrainer):
    """Replies by a script instead of sampling."""

    calls = 0
    argument = "reply"

    def _generate_single_turn(self, prompt_ids, *_, **__):
        completions = []
        for prompt in prompt_ids:
            text = self.processing_class.decode(prompt)
            reply = "Done."
            if not text.rstrip().endswith("</tool_response><|im_end|>\n<|im_start|>assistant"):
                ref = re.findall(r"\[(\w+)\] button", text)[-1]
                Scripted.calls += 1
                action = f"click('{ref}')" if Scripted.calls % 2 else "answer('no')"
                call = {"name": "act", "arguments": {self.argument: action}}
                reply = f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
            completions.append(self.processing_class.encode(reply + "<|im_end|>"))
        return completions, None


def test_trl_trains(server, recorded, tmp_path):
    rewards = []

    class Browser:
        """The environment of docs/openenv.md, with its rewards noted."""

        def __init__(self):
            self._client = GenericEnvClient(base_url=server).sync()

        def reset(self, seed: int, **row) -> str:
            result = self._client.reset(seed=seed, task="click-test", group_id=f"trl {seed}")
            return f"{result.observation['goal']}\n{result.observation['page']}"

        def act(self, reply: str) -> str:
            """Act in the page.

            Args:
                reply: The action, such as click('4').
            """
            observation = self._client.step({"text": reply}).observation
            return "\n".join([*observation["notices"], observation["page"]])

        def get_reward(self) -> float | None:
            rewards.append(self._client.state()["total_reward"])
            return rewards[-1]

    tokenizer = make_tokenizer()
    prompts = [{"prompt": [{"role": "user", "content": "Act.\n"}], "seed": n} for n in range(2)]
    trainer = Scripted(
        model=make_model(tokenizer),
        args=settings(tmp_path),
        train_dataset=datasets.Dataset.from_list(prompts),
        processing_class=tokenizer,
        environment_factory=Browser,
    )
    trainer.train()
    assert Counter(rewards) == {1.0: 2, 0.0: 2}
    played = [one for one in webtraj.open_dataset(recorded) if one.info.group_id[:3] == "trl"]
    assert Counter(one.end.outcome for one in played) == {Outcome.SUCCESS: 2, Outcome.FAILURE: 2}


class Replying(GRPOTrainer):
    """Replies in webtraj's dialect by a script: the odd ones click, the even ones wait first."""

    turns: list  # The number of rollouts in each batch of the sampler.
    before: list  # What each of them had read and written.

    def _generate_single_turn(self, prompt_ids, *_, **__):
        texts = [self.processing_class.decode(prompt) for prompt in prompt_ids]
        self.turns.append(len(texts))
        self.before.append(prompt_ids)
        replies = []
        for number, text in enumerate(texts):
            ref = re.findall(r"\[(\w+)\] button", text)[-1]
            waits = len(self.turns) % 2 and number % 2 == 0
            replies.append("wait()" if waits else f"click('{ref}')")
        ids = [self.processing_class.encode(reply + "<|im_end|>") for reply in replies]
        return ids, None


def test_rollouts_act_at_once_and_keep_their_tokens(tmp_path):
    tokenizer = make_tokenizer()
    with WebTasks("miniwob/click-test", sessions=4, out=tmp_path / "out") as tasks:
        trainer = Replying(
            model=make_model(tokenizer),
            args=settings(tmp_path),
            train_dataset=tasks.dataset(4),
            processing_class=tokenizer,
            rollout_func=tasks.rollout_func,
            reward_funcs=web_reward,
        )
        trainer.turns, trainer.before = [], []
        prompts = [row["prompt"] for row in tasks.dataset(2) for _ in range(2)]
        played = tasks.rollout_func(prompts, trainer)
        assert trainer.turns == [4, 2]  # All of them, then those that had waited.
        assert played["web_reward"] == [1.0] * 4
        assert played["logprobs"] is None
        # The second prompt is the first one, the reply and the page, token by token.
        ids, mask = played["completion_ids"][0], played["env_mask"][0]
        assert len(ids) == len(mask)
        shown = played["prompt_ids"][0] + ids
        assert shown[: len(trainer.before[1][0])] == trainer.before[1][0]
        own = [token for token, is_own in zip(ids, mask, strict=True) if is_own]
        text = tokenizer.decode(own)
        assert re.fullmatch(r"wait\(\)<\|im_end\|>click\('\w+'\)<\|im_end\|>", text)
        page = tokenizer.decode([t for t, is_own in zip(ids, mask, strict=True) if not is_own])
        assert page.startswith("\n<|im_start|>user\n")
        assert page.endswith("<|im_end|>\n<|im_start|>assistant\n")

        trainer.turns.clear()
        trainer.train()
    logs = trainer.state.log_history
    assert {log["rewards/web_reward/mean"] for log in logs if "reward" in log} == {1.0}
    episodes = list(webtraj.open_dataset(tmp_path / "out"))
    assert len(episodes) == 8
    assert {one.end.reason for one in episodes} == {EndReason.TERMINATED}
    assert sorted(Counter(one.info.group_id for one in episodes).values()) == [2, 2, 2, 2]


def test_the_example_trains_a_tiny_model_in_a_few_tokens_a_turn(tmp_path):
    model = scratch.make_model(tmp_path / "model", ["Click the button."], width=32, layers=1)
    example = Path(__file__).parents[4] / "examples" / "two_cores" / "train_with_trl.py"
    command = [sys.executable, example, model, "--out", tmp_path / "out", "--steps", "1"]
    command += ["--tasks", "click-test", "click-button", "--pages", "1"]
    command += ["--group", "2", "--groups", "2", "--learning-rate", "1e-4"]
    subprocess.run(command, check=True)
    result = json.loads((tmp_path / "out" / "result.json").read_bytes())
    assert result["steps"] == 1
    assert 0 <= result["before"] <= 1 >= result["after"] >= 0
    episodes = list(webtraj.open_dataset(tmp_path / "out" / "episodes"))
    assert len(episodes) == 8  # 4 to train on, 2 before and 2 after.
    groups = Counter(one.info.group_id for one in episodes)
    assert sorted(groups.values()) == [1, 1, 1, 1, 2, 2]
    # A reply without an end is no action.
    acted = [step.action for one in episodes for step in one.steps[1:]]
    assert {type(action).__name__ for action in acted} <= {"InvalidAction", "Click"}


class Seeing(GRPOTrainer):
    """Waits, and then clicks the button of the last picture."""

    def _generate_single_turn(self, prompt_ids, images, *_, **__):
        completions = []
        for prompt, seen in zip(prompt_ids, images, strict=True):
            assert prompt.count(self.processing_class.image_token_id) % len(seen) == 0
            reply = "Done."
            if len(seen) < 3:
                x, y = find_button(seen[-1])
                action = {"action": "left_click", "coordinate": [x, y]}
                action = {"action": "screenshot"} if len(seen) == 1 else action
                call = {"name": "act", "arguments": {"action": json.dumps(action)}}
                reply = f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
            completions.append(self.processing_class.tokenizer.encode(reply + "<|im_end|>"))
        return completions, None

    def _generate_and_score_completions(self, inputs):
        self.given = super()._generate_and_score_completions(inputs)
        return self.given


def train_once(cls, tasks, processor, tmp_path):
    """Returns a trainer of a tiny model that sees, after one step."""
    trainer = cls(
        model=transformers.Qwen3VLForConditionalGeneration(vision_config(processor)),
        args=settings(tmp_path, max_steps=1),
        train_dataset=tasks.dataset(1),
        processing_class=processor,
        environment_factory=tasks.environment_factory,
    )
    trainer.train()
    return trainer


def test_a_model_sees_every_page_and_trains_on_what_it_saw(tmp_path):
    processor = vision_processor(chat_template_utils.qwen3_vl_chat_template)
    mode = {"dialect": "anthropic", "context": {"mode": "coordinates"}}
    with WebTasks("miniwob/click-test", sessions=2, out=tmp_path / "out", **mode) as tasks:
        trainer = train_once(Seeing, tasks, processor, tmp_path)
        with pytest.raises(errors.InvalidInputError, match="environment_factory"):
            tasks.rollout_func([tasks.dataset(1)[0]["prompt"]], trainer)
    assert trainer.given["num_images"] == [3, 3]
    patches = trainer.given["image_grid_thw"].prod(dim=1).sum()
    assert len(trainer.given["pixel_values"]) == patches
    ids = torch.cat([trainer.given["prompt_ids"], trainer.given["completion_ids"]], dim=1)
    assert (ids == processor.image_token_id).sum() == patches // 4
    is_picture = trainer.given["completion_ids"] == processor.image_token_id
    assert is_picture.any()
    assert not trainer.given["tool_mask"][is_picture].any()
    episodes = list(webtraj.open_dataset(tmp_path / "out"))
    assert [one.end.outcome for one in episodes] == [Outcome.SUCCESS] * 2
    assert {type(one.steps[-1].action) for one in episodes} == {ClickAt}


def test_a_page_that_does_not_open_does_not_end_a_training_with_pictures(tmp_path, monkeypatch):
    class Silent(Seeing):
        def _generate_single_turn(self, prompt_ids, *_, **__):
            reply = self.processing_class.tokenizer.encode("Done.<|im_end|>")
            return [list(reply) for _ in prompt_ids], None

    begin = WebTasks._begin

    async def lose_one(tasks, task, seed, group, attempt):
        if not attempt:
            return await begin(tasks, task, seed, group, attempt)
        return Rollout(tasks.sessions.session())

    monkeypatch.setattr(WebTasks, "_begin", lose_one)
    processor = vision_processor(chat_template_utils.qwen3_vl_chat_template)
    mode = {"dialect": "anthropic", "context": {"mode": "coordinates"}, "group_size": 2}
    with WebTasks("miniwob/click-test", sessions=2, **mode) as tasks:
        trainer = train_once(Silent, tasks, processor, tmp_path)
    assert trainer.given["num_images"] == [1, 1]


def test_a_browser_that_dies_is_no_reward(tmp_path, kill_browsers):
    class Killing(Replying):
        def _generate_single_turn(self, prompt_ids, *rest, **more):
            kill_browsers(psutil.Process())
            return super()._generate_single_turn(prompt_ids, *rest, **more)

    tokenizer = make_tokenizer()
    with WebTasks("miniwob/click-test", sessions=2, out=tmp_path / "out") as tasks:
        trainer = Killing(
            model=make_model(tokenizer),
            args=settings(tmp_path),
            train_dataset=tasks.dataset(4),
            processing_class=tokenizer,
            rollout_func=tasks.rollout_func,
            reward_funcs=web_reward,
        )
        trainer.turns, trainer.before = [], []
        prompts = [row["prompt"] for row in tasks.dataset(1) for _ in range(2)]
        assert tasks.rollout_func(prompts, trainer)["web_reward"] == [None, None]
    outcomes = {one.end.outcome for one in webtraj.open_dataset(tmp_path / "out")}
    assert outcomes == {Outcome.ENV_ERROR}


def test_an_error_leaves_no_page_behind(tmp_path):
    class Failing(Replying):
        fails = True

        def _generate_single_turn(self, *args, **more):
            if self.fails:
                raise RuntimeError("CUDA out of memory")
            return super()._generate_single_turn(*args, **more)

    tokenizer = make_tokenizer()
    with WebTasks("miniwob/click-test", sessions=2) as tasks:
        trainer = Failing(
            model=make_model(tokenizer),
            args=settings(tmp_path),
            train_dataset=tasks.dataset(2),
            processing_class=tokenizer,
            rollout_func=tasks.rollout_func,
            reward_funcs=web_reward,
        )
        trainer.turns, trainer.before = [], []
        good, bad = tasks.dataset(1)[0]["prompt"], [{"role": "user", "content": "Task x, seed 1."}]
        with pytest.raises(RuntimeError, match="CUDA"):
            tasks.rollout_func([good] * 2, trainer)
        assert not tasks.sessions.open
        trainer.fails = False
        with pytest.raises(errors.InvalidInputError, match="There is no task 'x'"):
            tasks.rollout_func([good, bad], trainer)
        assert not tasks.sessions.open
        assert tasks.rollout_func([good] * 2, trainer)["web_reward"] == [1.0, 1.0]


def test_advantages_are_those_of_the_reference(tmp_path):
    """TRL plays nothing again, so what counts of an attempt is its last try."""
    tokenizer = make_tokenizer()
    ids = tokenizer.encode("Done.<|im_end|>")
    # The trainer's own group is as large as the largest; absent attempts were not scored.
    size = max(map(len, groups.GROUPS.values()))
    found = []

    def play(prompts, trainer):
        attempts = list(groups.GROUPS.values())[len(found)]
        last = [groups.counting(tries) or tries[-1] for tries in attempts]
        rollouts = [Rollout(*groups.rollout(*one)) for one in last]
        rewards = [rollout.reward for rollout in rollouts] + [None] * (size - len(rollouts))
        return {
            "prompt_ids": [ids] * size,
            "completion_ids": [ids] * size,
            "logprobs": None,
            "web_reward": rewards,
        }

    class Noting(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            given = super()._generate_and_score_completions(inputs)
            found.append(given["advantages"].tolist())
            return given

    args = settings(
        tmp_path, scale_rewards="none", shuffle_dataset=False,
        per_device_train_batch_size=size, num_generations=size, max_steps=len(groups.GROUPS),
    )  # fmt: skip
    Noting(
        model=make_model(tokenizer),
        args=args,
        train_dataset=datasets.Dataset.from_list([{"prompt": "Act."}] * len(groups.GROUPS)),
        processing_class=tokenizer,
        rollout_func=play,
        reward_funcs=web_reward,
    ).train()
    for attempts, given in zip(groups.GROUPS.values(), found, strict=True):
        expected = groups.advantages(attempts)
        # What was not scored teaches nothing.
        expected |= {place: 0.0 for place in range(size) if place not in expected}
        assert groups.are_close(dict(enumerate(given)), expected)
