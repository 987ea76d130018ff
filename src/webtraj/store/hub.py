"""Repositories of the Hugging Face Hub as read-only storages.

`hf://datasets/ORG/NAME[@REVISION][/FOLDER]` names a dataset repository, or a folder in it. Opening
it fixes the commit, so readers see one consistent state, and every file is downloaded once into
Hugging Face's own cache. The Hub makes a commit of every write, so nothing is written one file at
a time: `webtraj.datasets.hub.push_to_hub` sends a whole dataset in one commit.
"""

from __future__ import annotations

import dataclasses
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import webtraj
from webtraj import errors
from webtraj.store.bucket_requests import RetryPolicy
from webtraj.store.storage import Entry, check_key, check_prefix, is_hidden

__all__ = ["HubPlace", "HubStorage", "ask_hub", "connect", "is_hub_url", "parse_hub_url"]

_T = TypeVar("_T")

_URL = re.compile(
    r"hf://datasets/(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)"
    r"(?:@(?P<revision>[\w.%-]+))?(?:/(?P<folder>[^?#@]*))?"
)


@dataclasses.dataclass(frozen=True, slots=True)
class HubPlace:
    """A parsed `hf://` URL."""

    repo: str
    """`ORG/NAME`."""
    revision: str | None = None
    """A branch, tag or commit; None for the main branch."""
    folder: str = ""
    """The folder in the repository, without slashes at its ends; empty for its root."""

    @property
    def url(self) -> str:
        """The URL, without a trailing slash."""
        at = "" if self.revision is None else f"@{urllib.parse.quote(self.revision, safe='')}"
        return f"hf://datasets/{self.repo}{at}" + (f"/{self.folder}" if self.folder else "")


def is_hub_url(place: object) -> bool:
    """Return whether a place is on the Hugging Face Hub.

    >>> is_hub_url("hf://datasets/me/runs"), is_hub_url("s3://bucket/runs")
    (True, False)
    """
    return isinstance(place, str) and place.lower().startswith("hf://")


def parse_hub_url(url: str) -> HubPlace:
    """Return the parts of an `hf://` URL.

    >>> parse_hub_url("hf://datasets/me/runs@v1/clicks/")
    HubPlace(repo='me/runs', revision='v1', folder='clicks')

    Raises:
        InvalidInputError: It does not name a dataset repository.
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise errors.InvalidInputError(
            f"No dataset repository {re.sub(r'//.*@', '//***@', url)!r:.200}; expected "
            "hf://datasets/ORG/NAME, with @REVISION or /FOLDER after it if needed. The access "
            "token comes from HF_TOKEN or `hf auth login`."
        )
    folder = (found["folder"] or "").strip("/")
    revision = found["revision"]
    return HubPlace(
        found["repo"],
        None if revision is None else urllib.parse.unquote(revision),
        check_key(folder) if folder else "",
    )


def connect(*, token: str | None = None, endpoint: str | None = None) -> Any:
    """Return a client of the Hub.

    Args:
        token: The access token. None: HF_TOKEN, or the token of `hf auth login`.
        endpoint: The Hub's address. None: HF_ENDPOINT, or the public Hub.

    Raises:
        MissingDependencyError: huggingface_hub is not installed.
    """
    try:
        import huggingface_hub
    except ImportError as error:
        raise errors.missing_dependency(
            "hf:// places need huggingface_hub", "huggingface"
        ) from error
    return huggingface_hub.HfApi(
        endpoint=endpoint, token=token, library_name="webtraj", library_version=webtraj.__version__
    )


class HubStorage:
    """The files of a repository at one commit. A `Storage` that refuses to write.

    Args:
        url: The repository; see `parse_hub_url`.
        token: See `connect`.
        endpoint: See `connect`.
        retry: How failed calls are repeated: a `RetryPolicy`, or its fields.

    Raises:
        InvalidInputError: The URL does not name a dataset repository.
        MissingDependencyError: huggingface_hub is not installed.
    """

    is_remote = True

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        endpoint: str | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
    ) -> None:
        self._place = parse_hub_url(url)
        self._prefix = f"{self._place.folder}/" if self._place.folder else ""
        self._hub = connect(token=token, endpoint=endpoint)
        self._retry = RetryPolicy.of(retry)
        self._commit = ""

    @property
    def url(self) -> str:
        """The URL."""
        return self._place.url

    def read(self, key: str) -> bytes:
        """Return a file's bytes.

        Raises:
            StorageMissingError: There is no such file or repository.
            StorageError: It cannot be downloaded.
        """
        from huggingface_hub import hf_hub_download

        name = self._prefix + check_key(key)
        what = f"{self.url}/{key} could not be read"

        def download() -> bytes:
            path = hf_hub_download(
                self._place.repo,
                name,
                repo_type="dataset",
                revision=self._pin(),
                token=self._hub.token,
                endpoint=self._hub.endpoint,
                library_name="webtraj",
                library_version=webtraj.__version__,
                tqdm_class=_no_progress(),
            )
            return Path(path).read_bytes()

        return self._ask(what, download)

    def read_appended(self, key: str, offset: int) -> bytes | None:
        """Return a file's bytes. After an offset, return nothing, as files of a commit never grow.

        Raises:
            StorageMissingError: There is no such file or repository.
            StorageError: It cannot be downloaded.
        """
        return b"" if offset else self.read(key)

    def size(self, key: str) -> int | None:
        """Return a file's size in bytes; None if there is no such file.

        Raises:
            StorageError: The repository cannot be read.
        """
        name = self._prefix + check_key(key)
        what = f"The size of {self.url}/{key} could not be read"
        found = self._ask(
            what,
            lambda: self._hub.get_paths_info(
                self._place.repo, [name], repo_type="dataset", revision=self._pin()
            ),
        )
        return next((file.size for file in found if hasattr(file, "size")), None)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the files whose keys begin with `prefix`.

        Raises:
            StorageError: The repository cannot be read.
        """
        folder = (self._prefix + check_prefix(prefix)).rstrip("/")

        def list_tree() -> list[Any]:
            return list(
                self._hub.list_repo_tree(
                    self._place.repo,
                    folder or None,
                    recursive=True,
                    repo_type="dataset",
                    revision=self._pin(),
                )
            )

        try:
            found = self._ask(f"{self.url}/{prefix} could not be listed", list_tree)
        except errors.StorageMissingError:
            self._ask(f"{self.url} could not be listed", self._pin)  # Or is it the repository?
            return
        for file in found:
            key = str(file.path)[len(self._prefix) :]
            if hasattr(file, "size") and not is_hidden(key):
                yield Entry(key, file.size)

    def write(self, key: str, data: bytes, *, overwrite: bool | None = True) -> NoReturn:
        """Refuse.

        Raises:
            StorageDeniedError: Always.
        """
        self._refuse(key)

    def delete(self, key: str) -> NoReturn:
        """Refuse.

        Raises:
            StorageDeniedError: Always.
        """
        self._refuse(key)

    def __repr__(self) -> str:
        return f"HubStorage({self.url!r})"

    def _refuse(self, key: str) -> NoReturn:
        raise errors.StorageDeniedError(
            f"{self.url}/{key} cannot be changed: repositories of the Hub are read-only here. "
            f"Write a folder, then send it in one commit: webtraj push FOLDER {self.url}."
        )

    def _pin(self) -> str:
        """Return the commit that is read, looked up once."""
        if not self._commit:
            info = self._hub.dataset_info(self._place.repo, revision=self._place.revision)
            self._commit = str(info.sha)
        return self._commit

    def _ask(self, what: str, ask: Callable[[], _T]) -> _T:
        return self._retry.run(lambda: ask_hub(what, ask))


