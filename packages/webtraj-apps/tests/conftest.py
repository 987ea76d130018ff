"""The application of another package, the errands of the examples, installed once a process.

What installs an application is slow: `make test-apps` runs it.
"""

import pytest

from webtraj_apps import find_app


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "errands" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def _home(tmp_path_factory):
    return tmp_path_factory.mktemp("apps")


@pytest.fixture
def errands(_home, monkeypatch):
    """The application, installed."""
    monkeypatch.setenv("WEBTRAJ_APPS", str(_home))
    app = find_app("errands")
    app.install()
    return app
