"""Episodes to export: recorded by the wrapper from environments that are played.

Run as a program it records one into a folder, and kills itself in the middle.
"""

import asyncio
import io
import os
import signal
import sys

import dm_env
import numpy as np

import webtraj
from webtraj.environments.actions import Answer, Click, Fill
from webtraj.testing.fakes import ScriptedEnvironment
from webtraj.trajectory import Decision, EpisodeInfo, ModelCall, Outcome

NEEDS = {"minari": "minari", "huggingface": "pyarrow", "inspect": "inspect_ai"}
"""The modules that formats need, beyond those that every test has."""


def picture(number, size=(64, 48)):
    """Returns a real PNG."""
    from PIL import Image

    pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    return file.getvalue()


def page(number, **more):
    """Returns an observation of a browser's shape."""
    return {
        "goal": "Buy tea",
        "url": f"https://shop.example/{number}",
        "axtree": f'[1] link "Tea {number}"\n' * (50 * number + 1),
        "screenshot": picture(number),
        "tabs": np.array(["https://shop.example/"]),
        "active_tab": 0,
        "boxes": np.arange(4.0 * number).reshape(number, 4),
        "last_action": {"error": "", "box": np.zeros(4)},
        "network": f'{{"startedDateTime": "2026-11-20T10:00:0{number}Z"}}\n',
        **more,
    }


def decision(number, action):
    """Returns a decision with a failed model call and one that gave the action."""
    failed = ModelCall(model="tiny", error="overloaded", usage={"prompt_tokens": 2})
    call = ModelCall(
        model="tiny",
        provider="vllm",
        policy_version="7",
        messages=(
            {"role": "system", "content": "You act in a browser."},
            {"role": "user", "content": [{"type": "image", "image": picture(number)}]},
        ),
        sampling={"temperature": 0.5},
        text=f"I click {number}",
        finish_reason="stop",
        usage={"prompt_tokens": 3, "completion_tokens": 2},
        prompt_token_ids=(1, 2, 151_643),
        completion_token_ids=(7, 8 + number),
        logprobs=(-0.5, -0.25),
        latency=0.5,
    )
    return Decision(
        action=action,
        thought=f"thought {number}",
        memory=f"memory {number}",
        model_calls=(failed, call) if number == 2 else (call,),
    )


SHOP_ACTIONS = (Click("1"), Fill("2", "tea\n'\"ü"), "click('3', button='right')", Answer("done"))
ACTIONS_READ = (*SHOP_ACTIONS[:2], Click("3", button="right"), SHOP_ACTIONS[3])


async def play_shop(env, actions=SHOP_ACTIONS):
    """Plays a recorded shop; the first action comes without a decision."""
    await env.reset()
    for number, action in enumerate(actions, 1):
        await env.step(action if number == 1 else decision(number, action))


def shop_script():
    steps = [dm_env.transition(reward=0.25 * n, observation=page(n)) for n in range(1, 4)]
    return [dm_env.restart(page(0)), *steps, dm_env.termination(1.0, page(4))]


def info(number, **more):
    return EpisodeInfo(
        episode_id=f"shop-{number}",
        task="shop/tea",
        goal="Buy tea",
        site="shop.example",
        seed=number,
        environment="Shop",
        policy="tester",
        versions={"webtraj": "0.1.0", "tester": "1.2"},
        metadata={"split": "train"},
        **more,
    )


def recorded(folder, script, play, episode_info, outcome=Outcome.UNKNOWN):
    """Records one episode."""

    class Environment(ScriptedEnvironment):
        def episode_outcome(self):
            return outcome

    async def run():
        async with webtraj.JsonTrajectoryCollector(folder, fsync="never") as collector:
            inner = Environment(script)
            async with webtraj.TrajectoryCollectingEnvironment(
                inner, collector, episode_info=episode_info
            ) as env:
                await play(env)

    asyncio.run(run())


async def play_and_die(env):
    """Plays two steps of a shop, and kills the process."""
    await play_shop(env, SHOP_ACTIONS[:2])
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    recorded(sys.argv[1], shop_script(), play_and_die, info(3))
