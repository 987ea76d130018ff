"""webtraj's tasks in SkyRL: a `BaseTextEnv` of SkyRL-Gym, and what its generator needs for it.

    skyrl_gym.register(
        id="web",
        entry_point="webtraj_integrations.skyrl:WebEnv",
        kwargs={"presets": "miniwob/click-test", "sessions": 16, "out": "runs/skyrl"},
    )

    class Generator(WebRollouts, SkyRLGymGenerator):  # SkyRLVLMGymGenerator for pictures.
        pass

All environments of a process share one pool of browsers. Every rollout is a recorded episode; a
group's episodes share `group_id`, task and seed. In SkyRL every rollout has a number as its reward,
so an episode that the browser or the machine ended raises; `WebRollouts` plays it again.
"""

from __future__ import annotations

import functools
import re
import uuid
import weakref
from collections.abc import Sequence
from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType

from webtraj import errors
from webtraj.agents.models.messages import PICTURE_MARKS
from webtraj.trajectory import Outcome
from webtraj_integrations.sessions import EpisodeFailedError, Turn
from webtraj_integrations.trainers import (
    WROTE_PICTURE,
    SharedSessions,
    again,
    as_data_uri,
    first_messages,
    message_of,
    page_of,
    require_reward,
    reward_of,
    shared_sessions,
)

__all__ = ["WebEnv", "WebRollouts"]

_PICTURE = re.compile(f"<{PICTURE_MARKS}")


class WebEnv(BaseTextEnv):  # type: ignore[misc]
    """One rollout: the page is the user, the model replies with an action in a dialect.

    Args:
        presets: One selector of tasks or several.
        env_config: Not used; `skyrl_gym.make` passes it.
        extras: The row of the dataset, with `task` and `seed`, and SkyRL's `max_turns`.
        **settings: More settings of `webtraj_integrations.sessions.Sessions`.

    Raises:
        InvalidInputError: A setting is invalid.
        UnknownPresetError: No preset has that name.
    """

    def __init__(
        self,
        presets: str | Sequence[str],
        env_config: Any = None,
        extras: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        del env_config
        self._row = extras or {}
        self.max_turns = self._row.get("max_turns")
        self._shared = _pool(presets=presets, **settings)
        self._session = self._shared.sessions.session()
        self._turn: Turn | None = None
        # SkyRL drops an environment without closing it if a rollout raises.
        self._dropped = weakref.finalize(self, self._shared.leave, self._session)
        self._dropped.atexit = False

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:
        """Begin the episode and return the page, which replaces the prompt except system messages.

        Raises:
            InvalidInputError: All pages are in use, or the task or seed is missing or unknown.
            EpisodeFailedError: Three tries got no page.
        """
        self._turn = self._shared.run(self._begin)
        return first_messages(prompt, self._turn, as_data_uri), {"episode": self._turn.episode_id}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Carry out a reply. A reply without a valid action counts as a turn and changes nothing.

        The last turn of a finished episode has the whole reward, because SkyRL adds up the rewards
            of turns. An unfinished episode has 0.

        Raises:
            EpisodeFailedError: The browser or the machine ended the episode, or pages have pictures
                and the reply has a picture's token: it has no reward.
            InvalidInputError: The task has no judge.
        """
        # SkyRL renders replies again as text, special tokens included, so the text is enough.
        if self._shared.sessions.context.with_images and _PICTURE.search(action):
            self.close()
            raise EpisodeFailedError(WROTE_PICTURE, Outcome.MODEL_ERROR)
        self._turn = turn = self._shared.run(functools.partial(self._session.step, action))
        self.turns += 1
        done = turn.done or (self.max_turns is not None and self.turns >= self.max_turns)
        return BaseTextEnvStepOutput(
            observations=[] if done else [message_of(turn, as_data_uri)],
            reward=require_reward(reward_of(self._session, turn), turn),
            done=done,
            metadata={"episode": turn.episode_id, "outcome": str(turn.outcome)},
        )

    def get_metrics(self) -> dict[str, Any]:
        """Return the number of steps, and 1 for a success."""
        if self._turn is None:
            return {}
        return {"steps": self._turn.step, "success": float(self._turn.outcome is Outcome.SUCCESS)}

    def close(self) -> None:
        """Give the page back; an open episode ends as CLOSED. Idempotent."""
        if self._dropped.detach():
            self._shared.run(self._session.close)

    async def _begin(self) -> Turn:
        sessions, row = self._shared.sessions, self._row
        # Waiting for a page here would keep a thread that another rollout needs to finish.
        if len(sessions.open) >= sessions.size:
            raise errors.InvalidInputError(
                f"All {sessions.size} pages are in use. Set `sessions` to the number of rollouts "
                "at a time, or let WebRollouts make them wait."
            )
        return await self._session.reset(
            **page_of(row),
            group_id=row.get("group_id", ""),
            attempt=row.get("attempt", 0),
        )


class WebRollouts:
    """Put before `SkyRLGymGenerator`, or another generator of SkyRL, in a class's bases.

    Rollouts of a `WebEnv` wait until a page is free, are recorded with their group and attempt, and
    are played again, with the same page, if the browser or the machine ended the episode or the
    model wrote a picture's token.
    """

    async def generate(self, input_batch: Any, *args: Any, **more: Any) -> Any:
        """Play a batch. See SkyRL's `GeneratorInterface`."""
        groups: dict[str, str] = {}
        for row, name in zip(
            input_batch["env_extras"], input_batch.get("trajectory_ids") or (), strict=False
        ):
            row["group_id"] = groups.setdefault(name.instance_id, uuid.uuid4().hex)
            row["attempt"] = name.repetition_id
        return await super().generate(input_batch, *args, **more)  # type: ignore[misc]

    async def agent_loop(self, prompt: Any, env_class: str, *args: Any, **more: Any) -> Any:
        """Play one rollout.

        Raises:
            EpisodeFailedError: Its episode ended without a reward three times.
            InvalidInputError: Pages have pictures, and the generator takes none.
        """
        play = functools.partial(super().agent_loop, prompt, env_class, *args, **more)  # type: ignore[misc]
        settings = skyrl_gym.spec(env_class).kwargs
        if "presets" not in settings:  # Another environment in the same training.
            return await play()
        pool = _pool(**settings)
        if pool.sessions.context.with_images:
            _check_takes_pictures(self)
        async with pool.room():
            return await again(play)


def _pool(**settings: Any) -> SharedSessions:
    return shared_sessions(**{"policy": "skyrl", **settings})


def _check_takes_pictures(generator: Any) -> None:
    from skyrl.train.generators import (  # type: ignore[import-not-found]
        skyrl_gym_generator,
        skyrl_vlm_generator,
    )

    of_text = isinstance(generator, skyrl_gym_generator.SkyRLGymGenerator)
    if of_text and not isinstance(generator, skyrl_vlm_generator.SkyRLVLMGymGenerator):
        raise errors.InvalidInputError(
            "SkyRLGymGenerator takes no pictures. Derive the generator from SkyRLVLMGymGenerator, "
            "or show pages without pictures."
        )
