"""Every exception that webtraj raises on purpose.

Each is a `WebtrajError` and also a subclass of the nearest builtin, so code that catches the
builtin keeps working::

    WebtrajError
     ├─ InvalidInputError (ValueError)           an argument, option or file content is wrong
     │   ├─ InvalidSelectorError                 a preset selector does not follow the grammar
     │   ├─ InvalidEpisodeIdError                an episode id that cannot safely name a file
     │   └─ UnsupportedActionError               an action that a dialect cannot express
     ├─ UnknownPresetError (KeyError)            no preset has that name
     ├─ UnknownEpisodeError (KeyError)           no episode in the dataset has that id
     ├─ MissingDependencyError (ImportError)     an optional package is not installed
     ├─ CollectorError (OSError)                 something could not be recorded
     │   ├─ UnwritableValueError                 a value whose type cannot be recorded
     │   └─ CollectorClosedError                 the collector is already closed
     ├─ StorageError (OSError)                   a folder or bucket failed
     │   ├─ StorageMissingError (FileNotFoundError)  the object or the bucket does not exist
     │   ├─ StorageDeniedError (PermissionError)     credentials are missing, wrong or insufficient
     │   ├─ StorageConflictError (FileExistsError)   the object already exists
     │   └─ StorageUnavailableError (ConnectionError)  down, throttled or too slow; may recover
     ├─ DatasetError (ValueError)                a dataset cannot be read
     │   ├─ NotADatasetError                     the folder holds no dataset
     │   ├─ CorruptDataError                     bytes that do not decode as expected
     │   └─ UnsupportedSchemaError               written by a newer webtraj
     ├─ EnvironmentMisuseError (RuntimeError)    a call broke an environment's contract
     │   └─ ConcurrentCallError                  two concurrent calls on one environment
     ├─ AgentError (RuntimeError)                an agent could not decide on an action
     │   ├─ EpisodeGivenUpError                  the agent wants its episode truncated
     │   └─ ModelError                           a model gave no usable reply
     │       ├─ ContextOverflowError             the conversation exceeds the model's context
     │       ├─ ModelRefusedError                the server rejects the request
     │       │   └─ MissingKeyError              no API key (InvalidInputError, too)
     │       └─ ModelUnavailableError            the server is down or too slow
     ├─ EpisodeTimeoutError (TimeoutError)       an episode, or a step of it, took too long
     ├─ RolloutStoppedError (RuntimeError)       too many episodes failed in a row
     ├─ ProcessingStoppedError (RuntimeError)    too many episodes failed in a row
     └─ BrowserError (RuntimeError)              the browser failed: never a reward
         ├─ BrowserNotFoundError                 no browser is installed
         ├─ BrowserCrashedError                  the browser or its page died
         ├─ BrowserTimeoutError                  the browser did not answer in time
         └─ PageLoadError (ConnectionError)      an episode's start page did not load

Messages say what was given, what was expected, and what to do.
"""

from __future__ import annotations

from typing import Any


class WebtrajError(Exception):
    """Base of all webtraj errors."""


class InvalidInputError(WebtrajError, ValueError):
    """An argument, option or file content is wrong."""


class InvalidSelectorError(InvalidInputError):
    """A preset selector does not follow the grammar."""


class InvalidEpisodeIdError(InvalidInputError):
    """An episode id that cannot safely name a file."""


class UnsupportedActionError(InvalidInputError):
    """A dialect cannot express an action."""


class _LookupFailedError(WebtrajError, KeyError):
    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would quote a whole sentence.
        return str(self.args[0]) if self.args else ""


class UnknownPresetError(_LookupFailedError):
    """No preset has the given name."""


class UnknownEpisodeError(_LookupFailedError):
    """The dataset has no episode with the given id."""


class MissingDependencyError(WebtrajError, ImportError):
    """An optional package is needed but not installed."""


def missing_dependency(
    need: str, extra: str, *, package: str = "webtraj"
) -> MissingDependencyError:
    """Return the error for a missing package, including the command that installs it.

    Args:
        need: What needs which package, such as "The viewer needs starlette".
        extra: The extra that installs it.
        package: The package of the extra.
    """
    return MissingDependencyError(
        f"{need}, which is not installed. Install it with: {install_command(extra, package)}"
    )


