"""Learning from ten demonstrations: success on seeds that were not shown, before and after.

A hand demonstrates ten episodes of one MiniWoB++ task with real input through the browser's
debugging protocol; `webtraj record`'s recorder records them. They are exported with
`--format pointing`, a model with random weights is trained on them with `webtraj train`, and the
agent `pointing` plays other seeds with the model before and after. The hand takes what to do from
the task's oracle; what it does is recorded from the page alone.

Needs PyTorch and examples/two_cores: .venv-train/bin/python benchmarks/demonstrations.py
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "demonstrating"))

from hand import Hand, until

import webtraj
from two_cores.pointing import PointingAgent
from webtraj import JsonTrajectoryCollector, ModelCall
from webtraj.demonstrating import Recorder, preset_environment
from webtraj.environments.browser.pool import BrowserPool

DEMONSTRATED = 0
"""The first seed that is demonstrated,"""
HELD_OUT = 1000
"""and the first that is played."""


@dataclasses.dataclass(frozen=True)
class LocalModel:
    """A client of a model in this process, which always gives the likeliest reply."""

    model: Any
    tokenizer: Any
    name: str = "local"

    @classmethod
    def of(cls, folder: Path) -> LocalModel:
        """Return the model in a folder."""
        import torch
        import transformers

        torch.set_num_threads(1)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        return cls(model.eval(), transformers.AutoTokenizer.from_pretrained(folder))

    async def complete(self, messages: Any, sampling: Any, **_: Any) -> ModelCall:
        """Return the reply."""
        import torch

        prompt = self.tokenizer.apply_chat_template(
            [message.to_data() for message in messages],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        begun = time.time()
        with torch.no_grad():
            made = self.model.generate(
                **prompt, max_new_tokens=sampling.max_tokens, do_sample=False
            )
        new = made[0, prompt["input_ids"].shape[1] :]
        text = self.tokenizer.decode(new, skip_special_tokens=True)
        return ModelCall(model=self.name, text=text, start_time=begun)

    async def aclose(self) -> None:
        """Keep the model."""


async def demonstrate(task: str, number: int, folder: Path) -> list[float]:
    """Record demonstrations; return their rewards."""
    rewards = []
    async with JsonTrajectoryCollector(folder) as collector, BrowserPool() as pool:
        environment = preset_environment(task, pool=pool, seed=DEMONSTRATED)
        shown: list[Any] = []
        recorder = Recorder(environment, collector, on_progress=shown.append)
        for _ in range(number):
            shown.clear()
            recording = asyncio.ensure_future(recorder.record_episode())
            await until(lambda: shown)
            hand = await Hand.on(environment.session.page)
            while not recording.done() and (action := await environment.cheat()) is not None:
                steps = recorder.steps
                await hand.do(environment, action)
                await until(
                    lambda steps=steps, recording=recording: (
                        recording.done() or (recorder.steps > steps and recorder.is_settled)
                    )
                )
            rewards.append((await recording).reward)
        await recorder.close()
    return rewards


async def play(task: str, episodes: int, client: Any) -> int:
    """Return how many held-out episodes succeed."""
    agent = PointingAgent(client=client)
    successes = 0
    async with BrowserPool() as pool:
        environment = webtraj.make(
            task, pool=pool, seed=HELD_OUT, max_steps=8, observe=agent.channels
        )
        for _ in range(episodes):
            timestep = await environment.reset()
            actor = agent.begin_episode(environment)
            try:
                while not timestep.last():
                    timestep = await environment.step(await actor.act(timestep.observation))
            except webtraj.WebtrajError:
                continue  # It gave up.
            successes += timestep.reward == 1
        await environment.close()
    return successes


def run(*arguments: str, module: str = "webtraj") -> None:
    """Run a command of webtraj, or of another module."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # A model this small needs one.
    subprocess.run([sys.executable, "-m", module, *arguments], check=True, env=environment)


def main() -> None:
    """Demonstrate, train, and say what was learned."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="miniwob/click-button")
    parser.add_argument("--demonstrations", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--copies", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base, rows, policy = folder / "base", folder / "rows", folder / "policy"
        begun = time.monotonic()
        rewards = asyncio.run(demonstrate(options.task, options.demonstrations, folder / "shown"))
        print(
            f"{len(rewards)} demonstrations, mean reward {sum(rewards) / len(rewards):.2f}, "
            f"{time.monotonic() - begun:.0f} s",
            flush=True,
        )
        run(str(folder / "shown"), "--out", str(base), module="two_cores.scratch")
        run(
            "train",
            "export",
            str(folder / "shown"),
            "--format",
            "pointing",
            "--set",
            f"model={base}",
            "--set",
            f"copies={options.copies}",
            "--render",
            "--out",
            str(rows),
        )
        before = asyncio.run(play(options.task, options.episodes, LocalModel.of(base)))
        begun = time.monotonic()
        run(
            "train",
            "--model",
            str(base),
            "--data",
            str(rows),
            "--out",
            str(folder / "run"),
            "--publish",
            str(policy),
            "learning_rate=1e-2",
            "adam_beta2=0.98",
            f"batch_size={options.batch}",
            f"epochs={options.epochs}",
            "warmup_steps=20",
            "schedule=linear",
        )
        seconds = time.monotonic() - begun
        after = asyncio.run(
            play(options.task, options.episodes, LocalModel.of(policy / "model.pt"))
        )
        print(
            f"{options.task}, {options.episodes} seeds that were not shown: "
            f"{before / options.episodes:.0%} before, {after / options.episodes:.0%} after "
            f"{len(rewards)} demonstrations ({seconds:.0f} s of training)"
        )


if __name__ == "__main__":
    main()
