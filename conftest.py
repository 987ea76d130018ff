# Every folder may have a conftest.py. The collection of doctests would import each of them as the
# one module `conftest`.
collect_ignore_glob = ["*conftest.py"]

import logging  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# A shell that runs the tests in the background has them ignore Ctrl-C, and so what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes, or is drawn for, would be a test of the machine. The examples are the
# same each time, unless a seed is given: `make full` draws one.
examples = int(os.environ.get("WEBTRAJ_EXAMPLES", "10"))
settings.register_profile(
    "webtraj",
    deadline=None,
    derandomize="WEBTRAJ_SEED" not in os.environ,
    max_examples=examples,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("webtraj")

import fixture_site  # noqa: E402

# A rollout imports this on a thread while it imports others. pytest parses both, and two parses at
# once may fail in Python 3.11: "AST constructor recursion depth mismatch".
import webtraj.environments.browser.processes  # noqa: E402, F401
from bucket_servers import (  # noqa: E402, F401
    bucket_options,
    bucket_url,
    fault_proxy,
    proxied_options,
    s3_server,
    s3_servers,
)
from hub_server import hub  # noqa: E402, F401

BROWSER_FIXTURES = {"pool", "open_page", "page_environment"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Put browser tests into the slow lane, but for those marked `smoke`."""
    for item in items:
        if BROWSER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.browser)
        if item.get_closest_marker("browser") and not item.get_closest_marker("smoke"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def own_log():
    """A command that runs in this process changes how webtraj logs; that is put back."""
    names = ("webtraj", "webtraj.rollouts.rollout")
    loggers = [logging.getLogger(name) for name in names]
    before = [(one, one.level, one.handlers[:], one.propagate) for one in loggers]
    yield
    for one, level, handlers, propagate in before:
        one.setLevel(level)
        one.handlers[:] = handlers
        one.propagate = propagate


@pytest.fixture(scope="session")
def fixture_presets():
    """The presets `fixture/TASK`, registered until the end of the session."""
    fixture_site.register_presets()
    return fixture_site.PRESETS


@pytest.fixture(autouse=True, scope="session")
def own_state_home(tmp_path_factory):
    """No test leaves a spool among those of the person who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", os.fspath(tmp_path_factory.mktemp("state")))
        yield
