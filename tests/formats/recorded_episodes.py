"""Episodes to encode: made by strategies, by hand, and of a browser's shape."""

import hashlib

import numpy as np
import orjson

from webtraj import errors
from webtraj.environments.actions import Click, Fill
from webtraj.store import encoding
from webtraj.store.blobs import Blob
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
    Phase,
    StepRecord,
    StepType,
)


class Blobs:
    """Blobs in memory."""

    def __init__(self):
        self.contents = {}

    def put(self, data, ext):
        blob = Blob(hashlib.sha256(data).hexdigest(), ext, len(data))
        self.contents[blob.sha256] = bytes(data)
        return blob

    def read(self, blob):
        if blob.sha256 not in self.contents:
            raise errors.CorruptDataError(f"no blob {blob.sha256}")
        return self.contents[blob.sha256]

    def load(self, blob, *, text):
        content = self.read(blob)
        return content.decode("utf-8", "surrogatepass") if text else content


def data_of(trajectory):
    """Returns an episode's data as a journal gives it, and its blobs."""
    blobs = Blobs()
    line, unwritable = encoding.dumps_fields({"episode": trajectory}, blobs)
    assert unwritable == []
    return {"schema_version": 1, "steps": [], **orjson.loads(line)["episode"]}, blobs


def browser_episode(num_steps=3, shot_bytes=3000):
    """Returns an episode as a browser environment and an agent with a model leave it."""
    rng = np.random.default_rng(7)

    def observation(index):
        return {
            "goal": "Find the price of tea",
            "url": f"https://shop.example/page/{index}",
            "axtree": f'[1] link "Tea {index}"\n' * 300,
            "screenshot": b"\xff\xd8\xff" + rng.bytes(shot_bytes),
            "focused": "12",
            "tabs": np.array(["https://shop.example/"]),
            "active_tab": 0,
            "scroll": {"x": 0.0, "y": 40.0, "width": 1280.0, "height": 720.0},
            "last_action": {"error": "", "box": np.zeros(4)},
            "timings": {"act": 0.1, "total": 0.25},
        }

    def decision(index):
        call = ModelCall(
            model="tiny",
            provider="vllm",
            policy_version="step-3",
            messages=(
                {"role": "system", "content": "You act in a browser."},
                {"role": "user", "content": [{"type": "text", "text": "What next?"}]},
                {
                    "role": "user",
                    "content": [{"type": "image", "image": b"\x89PNG\r\n\x1a\n" * 300}],
                },
            ),
            sampling={"temperature": 0.7},
            response={"id": index},
            text="click('1')",
            finish_reason="stop",
            usage={"prompt_tokens": 3},
            prompt_token_ids=(1, 2, 151_643),
            completion_token_ids=(7, 8),
            logprobs=(-0.5, float("-inf")),
            start_time=1.0,
            latency=0.5,
        )
        return Decision(action=actions[index], thought="hm", memory="tea", model_calls=(call,))

    actions = [None, Click("1"), "scroll(0, 100)", Fill("2", "tea")]
    steps = tuple(
        StepRecord(
            index,
            StepType.FIRST if index == 0 else StepType.LAST if index == num_steps else StepType.MID,
            observation(index),
            actions[index % 4] if index else None,
            float(index == num_steps) if index else None,
            float(index < num_steps) if index else None,
            start_time=float(index),
            end_time=index + 0.5,
            decision=decision(index % 4) if index else None,
        )
        for index in range(num_steps + 1)
    )
    info = EpisodeInfo(
        episode_id="20261120T130405-9f86d081884c7d65",
        task="shop/tea",
        goal="Find the price of tea",
        site="shop.example",
        seed=3,
        versions={"webtraj": "0.1.0"},
        metadata={"split": "train"},
    )
    end = EpisodeEnd(
        reason=EndReason.TERMINATED, phase=Phase.STEP, outcome=Outcome.SUCCESS, violations=("late",)
    )
    return EpisodeTrajectory(info, steps, end, 1.0, 9.0)
