"""Where applications come from: packages and programs."""

import dataclasses

import pytest

import webtraj
from webtraj import errors, registry
from webtraj_apps import app as app_lib
from webtraj_apps import find_app, names, presets, register_app, tasks


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """Return a function that installs a package which offers applications."""
    monkeypatch.syspath_prepend(tmp_path)
    names.find_installed.cache_clear()

    def install(package, entry_points):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[webtraj.apps]\n{entry_points}\n")

    yield install
    names.find_installed.cache_clear()


def test_a_broken_application_stops_no_other(offer):
    offer("broken", "broken = no_such_module:APP")
    with pytest.warns(UserWarning, match="'broken' of the package broken: ModuleNotFoundError"):
        assert "budget" in {app.name for app in app_lib.find_apps()}
    with pytest.raises(errors.InvalidInputError, match="'broken' of the package broken"):
        find_app("broken")


def test_the_presets_of_others_load_beside_a_broken_application(offer, monkeypatch):
    offer("broken", "broken = no_such_module:APP")
    monkeypatch.setattr(presets.webtraj, "register", lambda name, *_, **__: found.append(name))
    found = []
    with pytest.warns(registry.PresetPluginWarning, match="'broken' of the package broken"):
        presets.register_presets()
    assert {"apps/test", "apps/budget/all", "apps/errands/all"} <= set(found)


def test_no_package_takes_the_name_of_an_application_of_ours(offer):
    offer("greedy", "budget = errands:APP")
    assert find_app("budget").package.startswith("ihatemoney")


def test_an_application_has_the_name_that_its_entry_point_gives_it(offer):
    offer("liar", "shopping = errands:APP")
    with pytest.raises(errors.InvalidInputError, match="its name is 'errands'"):
        find_app("shopping")


def test_a_program_adds_an_application(tmp_path, monkeypatch):
    (tmp_path / "jotter_tasks.py").write_text(
        "from webtraj_apps.tasks import template\n"
        "@template('jotter/add', level=1, split='train')\n"
        "def add(facts, rng): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(names, "_added", {})
    monkeypatch.setattr(names, "TEMPLATES", {})
    app = dataclasses.replace(find_app("errands"), name="jotter")
    register_app(app, tasks="jotter_tasks")
    try:
        assert app in app_lib.find_apps()
        assert tasks.find_templates(["jotter"]) == ("jotter/add",)
        assert webtraj.info("apps/jotter/train").num_tasks == 1
        with pytest.raises(errors.InvalidInputError, match="'jotter' already"):
            register_app(app, tasks="jotter_tasks")
    finally:
        for name in registry.names():
            if name.startswith("apps/jotter/"):
                webtraj.unregister(name)
