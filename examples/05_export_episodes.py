"""Records a few episodes, and exports them to Parquet and ATIF.

Prerequisites: the extras `parquet` and `formats`.
Run:           python examples/05_export_episodes.py [FOLDER]
"""

import asyncio
import shutil
import sys
from pathlib import Path

import webtraj
from webtraj.datasets.exporters import export_dataset
from webtraj.testing import fakes


async def record(folder: Path) -> None:
    async with webtraj.JsonTrajectoryCollector(folder) as collector:
        info = webtraj.EpisodeInfo(task="catch", goal="Catch the ball")
        env = webtraj.TrajectoryCollectingEnvironment(
            fakes.CatchEnvironment(), collector, episode_info=info
        )
        for action in (0, 1, 2):
            timestep = await env.reset()
            while not timestep.last():
                timestep = await env.step(action)
        await env.close()


def main(folder: Path) -> None:
    asyncio.run(record(folder))
    dataset = webtraj.open_dataset(folder).filter(end_reason="terminated")

    exports = folder.with_name(f"{folder.name}-exports")
    shutil.rmtree(exports, ignore_errors=True)
    for name, options in {
        "huggingface": {"license": "mit", "title": "Catch"},
        "atif": {},
    }.items():
        report = export_dataset(dataset, exports / name, format=name, options=options)
        print(f"{name}: {len(report.written)} episodes, {len(report.notes)} notes")
        for path in sorted((exports / name).rglob("*.*")):
            print("   ", path.relative_to(exports))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/catch"))
