"""An OpenEnv server of webtraj's tasks, for every trainer that has an OpenEnv client.

    webtraj openenv serve miniwob/all --sessions 64 --out runs/rl

Each client that connects has a session of its own (`webtraj_integrations.sessions`), and every
episode is recorded. Clients speak OpenEnv's protocol over a WebSocket:

    async with GenericEnvClient(base_url="http://127.0.0.1:8000") as client:
        result = await client.reset(seed=3, task="click-test")
        result = await client.step({"text": "click('4')"})

* `reset` takes `seed`, `task`, `episode_id`, `group_id` and `attempt`, and refuses other names.
  Without a task, the seed chooses one.
* `step` takes a model's reply as `text`; or, for a dialect of JSON actions, the JSON itself.
* `reward` is None if the task has no judge. If the browser or the machine ends an episode, `step`
  answers with an error instead of a reward of None, which some clients count as 0.
* A client that disconnects, or is silent for `session_timeout` seconds, loses its session, and its
  page is free for another client. A step that is under way ends first.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import webtraj
from webtraj import errors
from webtraj.net.local_pages import serving_programs
from webtraj_integrations.sessions import EpisodeFailedError, Session, Sessions, Turn

try:
    from openenv.core.env_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import (
        Action,
        ConcurrencyConfig,
        EnvironmentMetadata,
        Observation,
        State,
    )
    from pydantic import Field, model_validator
except ImportError as missing:
    raise errors.missing_dependency(
        "The OpenEnv server needs openenv", "openenv", package="webtraj-integrations"
    ) from missing

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["WebAction", "WebEnvironment", "WebObservation", "WebState", "make_app", "serving"]

_CLOSE_TIMEOUT = 60.0
_RESET = ("seed", "episode_id", "task", "group_id", "attempt")
_OF_TEXT = ("webtraj", "browsergym")
"""The built-in dialects whose replies are text alone."""


class WebAction(Action):  # type: ignore[misc]
    """One action in the browser. JSON with other fields than these is `call`.

    With a dialect of text, the others beside `text` are not used.
    """

    text: str = Field(description="A model's reply, in the server's dialect: click('12')")
    call: dict[str, Any] | None = Field(
        default=None, description="The action as JSON, for dialects of JSON actions"
    )

    @model_validator(mode="before")
    @classmethod
    def _take_json(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if data.keys() - {"text", "call", "metadata"}:
            text = data.get("text")
            return {"text": text if isinstance(text, str) else "", "call": data}
        return {"text": "", **data} if "call" in data else data


class WebObservation(Observation):  # type: ignore[misc]
    """What a policy sees."""

    goal: str = Field(description="The task in words")
    heading: str = Field(description="The page's title and URL")
    page: str = Field(description="The page as text, a line for each element")
    notices: list[str] = Field(description="What has happened since the last step, a line each")
    image: str = Field(
        description="The page as a JPEG in base64; empty if the mode, or this turn, has no picture"
    )
    instructions: str = Field(description="How to act, for a system message; only after a reset")
    task: str = Field(description="The task's name")
    seed: int = Field(description="The page's seed")
    episode_id: str = Field(description="The episode's id in the dataset")
    outcome: str = Field(description="success, failure or unknown")


class WebState(State):  # type: ignore[misc]
    """A session's state. `episode_id` is the client's own, if it gave one."""

    task: str = ""
    goal: str = ""
    seed: int | None = None
    recorded_as: str = ""
    """The episode's id in the dataset."""
    done: bool = False
    outcome: str = ""
    total_reward: float | None = None
    """The sum of the episode's rewards; None until it is over, if it failed or has no judge."""
    error: str = ""
    """Why the episode failed, if the browser or the machine ended it."""


