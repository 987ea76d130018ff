"""The names that WebGym and Orby's trajectory collector have for the settings of a run.

A dialect is one table from its keys to paths in `RunSpec`, which checks the values. `WEBGYM` reads
a configuration of the kind `rollout`, `ORBY` one of the kind `crawl`. Values with another unit or
spelling have a converter. Where several keys decide one setting, such as the ranks, a function
reads them together.

Model settings apply only to agents that have them, because a file may name a model although its
agent was replaced by an oracle.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.agents.catalog import shared_options
from webtraj.rollouts.recipes import ASKING
from webtraj.runs.spec import MODEL, SAMPLING, RunSpec
from webtraj.settings.configuration import keys_of, merge
from webtraj.store.places import is_url

__all__ = ["ORBY", "TASK_FILES", "WEBGYM", "Dialect"]

TASK_FILES = (".jsonl", ".parquet")
"""How names of task files end."""

Table = Mapping[str, str | tuple[str, ...]]
"""Paths in `RunSpec` by key; several if one value is for all of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dialect:
    """Other names for the settings of a run."""

    table: Table
    """Where in `RunSpec` each key goes."""
    fields: Callable[[Mapping[str, Any]], Iterator[tuple[dict[str, Any], Collection[str]]]]
    """Yields the fields of `RunSpec` for the values of the keys, with the keys that they come from.
    Further ones are only to be checked. Raises ValueError if values contradict each other."""
    model: str
    """The key for the model's name."""
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Keys that are not accepted, by their full names, with the reason."""

    def names(self, given: Collection[str]) -> dict[str, str]:
        """Return the key for each path, for messages. Of several keys, a given one is used."""
        found: dict[str, str] = {}
        for key in sorted(self.table, key=lambda key: key not in given):
            paths = self.table[key]
            for path in (paths,) if isinstance(paths, str) else paths:
                found.setdefault(path, key)
        return found

    def values(self, data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the values of the keys, whose names are checked already.

        Raises:
            ValueError: A section is not a mapping.
        """
        for name, value in data.items():
            key = f"{prefix}{name}"
            if key in self.table:
                yield key, value
            elif isinstance(value, Mapping):
                yield from self.values(value, f"{key}.")
            elif value is not None:
                raise ValueError(f"{key}: must be a valid mapping of keys; got {value!r:.60}")

    def check_model(self, spec: RunSpec) -> None:
        """Check that an agent that asks a model has one.

        Raises:
            InvalidInputError: It has none.
        """
        if "model" in shared_options(spec.agent) and "model" not in spec.agents_options:
            raise errors.InvalidInputError(
                f"The agent {spec.agent!r} needs a model; set {self.model} to its name on the "
                "server."
            )


def _put(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `RunSpec` for some values, in the table's order."""
    fields: dict[str, Any] = {}
    for key, paths in table.items():
        if key not in values:
            continue
        for path in (paths,) if isinstance(paths, str) else paths:
            data: Any = values[key]
            for part in reversed(path.split(".")):
                data = {part: data}
            fields = merge(fields, data)
    return fields


def _fits(path: str | tuple[str, ...], agent: str) -> bool:
    """Return whether an agent has a setting, if it is one of the agent's."""
    if not isinstance(path, str) or path == "agent_options":
        return True
    of_the_agent = path.startswith("agent_options.") or path in (*MODEL, *SAMPLING)
    return not of_the_agent or path.rpartition(".")[2] in shared_options(agent)


# Orby: the fields of `ParallelComputingController`, and those of `RunSpec` where it has none.

_ORBYS = {
    "preset": "source_parquet_path",
    "out": "s3_save_uri",
    "episodes": "num_raw_data",
    "parallel": "data_per_batch",
    "requests_per_minute": "request_per_minute",
    "agent": "agent_name",
    "provider": "agent_model_provider",
    "model": "agent_model_name",
    "base_url": "agent_model_url",
    "api_key_variable": "agent_model_api_key_env_var",
    "max_retries": "dp_max_retries",
    "proposals": "proposals_per_trajectory",
}
_ANTHROPIC_MODEL = "claude-3-5-sonnet-20241022"
"""The default of Orby's trajectory collector."""


def _orby(given: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Collection[str]]]:
    values = {"agent_name": "basic", **given}
    if values["agent_name"] == "basic":
        values["agent_name"] = "model"
    if values.get("agent_model_provider") == "anthropic":
        values["agent_model_name"] = values.get("agent_model_name") or _ANTHROPIC_MODEL
    agent = values["agent_name"]
    of_proposer = MODEL if values.get("proposer") == "model" else ()
    chosen = {
        key: value
        for key, value in values.items()
        if _ORBY[key] in of_proposer or _fits(_ORBY[key], agent)
    }
    yield _put(_ORBY, chosen), chosen


