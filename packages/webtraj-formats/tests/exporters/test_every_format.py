"""What holds for every export format holds for those of this package."""

import importlib.metadata

import pytest

from export_episodes import NEEDS
from exporter_contract import ExporterContract

OURS = importlib.metadata.distribution("webtraj-formats").entry_points
NAMES = OURS.select(group="webtraj.exporters").names


class TestFormats(ExporterContract):
    @pytest.fixture(params=sorted(NAMES))
    def format_name(self, request):
        pytest.importorskip(NEEDS.get(request.param, "numpy"))
        return request.param
