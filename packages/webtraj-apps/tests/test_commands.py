"""The commands: an application of another package has all that ours have."""

import csv
import json
import os
import subprocess
import sys

import pytest

import webtraj


@pytest.mark.browser
def test_an_application_of_another_package_is_listed_installed_checked_and_played(tmp_path):
    def webtraj_(*words):
        done = subprocess.run(
            [sys.executable, "-m", "webtraj", *words],
            env={**os.environ, "WEBTRAJ_APPS": str(tmp_path / "apps")},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    def row():
        rows = json.loads(webtraj_("apps", "list", "--json"))
        return next(one for one in rows if one["name"] == "errands")

    assert (row()["tasks"], row()["installed"]) == (3, False)
    webtraj_("apps", "install", "errands")
    assert row()["installed"]
    table = tmp_path / "checked.csv"
    check = ("apps", "check", "errands", "--seeds", "1", "--quick", "--csv", str(table))
    assert "3 passed, 0 failed" in webtraj_(*check)
    assert {row["problems"] for row in csv.DictReader(table.read_text().splitlines())} == {""}
    webtraj_("apps", "tasks", "errands", "--split", "test", "--out", str(tmp_path / "tasks.jsonl"))
    assert len((tmp_path / "tasks.jsonl").read_text().splitlines()) == 2
    played = tmp_path / "played"
    webtraj_(
        *("rollout", "--preset", "apps/errands/train", "--agent", "oracle", "--episodes", "1"),
        *("--out", str(played)),
    )
    (summary,) = webtraj.open_dataset(played).summaries
    assert summary.outcome is webtraj.Outcome.SUCCESS
    webtraj_("apps", "remove", "errands")
    assert not row()["installed"]
