"""What the tests of LLaMA-Factory share: recorded episodes, and an update's configuration."""

import io
from pathlib import Path

from PIL import Image as Pillow
from PIL import ImageDraw

from webtraj import trajectory as trajectory_lib
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments import actions as a
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".venv-llamafactory" / "bin" / "python"

ON_A_CPU = (
    "log_config.run_name=tests",
    "algorithm_config.deepspeed_config_filename=null",
    "algorithm_config.report_to=none",
    "algorithm_config.bf16=false",
    "algorithm_config.cutoff_len=1024",
    "algorithm_config.image_max_pixels=65536",
    "algorithm_config.per_device_train_batch_size=2",
    "algorithm_config.per_device_eval_batch_size=2",
    "algorithm_config.gradient_accumulation_steps=2",
    "algorithm_config.learning_rate=2e-3",
    "algorithm_config.warmup_steps=2",
    "algorithm_config.preprocessing_num_workers=1",
    "algorithm_config.dataloader_num_workers=0",
    "algorithm_config.dataloader_pin_memory=false",
    "policy_config.template=qwen3_vl_nothink",
)


def screenshot(number, size=(160, 210)):
    """Returns a page with a button, somewhere."""
    image = Pillow.new("RGB", size, "white")
    x, y = 10 + number * 7 % 90, 10 + number * 13 % 150
    ImageDraw.Draw(image).rectangle((x, y, x + 50, y + 30), fill="steelblue")
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def make_episode(name, number, *, steps=2, text="Which button?", outcome=Outcome.SUCCESS):
    """Returns an episode in which a model was shown a page and replied, at each step."""
    records, messages = [], [{"role": "system", "content": "You use a browser."}]
    for step in range(steps + 1):
        shown = screenshot(number * 10 + step)
        seen = {"url": "http://x/", "axtree": f"{name} {step}", "screenshot": shown}
        kind = StepType.FIRST if step == 0 else StepType.LAST if step == steps else StepType.MID
        if step == 0:
            records.append(StepRecord(step, kind, seen))
            continue
        page = {"type": "image_url", "image_url": {"url": screenshot(number * 10 + step - 1)}}
        said = {"type": "text", "text": f"Task {number}, step {step}. {text}"}
        messages = [*messages, {"role": "user", "content": [page, said]}]
        reply = f"Action: click('{number % 4}')"
        call = ModelCall(
            model="m", messages=tuple(messages), text=reply, response={"choices": []},
            finish_reason="stop",
        )  # fmt: skip
        messages = [*messages, {"role": "assistant", "content": reply}]
        action = a.Click(str(number % 4))
        records.append(
            StepRecord(
                step, kind, seen, action=action,
                reward=float(step == steps and outcome is Outcome.SUCCESS),
                discount=float(step != steps),
                decision=Decision(action=action, model_calls=(call,)),
            )
        )  # fmt: skip
    return trajectory_lib.EpisodeTrajectory(
        EpisodeInfo(episode_id=name, task=f"t{number % 3}", goal=f"do {number}"),
        tuple(records),
        EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome),
        start_time=1000.0,
        end_time=1001.0,
    )


def record(save_path, iteration, episodes):
    """Writes episodes as one iteration of a rollout."""
    place = Path(save_path) / "train_trajectories" / f"iteration_{iteration:04d}"
    with DatasetWriter(place) as writer:
        for one in episodes:
            writer.add(one)


def record_some(save_path, iteration, count=10, **options):
    """Writes some episodes of two steps each."""
    record(
        save_path,
        iteration,
        [make_episode(f"i{iteration}e{n}", iteration * 100 + n, **options) for n in range(count)],
    )
