"""What `import webtraj` costs: nothing heavy."""

import subprocess
import sys

import pytest

import webtraj

HEAVY = (
    "absl",
    "google.protobuf",
    "gymnasium",
    "httpx",
    "miniwob",
    "msgspec",
    "numpy",
    "obstore",
    "orjson",
    "playwright",
    "pyarrow",
    "pydantic",
    "pytest",
    "ray",
    "rich",
    "selenium",
    "torch",
    "transformers",
    "typer",
    "vllm",
)


def loaded_by(program):
    """Returns which heavy packages a fresh interpreter has loaded after a program."""
    report = f"import sys\n{program}\nprint(*(n for n in {HEAVY!r} if n in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def test_import_loads_nothing_heavy():
    assert loaded_by("import webtraj") == set()


def test_a_miniwob_environment_loads_few_modules():
    program = (
        "import sys, webtraj; webtraj.make('miniwob/click-test'); "
        "print(sum(name.partition('.')[0].startswith('webtraj') for name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert int(done.stdout) < 60


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "import webtraj.registry; webtraj.registry.info()",
        "from webtraj.agents import catalog; catalog.make_agent('random')",
        "from webtraj import rollouts; rollouts.plan_episodes('miniwob/all')",
    ],
)
def test_planning_needs_no_browser(program):
    assert not loaded_by(program) & {"playwright", "gymnasium", "miniwob", "selenium"}


def test_every_public_name_can_be_had():
    for name in webtraj.__all__:
        assert getattr(webtraj, name) is not None
    assert set(webtraj.__all__) <= set(dir(webtraj))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = webtraj.no_such_name
