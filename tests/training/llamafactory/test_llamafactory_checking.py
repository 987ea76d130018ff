"""Without LLaMA-Factory, a training's files are reported as not checked."""

import sys

import pytest
from llamafactory_runs import ON_A_CPU, record_some
from typer.testing import CliRunner

from webtraj import errors
from webtraj.cli.app import make_app
from webtraj.serving import interpreters
from webtraj.training.llamafactory import check_export, load_update_config, prepare_update


def test_files_are_reported_as_not_checked_without_llamafactory(tmp_path):
    record_some(tmp_path, 1, 4)
    config = [f"save_path={tmp_path}", "policy_config.base_model=a/b", *ON_A_CPU]
    checked = prepare_update(load_update_config("update_online", config)).checked
    assert (checked.checked_by, checked.max_tokens) == (None, None)
    assert checked.rows["webtraj_train"] > 0
    done = CliRunner().invoke(make_app(), ["train", "update", *config])
    assert "not checked by LLaMA-Factory" in done.output


def test_a_check_needs_llamafactory_and_its_configuration(tmp_path, monkeypatch):
    with pytest.raises(errors.InvalidInputError, match=r"No train_config\.yaml"):
        check_export(tmp_path, python=sys.executable)
    (tmp_path / "train_config.yaml").write_text("stage: sft\n")
    with pytest.raises(errors.InvalidInputError, match="No module named 'llamafactory'"):
        check_export(tmp_path, python=sys.executable)
    monkeypatch.setattr(interpreters, "find_python", lambda *arguments: None)
    done = CliRunner().invoke(make_app(), ["train", "update", "--check", str(tmp_path)])
    assert isinstance(done.exception, errors.MissingDependencyError)