def reason(error: BaseException) -> str:
    """Return why something failed, without the error number, the path and the final period.

    >>> reason(FileNotFoundError(2, "No such file or directory", "x"))
    'No such file or directory'
    """
    return (getattr(error, "strerror", None) or str(error)).rstrip(".")


def command(*words: object) -> str:
    """Return a webtraj command to suggest, quoted for a shell. All hints are quoted here.

    >>> command("push", "my runs; rm")
    "webtraj push 'my runs; rm'"
    """
    import shlex

    return shlex.join(["webtraj", *map(str, words)])


def install_command(extra: str = "", package: str = "webtraj") -> str:
    """Return the command that installs what a package, or one of its extras, needs.

    pip keeps the installed webtraj, whether it came from a checkout, Git or an index.

    >>> install_command("web")
    "pip install 'webtraj[web]'"
    """
    return f"pip install '{package}[{extra}]'" if extra else f"pip install {package}"


class CollectorError(WebtrajError, OSError):
    """Collected data could not be recorded."""


class UnwritableValueError(CollectorError):
    """A value has a type that no collector can record; the rest of its record was kept."""


class CollectorClosedError(CollectorError):
    """The collector was already closed."""


class StorageError(WebtrajError, OSError):
    """A folder or bucket could not be read or written."""


class StorageMissingError(StorageError, FileNotFoundError):
    """The object or the bucket does not exist."""


class StorageDeniedError(StorageError, PermissionError):
    """Credentials are missing, wrong or insufficient."""


class StorageConflictError(StorageError, FileExistsError):
    """The object already exists."""


class StorageUnavailableError(StorageError, ConnectionError):
    """The store was down, throttled or too slow through all retries."""


class DatasetError(WebtrajError, ValueError):
    """A dataset cannot be read."""


class NotADatasetError(DatasetError):
    """The folder holds no dataset."""


class CorruptDataError(DatasetError):
    """Bytes do not decode as expected."""


class UnsupportedSchemaError(DatasetError):
    """The dataset was written by a newer webtraj."""


class EnvironmentMisuseError(WebtrajError, RuntimeError):
    """A call broke an environment's contract."""


class ConcurrentCallError(EnvironmentMisuseError):
    """Two calls ran on one environment at once."""


class AgentError(WebtrajError, RuntimeError):
    """An agent could not decide on an action: the agent's failure, except for a `ModelError`."""

    decision: Any = None
    """The `Decision` as far as it got, failed model calls included, for the record."""


class EpisodeGivenUpError(AgentError):
    """The agent cannot continue and wants its episode truncated; the message is the reason."""


class ModelError(AgentError):
    """A model gave no usable reply."""

    call: Any = None
    """The `ModelCall` that failed."""


class ContextOverflowError(ModelError):
    """The conversation is longer than the model's context."""


class ModelRefusedError(ModelError):
    """The server rejects the request, and would reject it again."""


class MissingKeyError(ModelRefusedError, InvalidInputError):
    """There is no API key for a server that needs one."""


class ModelUnavailableError(ModelError):
    """The server was down, overloaded or too slow through all retries."""


class EpisodeTimeoutError(WebtrajError, TimeoutError):
    """An episode, or one step of it, took too long."""


class ForkDepartedError(WebtrajError, RuntimeError):
    """The repeated part of a fork differs from the record; the message has the first difference."""


class RolloutStoppedError(WebtrajError, RuntimeError):
    """A rollout stopped because too many of its episodes failed in a row."""


class ProcessingStoppedError(WebtrajError, RuntimeError):
    """A pipeline stopped because too many episodes failed in a row."""


class BrowserError(WebtrajError, RuntimeError):
    """The browser failed. An infrastructure failure is never a reward."""


class BrowserNotFoundError(BrowserError):
    """No browser is installed."""


class BrowserCrashedError(BrowserError):
    """The browser or its page died."""


class BrowserTimeoutError(BrowserError, TimeoutError):
    """The browser did not answer before its deadline."""


class PageLoadError(BrowserError, ConnectionError):
    """A page did not load: its site is unreachable, refuses, disconnects or answers 5xx."""
