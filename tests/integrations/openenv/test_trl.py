"""The OpenEnv server, asked by TRL's GRPOTrainer through its `environment_factory`.

Everything is TRL's own but the sampling, which is scripted: half of a group clicks the button.
"""

import json
import re
from collections import Counter

import pytest

pytest.importorskip("trl")

import tokenizers
import transformers
from openenv import GenericEnvClient
from trl import GRPOConfig, GRPOTrainer, chat_template_utils

import datasets
import webtraj
from webtraj.trajectory import Outcome

pytestmark = pytest.mark.filterwarnings("ignore")


def make_tokenizer():
    """Return a tokenizer of bytes that speaks as Qwen3 does."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE({letter: n for n, letter in enumerate(alphabet)}, [])
    bytewise = tokenizers.Tokenizer(model)
    bytewise.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = tokenizers.decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytewise,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=["<|im_start|>"],
    )
    made.chat_template = chat_template_utils.qwen3_chat_template
    return made


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


class Scripted(GRPOTrainer):
    """Replies by a script instead of sampling."""

    calls = 0

    def _generate_single_turn(self, prompt_ids, *_, **__):
        completions = []
        for prompt in prompt_ids:
            text = self.processing_class.decode(prompt)
            reply = "Done."
            if not text.rstrip().endswith("</tool_response><|im_end|>\n<|im_start|>assistant"):
                ref = re.findall(r"\[(\w+)\] button", text)[-1]
                Scripted.calls += 1
                action = f"click('{ref}')" if Scripted.calls % 2 else "answer('no')"
                call = {"name": "act", "arguments": {"reply": action}}
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
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=2,
            num_generations=2,
            max_steps=2,
            max_completion_length=2048,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
        ),
        train_dataset=datasets.Dataset.from_list(prompts),
        processing_class=tokenizer,
        environment_factory=Browser,
    )
    trainer.train()
    assert Counter(rewards) == {1.0: 2, 0.0: 2}
    played = [one for one in webtraj.open_dataset(recorded) if one.info.group_id[:3] == "trl"]
    assert Counter(one.end.outcome for one in played) == {Outcome.SUCCESS: 2, Outcome.FAILURE: 2}
