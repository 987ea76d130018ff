"""Send a dataset to the Hugging Face Hub, in one commit.

The repository, or a folder in it, then holds two forms of the same episodes:

* the dataset itself, byte for byte: `dataset.json`, `index/`, `episodes/`, `blobs/`. Open it with
  `webtraj.open_dataset("hf://datasets/ORG/NAME")`.
* tables for `datasets.load_dataset`, with a dataset card: `README.md`, `steps/`, `trajectories/`
  (see `webtraj.datasets.exporters.huggingface`).

A push replaces what an earlier push sent. The Hub's history keeps it.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets import transfer
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.exporters import export_dataset
from webtraj.datasets.exporters.base import ExportReport
from webtraj.datasets.judgements import FOLDER as JUDGEMENTS
from webtraj.datasets.place import Place, open_place
from webtraj.datasets.transfer import TransferReport
from webtraj.store import hub
from webtraj.store.hub import HubPlace, ask_hub
from webtraj.store.index import EpisodeSummary, merge
from webtraj.store.layout import BLOBS, EPISODES, HEADER, INDEX

__all__ = ["HubReport", "push_to_hub"]

_INDEX = "episodes.jsonl"
_FOLDERS = (INDEX, EPISODES, BLOBS, f"{JUDGEMENTS}/", "labels/", "steps/", "trajectories/")
_OURS = [f"{folder}*" for folder in _FOLDERS]
_LOSSLESS = """
## The recorded episodes

`dataset.json`, `index`, `episodes`, `judgements` and `blobs` hold the same episodes without loss:

