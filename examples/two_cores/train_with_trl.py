"""TRL's GRPOTrainer on two cores: a tiny model learns MiniWoB++ in browsers of the same process.

The model is one of `python -m two_cores.scratch` that ends its replies: trained on an export with
`--format pointing --set end=true`, as docs/trainers.md shows. Its success is measured before and
after, on pages that training never sees.
"""

import argparse
import json
import time
from pathlib import Path

import transformers
from trl import GRPOConfig, GRPOTrainer

from webtraj_integrations.trl import WebTasks, web_reward

TASKS = """
    click-test click-test-2 click-button click-link click-dialog click-dialog-2 click-tab
    click-widget focus-text focus-text-2 click-color click-option click-button-sequence
    click-checkboxes click-collapsible identify-shape
""".split()  # noqa: SIM905  (reads better)
HELD_OUT = 1_000_000
"""The first seed of the evaluation."""


class Deadline(transformers.TrainerCallback):
    """Stops the training after some minutes."""

    def __init__(self, minutes):
        self._seconds = 60 * minutes

    def on_train_begin(self, args, state, control, **_):
        self._end = time.monotonic() + self._seconds

    def on_step_end(self, args, state, control, **_):
        if time.monotonic() > self._end:
            control.should_training_stop = True


def success(trainer, tasks, pages):
    """Returns the share of successes on so many pages of each task, sampled as in training."""
    prompts = tasks.dataset(pages * len(tasks.names), seed=HELD_OUT)["prompt"]
    rewards = []
    trainer.model.eval()
    for start in range(0, len(prompts), 128):
        rewards += tasks.rollout_func(prompts[start : start + 128], trainer)["web_reward"]
    scored = [reward > 0 for reward in rewards if reward is not None]
    return sum(scored) / len(scored)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="the model to begin with")
    parser.add_argument("--out", default="runs/trl")
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=50, help="pages of each task to evaluate on")
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--groups", type=int, default=16, help="groups in a step")
    parser.add_argument("--reuse", type=int, default=2, help="passes over each batch of rollouts")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    batch = asked.group * asked.groups
    presets = [f"miniwob/{name}" for name in asked.tasks]
    settings = GRPOConfig(
        output_dir=f"{asked.out}/checkpoints",
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        seed=asked.seed,
        max_steps=asked.steps,
        logging_steps=10,
        per_device_train_batch_size=batch,
        num_generations=asked.group,
        num_iterations=asked.reuse,
        learning_rate=asked.learning_rate,
        lr_scheduler_type="linear",  # It ends at 0 after `--steps`.
        loss_type="grpo",  # Each rollout weighs the same, however long it wandered.
        max_completion_length=320,
        gradient_checkpointing=False,  # It saves memory that so small a model does not need.
        generation_kwargs={"max_new_tokens": 3},  # An element, what to do with it, and the end.
        beta=0.0,
    )
    with WebTasks(
        presets,
        sessions=16,  # The other rollouts of a batch wait for a page.
        dialect="pointing",
        max_steps=8,
        # By MiniWoB++'s own rewards, a mistake costs more (-1) than never to finish (0).
        options={"reward": "binary"},
        out=f"{asked.out}/episodes",
    ) as tasks:
        trainer = GRPOTrainer(
            model=transformers.AutoModelForCausalLM.from_pretrained(asked.model),
            processing_class=transformers.AutoTokenizer.from_pretrained(asked.model),
            args=settings,
            train_dataset=tasks.dataset(100_000, seed=asked.seed),
            rollout_func=tasks.rollout_func,
            reward_funcs=web_reward,
            callbacks=[Deadline(asked.minutes)],
        )
        before = success(trainer, tasks, asked.pages)
        print(f"before: {before:.1%}", flush=True)
        begun = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - begun
        after = success(trainer, tasks, asked.pages)
    print(f"after {trainer.state.global_step} steps, {seconds / 60:.0f} min: {after:.1%}")
    trainer.save_model(f"{asked.out}/model")
    result = {"before": before, "after": after, "seconds": seconds}
    result |= {"steps": trainer.state.global_step, "log": trainer.state.log_history}
    (Path(asked.out) / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
