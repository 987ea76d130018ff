"""Former homes of public modules still import, and warn."""

from __future__ import annotations

import importlib

import pytest

from webtraj import _homes


@pytest.mark.parametrize("former", sorted(_homes._MOVED))
def test_a_former_home_gives_what_the_new_one_has_and_warns(former: str) -> None:
    home = importlib.import_module(_homes._MOVED[former])
    name = next(name for name in home.__all__ if not name.startswith("_"))
    module = importlib.import_module(former)
    with pytest.warns(DeprecationWarning, match="has moved"):
        assert getattr(module, name) is getattr(home, name)


def test_a_module_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("webtraj.never_was")