def ask_hub(what: str, ask: Callable[[], _T]) -> _T:
    """Return the result of a call to the Hub.

    Args:
        what: The failure, for the error's message.
        ask: The call.

    Raises:
        StorageMissingError: The repository, revision or file does not exist.
        StorageDeniedError: The token is missing or lacks the right.
        StorageUnavailableError: The Hub could not be reached, or cannot answer now.
        StorageError: It failed otherwise.
    """
    from huggingface_hub import errors as hub_errors

    no_answer = hub_errors.HTTPError  # type: ignore[attr-defined]  # Of the HTTP library in use.
    try:
        return ask()
    except hub_errors.GatedRepoError as error:
        raise errors.StorageDeniedError(_describe_error(what, error)) from error
    except hub_errors.LocalEntryNotFoundError as error:  # Neither on the Hub's answer nor cached.
        raise errors.StorageUnavailableError(
            _describe_error(what, error.__cause__ or error)
        ) from error
    except (
        hub_errors.RepositoryNotFoundError,
        hub_errors.RevisionNotFoundError,
        hub_errors.EntryNotFoundError,
    ) as error:
        hint = (
            " If it is private, set HF_TOKEN or run `hf auth login`."
            if isinstance(error, hub_errors.RepositoryNotFoundError)
            else ""
        )
        raise errors.StorageMissingError(_describe_error(what, error) + hint) from error
    except hub_errors.HfHubHTTPError as error:
        status = error.response.status_code
        kind: type[errors.StorageError] = errors.StorageError
        if status in (401, 403):
            kind = errors.StorageDeniedError
        elif status in (408, 425, 429) or status >= 500:
            kind = errors.StorageUnavailableError
        raise kind(_describe_error(what, error)) from error
    except (no_answer, ConnectionError, TimeoutError) as error:
        raise errors.StorageUnavailableError(_describe_error(what, error)) from error
    except RuntimeError as error:  # One of many uploads.
        raise errors.StorageError(_describe_error(what, error.__cause__ or error)) from error
    except OSError as error:  # The cache's disk is full, or its file was truncated.
        raise errors.StorageError(_describe_error(what, error)) from error


def _describe_error(what: str, error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = " ".join(line.strip() for line in lines)[:300] or type(error).__name__
    return f"{what}: {said}" + ("" if said.endswith(".") else ".")


def _no_progress() -> Any:
    """Return a class of progress bars that shows nothing."""
    from huggingface_hub import utils

    shown: Any = utils.tqdm  # type: ignore[attr-defined]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        shown.__init__(self, *args, **{**kwargs, "disable": True})

    return type("Silent", (shown,), {"__init__": __init__})
