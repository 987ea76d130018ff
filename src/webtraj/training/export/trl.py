"""Parquet files for TRL and the Hugging Face Hub: prompts and completions with their pictures.

::

    <out>/README.md                              the card: configs, splits, licence, columns
    <out>/data/train-00000-of-00003.parquet
    <out>/data/val-00000-of-00001.parquet        if there is a validation split

`trl` has the columns prompt and completion; `SFTTrainer` trains on the completion only.
`trl-preferences` has prompt, chosen and rejected, for `DPOTrainer`. Both have `images` as the
`Image` feature of `datasets`, which need not be installed to write them. TRL has no sample weights,
so weights are copies or a column. Needs the extra `parquet`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pydantic

import webtraj
from webtraj import errors
from webtraj.agents.models.base import Image, Part
from webtraj.datasets.exporters.base import MANIFEST
from webtraj.datasets.exporters.huggingface import (
    Column,
    Kind,
    ShardWriter,
    front_matter,
    one_line,
)
from webtraj.datasets.exporters.plain import image_kind, is_unicode
from webtraj.datasets.parquet import pyarrow
from webtraj.training.export.base import ExportReport, LeftOut, Row
from webtraj.training.export.conversations import digest_of
from webtraj.training.export.lengths import Prepared, WeightOptions
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.export.preferences import Rejected, fault_of_pair, find_rejected, pair_of
from webtraj.training.rows import completion_of
from webtraj.training.samples import Sample, name_of

__all__ = ["TrlFormat", "TrlPreferencesFormat"]

# The rows of TRL's files: messages, pictures and metadata.
#
# With pictures, a message's content is a list of parts, and `images` has the pictures in the order
# of their parts. Without pictures, content is text: templates of text models cannot read lists.

_PARTS = [{"role": "string", "content": [{"type": "string", "text": "string"}]}]
_TEXT = [{"role": "string", "content": "string"}]
_FACTS = {
    "loss_weight": Column("float64", "How much it counts."),
    "reward": Column("float64", "What its episode was worth; null if that is not known."),
    "advantage": Column(
        "float64", "The reward minus the mean of its group; 0 in a group without a success."
    ),
    "group": Column("string", "Shared by attempts that are compared with each other."),
    "task": Column("string", "The task's name."),
    "goal": Column("string", "What was to be done, in words."),
    "policy_version": Column("string", "Which weights sampled the reply."),
    "sample": Column("string", "Where it is from: `<episode>/<step>/<call>`."),
}


def _columns_of(replies: Mapping[str, str], *, parts: bool) -> dict[str, Column]:
    """Return a table's columns.

    Args:
        replies: The columns of replies, with their descriptions.
        parts: Whether content is a list of parts, which pictures need.
    """
    kind: Kind = _PARTS if parts else _TEXT
    columns = {"prompt": Column(kind, "The conversation, as the model was sent it.")}
    columns |= {name: Column(kind, meaning) for name, meaning in replies.items()}
    if parts:
        columns["images"] = Column(["image"], "The prompt's pictures, in order.")
    return columns | _FACTS


def _prompt_row(prepared: Prepared) -> dict[str, Any]:
    """Return a prompt's columns, in parts."""
    return {
        "prompt": [
            {"role": message.role, "content": [_part(part) for part in message.parts]}
            for message in prepared.conversation.messages()
        ],
        "images": [_picture(image) for image in prepared.sample.images],
    }


def _reply_row(completion: str) -> list[dict[str, Any]]:
    """Return a reply's column, in parts."""
    return [{"role": "assistant", "content": [{"type": "text", "text": completion}]}]


def _facts_of(sample: Sample) -> dict[str, Any]:
    """Return the columns of metadata."""
    return {
        "loss_weight": float(sample.loss_weight),
        "reward": None if sample.reward is None else float(sample.reward),
        "advantage": None if sample.advantage is None else float(sample.advantage),
        "group": sample.group_id,
        "task": sample.task,
        "goal": sample.goal,
        "policy_version": sample.policy_version,
        "sample": name_of(sample.key),
    }


