"""The benchmark of the start knows the functions that it marks."""

import importlib
import importlib.util
import operator
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_every_marked_function_exists(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("start", BENCHMARKS / "start.py")
    start = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "start", start)
    spec.loader.exec_module(start)
    for home, function, _ in filter(all, start.MARKS.values()):
        assert callable(operator.attrgetter(function)(importlib.import_module(home)))
