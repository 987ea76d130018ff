"""The common part of trainers' adapters: sessions on their own thread, for any caller.

A trainer asks from one event loop, from several or from threads; the browsers live on one loop.
`SharedSessions` is the bridge. `shared_sessions` gives each process one for each set of settings,
for frameworks that make an environment from a registry or a file.
"""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from webtraj import errors
from webtraj.agents.models.messages import media_type
from webtraj.environments.bridges import LoopThread, at_end_of
from webtraj.store.closeable import Closing
from webtraj_integrations.sessions import (
    EpisodeFailedError,
    Session,
    Sessions,
    Turn,
    check_whole,
)

__all__ = ["SharedSessions", "close_shared", "shared_sessions", "task_rows"]

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")

PICTURES = 20
"""The most pictures of a rollout, if `pictures` is not given."""

_TRIES = 3
"""How often a rollout is played whose episodes end without a reward."""

WROTE_PICTURE = "The model wrote a picture's token, for which there is no picture."
"""Why a rollout is played again whose token ids would not fit its pictures."""

_ROW = "Task {task}, seed {seed}."


class SharedSessions(Closing):
    """Tasks and a pool of browsers on a thread of their own. Any thread or event loop may call.

    Browsers start with the first call and end with `close` or the process.

    Args:
        presets: One selector of tasks or several, of presets that use a browser.
        **settings: More settings of `webtraj_integrations.sessions.Sessions`: `sessions`, `out`,
            `dialect`, `context`, `max_steps`, `policy`, `options`, ... A trainer keeps every
            picture of a conversation, so `pictures` is 20 if it is not given.

    Raises:
        InvalidInputError: A setting is invalid.
        UnknownPresetError: No preset has that name.
    """

    def __init__(self, presets: str | Sequence[str], **settings: Any) -> None:
        self.sessions = Sessions(presets, **{"pictures": PICTURES, **settings})
        """The sessions. Use them on their own loop: see `run` and `arun`."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = threading.Lock()
        self._rooms: weakref.WeakKeyDictionary[Any, asyncio.Semaphore] = weakref.WeakKeyDictionary()
        # The thread must not refer to this object.
        close = self.sessions.__aexit__
        self._thread = LoopThread(
            name="webtraj.trainers", last_call=lambda: close(None, None, None)
        )

    def close(self) -> None:
        """End open episodes, and close the browsers and the dataset. Idempotent."""
        with self._opening:
            if self._loop is not None:
                self._loop = None
                self._thread.run(self._close)
            self._thread.stop()

    def run(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Await `call()` on the loop of the browsers, and return its result."""
        self._ensure_open()
        return self._thread.run(call)

    async def arun(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Do the same without blocking, for a caller on an event loop."""
        loop = self._loop
        if loop is None:
            loop = await asyncio.to_thread(self._ensure_open)

        async def run_call() -> _T:
            return await call()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run_call(), loop))

    def leave(self, session: Session) -> None:
        """Give a session's page back, without waiting."""
        if (loop := self._loop) is not None and not loop.is_closed():
            asyncio.run_coroutine_threadsafe(session.leave(), loop)

    def room(self) -> asyncio.Semaphore:
        """Return the caller's loop's semaphore, which admits as many rollouts as there are pages.

        A rollout waits here without a limit. If it waited for a page instead, it would time out.
        """
        return self._rooms.setdefault(
            asyncio.get_running_loop(), asyncio.Semaphore(self.sessions.size)
        )

    def _ensure_open(self) -> asyncio.AbstractEventLoop:
        with self._opening:
            if self._loop is None:
                self._loop = self._thread.run(self._open)
                at_end_of(self, self._thread)
            return self._loop

    async def _open(self) -> asyncio.AbstractEventLoop:
        await self.sessions.__aenter__()
        return asyncio.get_running_loop()

    async def _close(self) -> None:
        await self.sessions.__aexit__(None, None, None)


_shared: dict[str, SharedSessions] = {}
_sharing = threading.Lock()


def shared_sessions(**settings: Any) -> SharedSessions:
    """Return this process's sessions with these settings, which end with the process.

    Args:
        **settings: The settings of `SharedSessions`.

    Raises:
        InvalidInputError: A setting is invalid.
        UnknownPresetError: No preset has that name.
    """
    key = repr(sorted(settings.items()))
    with _sharing:
        if key not in _shared:
            _shared[key] = SharedSessions(**settings)
        return _shared[key]


def close_shared() -> None:
    """Close all shared sessions before the process ends: episodes, browsers and datasets."""
    with _sharing:
        while _shared:
            _shared.popitem()[1].close()


def task_rows(
    presets: str | Sequence[str], number: int, *, seed: int = 0, **columns: Any
) -> list[dict[str, Any]]:
    """Return rows of a trainer's dataset: tasks in turn, each row with a seed of its own.

    Args:
        presets: One selector of tasks or several.
        number: The number of rows; a trainer repeats each for a group.
        seed: The seed of the first row. Take other seeds for evaluation than for training.
        **columns: More columns, the same in each row.

    Returns:
        Rows with `prompt`, `task` and `seed`. The prompt only names the page; the page replaces it,
        or follows it, when the rollout begins.

    Raises:
        InvalidInputError: A number is not a whole number from 0.
        UnknownPresetError: No preset has that name.

    >>> task_rows("miniwob/click-test", 1, seed=7)[0]["prompt"]
    [{'role': 'user', 'content': 'Task click-test, seed 7.'}]
    """
    check_whole("number", number, 0)
    check_whole("seed", seed, 0)
    names = Sessions(presets).tasks
    rows: list[dict[str, Any]] = []
    for place in range(number):
        row = {"task": names[place % len(names)], "seed": seed + place}
        rows.append({"prompt": [{"role": "user", "content": _ROW.format(**row)}], **row, **columns})
    return rows


# The rest is for the adapters.


async def again(play: Callable[[], Awaitable[_T]]) -> _T:
    """Await `play()`. Repeat it if its episode ended without a reward.

    Raises:
        EpisodeFailedError: It did three times.
    """
    for left in reversed(range(_TRIES)):
        try:
            return await play()
        except EpisodeFailedError as error:
            if not left:
                raise
            _LOGGER.warning("A rollout is played again: %s", error)
    raise AssertionError


def first_messages(
    prompt: Sequence[Mapping[str, Any]], turn: Turn, picture: Picture
) -> list[dict[str, Any]]:
    """Return a conversation's beginning: the row's system messages, followed by the page."""
    system = [dict(message) for message in prompt if message["role"] == "system"]
    return [*system, message_of(turn, picture)]


def message_of(turn: Turn, picture: Picture) -> dict[str, Any]:
    """Return the message that shows a page. `picture` is the picture in the trainer's form."""
    return {"role": "user", "content": content_of(turn, picture)}


def content_of(turn: Turn, picture: Picture) -> str | list[dict[str, Any]]:
    """Return the content of the message that shows a page: text, or parts if there is a picture."""
    text = render_turn(turn)
    return [picture(turn.image), {"type": "text", "text": text}] if turn.image else text


Picture = Callable[[bytes], dict[str, Any]]
"""Returns the part of a message's content that shows an encoded picture."""


def decode_picture(image: bytes) -> dict[str, Any]:
    """Return a picture decoded by Pillow, the form that Hugging Face's processors take."""
    from PIL import Image

    with Image.open(io.BytesIO(image)) as picture:
        return {"type": "image", "image": picture.convert("RGB")}


def as_data_uri(image: bytes) -> dict[str, Any]:
    """Return a picture as OpenAI's chat completions take it."""
    data = base64.b64encode(image).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{media_type(image)};base64,{data}"}}


def page_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task and seed of a row, as arguments of `Session.reset`.

    Raises:
        InvalidInputError: The row has none.
    """
    if row.get("task") is None or row.get("seed") is None:
        raise errors.InvalidInputError(
            f"A row needs the columns task and seed, as task_rows writes; got {sorted(row)}."
        )
    return {"task": str(row["task"]), "seed": int(row["seed"])}  # Both may be numpy's.


def render_turn(turn: Turn) -> str:
    """Return the text that the model reads: on the first turn with the goal and how to act."""
    first = [f"Goal: {turn.goal}", turn.instructions]
    parts = first if turn.instructions else turn.notices
    return "\n".join(part for part in (*parts, turn.heading, turn.page) if part)


def reward_of(session: Session, turn: Turn) -> float | None:
    """Return an episode's reward for a trainer: 0 if its policy did not finish.

    None if there is no judge, or if the machinery or the judge failed.
    """
    if turn.done:
        return session.training_reward
    return 0.0 if turn.judged else None


def require_reward(reward: float | None, turn: Turn) -> float:
    """Return the reward, for a trainer that needs a number.

    Raises:
        EpisodeFailedError: The machinery ended the episode, or its judge failed.
        InvalidInputError: The task has no judge.
    """
    if reward is None and turn.done and turn.judged:
        raise EpisodeFailedError(
            f"The episode ended without a reward: {turn.outcome.name.lower()}", turn.outcome
        )
    if reward is None:
        raise errors.InvalidInputError(
            f"The task {turn.task!r} has no judge, so there is no reward to train on."
        )
    return reward
