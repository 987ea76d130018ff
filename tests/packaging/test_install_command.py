"""What a person is told to run is a command that works for the copy that they have."""

import importlib.metadata
import json
import subprocess
import sys

import pytest

import webtraj
from webtraj import errors


@pytest.mark.parametrize(
    ("source", "command"),
    [
        (None, "pip install 'webtraj[web]'"),
        ({"url": "file:///a/b", "dir_info": {"editable": True}}, "pip install -e '/a/b[web]'"),
        ({"url": "file:///a%20b", "dir_info": {}}, "pip install '/a b[web]'"),
        (
            {"url": "https://host/webtraj.git", "vcs_info": {"vcs": "git", "commit_id": "c"}},
            "pip install 'webtraj[web] @ git+https://host/webtraj.git'",
        ),
        (
            {"url": "https://host/a.git", "vcs_info": {"vcs": "git", "requested_revision": "v1"}},
            "pip install 'webtraj[web] @ git+https://host/a.git@v1'",
        ),
        (
            {"url": "https://host/webtraj.whl", "archive_info": {}},
            "pip install 'webtraj[web] @ https://host/webtraj.whl'",
        ),
    ],
)
def test_it_installs_from_where_webtraj_came_from(monkeypatch, source, command):
    text = json.dumps(source) if source else None

    class Distribution:
        def read_text(self, _):
            return text

    monkeypatch.setattr(importlib.metadata, "distributions", lambda **_: [Distribution()])
    assert errors.install_command("web") == command


def test_every_extra_that_errors_name_exists():
    names = importlib.metadata.metadata("webtraj").get_all("Provides-Extra")
    assert {"web", "train", "s3", "all", "browser", "miniwob", "view"} <= set(names)


def test_the_package_is_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "webtraj", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert webtraj.__version__ in done.stdout