def _in_text(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return messages in parts as messages with text content."""
    return [
        {"role": m["role"], "content": "".join(part["text"] for part in m["content"])}
        for m in messages
    ]


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image", "text": None}
    return {"type": "text", "text": part.text}


def _picture(image: Image) -> dict[str, Any]:
    kind = image_kind(image.data)
    assert kind is not None, "Pictures of unknown kinds were refused."
    return {"bytes": image.data, "path": f"{image.uuid}.{kind[0]}"}


# The dataset card: README.md with metadata for the Hub and `datasets`.

_ON_THE_HUB = {"val": "validation"}


def _card(title: str, license_id: str, columns: Mapping[str, Column], report: ExportReport) -> str:
    """Return the dataset card.

    Args:
        title: The dataset's title.
        license_id: The licence's identifier on the Hub.
        columns: The table's columns.
        report: The account of the export.
    """
    splits = report.splits
    on_the_hub = {_ON_THE_HUB.get(name, name): split for name, split in splits.items()}
    lines = [
        *front_matter(
            title,
            license_id,
            "trl",
            sum(split.rows for split in splits.values()),
            {"default": {_ON_THE_HUB.get(n, n): f"data/{n}-*.parquet" for n in splits}},
        ),
        "",
        f"# {one_line(title)}",
        "",
        "Decisions of web agents, one a row: the prompt as it was sent, and the reply.",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        'samples = load_dataset("<this dataset>")',
        "```",
        "",
        "| split | rows | samples | episodes |",
        "|---|---|---|---|",
        *(
            f"| {name} | {split.rows} | {split.samples} | {len(split.episodes)} |"
            for name, split in on_the_hub.items()
        ),
        "",
        "| column | what it is |",
        "|---|---|",
        *(f"| `{name}` | {column.meaning} |" for name, column in columns.items()),
        "",
        f"Exported by webtraj {webtraj.__version__} (`webtraj train export`).",
        f"`{MANIFEST}` names every episode, the filters and the options.",
    ]
    left_out = [
        f"- {name}: {count} {'sample' if count == 1 else 'samples'}: {one_line(why)}"
        for name, split in splits.items()
        for why, count in sorted(split.left_out.items())
    ]
    if left_out:
        lines += ["", "Left out:", "", *left_out]
    return "\n".join(lines) + "\n"


_DATA = "data"
_ROWS_AT_ONCE = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrlFormat(WeightOptions):
    """A format of prompts and completions."""

    name: ClassVar[str] = "trl"
    file: ClassVar[str] = ""
    """Shards in `data`."""
    replies: ClassVar[Mapping[str, str]] = {"completion": "The reply: what is trained on."}
    """The columns of replies."""

    license: Annotated[str, pydantic.Field(pattern=r"^[a-z0-9.-]{1,64}$")] = "unknown"
    """The licence's identifier on the Hub: `mit`, `cc-by-4.0`, ..."""
    title: str = "Samples of web agents"
    """The card's title."""
    shard_mb: Annotated[int, pydantic.Field(ge=1, le=480)] = 400
    """The approximate size of a file in megabytes."""

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """See `SampleFormat.write`.

        Raises:
            InvalidInputError: Only some prompts show pictures, and the first one does not.
        """
        rows = iter(rows)
        first = next(rows, None)
        if first is None:
            return
        parts = self._in_parts(folder, first)
        columns = _columns_of(self.replies, parts=parts)
        with ShardWriter(folder / _DATA, split, columns, self.shard_mb << 20) as writer:
            for row in itertools.chain([first], rows):
                data = self._lay_out(row.data, parts=parts)
                for _ in range(row.copies):
                    writer.add(data)

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`."""
        parts = self._has_parts(folder)
        columns = _columns_of(self.replies, parts=bool(parts))
        text = _card(self.title, self.license, columns, report)
        (folder / "README.md").write_text(text, encoding="utf-8")

    def read(self, folder: Path, split: str) -> Iterator[Mapping[str, Any]]:
        """See `SampleFormat.read`."""
        _, pq = pyarrow()
        for path in _files(folder, split):
            with pq.ParquetFile(path, pre_buffer=False) as file:
                # One group at a time: iterating over all groups keeps all batches in memory.
                for group in range(file.num_row_groups):
                    for batch in file.iter_batches(_ROWS_AT_ONCE, row_groups=[group]):
                        yield from batch.to_pylist()

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        rejected = find_rejected(sample)
        facts = _facts_of(sample)
        # With copies the column is always 1.
        del facts["loss_weight"]
        more = "" if rejected is None else rejected.completion
        rest = repr((facts, more)).encode("utf-8", "surrogatepass")
        return hashlib.sha256(digest_of(sample) + rest).digest()

    def _row(self, prepared: Prepared, pictures: Pictures) -> Row | LeftOut:
        sample = prepared.sample
        for image in sample.images:
            pictures.check(image)
        facts = {**_facts_of(sample), "loss_weight": float(self._weight(sample))}
        if not all(is_unicode(fact) for fact in facts.values() if isinstance(fact, str)):
            return LeftOut("its text has a half of a character, which no file can hold")
        replies = {name: _reply_row(text) for name, text in self._reply_texts(sample).items()}
        return Row({**_prompt_row(prepared), **replies, **facts})

    def _reply_texts(self, sample: Sample) -> dict[str, str]:
        """Return the text of each reply, by column."""
        return {"completion": sample.completion}

    def _lay_out(self, data: Mapping[str, Any], *, parts: bool) -> dict[str, Any]:
        if parts:
            return dict(data)
        if data["images"]:
            raise errors.InvalidInputError(
                f"The sample {data['sample']} shows a picture, and the first one shows none. TRL "
                "needs pictures in all prompts or in none. Export them separately."
            )
        names = ("prompt", *self.replies)
        text = {name: _in_text(data[name]) for name in names}
        rest = {name: value for name, value in data.items() if name != "images"}
        return {**rest, **text}

    def _in_parts(self, folder: Path, first: Row) -> bool:
        # All splits use the layout of the first one.
        written = self._has_parts(folder)
        return bool(first.data["images"]) if written is None else written

    def _has_parts(self, folder: Path) -> bool | None:
        _, pq = pyarrow()
        path = next(_files(folder, ""), None)
        return None if path is None else "images" in pq.read_schema(path).names


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrlPreferencesFormat(TrlFormat):
    """A format of prompts with a better and a worse reply."""

    name: ClassVar[str] = "trl-preferences"
    imitated: ClassVar[bool] = False
    replies: ClassVar[Mapping[str, str]] = {
        "chosen": "The reply that was worth more.",
        "rejected": "The reply that was worth less.",
    }

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        chosen = super().sample_of({**row, "completion": row["chosen"]}, pictures)
        return pair_of(
            chosen, Rejected(completion_of(row["rejected"], f"{row['sample']:.100}") or "", "")
        )

    def _copies(self, sample: Sample) -> int | LeftOut:
        return fault_of_pair(sample) or super()._copies(sample)

    def _reply_texts(self, sample: Sample) -> dict[str, str]:
        rejected = find_rejected(sample)
        assert rejected is not None, "Samples that are not pairs were left out."
        return {"chosen": sample.completion, "rejected": rejected.completion}


def _files(folder: Path, split: str) -> Iterator[Path]:
    return iter(sorted((folder / _DATA).glob(f"{split or '*'}-*-of-*.parquet")))
