"""Keys of other systems that a rollout does not take, each with the reason and what to do instead.

A key that would do nothing is refused, so that nobody takes it for one that works.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["REFUSED"]

_SERVERS = (
    "browsers run in the rollout's own process, and need no server; to use others give "
    "env_config.browser_endpoint"
)
_RANK = "give env_config.multinode_rank and env_config.multinode_total_workers, for both splits"

REFUSED: Mapping[str, str] = {
    "env_config.cpu_cluster_token_env_var": _SERVERS,
    "env_config.host_ip": _SERVERS,
    "env_config.master_port": _SERVERS,
    "env_config.use_rich_actree": (
        "there is one kind of tree; context_config.page_tokens says how much of it is shown"
    ),
    "env_config.screenshot_comparison_workers": (
        "pictures are kept by their content, so equal ones have the same name and nothing is "
        "compared"
    ),
    "env_config.instance_lifetime_max": (
        "browsers are replaced by age in contexts and by memory, never under an episode; "
        "env_config.task_timeout_minutes limits an episode"
    ),
    "env_config.resume_checkpoint_path": (
        "to go on with a run, say --resume, with its id or without"
    ),
    "env_config.test_rank": _RANK,
    "env_config.test_total_workers": _RANK,
    "env_config.total_workers": _RANK,
    "policy_config.huggingface_token_env_var": (
        "a rollout downloads no model; the model's server does"
    ),
    "algorithm_config": "it is about training, which a rollout does none of",
    "log_config": "it is about training, which a rollout does none of",
}
"""The reason for each key, by its full name."""
