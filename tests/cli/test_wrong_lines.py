"""Every wrong command line gets a message that names what is wrong."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/wrong_lines.py"


@pytest.mark.gate
def test_wrong_lines_are_answered_with_what_is_wrong_in_them(capsys):
    spec = importlib.util.spec_from_file_location("wrong_lines", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with pytest.raises(SystemExit) as ended:
        script.main([])
    assert ended.value.code == 0, capsys.readouterr().out