_ORBY: Table = {
    _ORBYS.get(key, key): key
    for key, _ in keys_of(RunSpec)
    if not key.startswith(("fork.", "iteration."))
}

ORBY = Dialect(_ORBY, _orby, model="agent_model_name")
"""A crawl: an agent explores coarse tasks and records to a bucket."""


# WebGym: the keys of its `rollout.yaml`, and webtraj's own in its sections.

_STAGES = {
    "keypoint_detection": ("screenshots",),
    "blocking_detection": ("blocked",),
    "evaluation": ("answer", "facts", "goal", "reference"),
}
"""The kinds of questions to a judging model, and the stages of the judge `model`."""
_ASKED = {"model": "model", "openai_api_key_env_var": "api_key_variable", "base_url": "base_url"}
_SPLITS = {
    "tasks": "preset",
    "tasks_rollout_size": "iteration.size",
    "difficulty_max_steps": "iteration.steps",
}
"""Keys of `env_config` after `train_` and `test_`."""
_TRAIN: Mapping[str, str] = {
    **{f"env_config.train_{name}": path for name, path in _SPLITS.items()},
    "env_config.train_tasks_sampler": "iteration.sampler",
    "env_config.difficulty_ratio": "iteration.bands",
    "env_config.deduplicate_across_iterations": "iteration.unseen",
}
_TEST: Mapping[str, str] = {
    **{f"env_config.test_{name}": path for name, path in _SPLITS.items()},
    "env_config.test_tasks_repeat_times": "iteration.repeat",
}
_WEBGYM: Table = {
    "kind": "kind",
    "save_path": "out",
    "data_path": "preset",
    "iteration": "iteration.number",
    **{
        key: key
        for key, _ in keys_of(RunSpec)
        if key.split(".")[0]
        in ("seed", "storage_options", "format", "metrics", "judge", "judge_when")
    },
    "env_config.split": "iteration.split",
    **_TRAIN,
    **_TEST,
    "env_config.attempts_per_task": "attempts",
    "env_config.group": "group_size",
    "env_config.groups_per_task": "attempts",
    "env_config.server_size": "parallel",
    "env_config.task_timeout_minutes": "timeout",
    "env_config.run_timeout_minutes": "run_timeout",
    "env_config.retry_policy.pause": "retry_pause",
    "env_config.retry_policy.max_pause": "max_retry_pause",
    "env_config.evaluation_workers": "judge_parallel",
    **{
        f"env_config.http_pools.{name}": f"operation_limits.{name}"
        for name in (
            "metadata", "navigate", "allocate", "release", "screenshot", "ac_tree",
            "page_metadata", "execute",
        )
    },
    **{
        f"env_config.{name}": name
        for name in (
            "environment_options", "max_steps", "max_repetitive_actions", "max_retries",
            "max_consecutive_errors", "step_timeout", "completion_threshold",
            "completion_grace_period", "task_order", "episodes_per_site", "site_interval",
            "blocklist_path", "blocklist_ttl_hours", "save_every_percent", "observe",
            "contexts_per_browser", "browser_endpoint", "wait_timeout", "operation_timeout",
            "verbose",
        )
    },
    "env_config.save_traj_progress": "",
    "env_config.multinode_rank": "iteration.rank.number",
    "env_config.multinode_rank_suffix": "iteration.rank.suffix",
    "env_config.all_rank_weights": "iteration.rank.weights",
    "env_config.multinode_total_workers": "iteration.rank.weights",
    "env_config.rank_load_weight": "iteration.rank.weights",
    "env_config.total_load_weight": "iteration.rank.weights",
    "env_config.vllm_server_url": "base_url",
    "env_config.request_per_minute": "requests_per_minute",
    "env_config.max_vllm_sessions": "agent_options.max_concurrency",
    "env_config.vllm_timeout": "agent_options.timeout",
    "policy_config.agent": "agent",
    "policy_config.base_model": "model",
    "policy_config.checkpoint_path": "model",
    "policy_config.provider": "provider",
    "policy_config.api_key_env_var": "api_key_variable",
    "policy_config.max_new_tokens": "max_tokens",
    "policy_config.temperature": "temperature",
    **{
        f"policy_config.{name}": f"agent_options.{name}"
        for name in ("top_p", "top_k", "min_p", "enforce_actions", "max_invalid_actions")
    },
    "policy_config.sampling_seed": "agent_options.seed",
    "context_config.interaction_mode": "agent_options.mode",
    **{
        f"context_config.{name}": f"agent_options.{name}"
        for name in (
            "dialect", "viewport", "images", "full_rounds", "slide", "older_lines", "screenshots",
            "page_tokens", "old_page_tokens", "changes", "text_tokens", "memory", "cut_harder",
        )
    },
    "model_config.model_type": "agent_options.keep_thinking",
    "model_config.prompt_version": "agent_options.prompt",
    "policy_config.agent_options": "agent_options",
    **{
        f"openai_config.{name}": f"judge_options.{option}"
        for name, option in {
            **_ASKED, "provider": "provider", "max_concurrency": "max_concurrency",
            "requests_per_minute": "requests_per_minute", "votes": "votes",
            "temperature": "temperature", "timeout": "timeout",
        }.items()
    },
    **{
        f"openai_config.{kind}.{name}": tuple(
            f"judge_options.stages.{stage}.{option}" for stage in stages
        )
        for kind, stages in _STAGES.items()
        for name, option in _ASKED.items()
    },
    "openai_config.judge_settings": "judge_options",
}  # fmt: skip


