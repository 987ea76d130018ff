"""Any episode that a dataset can hold is exported by every format, or left out and told."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from export_episodes import NEEDS
from webtraj import open_dataset
from webtraj.datasets.exporters import export_dataset, read_manifest
from webtraj.datasets.exporters.base import all_formats
from webtraj.datasets.writer import DatasetWriter
from webtraj.testing import strategies

NAME = "any-v0"
EXAMPLES = 25


@pytest.mark.slow
@pytest.mark.parametrize("format_name", all_formats())
def test_any_episode(format_name):
    pytest.importorskip(NEEDS.get(format_name, "numpy"))

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(strategies.trajectories(), max_size=2, unique_by=lambda e: e.episode_id))
    def run(trajectories):
        trajectories = [t for t in trajectories if t.end is not None]
        with tempfile.TemporaryDirectory() as folder:
            data, out = Path(folder) / "data", Path(folder) / NAME
            with DatasetWriter(data) as writer:
                for trajectory in trajectories:
                    writer.add(trajectory)
            report = export_dataset(open_dataset(data), out, format=format_name)
            told = {w.episode_id for w in report.written} | {x.episode_id for x in report.left_out}
            assert told == {t.episode_id for t in trajectories}
            assert report.complete
            header, _ = read_manifest(out)
            assert header["num_episodes"] == len(report.written)

    run()
