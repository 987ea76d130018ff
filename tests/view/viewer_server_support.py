"""Episodes to look at, and a viewer that is served while a test asks it."""

import contextlib
import functools
import io

import httpx
import numpy as np
from PIL import Image

from webtraj.datasets.writer import DatasetWriter
from webtraj.environments.actions import Click, ClickAt, DragAt
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ErrorInfo,
    Judgement,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)
from webtraj.view.app import serving
from webtraj.view.viewer import Viewer

HEADERS = {"X-Webtraj": "1"}
HOSTILE = "</script><script>alert(1)</script>\u2028<svg onload=alert(2)>{{js}}"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>" + b" " * 2000


@functools.cache
def picture(colour=0, size=(160, 120), kind="JPEG"):
    """A picture that is no blob if it is small, and one if it is large."""
    noise = np.random.default_rng(colour).integers(0, 255, (size[1], size[0], 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, kind)
    return buffer.getvalue()


def call(**fields):
    content = [
        {"token": "cl", "logprob": -0.1, "top_logprobs": [{"token": "go", "logprob": -3.0}]},
        {"token": "ick", "logprob": -0.2, "top_logprobs": []},
    ]
    return ModelCall(
        model="m",
        provider="vllm",
        policy_version="w7",
        messages=(
            {"role": "system", "content": "You act."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": HOSTILE},
                    {"type": "image_url", "image_url": {"url": picture(1)}},
                    {"type": "image_url", "image_url": {"url": "http://evil.example/x.png"}},
                ],
            },
        ),
        sampling={"temperature": 0.5},
        response={
            "choices": [
                {
                    "message": {"content": "click", "reasoning": "hm"},
                    "logprobs": {"content": content},
                    "token_ids": [5, 6],
                }
            ],
            "other": "kept",
        },
        text="click('a')",
        finish_reason="stop",
        usage={"prompt_tokens": 3},
        prompt_token_ids=(1, 2, 3),
        completion_token_ids=(5, 6),
        logprobs=(-0.1, -0.2),
        latency=0.25,
        **fields,
    )


def observation(number, **more):
    return {
        "url": f"http://shop.example/{number}",
        "title": HOSTILE,
        "axtree": f'[1] button "Go {number}"\n' + "x" * 5000,
        "screenshot": picture(number),
        "scroll": {"x": 0.0, "y": 0.0, "width": 320.0, "height": 240.0},
        "timings": {"act": 0.1, "settle": 0.2, "observe": 0.01, "total": 0.4},
        "file": SVG,
        **more,
    }


def acted(**more):
    return {"error": "", "ref": "a", "name": "Go", "box": np.array([1.0, 2.0, 3.0, 4.0]), **more}


def rich_episode(episode_id="rich", **info):
    """An episode that has something of all there is."""
    steps = (
        StepRecord(0, StepType.FIRST, observation(0), start_time=10.0, end_time=10.5),
        StepRecord(
            1,
            StepType.MID,
            observation(1, last_action=acted()),
            Click("a"),
            0.5,
            1.0,
            11.0,
            12.0,
            Decision(action=Click("a"), thought=HOSTILE, memory="m", model_calls=(call(),)),
        ),
        StepRecord(
            2,
            StepType.MID,
            observation(2, last_action=acted(error="covered", box=np.zeros(4))),
            ClickAt(5, 6),
            float("nan"),
            1.0,
        ),
        StepRecord(
            3, StepType.LAST, {"pixels": np.zeros((16, 16, 3), np.uint8)}, "noop()", 1.0, 0.0
        ),
    )
    end = EpisodeEnd(
        reason=EndReason.ERRORED,
        error=ErrorInfo(type="ValueError", message=HOSTILE, traceback="Traceback..."),
        action_in_flight=True,
        in_flight_action=DragAt(((1, 2), (3, 4))),
        outcome=Outcome.FAILURE,
        violations=("a rule",),
        judgements=(
            Judgement(
                judge="model",
                outcome=Outcome.FAILURE,
                reason="no",
                findings={"criteria": [HOSTILE]},
                model_calls=(call(),),
            ),
        ),
    )
    info = {"task": "shop/cart", "goal": HOSTILE, "policy": "p", "site": "shop.example", **info}
    return EpisodeTrajectory(EpisodeInfo(episode_id=episode_id, **info), steps, end, 10.0, 13.0)


def small_episode(number, *, reward=1.0, outcome=Outcome.SUCCESS, **info):
    info = {"task": f"t{number % 3}", "goal": f"Do {number}", "policy": "p", **info}
    return EpisodeTrajectory(
        EpisodeInfo(episode_id=f"e{number}", **info),
        (
            StepRecord(0, StepType.FIRST, {"n": number}),
            StepRecord(1, StepType.LAST, {"n": number}, "noop()", reward, 0.0),
        ),
        EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome),
        start_time=1000.0 + number,
        end_time=1001.0 + 2 * number,
    )


def write(place, *episodes, format="json", **options):  # noqa: A002
    with DatasetWriter(place, format=format, **options) as writer:
        for episode in episodes:
            writer.add(episode)
    return str(place)


class Clock:
    """A clock that only goes on when told, or by itself with each look."""

    def __init__(self, step=0.0):
        self.now = 1000.0
        self.step = step

    def __call__(self):
        self.now += self.step
        return self.now


@contextlib.asynccontextmanager
async def served(*places, host="127.0.0.1", port=0, token=None, clock=None, enter=True, **options):
    """Serves a viewer that looks anew at each question; gives a client and the URL it opened."""
    with Viewer(places, clock=clock or Clock(step=100.0), **options) as viewer:
        async with serving(viewer, host=host, port=port, token=token) as url:
            base = url.partition("?")[0]
            async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=30) as client:
                if enter:
                    await client.get(url)
                yield client, url


async def get(client, path, **params):
    reply = await client.get(path, params=params)
    assert reply.status_code == 200, reply.text
    return reply.json()
