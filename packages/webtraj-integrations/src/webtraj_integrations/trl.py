"""webtraj's tasks in TRL's `GRPOTrainer`, played in browsers of the trainer's own process.

    tasks = WebTasks("miniwob/click-test", sessions=16, group_size=8, out="runs/trl")

    # The model replies in a dialect. As many rollouts act at once as there are pages.
    GRPOTrainer(
        ...,
        train_dataset=tasks.dataset(64),
        rollout_func=tasks.rollout_func,
        reward_funcs=web_reward,
    )

    # The model calls the tool `act`, and may see pictures. TRL asks one rollout after the other.
    GRPOTrainer(..., train_dataset=tasks.dataset(64), environment_factory=tasks.environment_factory)

Every rollout is a recorded episode; a group's episodes share `group_id`, task and seed. A reward is
the task's own. It is None, which TRL leaves out of the group's mean, if the browser or the machine
ended the episode or the task has no judge. An episode that the policy did not finish, by using up
its tokens for example, has reward 0.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import re
import uuid
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj_integrations.sessions import EpisodeFailedError, Session, Turn, check_whole
from webtraj_integrations.trainers import (
    SharedSessions,
    content_of,
    decode_picture,
    render_turn,
    reward_of,
    task_rows,
)

if TYPE_CHECKING:
    from trl import GRPOTrainer

__all__ = ["WebEnvironment", "WebTasks", "web_reward"]

_Content = str | list[dict[str, Any]]
"""A message's text, or its parts if the page has a picture."""

_MARK = "\N{REPLACEMENT CHARACTER}reply\N{REPLACEMENT CHARACTER}"
_NO_PICTURES = (
    "TRL takes no pictures from a rollout_func (huggingface/trl#5120). Give the trainer "
    "environment_factory=tasks.environment_factory instead, or show pages without pictures."
)
_READ_ROW = re.compile(r"Task (\S+), seed (\d+)\.")


def web_reward(
    completions: Sequence[Any], web_reward: Sequence[float | None], **_: Any
) -> list[Any]:
    """Return the rewards of rollouts that `WebTasks.rollout_func` played: a reward function of TRL.

    >>> web_reward(["a", "b"], web_reward=[1.0, None])
    [1.0, None]
    """
    del completions
    return list(web_reward)


