"""Every exception that webtraj raises on purpose.

Each is a `WebtrajError` and also a subclass of the nearest builtin, so that code which
catches the builtin goes on working::

    WebtrajError
     ├─ InvalidInputError (ValueError)           an argument, option or file content is wrong
     │   ├─ InvalidSelectorError                 a preset selector does not follow the grammar
     │   ├─ InvalidEpisodeIdError                an episode id that is no safe file name
     │   └─ UnsupportedActionError               an action that a dialect has no words for
     ├─ UnknownPresetError (KeyError)            no preset of that name
     ├─ UnknownEpisodeError (KeyError)           no episode of that id in the dataset
     ├─ MissingDependencyError (ImportError)     an optional package is not installed
     ├─ CollectorError (OSError)                 something could not be recorded
     │   ├─ UnwritableValueError                 a value of a type that cannot be kept
     │   └─ CollectorClosedError                 the collector was closed already
     ├─ StorageError (OSError)                   a folder or bucket failed
     │   ├─ StorageMissingError (FileNotFoundError)  there is no such object, or no such bucket
     │   ├─ StorageDeniedError (PermissionError)     credentials are missing, wrong or too weak
     │   ├─ StorageConflictError (FileExistsError)   the object is there already
     │   └─ StorageUnavailableError (ConnectionError)  away, throttled or too slow; may heal
     ├─ DatasetError (ValueError)                a dataset cannot be read
     │   ├─ NotADatasetError                     the folder holds no dataset
     │   ├─ CorruptDataError                     bytes that do not decode to what they should
     │   └─ UnsupportedSchemaError               written by a newer webtraj
     ├─ EnvironmentMisuseError (RuntimeError)    an environment was called as it must not be
     │   └─ ConcurrentCallError                  two calls at once on one environment
     ├─ AgentError (RuntimeError)                an agent could not decide on an action
     │   ├─ EpisodeGivenUpError                  the agent wants its episode truncated
     │   └─ ModelError                           a model gave no reply that can be used
     │       ├─ ContextOverflowError             the conversation is too long for it
     │       ├─ ModelRefusedError                the server does not take the request
     │       └─ ModelUnavailableError            the server is away, or too slow
     ├─ EpisodeTimeoutError (TimeoutError)       an episode, or a step of it, took too long
     ├─ RolloutStoppedError (RuntimeError)       too many episodes failed, one after the other
     ├─ ProcessingStoppedError (RuntimeError)    too many could not be processed
     └─ BrowserError (RuntimeError)              the browser failed: never a reward
         ├─ BrowserNotFoundError                 no browser is installed
         ├─ BrowserCrashedError                  the browser or its page died
         ├─ BrowserTimeoutError                  the browser did not answer in time
         └─ PageLoadError (ConnectionError)      a page that an episode begins at did not load

A message says what was given, what was expected, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webtraj import trajectory as trajectory_lib


class WebtrajError(Exception):
    """Base of all webtraj errors."""


class InvalidInputError(WebtrajError, ValueError):
    """An argument, option or file content is wrong."""


class InvalidSelectorError(InvalidInputError):
    """A preset selector does not follow the grammar."""


class InvalidEpisodeIdError(InvalidInputError):
    """An episode id that cannot safely name a file."""


class UnsupportedActionError(InvalidInputError):
    """A dialect has no words for an action."""


class _LookupFailedError(WebtrajError, KeyError):
    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would quote a whole sentence.
        return str(self.args[0]) if self.args else ""


class UnknownPresetError(_LookupFailedError):
    """No preset has the given name."""


class UnknownEpisodeError(_LookupFailedError):
    """The dataset has no episode of the given id."""


class MissingDependencyError(WebtrajError, ImportError):
    """An optional package is needed and not installed."""


def missing_dependency(need: str, extra: str) -> MissingDependencyError:
    """Return the error for a missing package, with a command that installs it.

    Args:
        need: What needs which package, such as "The viewer needs starlette".
        extra: The extra of webtraj that has it.
    """
    return MissingDependencyError(
        f"{need}, which is not installed. Install it with: {install_command(extra)}"
    )


def reason(error: BaseException) -> str:
    """Returns why something failed, without an error's number and the path once more.

    >>> reason(FileNotFoundError(2, "No such file or directory", "x"))
    'No such file or directory'
    """
    return getattr(error, "strerror", None) or str(error)


def install_command(extra: str = "", *, upgrade: bool = False) -> str:
    """Return the command that installs webtraj from where it came from, with an extra.

    That is a checkout, a Git URL or an archive, as the installer has noted (PEP 610), or else a
    package index.
    """
    import importlib.metadata
    import json
    import shlex
    from urllib.parse import unquote, urlsplit

    # More than one may be found: building a checkout leaves metadata in it that notes no origin.
    found = importlib.metadata.distributions(name="webtraj")
    notes = (one.read_text("direct_url.json") for one in found)
    source = json.loads(next(filter(None, notes), "{}"))
    extras = f"[{extra}]" if extra else ""
    url = str(source.get("url", ""))
    options = ["--upgrade"] if upgrade else []
    if url.startswith("file:") and "dir_info" in source:
        if source["dir_info"].get("editable"):
            options.append("-e")
        target = unquote(urlsplit(url).path) + extras
    elif "vcs_info" in source:
        vcs = source["vcs_info"]
        revision = f"@{wanted}" if (wanted := vcs.get("requested_revision")) else ""
        target = f"webtraj{extras} @ {vcs['vcs']}+{url}{revision}"
    else:
        target = f"webtraj{extras} @ {url}" if url else f"webtraj{extras}"
    # Extras are in quotes, since some shells expand brackets.
    return " ".join(["pip install", *options, shlex.quote(target)])


class CollectorError(WebtrajError, OSError):
    """Something that was collected could not be recorded."""


class UnwritableValueError(CollectorError):
    """A value is of a type that no collector can keep; all else of its record was kept."""


class CollectorClosedError(CollectorError):
    """The collector was closed before the call."""


class StorageError(WebtrajError, OSError):
    """A folder or bucket could not be read or written."""


class StorageMissingError(StorageError, FileNotFoundError):
    """There is no such object, or no such bucket."""


class StorageDeniedError(StorageError, PermissionError):
    """Credentials are missing, wrong or too weak."""


class StorageConflictError(StorageError, FileExistsError):
    """The object is there already."""


class StorageUnavailableError(StorageError, ConnectionError):
    """The store is away, throttles or is too slow, and stayed so through all retries."""


class DatasetError(WebtrajError, ValueError):
    """A dataset cannot be read."""


class NotADatasetError(DatasetError):
    """The folder holds no dataset."""


class CorruptDataError(DatasetError):
    """Bytes do not decode to what they should."""


class UnsupportedSchemaError(DatasetError):
    """The dataset was written by a newer webtraj."""


class EnvironmentMisuseError(WebtrajError, RuntimeError):
    """An environment was called in a way that its contract forbids."""


class ConcurrentCallError(EnvironmentMisuseError):
    """Two calls were made on one environment at once."""


class AgentError(WebtrajError, RuntimeError):
    """An agent could not decide on an action. Except for a `ModelError`, that is its failure."""

    decision: trajectory_lib.Decision | None = None
    """How far the agent got, failed model calls included, for the record."""


class EpisodeGivenUpError(AgentError):
    """The agent cannot go on, and wants its episode truncated; the message is the reason."""


class ModelError(AgentError):
    """A model gave no reply that can be used."""

    call: trajectory_lib.ModelCall | None = None
    """The call that failed."""


class ContextOverflowError(ModelError):
    """The conversation is longer than the model's context."""


class ModelRefusedError(ModelError):
    """The server does not take the request, and would not if it were asked again."""


class ModelUnavailableError(ModelError):
    """The server is away, overloaded or too slow, and stayed so through all retries."""


class EpisodeTimeoutError(WebtrajError, TimeoutError):
    """An episode, or one step of it, was not done in time."""


class RolloutStoppedError(WebtrajError, RuntimeError):
    """A rollout was given up, since too many of its episodes failed one after the other."""


class ProcessingStoppedError(WebtrajError, RuntimeError):
    """A pipeline was given up, since too many episodes could not be processed in a row."""


class BrowserError(WebtrajError, RuntimeError):
    """The browser failed. An infrastructure failure is never a reward."""


class BrowserNotFoundError(BrowserError):
    """No browser is installed."""


class BrowserCrashedError(BrowserError):
    """The browser or its page died."""


class BrowserTimeoutError(BrowserError, TimeoutError):
    """The browser did not answer before its deadline."""


class PageLoadError(BrowserError, ConnectionError):
    """A page did not load: its site is unreachable, refuses, breaks off or answers 5xx."""
