"""`wandb_env.sh`: what a shell has to set for W&B. It holds no secret, only where one is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from webtraj.training.llamafactory.configuration import LogConfig

__all__ = ["environment", "script", "variables"]


def variables(config: LogConfig) -> dict[str, str]:
    """Returns the environment variables that are no secret.

    >>> variables(LogConfig(run_name="it's"))
    {'WANDB_PROJECT': 'webtraj', 'WANDB_RUN_GROUP': "it's"}
    """
    found = {"WANDB_PROJECT": config.project_name, "WANDB_RUN_GROUP": config.run_name}
    if config.entity_name:
        found["WANDB_ENTITY"] = config.entity_name
    return found


def script(config: LogConfig) -> str:
    """Returns the shell script that sets them, and the key if the environment has one."""
    lines = ["# Source this before training: . wandb_env.sh"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables(config).items()]
    name = config.wandb_key_env_var
    if name != "WANDB_API_KEY":
        lines.append(f'[ -z "${{{name}:-}}" ] || export WANDB_API_KEY="${name}"')
    return "\n".join(lines) + "\n"


def environment(config: LogConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment with what the script would have set in it."""
    found = {**given, **variables(config)}
    if key := given.get(config.wandb_key_env_var):
        found["WANDB_API_KEY"] = key
    return found