class WebEnvironment(Environment):  # type: ignore[misc]
    """One client's session. OpenEnv's server makes one for each connection.

    Args:
        sessions: The sessions to serve.
        session_timeout: Seconds of silence after which OpenEnv's server closes it; None for never.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, sessions: Sessions, session_timeout: float | None = None) -> None:
        super().__init__()
        self._sessions = sessions
        self._timeout = session_timeout or 0.0
        self._used = 0.0
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Task[None] | None = None
        self._state = WebState()

    def reset(self, *args: Any, **kwargs: Any) -> WebObservation:
        """Raise: pages belong to the server's event loop. Use `reset_async`."""
        raise errors.EnvironmentMisuseError("Use reset_async, on the server's event loop.")

    def step(self, *args: Any, **kwargs: Any) -> WebObservation:
        """Raise: pages belong to the server's event loop. Use `step_async`."""
        raise errors.EnvironmentMisuseError("Use step_async, on the server's event loop.")

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task: str | None = None,
        group_id: str = "",
        attempt: int = 0,
        **unknown: Any,
    ) -> WebObservation:
        """Begin an episode. See `Session.reset`.

        Raises:
            InvalidInputError: An argument is unknown or invalid. An open episode stays open.
            EpisodeFailedError: Three tries got no page, or none became free in time.
        """
        if unknown:
            raise errors.InvalidInputError(
                f"reset takes {', '.join(_RESET)}; got {', '.join(map(repr, unknown)):.200}."
            )
        if self._session is None:
            self._session, self._loop = self._sessions.session(), asyncio.get_running_loop()
        given = {} if episode_id is None else {"client_episode_id": episode_id}
        try:
            turn = await self._session.reset(
                task=task, seed=seed, group_id=group_id, attempt=attempt, metadata=given
            )
        except EpisodeFailedError as failure:
            self._state = WebState(episode_id=episode_id)
            self._record_failure(failure)
            raise
        self._state = WebState(episode_id=episode_id)
        return self._observe_turn(turn)

    async def step_async(
        self, action: WebAction, timeout_s: float | None = None, **_: Any
    ) -> WebObservation:
        """Carry out an action. See `Session.step`. The browser's calls have their own deadlines."""
        if self._session is None:
            raise errors.EnvironmentMisuseError(
                "No episode is running. Reset first, over the same WebSocket: POST /reset and "
                "POST /step keep no session."
            )
        try:
            turn = await self._session.step(self._reply(action))
        except EpisodeFailedError as failure:
            self._record_failure(failure)
            raise
        return self._observe_turn(turn)

    @property
    def state(self) -> WebState:
        """The session's state."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Return the server's name, version and tasks."""
        tasks = self._sessions.tasks
        return EnvironmentMetadata(
            name="webtraj",
            description=f"{len(tasks)} tasks in a browser: {', '.join(tasks[:5])}"
            + (", ..." if len(tasks) > 5 else ""),
            version=webtraj.__version__,
        )

    def close(self) -> None:
        """Give the page back. OpenEnv's server calls this on a thread, or on its event loop.

        It also calls this during a step that takes longer than `session_timeout`. The client is
        waiting then, so the page is given back only when the client is silent.
        """
        if self._session is None or self._loop is None:
            return
        if self._session.busy and self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._close_when_silent(), self._loop)
            return
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            self._closing = self._loop.create_task(self._session.leave())
        elif self._loop.is_running():
            done = asyncio.run_coroutine_threadsafe(self._session.leave(), self._loop)
            done.result(_CLOSE_TIMEOUT)

    async def _close_when_silent(self) -> None:
        assert self._session is not None
        assert self._loop is not None
        left = self._timeout
        while left > 0:
            await asyncio.sleep(left)
            silent = 0.0 if self._session.busy else self._loop.time() - self._used
            left = self._timeout - silent
        await self._session.leave()

    def _reply(self, action: WebAction) -> str | dict[str, Any]:
        """Return what `Session.step` takes."""
        sessions = self._sessions
        of_text = sessions.page_dialect is not None or sessions.dialect in _OF_TEXT
        if action.call is None or (of_text and action.text):
            return str(action.text)
        if of_text:
            raise errors.InvalidInputError(
                f"step takes a reply in the dialect {sessions.dialect!r} as 'text'; got "
                f"{', '.join(map(repr, action.call)):.200}."
            )
        return dict(action.call)

    def _observe_turn(self, turn: Turn) -> WebObservation:
        assert self._session is not None
        assert self._loop is not None
        self._used = self._loop.time()
        outcome = turn.outcome.name.lower()
        self._state = WebState(
            task=turn.task,
            goal=turn.goal,
            seed=turn.seed,
            done=turn.done,
            episode_id=self._state.episode_id or turn.episode_id or None,
            step_count=turn.step,
            recorded_as=turn.episode_id,
            outcome=outcome if turn.done else "",
            total_reward=self._session.total_reward,
        )
        return WebObservation(
            task=turn.task,
            goal=turn.goal,
            seed=turn.seed,
            done=turn.done,
            heading=turn.heading,
            page=turn.page,
            instructions=turn.instructions,
            episode_id=turn.episode_id,
            reward=turn.reward,
            notices=list(turn.notices),
            image=base64.b64encode(turn.image).decode(),
            outcome=outcome,
        )

    def _record_failure(self, failure: EpisodeFailedError) -> None:
        known = {**self._state.model_dump(), "done": True, "total_reward": None}
        known |= {"outcome": failure.outcome.name.lower(), "error": str(failure)}
        self._state = WebState(**known)


