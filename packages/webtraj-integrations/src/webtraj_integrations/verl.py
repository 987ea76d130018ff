"""webtraj's tasks in verl: an agent loop, named in the file of `agent_loop_config_path`.

    - name: web
      _target_: webtraj_integrations.verl.WebAgentLoop
      presets: miniwob/click-test
      sessions: 16
      out: runs/verl

All loops of a worker share one pool of browsers. Every rollout is a recorded episode; a group's
episodes share `group_id`, task and seed. A rollout whose episode the browser or the machine ended
is played again; after three tries it raises, and verl trains on the group without it.
"""

from __future__ import annotations

import functools
import uuid
from typing import Any

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer
from verl.utils.tokenizer import get_processor_token_id

from webtraj.trajectory import Ending, Outcome, ending_of
from webtraj_integrations.sessions import EpisodeFailedError
from webtraj_integrations.trainers import (
    PICTURES,
    WROTE_PICTURE,
    again,
    decode_picture,
    first_messages,
    message_of,
    page_of,
    require_reward,
    reward_of,
    shared_sessions,
)

__all__ = ["WebAgentLoop"]


class WebAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """One rollout: the page is the user, the model replies with an action in a dialect.

    Pictures need a model with a processor that verl knows.

    Args:
        *args: verl's.
        presets: One selector of tasks or several.
        sessions: The maximum number of rollouts at a time in a worker. Others wait.
        out: The dataset: a folder, or a bucket's URL. None records nothing.
        dialect: The dialect of actions.
        context: How a page is shown, such as `{mode: coordinates}`; see `Sessions`.
        pictures: The maximum number of pictures of a rollout; see `Sessions`.
        max_steps: Truncate an episode after this many steps.
        policy: The policy's name in the records.
        reward: "outcome" or "environment"; see `Sessions`.
        options: Options of the presets.
        **kwargs: verl's.
    """

    def __init__(
        self,
        *args: Any,
        presets: Any,
        sessions: int = 8,
        out: str | None = None,
        dialect: str = "webtraj",
        context: Any = None,
        pictures: int | None = PICTURES,
        max_steps: int | None = None,
        policy: str = "verl",
        reward: str = "outcome",
        options: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        settings = {
            "presets": presets,
            "sessions": sessions,
            "out": out,
            "dialect": dialect,
            "context": context,
            "pictures": pictures,
            "max_steps": max_steps,
            "policy": policy,
            "reward": reward,
            "options": options,
        }
        plain: Any = OmegaConf.to_container(OmegaConf.create(settings))
        self._shared = shared_sessions(**plain)
        kinds = ("image", "video")
        found = {get_processor_token_id(self.processor, kind) for kind in kinds}
        self._tokens_of_pictures = found - {None}
        self._most = self.rollout_config.response_length
        self._turns = self.rollout_config.multi_turn.get("max_assistant_turns")

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play the rollout of a row with `task` and `seed`.

        Raises:
            EpisodeFailedError: The browser or the machine ended its episode three times.
            InvalidInputError: The task or seed is missing or unknown, or the task has no judge.
        """
        async with self._shared.room():
            return await again(functools.partial(self._play, sampling_params, row))

    async def _play(self, sampling_params: dict[str, Any], row: dict[str, Any]) -> AgentLoopOutput:
        session, on_page = self._shared.sessions.session(), self._shared.arun
        request, for_processor = uuid.uuid4().hex, self._get_mm_processor_kwargs()
        times: dict[str, float] = {}
        extra: dict[str, Any] = {}
        mask: list[int] = []
        logprobs: list[float] | None = None
        try:
            begin = functools.partial(
                session.reset,
                **page_of(row),
                group_id=str(row.get("uid", "")),
                attempt=int(row.get("session_id", 0)),
            )
            turn = await on_page(begin)
            talk = first_messages(row["raw_prompt"], turn, decode_picture)
            images = _pictures_in(talk)
            self._assert_mm_supported(bool(images))
            ids = await self.ct_build_initial_tokens(talk, images=images or None)
            while True:
                with simple_timer("generate_sequences", times):
                    reply = await self.server_manager.generate(
                        request_id=request,
                        prompt_ids=ids,
                        sampling_params=sampling_params,
                        image_data=images or None,
                        mm_processor_kwargs=for_processor,
                    )
                if ending_of(getattr(reply, "stop_reason", None) or "") is Ending.BROKEN:
                    why = f"The server broke off a reply ({reply.stop_reason})."
                    raise EpisodeFailedError(why, Outcome.MODEL_ERROR)
                if not self._tokens_of_pictures.isdisjoint(reply.token_ids):
                    raise EpisodeFailedError(WROTE_PICTURE, Outcome.MODEL_ERROR)
                extra = {**reply.extra_fields, **extra}
                if "max_global_steps" in reply.extra_fields:
                    extra["max_global_steps"] = reply.extra_fields["max_global_steps"]
                if reply.log_probs and logprobs is None:
                    logprobs = []
                merged, mask, logprobs = await self.ct_merge_assistant_token(
                    ids, reply.token_ids, mask, logprobs, assistant_logprobs=reply.log_probs or None
                )
                ids = merged.token_ids
                if len(mask) >= self._most:  # The reply may lack its end.
                    break
                text = self.tokenizer.decode(reply.token_ids, skip_special_tokens=True)
                with simple_timer("tool_calls", times):
                    turn = await on_page(functools.partial(session.step, text))
                if turn.done or turn.step == self._turns:
                    break
                asked = [*talk, {"role": "assistant", "content": text}]
                talk = [*asked, message_of(turn, decode_picture)]
                merged, page_mask, page_logprobs = await self.ct_merge_context_msg(
                    asked, talk, ids, mask, logprobs
                )
                if len(page_mask) >= self._most:  # There is no room for a reply.
                    break
                ids, mask, logprobs = merged.token_ids, page_mask, page_logprobs
                images = _pictures_in(talk)
            reward = require_reward(reward_of(session, turn), turn)
        finally:
            await on_page(session.close)
        extra |= {"turn_scores": [], "tool_rewards": [], "webtraj_episode": turn.episode_id}
        prompt = len(ids) - len(mask)
        return AgentLoopOutput(
            prompt_ids=ids[:prompt],
            response_ids=ids[prompt:][: self._most],
            response_mask=mask[: self._most],
            response_logprobs=None if logprobs is None else logprobs[: self._most],
            multi_modal_data={"images": images} if images else {},
            mm_processor_kwargs=for_processor,
            reward_score=reward,
            num_turns=2 * turn.step + 1,
            metrics=times,
            extra_fields=extra,
        )


def _pictures_in(talk: list[dict[str, Any]]) -> list[Any]:
    """Return the pictures of a conversation, in order."""
    parts = (part for one in talk if isinstance(one["content"], list) for part in one["content"])
    return [part["image"] for part in parts if "image" in part]
