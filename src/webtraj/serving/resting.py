"""How a server leaves its memory to others for a while, and takes it again."""

from __future__ import annotations

import typing
from typing import Literal

from webtraj import errors
from webtraj.serving.control import Control
from webtraj.serving.launch import ServerLaunch
from webtraj.serving.vllm import VllmLaunch

__all__ = ["NO_CHANGES", "NO_RESTS", "Rest", "begin", "check", "end"]

Rest = Literal["pause", "sleep", "drop", "stop"]
"""What a server keeps while it rests:

* `pause`: all. It only begins no replies, so that a trainer has the processors.
* `sleep`: its weights, in main memory. The GPU's memory is free; waking takes seconds.
* `drop`: its process. The weights are read from their folder again, which saves main memory.
* `stop`: nothing. It is ended and started again. This alone works on CPUs, and without dev mode.
"""

NO_CHANGES = (
    "The model server rests ({rest}) and takes no other weights; leave the `resting` block first."
)
NO_RESTS = "The model server rests already ({rest})."


def check(how: Rest, launch: ServerLaunch) -> None:
    """Looks whether a server can rest like that.

    Raises:
        InvalidInputError: It cannot.
    """
    known = typing.get_args(Rest)
    if how not in known:
        raise errors.InvalidInputError(
            f"A model server does not rest by {how!r}; give one of {', '.join(known)}."
        )
    if how in ("sleep", "drop") and isinstance(launch, VllmLaunch) and not launch.sleep_mode:
        raise errors.InvalidInputError(
            f"Without sleep_mode=True, vLLM frees no memory by {how!r}. Set it, which takes a GPU, "
            "or let the server rest by 'stop'."
        )


async def begin(how: Rest, control: Control) -> None:
    """Has a running server rest; one that was stopped needs no telling."""
    if how == "pause":
        await control.pause()
    elif how != "stop":
        await control.sleep(1 if how == "sleep" else 2)


async def end(how: Rest, control: Control) -> None:
    """Has a server go on that rested and did not end."""
    if how == "pause":
        await control.resume()
    elif how == "sleep":
        await control.wake_up()
    elif how == "drop":
        # Generation goes on with the cache's memory, and so not before the weights are there.
        await control.wake_up("weights")
        await control.read_weights(None)
        await control.forget()
        await control.wake_up("kv_cache")