def make_app(sessions: Sessions, *, session_timeout: float | None = 600.0) -> ASGIApp:
    """Return the server as an ASGI application.

    Args:
        sessions: The sessions to serve; open, on the event loop that serves them.
        session_timeout: Seconds of silence after which a client loses its session; None waits
            for ever.
    """
    app: ASGIApp = create_fastapi_app(
        functools.partial(WebEnvironment, sessions, session_timeout),
        WebAction,
        WebObservation,
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=sessions.size, session_timeout=session_timeout
        ),
        env_name="webtraj",
        state_cls=WebState,
    )
    return app


@contextlib.asynccontextmanager
async def serving(
    sessions: Sessions,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    session_timeout: float | None = 600.0,
) -> AsyncIterator[str]:
    """Serve sessions while the context lasts, and yield the URL for clients.

    Args:
        sessions: The sessions to serve; open, on this event loop.
        host: The address to listen at. Programs of other users need the token in the URL. If other
            machines can reach the address, all programs need it.
        port: The port; 0 for a free one.
        session_timeout: Seconds of silence after which a client loses its session.

    Raises:
        InvalidInputError: The address cannot be listened at.
    """
    app = _LimitedMessages(make_app(sessions, session_timeout=session_timeout))
    async with serving_programs(
        app, what="The OpenEnv server", host=host, port=port, ws_max_size=_MAX_READ
    ) as url:
        yield url


_MAX_MESSAGE = 16 * 2**20
"""The most characters of an accepted WebSocket message."""
_MAX_READ = 128 * 2**20
"""The most bytes of a message that is read at all; a larger one ends the session."""


class _LimitedMessages:
    """ASGI middleware that answers a message that is too long with an error.

    By itself, uvicorn would close the connection, and so end the client's session and episode.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return

        async def receive_short() -> Any:
            while True:
                message = await receive()
                size = len(message.get("text") or message.get("bytes") or "")
                if size <= _MAX_MESSAGE:
                    return message
                text = (
                    f"The message has {size:,} characters; expected at most {_MAX_MESSAGE:,}. "
                    "Send a shorter one; the session is still open."
                )
                error = {"type": "error", "data": {"message": text, "code": "VALIDATION_ERROR"}}
                await send({"type": "websocket.send", "text": json.dumps(error)})

        await self._app(scope, receive_short, send)
