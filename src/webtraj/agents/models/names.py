"""Names of models: local folders, or names on the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path

__all__ = ["looks_like_a_path"]


def looks_like_a_path(model: str) -> bool:
    """Return whether a model's name looks like a local path rather than a Hub name.

    >>> [looks_like_a_path(name) for name in ("./policy", "~/policy", "runs/loop/policy")]
    [True, True, True]
    >>> [looks_like_a_path(name) for name in ("gpt2", "Qwen/Qwen3-0.6B")]
    [False, False]
    """
    first, *others = model.split("/")
    if not model or model.startswith((".", "/", "~")) or len(others) > 1:
        return True
    return bool(others) and Path(first).is_dir()
