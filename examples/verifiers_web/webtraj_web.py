"""Web tasks in browsers on this machine, as a verifiers environment.

    pip install -e examples/verifiers_web
    vf-eval webtraj-web -m MODEL --env.taskset.presets '["miniwob/click-test"]'

verifiers brings the model, the samples and their scores; webtraj the tasks, the browsers and the
record. A task of the taskset is a page: a task and a seed. A run's samples of a page are a group of
episodes; those beyond `sessions` wait for a page. An episode that the browser ended has no reward:
verifiers gets an error and may retry. So it is if the model's server fails.
"""

import asyncio
import collections
import uuid
from collections.abc import Iterator

import httpx
import verifiers.v1 as vf
from pydantic import Field
from verifiers.v1.dialects.chat import message_to_wire

from webtraj_integrations.sessions import Sessions
from webtraj_integrations.trainers import render_turn, require_reward, reward_of

__all__ = ["ChatHarness", "WebEnv", "WebTaskset"]


class WebData(vf.TaskData):
    """A page."""

    task: str
    """The task's name: `click-test`."""
    seed: int
    """The page's seed."""


class WebTask(vf.Task[WebData]):
    """A page. The environment scores it."""


class WebConfig(vf.TasksetConfig):
    """The pages to play."""

    presets: list[str] = Field(default_factory=lambda: ["miniwob/click-test"])
    """Selectors of tasks, as `webtraj rollout --preset` takes them."""
    pages: int = 4
    """Pages of each task."""
    first_seed: int = 0
    """The seed of the first page; the others follow."""
    dialect: str = "webtraj"
    """The dialect of actions in replies."""


class WebTaskset(vf.Taskset[WebTask, WebConfig]):
    """Every task of the presets, on as many pages as asked for."""

    def load(self) -> Iterator[WebTask]:
        """Yield the first page of all tasks, then the second, and so on."""
        sessions = Sessions(self.config.presets, dialect=self.config.dialect)
        for seed in range(self.config.first_seed, self.config.first_seed + self.config.pages):
            for task in sessions.tasks:
                data = WebData(name=f"{task}#{seed}", task=task, seed=seed)
                yield WebTask(data, self.config.task)


class WebEnvConfig(vf.EnvConfig):
    """The player and its browsers."""

    player: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    sessions: int = 8
    """Pages at a time."""
    out: str | None = None
    """The dataset that records every episode: a folder, or a bucket's URL."""
    max_steps: int | None = None
    """Truncate an episode after this many steps; by default the task decides."""


class WebEnv(vf.Env[WebEnvConfig]):
    """Plays a task in a browser: the page is the user, the model acts on it."""

    async def start(self) -> None:
        """Open the dataset and the pool of browsers."""
        taskset = self.config.taskset
        self._sessions = Sessions(
            taskset.presets,
            sessions=self.config.sessions,
            out=self.config.out,
            dialect=taskset.dialect,
            max_steps=self.config.max_steps,
        )
        self._room = asyncio.Semaphore(self.config.sessions)
        self._run_id = uuid.uuid4().hex[:8]
        self._begun: collections.Counter[str] = collections.Counter()
        await self._sessions.__aenter__()

    async def stop(self) -> None:
        """Seal what is recorded, and close the browsers."""
        if hasattr(self, "_sessions"):
            await self._sessions.__aexit__(None, None, None)

    async def run(self, task: WebTask, agents: vf.Agents) -> None:
        """Play one episode. It has a reward unless the model's server fails.

        Raises:
            EpisodeFailedError: The browser or the machine ended it. It has no reward.
            InvalidInputError: The task has no judge.
        """
        async with self._room:
            await self._play(task.data, task, agents)

    async def _play(self, page: WebData, task: WebTask, agents: vf.Agents) -> None:
        self._sessions.policy = agents.player.config.model or ""
        session = self._sessions.session()
        attempt = self._begun[page.name]
        self._begun[page.name] += 1
        try:
            turn = await session.reset(
                task=page.task,
                seed=page.seed,
                group_id=f"{self._run_id}/{page.name}",
                attempt=attempt,
            )
            async with agents.player.interaction(task) as interaction:
                segment = await interaction.turn(render_turn(turn))
                while not segment.terminated:
                    turn = await session.step(segment.last_reply)
                    if turn.done:
                        break
                    segment = await interaction.turn(render_turn(turn))
        finally:
            await session.close()
        interaction.trace.info["webtraj_episode"] = turn.episode_id
        if not interaction.trace.errors:
            reward = require_reward(reward_of(session, turn), turn)
            interaction.trace.record_reward("task_reward", reward)


class ChatHarness(vf.Harness[vf.HarnessConfig]):
    """A chat with the model, in this process: no tools, no sandbox, nothing to install."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Ask the model once. verifiers records the call, which goes through its endpoint."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [message_to_wire(message) for message in prompt or ()]
        async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                headers={"authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": messages},
            )
        text = answer.text[-2000:]
        return vf.ProgramResult(0 if answer.is_success else 1, "", text)
