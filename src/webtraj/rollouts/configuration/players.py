"""Who plays a configured rollout: from its keys to an agent by name, with options."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.agents import catalog
from webtraj.agents.pointing import options as pointing_options
from webtraj.rollouts.configuration.crawl import CrawlConfig
from webtraj.rollouts.configuration.ranks import Rank
from webtraj.rollouts.configuration.rollout import RolloutConfig
from webtraj.store.places import is_url

__all__ = ["Player", "player_of", "player_of_crawl"]

_MODES = {"coordinates": "coordinates", "set_of_marks": "marks", "text": "text"}
_PROMPTS = {"vanilla": "webgym_vanilla", "complete": "webgym_complete"}
_CONTEXT = (
    "dialect", "viewport", "images", "full_rounds", "slide", "older_lines", "screenshots",
    "page_tokens", "old_page_tokens", "text_tokens", "memory", "cut_harder",
)  # fmt: skip
_SAMPLING = ("temperature", "top_p", "top_k", "min_p")


@dataclasses.dataclass(frozen=True, slots=True)
class Player:
    """An agent that is yet to be made, here or on another machine."""

    name: str
    """A key of `webtraj.agents.catalog.AGENTS`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """What it is to know."""
    seed: int = 0
    """For agents that choose by chance."""
    explores: bool = False
    """Whether `name` is one of `webtraj.exploring.catalog.EXPLORERS` instead."""

    def make(self) -> agents_lib.Agent:
        """Returns the agent. Who makes one that has connections closes it, by its `aclose`.

        Raises:
            InvalidInputError: It does not take such options.
        """
        if self.explores:
            from webtraj.exploring.catalog import make_explorer

            return make_explorer(self.name, seed=self.seed, options=self.options)
        return catalog.make_agent(self.name, seed=self.seed, options=self.options)

    __call__ = make


def player_of(config: RolloutConfig, rank: Rank | None) -> Player:
    """Returns who plays a rollout.

    Raises:
        InvalidInputError: The model has no name.
    """
    policy, env, context = config.policy_config, config.env_config, config.context_config
    if policy.agent not in ("model", "pointing"):
        return Player(policy.agent, policy.agent_options, config.seed)
    options: dict[str, Any] = {
        "model": _model_name(config),
        "base_url": _urls(env.vllm_server_url),
        "provider": policy.provider,
        "api_key_variable": policy.api_key_env_var,
        "max_concurrency": env.max_vllm_sessions
        if rank is None
        else rank.scaled(env.max_vllm_sessions),
        "requests_per_minute": env.request_per_minute
        if rank is None or env.request_per_minute is None
        else rank.share * env.request_per_minute,
        "timeout": env.vllm_timeout,
        "mode": _MODES[context.interaction_mode],
        "keep_thinking": config.model_settings.model_type == "qwen3-instruct",
        "prompt": _prompt(config.model_settings.prompt_version),
        "max_tokens": policy.max_new_tokens,
        "seed": policy.sampling_seed,
        "enforce_actions": policy.enforce_actions,
        "max_invalid_actions": policy.max_invalid_actions,
        **{name: getattr(context, name) for name in _CONTEXT},
        **{name: getattr(policy, name) for name in _SAMPLING},
    }
    if policy.agent == "pointing":
        options = {name: options[name] for name in pointing_options.OPTIONS}
        del options["max_tokens"]  # Its replies are two names; the configuration means prose.
        return _model_player(options, policy.agent_options, config.seed, agent="pointing")
    return _model_player(options, policy.agent_options, config.seed)


def player_of_crawl(config: CrawlConfig) -> Player:
    """Returns who plays a crawl.

    Raises:
        InvalidInputError: The model has no name.
    """
    explores = config.agent_name in ("explorer", "curious")
    if config.agent_name not in ("basic", "explorer"):
        return Player(config.agent_name, config.agent_options, config.seed, explores)
    if not config.model:
        raise errors.InvalidInputError(
            f"The agent {config.agent_name!r} asks a model: give its name as agent_model_name."
        )
    options = {
        "model": config.model,
        "provider": config.agent_model_provider,
        "base_url": config.agent_model_url,
        "api_key_variable": config.agent_model_api_key_env_var,
        "requests_per_minute": config.request_per_minute,
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
    }
    return _model_player(options, config.agent_options, config.seed, explores=explores)


def _model_player(
    options: Mapping[str, Any],
    more: Mapping[str, Any],
    seed: int,
    *,
    agent: str = "model",
    explores: bool = False,
) -> Player:
    given = {name: value for name, value in options.items() if value is not None}
    return Player(agent, {**given, **more}, seed, explores)


def _model_name(config: RolloutConfig) -> str:
    policy = config.policy_config
    if policy.checkpoint_path and not is_url(config.save_path):
        path = os.path.join(config.save_path, policy.checkpoint_path)  # noqa: PTH118
        if os.path.exists(path):  # noqa: PTH110  (the server names it as it was given)
            return path
    if not policy.base_model:
        raise errors.InvalidInputError(
            "The agent 'model' needs the model's name: give policy_config.base_model, as its "
            "server knows it."
        )
    return policy.base_model


def _urls(given: str | list[str]) -> str | list[str] | None:
    if isinstance(given, list):
        return [_url(url) for url in given]
    return _url(given) if given else None


def _url(given: str) -> str:
    """Returns a server's URL with the version of its API, which WebGym leaves out."""
    url = given.rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


def _prompt(version: str | None) -> str | None:
    return None if version is None else _PROMPTS.get(version, version)
