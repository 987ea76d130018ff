"""Widgets of UI libraries: their table, pages and goals. `make test-widgets` plays them."""

import base64
import hashlib
import io
import json
import tarfile

import pytest
from typer.testing import CliRunner

import webtraj
from webtraj import errors
from webtraj.environments.local_server import Request
from webtraj_apps.commands import commands
from webtraj_apps.widgets import libraries
from webtraj_apps.widgets.environment import answer_request, find_widget


def test_each_page_has_a_widget_and_belongs_to_a_library_of_one_split():
    table = libraries.load_table()
    for name in libraries.widget_names():
        page = (libraries.PAGES / f"{name}.html").read_text()
        row = table[libraries.library_of(name)]
        assert f"/npm/{row['package']}/" in page
        assert row["split"] in ("train", "test")
        assert find_widget(name).name == name
    train, test = (webtraj.info(f"widgets/{split}").num_tasks for split in ("train", "test"))
    assert train + test == webtraj.info("widgets/all").num_tasks == len(libraries.widget_names())


def test_goals_differ_by_seed_and_are_the_same_for_one():
    for name in libraries.widget_names():
        widget = find_widget(name)
        goals = {widget.goal(seed).text for seed in range(20)}
        assert len(goals) > 1, name
        assert widget.goal(3).wanted == widget.goal(3).wanted


@pytest.mark.parametrize("path", ["/npm/../pages.py", "/npm/%2e%2e/%2e%2e/secret", "/../dates.py"])
def test_only_pages_and_libraries_are_served(path):
    request = Request.parse("GET", path, {}, b"")
    assert answer_request(find_widget("react"), request).status == 404


def test_an_archive_that_is_not_the_pinned_one_is_refused_and_only_served_files_are_unpacked(
    tmp_path,
):
    archive, folder = tmp_path / "x-1.tgz", tmp_path / "x"
    with tarfile.open(archive, "w:gz") as files:
        for name in ("package/dist/x.js", "package/src/x.ts", "package/y.js"):
            member = tarfile.TarInfo(name)
            member.size = 1
            files.addfile(member, io.BytesIO(b"1"))
    row = {"integrity": "sha512-no", "folder": "dist"}
    with pytest.raises(errors.InvalidInputError, match="expected sha512-no"):
        libraries._unpack(archive, folder, row)
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    libraries._unpack(archive, folder, {**row, "integrity": f"sha512-{digest}"})
    assert [path.name for path in folder.rglob("*.*")] == ["x.js"]


def test_the_list_of_applications_has_the_widgets_in_the_same_columns():
    done = CliRunner().invoke(commands, ["list", "--json"])
    *rows, widgets = json.loads(done.stdout)
    assert widgets["name"] == libraries.NAME
    assert {tuple(row) for row in rows} == {tuple(widgets)}


def test_the_missing_libraries_are_named_with_the_command_that_installs_them(tmp_path, monkeypatch):
    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path))
    with pytest.raises(errors.MissingDependencyError, match="webtraj apps install widgets"):
        webtraj.make("widgets/react")