def _minutes(value: Any) -> Any:
    return value * 60.0 if isinstance(value, int | float) and value is not True else value


def _one_of(**names: Any) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value is not None and (not isinstance(value, str) or value not in names):
            raise ValueError(f"must be {' or '.join(map(repr, names))}; got {value!r:.60}")
        return None if value is None else names[value]

    return convert


def _url(given: Any) -> Any:
    """Return a server's URL, or several, with the API version, which WebGym leaves out."""
    if isinstance(given, list):
        return [_url(url) for url in given]
    if not isinstance(given, str) or not given:
        return given or None
    url = given.rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


def _mode(value: Any) -> Any:
    name = value.replace("-", "_") if isinstance(value, str) else value
    return "marks" if name == "set_of_marks" else name


def _all_if_none(value: Any) -> Any:
    return None if type(value) is int and value in (-1, 0) else value


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "env_config.train_tasks_rollout_size": _all_if_none,
    "env_config.test_tasks_rollout_size": _all_if_none,
    "env_config.test_tasks_repeat_times": lambda value: 1 if value == 0 else value,
    "env_config.task_timeout_minutes": _minutes,
    "env_config.run_timeout_minutes": _minutes,
    "env_config.vllm_server_url": _url,
    "context_config.interaction_mode": _mode,
    "model_config.model_type": _one_of(**{"qwen3-instruct": True, "qwen3-think": False}),
    "model_config.prompt_version": lambda value: (
        f"webgym_{value}" if value in ("vanilla", "complete") else value
    ),
}
"""What a value becomes, where `RunSpec` has another unit or spelling."""


def _webgym(given: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Collection[str]]]:
    """Yield the fields for the chosen split, then those for the other split."""
    usual = {"policy_config.agent": "model", "env_config.blocklist_path": "blocklist.jsonl"}
    values = {key: value for key, value in {**usual, **given}.items() if key != "kind"}
    if not values.get("save_path"):
        raise ValueError("save_path is missing: set save_path=FOLDER, where the iterations go")
    if values.pop("env_config.save_traj_progress", True) is not True:
        raise ValueError(
            "env_config.save_traj_progress: cannot be false: every step is recorded when it is "
            "taken. Remove the key"
        )
    _check_judge(values)
    for key in _CONVERTERS.keys() & values.keys():
        try:
            values[key] = _CONVERTERS[key](values[key])
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    folder, agent = values.pop("data_path", "."), values["policy_config.agent"]
    blocked = _place(values.pop("env_config.blocklist_path"), values.get("save_path"))
    together = {"blocklist_path": blocked, "iteration": _rank(values), **_groups(values)}
    model = _model_name(values)
    if "model" in shared_options(agent):
        together["model"] = model
    splits = [_TRAIN.keys(), _TEST.keys()]
    for other in splits if values.get("env_config.split") == "test" else reversed(splits):
        chosen = {
            key: value
            for key, value in values.items()
            if key not in other
            and _fits(_WEBGYM[key], agent)
            and (value is not None or key not in _UNSET_BY_NULL)
        }
        fields = merge(_put(_WEBGYM, chosen), together)
        tasks = fields.get("preset", [])
        if isinstance(tasks, str):
            tasks = [tasks]
        if isinstance(tasks, list):
            fields["preset"] = [_place(task, folder, TASK_FILES) for task in tasks]
        yield fields, chosen


