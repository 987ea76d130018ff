"""Says how far the trainer's log-probabilities are from the recorded ones, row by row.

`mismatch.py MODEL PRECISION BACKEND ROWS...`, with the Python that has PyTorch. PRECISION is
`float32` or `bf16`, BACKEND what scales pictures: `pil` or `torchvision`. For each file of rows
comes a line of JSON: `{"misfits": number of rows left out, "rows": {episode: mean distance per
token}}`.
"""

import json
import sys

import torch
import transformers

from webtraj.training.export.sample_files import open_samples
from webtraj.training.sft import SftSettings
from webtraj.training.sft.batches import MicroBatch
from webtraj.training.sft.data import TrainingData
from webtraj.training.sft.encoding import Encoder, load_tools
from webtraj.training.sft.models import load_weights
from webtraj.training.sft.optimizer_step import token_losses


def main(folder, precision, backend, *files):
    """Answers for each file."""
    transformers.logging.disable_progress_bar()
    tools = load_tools(folder, image_backend=backend)
    model = load_weights(folder, tools, dtype=torch.float32).eval()
    settings = SftSettings(model=folder, out="unused", policy={})
    for file in files:
        data = TrainingData(open_samples([file]), Encoder(tools), settings)
        rows = {}
        for index in range(data.report.used):
            batch = data.batch(MicroBatch(((index,),)), masked=True)
            compute = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")
            with torch.no_grad(), compute:
                nll, _, _, _ = token_losses(model, batch)
            behaviour = batch.policy.behaviour[batch.targets >= 0]
            name = batch.names[0].removeprefix("The sample of ").partition(",")[0]
            rows[name] = (-nll - behaviour).abs().mean().item()
        print(json.dumps({"misfits": data.report.misfits, "rows": rows}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
