"""Pipeline configuration from files and command lines: steps, model, source and destination.

A file is YAML::

    read: s3://bucket/raw
    write: s3://bucket/processed
    model: claude-3-5-sonnet-20241022
    provider: anthropic
    steps:
      - clean
      - judge
      - dedupe: {threshold: 0.8}

The names `read_s3_dir`, `write_s3_dir` and `model_name` from Orby's script are aliases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pydantic

from webtraj import errors
from webtraj.agents.models.base import ModelClient, Provider
from webtraj.processing.pipeline import PARALLEL, PATIENCE, Pipeline
from webtraj.processing.registry import MAIN_OPTIONS, make_step, parse_step
from webtraj.settings import configuration

__all__ = [
    "ProcessingConfig",
    "StepChoice",
    "asks_model",
    "default_steps",
    "load_config",
    "make_pipeline",
    "read_choice",
]

StepChoice = tuple[str, Mapping[str, Any]]
"""A step's name and options."""

_ALIASES = {"read_s3_dir": "read", "write_s3_dir": "write", "model_name": "model"}


class ProcessingConfig(configuration.Section):
    """Settings for a pipeline run."""

    read: str | None = None
    """The recorded dataset."""
    write: str | None = None
    """The destination of the processed dataset."""
    steps: list[Any] | None = None
    """The steps, each as `read_choice` takes it; None for `default_steps`."""
    imports: list[str] = pydantic.Field(default_factory=list)
    """Modules that define steps. They are only imported if the command line names them too."""
    model: str | None = None
    """The model's name on its server."""
    provider: Provider = "auto"
    """The server's protocol."""
    base_url: str | None = None
    """The server's base URL, including `/v1`; by default the vendor's."""
    api_key_variable: str | None = None
    """The environment variable with the server's API key; by default the vendor's variable, for the
    vendor's server only."""
    where: str | None = None
    """A condition on the recorded episodes."""
    format: Literal["json", "pb", "pb.zst"] | None = None
    """The format of the processed dataset; by default that of the recorded one."""
    parallel: int = pydantic.Field(default=PARALLEL, ge=1)
    """The number of episodes to process at once."""
    patience: int = pydantic.Field(default=PATIENCE, ge=1)
    """The number of consecutive failures to tolerate."""
    retry_failed: bool = True
    """Whether to retry episodes that failed in an earlier run."""
    verbose: bool = False

    def choices(self) -> list[StepChoice]:
        """Return the chosen steps, or the default ones.

        Raises:
            InvalidInputError: An entry is not a step's name with options.
        """
        if self.steps is None:
            return default_steps(with_model=self.model is not None)
        return [read_choice(step) for step in self.steps]

    def make_client(self) -> ModelClient | None:
        """Return a client of the model, which the caller closes; None if there is no model.

        Raises:
            InvalidInputError: The key is missing, the URL is invalid, or there is a URL but no
                model.
        """
        if self.model is None:
            given = [
                name
                for name in ("base_url", "provider", "api_key_variable")
                if getattr(self, name) != ProcessingConfig.model_fields[name].default
            ]
            if given:
                raise errors.InvalidInputError(
                    f"{given[0]} is given without a model; give model too, or leave it out."
                )
            return None
        from webtraj.agents.options import read_options

        asked = {
            "model": self.model,
            "provider": self.provider,
            "base_url": self.base_url,
            "api_key_variable": self.api_key_variable,
        }
        options = {name: value for name, value in asked.items() if value is not None}
        return read_options(options, who="the pipeline's model").make_client()


def read_choice(written: Any) -> StepChoice:
    """Read a step's entry in a configuration file.

    >>> read_choice("clean"), read_choice("judge:environment")
    (('clean', {}), ('judge', {'by': 'environment'}))
    >>> read_choice({"judge": "environment"}), read_choice({"clean": {"min_steps": 1}})
    (('judge', {'by': 'environment'}), ('clean', {'min_steps': 1}))

    Args:
        written: A text in the form of `--step`, or a mapping from one name to its options or to the
            value of its main option.

    Raises:
        InvalidInputError: It is neither.
    """
    if isinstance(written, str):
        return parse_step(written)
    if isinstance(written, Mapping) and len(written) == 1:
        ((name, options),) = written.items()
        if isinstance(name, str) and options is None:
            return name, {}
        if isinstance(name, str) and isinstance(options, Mapping):
            return name, dict(options)
        if name in MAIN_OPTIONS:
            return name, {MAIN_OPTIONS[name]: options}
    raise errors.InvalidInputError(
        f"{written!r:.200} is not a step; expected a name, or one name with its options: dedupe: "
        f"{{threshold: 0.8}}. These steps take a bare value: {', '.join(MAIN_OPTIONS)}."
    )


def default_steps(*, with_model: bool) -> list[StepChoice]:
    """Return the steps to run if none are named."""
    plain = ["drop-no-effect", "prune-loops"]
    names = ["clean", "judge", *plain, "describe"] if with_model else ["clean", *plain]
    return [(name, {}) for name in names]


def load_config(
    path: Path | None, values: Mapping[str, Any], overrides: Iterable[str] = ()
) -> ProcessingConfig:
    """Load a configuration file and override it with other values.

    Args:
        path: The file, or None.
        values: Values of flags, which override the file. None means not given.
        overrides: `key=value` texts with YAML values, such as `parallel=4`, which override both.

    Raises:
        InvalidInputError: The file cannot be read, or a key is unknown or a value wrong.
        MissingDependencyError: OmegaConf, which files and overrides need, is not installed.
    """
    name = configuration.COMMAND_LINE if path is None else str(path)
    what = "The command line" if path is None else f"The configuration {name!r}"
    flags = {name: value for name, value in values.items() if value is not None}
    file = {} if path is None else _by_own_names(configuration.read_file(path), what)
    given = configuration.with_overrides({}, overrides, example="parallel=4")
    data: Mapping[str, Any] = flags
    if file or given:
        both = configuration.merge(file, configuration.escape(flags))
        data = configuration.merge(both, _by_own_names(given, what))
    configuration.check_names(data, ProcessingConfig, name)
    configuration.check_complete(data, name)
    if file or given:
        data = configuration.resolve(data, name)
    return configuration.validate(data, ProcessingConfig, name)


def _by_own_names(data: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return data with our names instead of Orby's."""
    for old, new in _ALIASES.items():
        if old in data and new in data:
            raise errors.InvalidInputError(f"{what} has both {old} and {new}; give one.")
    return {_ALIASES.get(name, name): value for name, value in data.items()}


def make_pipeline(choices: Sequence[StepChoice], *, client: ModelClient | None = None) -> Pipeline:
    """Make a pipeline from names and options.

    Raises:
        InvalidInputError: A step or option is unknown, or a step needs a model.
    """
    return Pipeline(make_step(name, options, client=client) for name, options in choices)


def asks_model(pipeline: Pipeline) -> bool:
    """Return whether a step asks a model with its present options."""
    return any(
        getattr(step, "client", None) is not None and bool(step.settings.get("model", True))
        for step in pipeline.steps
    )
