"""Before a loop runs: its folder is taken, and its state is checked to be that of this loop."""

from __future__ import annotations

import contextlib

from webtraj import errors
from webtraj.loop.observer import LoopObserver
from webtraj.loop.places import Places
from webtraj.loop.sections import LoopConfig
from webtraj.loop.state import LoopState
from webtraj.rollouts.configuration.loading import flattened, without_secrets
from webtraj.store import files

__all__ = ["begin", "own"]

_FIXED = ("seed", "first.policy", "first.iterations")
"""Keys that all iterations of a loop must have in common."""


def own(stack: contextlib.ExitStack, places: Places) -> None:
    """Takes the loop's folder for us alone."""
    try:
        files.make_folder(places.out)
        stack.enter_context(files.locked(places.lock("loop"), wait=False))
    except BlockingIOError as error:
        raise errors.InvalidInputError(
            f"Another loop runs in {str(places.out)!r}. Wait for its end, or give another out."
        ) from error
    except OSError as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.StorageError(
            f"{str(places.out)!r} cannot be written: {error}. Give another out."
        ) from error


def begin(config: LoopConfig, state: LoopState, *, resume: bool, observer: LoopObserver) -> None:
    """Checks that the state is that of this loop, and writes down that it begins or goes on."""
    if not state.empty and not resume:
        raise errors.InvalidInputError(
            f"A loop was begun in {config.out!r}. Give --resume (resume=True) to go on with it, or "
            "another out."
        )
    told = without_secrets(config.model_dump(mode="json"))
    before = dict(flattened(state.config or {}))
    for key, value in flattened(told):
        if not before or key == "out" or (was := before.get(key)) == value:
            continue
        if key in _FIXED and state.anything_ended:
            raise errors.InvalidInputError(
                f"The loop in {config.out!r} was begun with {key}={was}, and is to go on with "
                f"{value}: iterations would not be those of one loop. Give {key}={was}, or another "
                "out."
            )
        observer.note(f"{key} was {was}, and is {value} from here on.")
    state.add_loop(told)
