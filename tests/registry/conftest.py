import pytest

from webtraj import registry


@pytest.fixture
def empty_registry(monkeypatch):
    """A registry of nothing, that looks for nothing."""
    monkeypatch.setattr(registry, "_presets", {})
    monkeypatch.setattr(registry, "_builtin_loaded", True)
    monkeypatch.setattr(registry, "_plugins_loaded", True)