_UNSET_BY_NULL = {
    key
    for key, path in _WEBGYM.items()
    if not isinstance(path, str) or path.startswith(("agent_options.", "judge_options."))
} - {"openai_config.temperature"}
"""Keys whose null is the same as leaving them out."""


def _place(source: Any, folder: Any, endings: tuple[str, ...] = ("",)) -> Any:
    """Return the path or URL of a file that may be relative to a folder or bucket."""
    if not isinstance(source, str) or not isinstance(folder, str) or not source.endswith(endings):
        return source
    if not source or is_url(source) or Path(source).is_absolute():
        return source
    if is_url(folder):
        return f"{folder.rstrip('/')}/{source}"
    return os.path.join(folder, source)  # noqa: PTH118  (stays text, for messages)


def _groups(values: dict[str, Any]) -> dict[str, Any]:
    """Take the numbers of attempts and groups from the values, and return them."""
    attempts = values.pop("env_config.attempts_per_task", 1)
    group = values.pop("env_config.group", "own-seeds")
    groups = values.pop("env_config.groups_per_task", 1)
    if group not in ("own-seeds", "same-seed"):
        raise ValueError(f"env_config.group: must be own-seeds or same-seed; got {group!r:.60}")
    if group == "same-seed":
        return {"attempts": groups, "group_size": attempts}
    if groups != 1:
        raise ValueError(
            "env_config.groups_per_task needs env_config.group=same-seed; for more attempts with "
            "seeds of their own, raise env_config.attempts_per_task"
        )
    return {"attempts": attempts}


def _model_name(values: dict[str, Any]) -> Any:
    """Take the model's name from the values: the path of a checkpoint, if it exists."""
    base = values.pop("policy_config.base_model", None)
    checkpoint = values.pop("policy_config.checkpoint_path", None)
    folder = values.get("save_path")
    for key, value in (("save_path", folder), ("policy_config.checkpoint_path", checkpoint)):
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{key}: must be a valid string; got {value!r:.60}")
    # A bucket has no model, but a path of its own may lead to one.
    if checkpoint and (os.path.isabs(checkpoint) or not is_url(folder or "")):  # noqa: PTH117
        path = os.path.join(folder or "", checkpoint)  # noqa: PTH118
        if os.path.exists(path):  # noqa: PTH110  (the server names it as it was given)
            return path
    return base


def _check_judge(values: Mapping[str, Any]) -> None:
    """Check that what is set for a judging model has an effect."""
    settings = values.get("openai_config.judge_settings")
    if isinstance(settings, Mapping) and (taken := sorted(settings.keys() & {*ASKING})):
        raise ValueError(
            f"openai_config.judge_settings does not accept {taken[0]!r}; set it in openai_config "
            "itself"
        )
    given = [key for key, value in values.items() if key.startswith("openai_config.") and value]
    judge, model = values.get("judge"), values.get("openai_config.model")
    if judge == "model" and model is None:
        raise ValueError(
            "The judge 'model' needs a model; set openai_config.model to its name on the server"
        )
    if given and judge != "model" and (judge or model is None):
        raise ValueError(
            f"{given[0]} applies only to the judge 'model', but "
            + (f"judge is {judge!r:.60}" if judge else "openai_config.model is not set")
        )


