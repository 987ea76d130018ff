"""Records what an oracle does, and exports it as training data: for LLaMA-Factory, TRL and DPO.

Prerequisites: the extras `web` and `parquet`, and a browser (`webtraj doctor`).
Run:           python examples/07_export_samples.py [FOLDER]
"""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

from webtraj.rollouts import RunSpec, collect
from webtraj.training.export import export_selection, read_export
from webtraj.training.replay import AgentRenderer, ReplayBuffer


def main(folder: Path) -> None:
    tasks = ["miniwob/click-test-2", "miniwob/click-link"]
    asyncio.run(
        collect(RunSpec(preset=tasks, agent="oracle", episodes=8, parallel=2, out=str(folder)))
    )

    buffer = ReplayBuffer.from_datasets(
        folder,
        render=AgentRenderer(),  # The oracle asked no model: prompts are rendered.
    )
    parts = buffer.all.split(0.25, shared="allow")

    exports = folder.with_name(f"{folder.name}-exports")
    shutil.rmtree(exports, ignore_errors=True)
    formats: dict[str, dict[str, Any]] = {
        "sharegpt": {"cutoff_len": 4096},
        "openai": {},
        "trl": {"license": "mit", "title": "Clicks"},
    }
    for name, options in formats.items():
        report = export_selection(parts, exports / name, format=name, options=options)
        for split in report.splits.values():
            print(f"{name} {split.name}: {split.rows} rows", dict(split.left_out))
        for path in report.files:
            print("   ", path)

    for sample in read_export(exports / "sharegpt", "val"):
        print(sample.key, sample.completion)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/clicks"))