```python
import webtraj

dataset = webtraj.open_dataset("{url}")
```
"""


@dataclasses.dataclass(frozen=True, slots=True)
class HubReport:
    """The result of `push_to_hub`."""

    url: str
    """The repository, or the folder in it."""
    commit: str
    """The commit that holds the episodes."""
    changed: bool
    """Whether this push made the commit; False if the Hub had the same files already."""
    episodes: TransferReport
    """The result for each episode."""
    tables: ExportReport | None
    """What the tables hold; None without tables."""

    @property
    def complete(self) -> bool:
        """Whether every episode was sent."""
        return self.episodes.complete and (self.tables is None or self.tables.complete)


def push_to_hub(
    source: Place,
    target: str,
    *,
    where: Callable[[EpisodeSummary], bool] | None = None,
    format: str | None = None,  # noqa: A002  (As in DatasetHeader.)
    tables: bool = True,
    table_options: Mapping[str, Any] | None = None,
    private: bool = True,
    replace: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
    source_options: Mapping[str, Any] | None = None,
) -> HubReport:
    """Send a dataset to a repository of the Hugging Face Hub.

    The files are prepared in a temporary folder first, so this needs as much disk as the dataset.

    Args:
        source: The dataset's folder or URL.
        target: `hf://datasets/ORG/NAME`, with `@BRANCH` or `/FOLDER` after it if needed. Missing
            repositories and branches are created.
        where: Predicate that selects episodes. Default: all.
        format: The format of the episode files. None: the source's. `pb.zst` makes one file of
            each episode and its blobs, which suits large datasets.
        tables: Whether to send tables and a card too.
        table_options: Options of the exporter `huggingface`: `license`, `title`, `splits`, ...
        private: Whether a new repository is private.
        replace: Whether episodes that only the Hub has may go.
        token: The access token. None: HF_TOKEN, or that of `hf auth login`.
        endpoint: The Hub's address. None: HF_ENDPOINT, or the public Hub.
        source_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.

    Raises:
        InvalidInputError: The target is not a dataset repository, holds episodes that the source
            lacks, or an option is wrong.
        MissingDependencyError: huggingface_hub is not installed, or pyarrow for the tables.
        NotADatasetError: There is no dataset at the source.
        StorageError: The source cannot be read, or the Hub cannot be written; run it again.
    """
    place = hub.parse_hub_url(target)
    api = hub.connect(token=token, endpoint=endpoint)
    options = {"token": token, "endpoint": endpoint}
    with tempfile.TemporaryDirectory(prefix="webtraj-hub-") as temporary:
        stage = Path(temporary, place.repo.rpartition("/")[2])
        # A run's settings are about machines, and of no use on the Hub.
        report = transfer.merge(
            [source],
            stage,
            where=where,
            format=format,
            with_runs=False,
            source_options=source_options,
        )
        before = _commit(api, place, private)
        theirs = _files_of_others(api, place, before)
        if theirs and not replace:
            raise errors.InvalidInputError(
                f"{place.url} is not a dataset of webtraj, and has files of its own, such as "
                f"{theirs[0]!r:.150}, that a push would remove. Choose a folder of the "
                f"repository, such as {place.url}/webtraj, or replace them."
            )
        pinned = dataclasses.replace(place, revision=before).url
        lost = _settle(stage, pinned, options)
        if lost and not replace:
            raise errors.InvalidInputError(
                f"{place.url} holds {len(lost)} episodes that would be removed, such as "
                f"{lost[0]!r:.150}. Push a dataset that has them too (`webtraj copy`), choose "
                f"another folder of the repository, such as {place.url}/more, or replace them."
            )
        exported = _add_tables(stage, place, table_options) if tables else None
        info = ask_hub(
            f"{place.url} could not be written",
            lambda: api.upload_folder(
                repo_id=place.repo,
                repo_type="dataset",
                folder_path=stage,
                path_in_repo=place.folder or None,
                revision=place.revision,
                parent_commit=before,
                commit_message=f"{len(report.added)} episodes",
                delete_patterns=_OURS,
            ),
        )
    return HubReport(place.url, str(info.oid), info.oid != before, report, exported)


def _commit(api: Any, place: HubPlace, private: bool) -> str:
    """Return the commit that the push builds on. Missing repositories and branches are made."""

    def look_up() -> str:
        return str(api.dataset_info(place.repo, revision=place.revision).sha)

    def make() -> None:
        api.create_repo(place.repo, repo_type="dataset", private=private, exist_ok=True)
        if place.revision is not None:
            api.create_branch(place.repo, repo_type="dataset", branch=place.revision, exist_ok=True)

    try:
        return ask_hub(f"{place.url} could not be read", look_up)
    except errors.StorageMissingError:
        ask_hub(f"{place.url} could not be created", make)
        return ask_hub(f"{place.url} could not be read", look_up)


def _files_of_others(api: Any, place: HubPlace, commit: str) -> list[str]:
    """Return the files that a push would remove although they are not part of a dataset."""
    prefix = f"{place.folder}/" if place.folder else ""
    found = ask_hub(
        f"{place.url} could not be read",
        lambda: api.list_repo_files(place.repo, repo_type="dataset", revision=commit),
    )
    inside = [name.removeprefix(prefix) for name in found if name.startswith(prefix)]
    if HEADER in inside:
        return []
    return [name for name in inside if name.startswith(_FOLDERS)]


def _settle(stage: Path, pinned: str, options: Mapping[str, Any]) -> list[str]:
    """Make the staged files depend only on the episodes; return the ids that only the Hub has.

    So pushing the same episodes again changes nothing. Index and judgement files, whose names
    contain host and process, are merged into one of each.
    """
    staged = open_place(stage)
    summaries = merge(staged.read_index())
    for name in staged.index_names():
        staged.storage.delete(INDEX + name)
    lines = b"".join(summaries[episode_id].to_line() for episode_id in sorted(summaries))
    staged.storage.write(INDEX + _INDEX, lines)
    for folder in (f"{JUDGEMENTS}/", "labels/"):
        keys = [entry.key for entry in staged.storage.list(folder)]
        said = sorted(line for key in keys for line in staged.storage.read(key).splitlines(True))
        for key in keys:
            staged.storage.delete(key)
        if said:
            staged.storage.write(folder + _INDEX, b"".join(said))
    try:
        remote = open_place(pinned, options)
    except errors.NotADatasetError:
        return []
    if remote.header == staged.header:
        staged.storage.write(HEADER, remote.storage.read(HEADER))
    return sorted(remote.sealed_episodes().keys() - summaries.keys())


def _add_tables(
    stage: Path, place: HubPlace, table_options: Mapping[str, Any] | None
) -> ExportReport:
    with tempfile.TemporaryDirectory(dir=stage.parent) as temporary:
        folder = Path(temporary, stage.name)
        report = export_dataset(
            open_dataset(stage), folder, format="huggingface", options=table_options
        )
        card = folder / "README.md"
        text = card.read_text(encoding="utf-8").replace("<this dataset>", place.repo)
        card.write_text(text + _LOSSLESS.format(url=place.url), encoding="utf-8")
        for path in folder.iterdir():
            path.rename(stage / path.name)
    return report
