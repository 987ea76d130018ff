"""Built-in names are not replaced, whatever is installed."""

import pytest

from installed import install
from webtraj import errors
from webtraj.agents import catalog as agents
from webtraj.datasets.exporters import base as exporters
from webtraj.datasets.importers import base as importers
from webtraj.judging import catalog as judges
from webtraj.processing import registry as steps
from webtraj.settings.installed import EXTRAS
from webtraj.settings.named import find_offered
from webtraj.training.export.export_folder import all_formats

NAMES = {
    "agents": (["oracle", "curious"], agents.agent_names),
    "judges": (["rules"], lambda: find_offered(judges.ENTRY_POINT_GROUP, judges.JUDGES)),
    "steps": (["clean"], steps.step_names),
    "exporters": (["html", "huggingface", "har"], exporters.all_formats),
    "importers": (["atif"], importers._all_homes),
    "training_formats": (["tokens"], all_formats),
    "proposers": (["model"], lambda: find_offered("webtraj.proposers")),
}
"""Built-in names of each group, and what returns all names."""


def test_a_package_that_offers_one_is_ignored_and_named(tmp_path, monkeypatch, caplog):
    before = {group: names() for group, (_, names) in NAMES.items()}
    groups = {
        group: dict.fromkeys([*taken, "new"], "stranger:X") for group, (taken, _) in NAMES.items()
    }
    install(tmp_path, {"stranger": ""}, **groups)
    monkeypatch.syspath_prepend(str(tmp_path))
    for group, (taken, names) in NAMES.items():
        found = names()
        assert set(found) == {*before[group], "new"}
        if isinstance(found, dict):
            assert {**before[group], "new": found["new"]} == found
        for name in taken:
            assert f"The package stranger offers {name!r} in webtraj.{group}" in caplog.text


def test_a_module_that_registers_one_is_refused():
    for register, name in (
        (exporters.register, "html"),
        (exporters.register, "har"),
        (agents.register, "oracle"),
        (agents.register, "curious"),
        (judges.register, "rules"),
    ):
        with pytest.raises(errors.InvalidInputError, match=f"'{name}' is a built-in name"):
            register(name)


def test_those_of_packages_that_are_not_installed_are_kept_free(tmp_path, monkeypatch):
    install(tmp_path, {"stranger": ""}, importers={"webgym": "stranger"})
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert "webgym" in EXTRAS["webtraj.importers"]
    assert find_offered("webtraj.importers") == {}
