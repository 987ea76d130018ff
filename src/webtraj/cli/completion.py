"""Shell completion beyond names of commands and options: values, and second words.

A shell waits for each completion, so the names are listed here and not read from the tables, whose
modules take long to import. A test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["AGENTS", "DIALECTS", "EPISODE_FILES", "EXPORTS", "JUDGES", "SAMPLES", "complete"]

AGENTS = ("oracle", "random", "curious", "model", "explorer", "scripted", "replay", "broken")
JUDGES = ("environment", "rules", "model")
DIALECTS = ("webtraj", "browsergym", "webgym", "webgym_marks", "anthropic", "openai")
EPISODE_FILES = ("json", "pb", "pb.zst", "pb.xz")
EXPORTS = ("huggingface", "html")
SAMPLES = ("sharegpt", "openai", "trl", "preferences", "trl-preferences", "tokens")


def _with_packages(names: tuple[str, ...], group: str) -> list[str]:
    """Return names, together with those that installed packages offer in an entry-point group."""
    import importlib.metadata

    offered = importlib.metadata.entry_points(group=group)
    return list(dict.fromkeys((*names, *(entry_point.name for entry_point in offered))))


def _presets() -> Iterable[str]:
    from webtraj import registry

    return registry.names()


_VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "--preset": _presets,
    "--agent": lambda: _with_packages(AGENTS, "webtraj.agents"),
    "--judge": lambda: _with_packages(JUDGES, "webtraj.judges"),
    "--dialect": lambda: _with_packages(DIALECTS, "webtraj.dialects"),
    "--format": lambda: EPISODE_FILES,
}
"""The values of options, by option."""


def complete(command: Any, seconds: Iterable[str]) -> None:
    """Add completion to a command: of its options' values, and of second words.

    Args:
        command: The command.
        seconds: The second words of the commands that begin with this name, such as `submit`.
    """
    values = dict(_VALUES)
    if command.name == "export":
        values["--format"] = lambda: _with_packages(EXPORTS, "webtraj.exporters")
    if command.name == "train export":
        values["--format"] = lambda: _with_packages(SAMPLES, "webtraj.training_formats")
    for param in command.params:
        for option in param.opts:
            if option in values:
                param.shell_complete = _completer(param, values[option])
    words = list(seconds)
    first = next((one for one in command.params if one.param_type_name == "argument"), None)
    if words and first is not None:
        first.shell_complete = _completer(first, lambda: words, alone=True)


def _completer(
    param: Any, values: Callable[[], Iterable[str]], *, alone: bool = False
) -> Callable[[Any, str], list[Any]]:
    """Return a completer of a parameter's values; with `alone`, only of a first value begun.

    If the parameter also accepts a path, an empty word is left to the shell, which lists folders.
    """
    usual = param.shell_complete

    def shell_complete(ctx: Any, incomplete: str) -> list[Any]:
        from typer.core import CompletionItem  # type: ignore[attr-defined]

        if alone and (ctx.params.get(param.name) or not (incomplete or param.nargs == -1)):
            return list(usual(ctx, incomplete))
        found = [CompletionItem(one) for one in values() if one.startswith(incomplete)]
        return found or list(usual(ctx, incomplete))

    return shell_complete
