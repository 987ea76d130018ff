"""Tables of cases: one test that goes through all its rows."""

import contextlib
import functools
import inspect
import itertools

import pytest
from _pytest._io.saferepr import saferepr
from _pytest.mark.structures import ParameterSet


def each(names, table):
    """Run a test once with every row of a table, and report all the rows that fail.

    Use it like `pytest.mark.parametrize`, which makes an item of each row and suits rows that take
    long or need fixtures of their own. Here all rows share the fixtures; each has an empty folder
    as its `tmp_path`.

    Args:
        names: The arguments that a row gives, as for `parametrize`.
        table: The rows.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [_case(names, row) for row in table]
    assert cases, "a table without rows tests nothing"

    def decorate(test):
        folders = itertools.count()

        def arguments(row, fixtures):
            if "tmp_path" in fixtures:
                folder = fixtures["tmp_path"] / f"row{next(folders)}"
                folder.mkdir()
                fixtures = fixtures | {"tmp_path": folder}
            return fixtures | row

        @functools.wraps(test)
        def check(*args, **fixtures):
            failed = []
            for row in cases:
                with _collected(failed, row):
                    test(*args, **arguments(row, fixtures))
            _report(failed, cases)

        @functools.wraps(test)
        async def check_async(*args, **fixtures):
            failed = []
            for row in cases:
                with _collected(failed, row):
                    await test(*args, **arguments(row, fixtures))
            _report(failed, cases)

        chosen = check_async if inspect.iscoroutinefunction(test) else check
        signature = inspect.signature(test)
        chosen.__signature__ = signature.replace(
            parameters=[one for name, one in signature.parameters.items() if name not in names]
        )
        return chosen

    return decorate


def _case(names, row):
    if isinstance(row, ParameterSet):
        assert not row.marks, "a row with a mark of its own is an item of its own"
        row = row.values
    elif len(names) == 1:
        row = (row,)
    assert len(row) == len(names), f"{len(row)} values for {names}"
    return dict(zip(names, row, strict=True))


@contextlib.contextmanager
def _collected(failed, row):
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        error.add_note(f"row: {saferepr(row)}")
        failed.append(error)


def _report(failed, cases):
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} rows failed", failed)
