"""Tables of cases as one test: every row runs, and each that fails is reported at the end."""

import contextlib
import functools
import inspect

import pytest

__all__ = ["table"]


def table(names, rows, *, ids=None):
    """Run a test for each row, written like `pytest.mark.parametrize`, as a single test.

    Rows share the test's fixtures. `tmp_path` and `monkeypatch` are new for each row, and what
    `capsys` and `caplog` hold is from that row alone.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    cases = [_case(names, row) for row in rows]
    if not cases:
        raise ValueError("A table needs at least one row.")
    if callable(ids):
        ids = [ids(row) for row in rows]
    labels = [*ids] if ids is not None else [name or repr(values) for name, values in cases]

    def decorate(test):
        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in names]

        @functools.wraps(test)
        def run(**fixtures):
            failures = []
            for number, (label, (_, values)) in enumerate(zip(labels, cases, strict=True)):
                with _row(failures, label, number, fixtures) as own:
                    test(**own, **values)
            _report(failures, len(cases))

        @functools.wraps(test)
        async def run_async(**fixtures):
            failures = []
            for number, (label, (_, values)) in enumerate(zip(labels, cases, strict=True)):
                with _row(failures, label, number, fixtures) as own:
                    await test(**own, **values)
            _report(failures, len(cases))

        runner = run_async if inspect.iscoroutinefunction(test) else run
        runner.__signature__ = signature.replace(parameters=kept)
        return runner

    return decorate


def _case(names, row):
    name = None
    if hasattr(row, "marks"):  # pytest.param
        if row.marks:
            raise ValueError("A row of a table has no marks.")
        name, row = row.id, row.values if len(names) > 1 else row.values[0]
    values = row if len(names) > 1 else [row]
    return name, dict(zip(names, values, strict=True))


@contextlib.contextmanager
def _row(failures, label, number, fixtures):
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / f"row{number}"
        own["tmp_path"].mkdir()
    if "capsys" in own:
        own["capsys"].readouterr()
    if "caplog" in own:
        own["caplog"].clear()
    with contextlib.ExitStack() as stack:
        if "monkeypatch" in own:
            own["monkeypatch"] = stack.enter_context(pytest.MonkeyPatch.context())
        try:
            yield own
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"Row: {label}")
            failures.append(error)


def _report(failures, number):
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {number} rows failed", failures)
