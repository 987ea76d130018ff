"""What it is for: recorded episodes in, a model that acts as they did out."""

import asyncio

import pytest
import transformers
from training_runs import greedy, prompt_text, sample, settings

from webtraj import open_dataset
from webtraj.environments.actions.dialects import make_dialect
from webtraj.rollouts import RunSpec, collect
from webtraj.training.sft import publish, read_log, train

TASKS = [
    f"miniwob/{task}" for task in ("click-button", "click-link", "click-dialog-2", "enter-text")
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Fifty samples of what oracles did on real pages; equal pages have equal replies."""
    out = tmp_path_factory.mktemp("oracles")
    options = {"observe": ["axtree", "goal"]}
    asyncio.run(
        collect(
            RunSpec(
                preset=TASKS,
                agent="oracle",
                episodes=56,
                out=out,
                parallel=2,
                environment_options=options,
            )
        )
    )
    dialect = make_dialect("browsergym")
    by_prompt = {}
    for episode in open_dataset(out):
        for before, after in zip(episode.steps, episode.steps[1:], strict=False):
            seen = f"Goal: {episode.info.goal}\n{before.observation['axtree']}"
            by_prompt.setdefault(seen, dialect.format(after.action))
    assert len(by_prompt) >= 50
    pairs = sorted(by_prompt.items())[:50]  # Episodes end in any order.
    return [sample(number, seen, reply=done) for number, (seen, done) in enumerate(pairs)]


@pytest.fixture(scope="module")
def trained(recorded, text_model, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "overfit"
    wanted = settings(
        text_model,
        output,
        batch_size=10,
        max_steps=400,
        learning_rate=2e-3,
        warmup_steps=10,
        adam_beta2=0.98,
    )
    result = train(wanted, recorded, eval_samples=recorded)
    return output, result


def test_fifty_recorded_samples_are_learned_by_heart(recorded, trained, tmp_path):
    output, result = trained
    folder = publish(output, tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    right = sum(
        greedy(model, tokenizer, prompt_text(tokenizer, one)) == one.completion for one in recorded
    )
    assert right / len(recorded) >= 0.99, f"{right} of {len(recorded)}, loss {result.loss}"
    assert read_log(output)[-1]["eval_accuracy"] >= 0.99


def test_what_is_published_replies_as_the_checkpoint_does(recorded, trained, tmp_path):
    output, result = trained
    folder = publish(output, tmp_path)
    replies = []
    for source in (folder, result.checkpoint / "model"):
        model = transformers.AutoModelForCausalLM.from_pretrained(source)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
        replies.append(
            [greedy(model, tokenizer, prompt_text(tokenizer, one)) for one in recorded[:5]]
        )
    assert replies[0] == replies[1]
    assert folder.name == "model.pt"
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_a_run_leaves_a_log(trained):
    output, result = trained
    log = read_log(output)
    steps = [entry for entry in log if "loss" in entry]
    assert [entry["step"] for entry in steps] == list(range(1, result.planned + 1))
    assert steps[-1]["loss"] < steps[0]["loss"] / 20