def _rank(values: dict[str, Any]) -> dict[str, Any]:
    """Take the process's share of the iteration from the values; empty for a single process."""
    names = ("multinode_rank", "multinode_total_workers", "rank_load_weight", "total_load_weight")
    numbers = [values.pop(f"env_config.{name}", None) for name in names]
    weights = values.pop("env_config.all_rank_weights", None)
    suffix = values.pop("env_config.multinode_rank_suffix", "")
    for name, value in zip(names, numbers, strict=True):
        kinds = (int, float) if name.endswith("weight") else (int,)
        if value is not None and (type(value) not in kinds or value < 0):
            kind = "number" if float in kinds else "whole number"
            raise ValueError(f"env_config.{name}: must be a {kind} from 0; got {value!r:.60}")
    number, total, own, every = numbers
    if number is None:
        if total in (None, 1) and weights is None and own is None:
            return {}
        raise ValueError(
            "env_config.multinode_rank is missing, although a worker count or weights are set. Set "
            "it to the rank of this process, from 0"
        )
    if weights is not None:
        shares = _shares(weights)
    elif total is None:
        raise ValueError(
            f"env_config.multinode_rank is {number} without a worker count; set "
            "env_config.multinode_total_workers or env_config.all_rank_weights"
        )
    elif own is None and every is None:
        shares = [1.0] * total
    elif own and every and abs(own * total - every) <= 1e-9 * every:
        shares = [own] * total
    elif own and every and total == 2 and own < every:
        shares = [own, every - own] if number == 0 else [every - own, own]
    else:
        raise ValueError(
            f"env_config.rank_load_weight is {own} and total_load_weight is {every}, which does "
            f"not determine the shares of all {total} ranks. Give every rank the same "
            "env_config.all_rank_weights, the weights of all ranks in order, such as [2, 1, 1]"
        )
    if total not in (None, len(shares)) or number >= len(shares):
        raise ValueError(
            f"env_config.multinode_rank is {number} of {total or len(shares)} with {len(shares)} "
            "weights; expected a rank from 0 and below multinode_total_workers, and one weight for "
            "each rank"
        )
    for name, value, expected in (
        ("rank_load_weight", own, shares[number]), ("total_load_weight", every, sum(shares)),
    ):  # fmt: skip
        if value is not None and abs(value - expected) > 1e-9 * expected:
            raise ValueError(
                f"env_config.{name} is {value:g}, but the weights of all ranks give {expected:g}. "
                "Give every rank the same env_config.all_rank_weights"
            )
    return {"rank": {"number": number, "weights": shares, "suffix": suffix}}


def _shares(given: Any) -> list[float]:
    """Return the weights of all ranks, given as a list or as text."""
    try:
        shares = [float(part) for part in (given.split(",") if isinstance(given, str) else given)]
    except (TypeError, ValueError):
        shares = []
    if not shares or not all(0 < share < float("inf") for share in shares):
        raise ValueError(
            f"env_config.all_rank_weights is {given!r:.100}; expected numbers above 0, such as "
            "[2, 1, 1] or '2,1,1'"
        )
    return shares


# A key without effect is rejected, so that nobody relies on it.

_SERVERS = (
    "browsers run in the rollout's own process and need no server; to use running browsers, set "
    "env_config.browser_endpoint"
)
_RANK = "set env_config.multinode_rank and env_config.multinode_total_workers, for both splits"
_REFUSED: Mapping[str, str] = {
    "env_config.cpu_cluster_token_env_var": _SERVERS,
    "env_config.host_ip": _SERVERS,
    "env_config.master_port": _SERVERS,
    "env_config.use_rich_actree": (
        "there is only one kind of tree; context_config.page_tokens limits how much of it is shown"
    ),
    "env_config.screenshot_comparison_workers": (
        "screenshots are stored by content, so equal ones share a file and are never compared"
    ),
    "env_config.instance_lifetime_max": (
        "browsers are replaced by number of contexts and by memory use, never during an episode; "
        "env_config.task_timeout_minutes limits an episode"
    ),
    "env_config.resume_checkpoint_path": "to resume a run, use --resume, with its id or without",
    "env_config.test_rank": _RANK,
    "env_config.test_total_workers": _RANK,
    "env_config.total_workers": _RANK,
    "policy_config.huggingface_token_env_var": (
        "a rollout does not download models; the model's server does"
    ),
    "algorithm_config": "it configures training, which a rollout does not do",
    "log_config": "it configures training, which a rollout does not do",
}

WEBGYM = Dialect(_WEBGYM, _webgym, model="policy_config.base_model", refused=_REFUSED)
"""A rollout as an iteration: tasks of a split, sampled, into a dataset of its own."""