class WebTasks(SharedSessions):
    """Tasks and a pool of browsers for one trainer.

    Browsers start with the first rollout and end with `close` or the process.

    Args:
        presets: One selector of tasks or several, of presets that use a browser.
        sessions: The maximum number of rollouts at a time. With `rollout_func`, the other rollouts
            of a batch wait for a page. With `environment_factory`, this must be the trainer's whole
            generation batch.
        group_size: TRL's `num_generations`. With `environment_factory`, the pages of a whole group
            are reset at once when its first rollout asks.
        **settings: More settings of `webtraj_integrations.sessions.Sessions`: `out`, `dialect`,
            `context`, `max_steps`, `options`, ...

    Raises:
        InvalidInputError: A setting is invalid.
        UnknownPresetError: No preset has that name.
    """

    def __init__(
        self,
        presets: str | Sequence[str],
        *,
        sessions: int = 8,
        group_size: int = 1,
        **settings: Any,
    ) -> None:
        check_whole("group_size", group_size, 1)
        settings.setdefault("policy", "trl")
        super().__init__(presets, sessions=sessions, **settings)
        self._presets = presets
        self._group_size = group_size
        self._ahead: dict[tuple[str | None, int | None], collections.deque[Any]] = {}

    def dataset(self, rows: int, *, seed: int = 0) -> Any:
        """Return a `datasets.Dataset` of tasks in turn, each row with a seed of its own.

        Args:
            rows: The number of rows; TRL repeats each for a group.
            seed: The seed of the first row. Take other seeds for evaluation than for training.

        Returns:
            Rows with `prompt`, `task` and `seed`. The prompt only names the page; the page replaces
            it, or follows it, when the rollout begins.
        """
        import datasets

        return datasets.Dataset.from_list(task_rows(self._presets, rows, seed=seed))

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names, in order."""
        return self.sessions.tasks

    def environment_factory(self) -> WebEnvironment:
        """Return an environment for one rollout at a time: TRL's `environment_factory`."""
        return WebEnvironment(self)

    def rollout_func(self, prompts: Sequence[Any], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        """Play a rollout for each prompt, as many at once as there are pages: TRL's `rollout_func`.

        The model samples for all open rollouts in one batch. Then all act at once, and finished
        rollouts leave their pages to others. Prompt and completion are the sampled token ids; the
        pages between them have `env_mask` 0. A rollout ends with its episode, at
        `max_completion_length`, or with a reply without an end.

        Args:
            prompts: Prompts of `dataset`.
            trainer: The trainer, which samples.

        Returns:
            `prompt_ids`, `completion_ids`, `logprobs` (None without vLLM), `env_mask` and
            `web_reward`, each with one item for each prompt.

        Raises:
            InvalidInputError: A prompt is not from `dataset`, its task is not one of these, or
                pages have pictures, which TRL takes only from `environment_factory`.
        """
        if self.sessions.context.with_images:
            raise errors.InvalidInputError(_NO_PICTURES)
        rollouts = [Rollout(self.sessions.session()) for _ in prompts]
        coming = collections.deque(zip(rollouts, _attempts(prompts), strict=True))
        try:
            self._play(coming, _Tokens(trainer), trainer)
        finally:
            self.run(functools.partial(_leave, rollouts))
        for rollout in rollouts:
            if not rollout.completion_ids:  # Its page never came: a token that trains nothing.
                rollout.add([trainer._tokenizer.eos_token_id], None, mask=0)
        known = trainer.use_vllm and all(rollout.logprobs is not None for rollout in rollouts)
        return {
            "prompt_ids": [rollout.prompt_ids for rollout in rollouts],
            "completion_ids": [rollout.completion_ids for rollout in rollouts],
            "logprobs": [rollout.logprobs for rollout in rollouts] if known else None,  # type: ignore[dict-item]
            "env_mask": [rollout.env_mask for rollout in rollouts],
            "web_reward": [rollout.reward for rollout in rollouts],
        }

    # The rest is for this module.

    def _play(
        self,
        coming: collections.deque[tuple[Rollout, dict[str, Any]]],
        tokens: _Tokens,
        trainer: GRPOTrainer,
    ) -> None:
        """Play rollouts with these arguments of `Rollout.reset`, as many at once as pages."""
        playing: list[Rollout] = []
        while coming or playing:
            room = min(self.sessions.size - len(playing), len(coming))
            begun = [coming.popleft() for _ in range(room)]
            texts = [tokens.text(rollout.last_reply) for rollout in playing]
            self.run(functools.partial(_act, playing, texts, begun))
            for rollout, _ in begun:
                rollout.prompt_ids = tokens.first(rollout.turn)
            held = [*playing, *(rollout for rollout, _ in begun)]
            asked = [one for one in playing if not one.over and tokens.next(one)]
            asked += [rollout for rollout, _ in begun if not rollout.over]
            if asked:
                _sample(asked, trainer)
            playing = [rollout for rollout in asked if tokens.is_whole(rollout)]
            going = set(map(id, playing))
            over = [one for one in held if id(one) not in going]
            self.run(functools.partial(_leave, over))

    async def begin(self, task: str | None, seed: int | None) -> Rollout:
        """Begin a rollout, or take one that was begun ahead for the same group."""
        key = (task, seed)
        if not self._ahead.get(key):
            await self._forget()
            group = uuid.uuid4().hex
            self._ahead[key] = collections.deque(
                asyncio.create_task(self._begin(task, seed, group, attempt))
                for attempt in range(self._group_size if seed is not None else 1)
            )
        rollout: Rollout = await self._ahead[key].popleft()
        return rollout

    async def _begin(self, task: str | None, seed: int | None, group: str, attempt: int) -> Rollout:
        rollout = Rollout(self.sessions.session())
        await rollout.reset(task=task, seed=seed, group_id=group, attempt=attempt)
        return rollout

    async def _forget(self) -> None:
        """Close what was begun ahead and never asked for."""
        left = [task for tasks in self._ahead.values() for task in tasks]
        self._ahead.clear()
        for rollout in await asyncio.gather(*left, return_exceptions=True):
            if isinstance(rollout, Rollout):
                await rollout.close()

    async def _close(self) -> None:
        await self._forget()
        await super()._close()


def _no_page(with_images: bool) -> _Content:
    """Return the first message of a rollout without a page."""
    text = "The page could not be opened."
    if not with_images:
        return text
    from PIL import Image

    # Processors refuse a batch in which one prompt has pictures and another has none.
    blank = {"type": "image", "image": Image.new("RGB", (64, 64))}
    return [blank, {"type": "text", "text": text}]


class WebEnvironment:
    """One rollout at a time for TRL's `environment_factory`; the model calls the tool `act`."""

    # TRL takes every public method but `reset` and `get_reward` as a tool.

    def __init__(self, tasks: WebTasks) -> None:
        self._tasks = tasks
        self._rollout: Rollout | None = None

    def reset(self, task: str | None = None, seed: int | None = None, **row: Any) -> _Content:
        """Begin an episode and return its goal, its page and how to act.

        Raises:
            InvalidInputError: No task has that name, or the seed is invalid.
        """
        del row
        self._leave()
        self._rollout = self._tasks.run(lambda: self._tasks.begin(task, seed))
        if self._rollout.turn is None:
            content = _no_page(self._tasks.sessions.context.with_images)
        else:
            content = content_of(self._rollout.turn, decode_picture)
        return "\n" + content if isinstance(content, str) else content

    def act(self, action: str) -> _Content:
        """Act in the page.

        Args:
            action: One action, written as the first message says: click('4'), for example.

        Returns:
            The page after the action.
        """
        rollout = self._rollout
        if rollout is None or rollout.over:
            return "The episode is over."
        self._tasks.run(lambda: rollout.step(action))
        if rollout.turn is None:
            return "The episode is over."
        return content_of(rollout.turn, decode_picture)

    def get_reward(self) -> float | None:
        """Return the episode's reward; None if it was not scored. Ends the episode."""
        reward = None if self._rollout is None else self._rollout.reward
        self._leave()
        return reward

    def _leave(self) -> None:
        if (rollout := self._rollout) is not None:
            self._rollout = None
            self._tasks.run(rollout.close)


@dataclasses.dataclass(slots=True)
class Rollout:
    """An episode and the tokens that its policy read and wrote."""

    session: Session
    turn: Turn | None = None
    """The last turn; None if the browser or the machine ended the episode."""
    prompt_ids: list[int] = dataclasses.field(default_factory=list)
    completion_ids: list[int] = dataclasses.field(default_factory=list)
    logprobs: list[float] | None = dataclasses.field(default_factory=list)
    env_mask: list[int] = dataclasses.field(default_factory=list)
    last_reply: list[int] = dataclasses.field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.turn is None or self.turn.done

    @property
    def reward(self) -> float | None:
        """The episode's reward. An unfinished episode has 0, because its policy did not finish."""
        return None if self.turn is None else reward_of(self.session, self.turn)

    async def reset(self, **row: Any) -> None:
        """Begin the episode; without a page, it is over at once."""
        with contextlib.suppress(EpisodeFailedError):
            self.turn = await self.session.reset(**row)

    async def step(self, reply: str) -> None:
        """Carry out a reply. A finished episode gives its page back."""
        try:
            self.turn = await self.session.step(reply)
        except EpisodeFailedError:
            self.turn = None
        if self.over:
            await self.session.close()

    async def close(self) -> None:
        """End the episode and give its page back."""
        await self.session.close()

    def add(self, ids: Sequence[int], logprobs: Sequence[float] | None, *, mask: int) -> None:
        """Append tokens: the model's, with mask 1, or a page's, with mask 0."""
        self.completion_ids += ids
        self.env_mask += [mask] * len(ids)
        if mask:
            self.last_reply = list(ids)
            if logprobs is None:
                self.logprobs = None
        if self.logprobs is not None:
            self.logprobs += logprobs or [0.0] * len(ids)


class _Tokens:
    """Turns messages into token ids by the trainer's chat template. Keeps sampled tokens."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer
        self._ends = set(trainer.eos_token_ids)
        self._most = trainer.max_completion_length

    def first(self, turn: Turn | None) -> list[int]:
        """Return a rollout's prompt."""
        said = "" if turn is None else render_turn(turn)
        text = self._render([{"role": "user", "content": said}])
        ids: list[int] = self._trainer._tokenizer(text, add_special_tokens=False).input_ids
        return ids

    def is_whole(self, rollout: Rollout) -> bool:
        """Return whether the last reply ended by itself within the limit. If not, shorten it."""
        if len(rollout.completion_ids) > self._most:
            del rollout.completion_ids[self._most :]
            del rollout.env_mask[self._most :]
            if rollout.logprobs is not None:
                del rollout.logprobs[self._most :]
            return False
        return bool(rollout.last_reply) and rollout.last_reply[-1] in self._ends

    def text(self, ids: Sequence[int]) -> str:
        """Return a reply as text."""
        text: str = self._trainer.processing_class.decode(ids, skip_special_tokens=True)
        return text

    def next(self, rollout: Rollout) -> bool:
        """Append the page to a rollout; return False if there is no room for a reply to it."""
        assert rollout.turn is not None
        asked = {"role": "user", "content": render_turn(rollout.turn)}
        talk = [{"role": "user", "content": "-"}, {"role": "assistant", "content": _MARK}, asked]
        _, mark, after = self._render(talk).partition(_MARK)
        if not mark:
            raise errors.InvalidInputError(
                "The model's chat template leaves out earlier replies, so a page cannot follow the "
                "sampled tokens. Use a template that keeps them."
            )
        # The sampled reply has its end already.
        for end in self._ends:
            after = after.removeprefix(self._trainer._tokenizer.decode([end]))
        page = self._trainer._tokenizer(after, add_special_tokens=False).input_ids
        if len(rollout.completion_ids) + len(page) >= self._most:
            return False
        rollout.add(page, None, mask=0)
        return True

    def _render(self, messages: Sequence[Mapping[str, str]]) -> str:
        text: str = self._trainer.processing_class.apply_chat_template(
            list(messages),
            add_generation_prompt=True,
            tokenize=False,
            chat_template=self._trainer.chat_template,
            **self._trainer.chat_template_kwargs,
        )
        return text


def _sample(rollouts: Sequence[Rollout], trainer: GRPOTrainer) -> None:
    """Append the model's replies to rollouts, sampled in one batch."""
    asked = [rollout.prompt_ids + rollout.completion_ids for rollout in rollouts]
    replies, logprobs = trainer._generate_single_turn(asked, None, {}, 1)
    for rollout, reply, its in zip(
        rollouts, replies, logprobs or [None] * len(rollouts), strict=True
    ):
        rollout.add(reply, its, mask=1)


async def _act(
    playing: Sequence[Rollout],
    replies: Sequence[str],
    begun: Sequence[tuple[Rollout, Mapping[str, Any]]],
) -> None:
    """Carry out replies, and begin other rollouts meanwhile."""
    steps = map(Rollout.step, playing, replies)
    await _all(*steps, *(rollout.reset(**row) for rollout, row in begun))


async def _leave(rollouts: Sequence[Rollout]) -> None:
    """Close rollouts that do not continue, so that others can use their pages."""
    await _all(*(one.close() for one in rollouts))


async def _all(*calls: Awaitable[None]) -> None:
    """Await all calls, even if one raises, and then raise the first error."""
    for error in await asyncio.gather(*calls, return_exceptions=True):
        if error is not None:
            raise error


def _attempts(prompts: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield arguments of `Rollout.reset`. The attempts at a row are a group."""
    groups: dict[tuple[str, int], str] = {}
    begun: collections.Counter[tuple[str, int]] = collections.Counter()
    for row in map(_read_row, prompts):
        group = groups.setdefault(row, uuid.uuid4().hex)
        yield {"task": row[0], "seed": row[1], "group_id": group, "attempt": begun[row]}
        begun[row] += 1


def _read_row(prompt: Any) -> tuple[str, int]:
    """Return the task and seed that a prompt of `WebTasks.dataset` names."""
    content = prompt[-1]["content"] if isinstance(prompt, list) and prompt else prompt
    found = _READ_ROW.fullmatch(content) if isinstance(content, str) else None
    if found is None:
        raise errors.InvalidInputError(
            f"Unknown prompt {content!r:.100}; expected 'Task NAME, seed NUMBER.', as "
            "WebTasks.dataset writes."
        )
    return found[1], int(found[2])
