"""LLaMA-Factory, really run on a tiny vision-language model, with files that webtraj wrote."""

import hashlib
import json
import os
import subprocess

import pytest
from llamafactory_runs import ON_A_CPU, PYTHON, record_some

from webtraj.training.llamafactory import (
    load_update_config,
    prepare_update,
    publish,
    run_training,
)
from webtraj.training.llamafactory.checkpoints import has_changed, publish_finished, read_about

pytestmark = pytest.mark.timeout(600)

_LOAD = """
import sys, torch, transformers
model = transformers.AutoModelForImageTextToText.from_pretrained(sys.argv[1])
processor = transformers.AutoProcessor.from_pretrained(sys.argv[1])
from PIL import Image
text = "<|im_start|>user\\n<|vision_start|><|image_pad|><|vision_end|>a<|im_end|>\\n"
inputs = processor(text=[text], images=[Image.new("RGB", (56, 56))], return_tensors="pt")
assert torch.isfinite(model(**inputs).logits).all()
print("LOADED")
"""


def configuration(save_path, model, *more):
    return load_update_config(
        "update_online",
        [f"save_path={save_path}", f"policy_config.base_model={model}", *ON_A_CPU, *more],
    )


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory, model):
    """A first update, published."""
    save_path = tmp_path_factory.mktemp("runs")
    record_some(save_path, 1, 12)
    config = configuration(
        save_path, model, "algorithm_config.val_split_ratio=0.2", "algorithm_config.do_eval=true"
    )
    update = prepare_update(config, python=PYTHON)
    seen = []
    observer = type("Observer", (), {"logged": lambda self, entry: seen.append(entry)})()
    result = run_training(update.data, python=PYTHON, observer=observer, check=False)
    return save_path, update, result, publish(result.output, save_path), seen


def test_the_loss_falls_and_the_model_that_is_published_loads(trained, model):
    save_path, update, result, published, seen = trained
    rows = update.exported.splits["train"].rows
    assert update.checked.max_tokens > 0
    assert (result.first_step, result.last_step) == (0, 2 * -(-rows // 4))
    assert len(result.losses) == result.last_step
    assert result.losses[-1] < 0.8 * result.losses[0]
    assert len(result.eval_losses) >= 2
    assert result.eval_losses[-1] < result.eval_losses[0]
    assert [entry["loss"] for entry in seen if "loss" in entry] == list(result.losses)
    assert has_changed(model, published)
    assert published == save_path / "model.pt"
    assert read_about(published)["global_step"] == result.last_step
    assert not [path.name for path in published.iterdir() if path.suffix in (".pt", ".bin", ".pth")]
    loaded = subprocess.run(
        [PYTHON, "-W", "ignore", "-c", _LOAD, published], capture_output=True, text=True, check=True
    )
    assert "LOADED" in loaded.stdout


def test_the_documents_lines_by_hand_train_publish_and_resume(model, tmp_path, monkeypatch):
    """Nothing but the document's lines: the trainer is found beside `llamafactory-cli`."""
    runs = tmp_path / "my runs"
    path = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.delenv("WEBTRAJ_LLAMAFACTORY_PYTHON", raising=False)
    by_hand = (
        "source llamafactory_data/wandb_env.sh\n"
        "llamafactory-cli train llamafactory_data/train_config.yaml"
    )
    record_some(runs, 1, 6)
    prepare_update(configuration(runs, model, "algorithm_config.val_split_ratio=0"))
    subprocess.run(["bash", "-ec", by_hand], cwd=runs, check=True)
    assert not (runs / "model.pt").exists()
    record_some(runs, 2, 6)
    # A name in the recording that no one serves any more is not needed: a model is published.
    config = load_update_config(
        "update_online",
        [f"save_path={runs}", *ON_A_CPU, "algorithm_config.learning_rate=1e-3",
         "algorithm_config.val_split_ratio=0"],
    )  # fmt: skip
    update = prepare_update(config)
    first = read_about(runs / "model.pt")["global_step"]
    assert update.published == min((runs / "checkpoints").iterdir())
    assert has_changed(model, runs / "model.pt")
    assert update.values["model_name_or_path"] == str(runs / "model.pt")
    assert update.values["max_steps"] > first
    before = tree(runs / "model.pt")
    subprocess.run(["bash", "-ec", by_hand], cwd=runs, check=True)
    assert tree(runs / "model.pt") == before
    log = (update.output / "trainer_log.jsonl").read_text().splitlines()
    rates = {json.loads(line)["lr"] for line in log if "loss" in json.loads(line)}
    assert rates == {1e-3}
    assert publish_finished(runs) == update.output
    assert read_about(runs / "model.pt")["global_step"] == update.values["max_steps"]
    assert publish_finished(runs) is None
