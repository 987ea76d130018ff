"""The smallest application, the errands of the examples, installed once for each process."""

import sys
from pathlib import Path

import pytest

import webtraj
from webtraj_apps import app as app_lib

EXAMPLES = Path(__file__).parents[3] / "examples/own_application"


@pytest.fixture(scope="session")
def _home(tmp_path_factory):
    return tmp_path_factory.mktemp("apps")


@pytest.fixture
def errands(_home, monkeypatch):
    """The application, installed; registered while the test runs."""
    monkeypatch.setenv("WEBTRAJ_APPS", str(_home))
    monkeypatch.syspath_prepend(EXAMPLES)
    for name in [name for name in sys.modules if name.split(".")[0] == "errands"]:
        del sys.modules[name]
    _forget()
    import errands

    errands.APP.install()
    yield errands.APP
    for preset in webtraj.info():
        if preset.name.startswith("apps/errands/"):
            webtraj.unregister(preset.name)
    _forget()


def _forget():
    from webtraj_apps import tasks

    app_lib._others.clear()
    for name in [name for name in tasks._TEMPLATES if name.startswith("errands/")]:
        del tasks._TEMPLATES[name]
