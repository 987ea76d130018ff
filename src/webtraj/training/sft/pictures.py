"""The tokens and grids that a model's processor makes from pictures.

A row of token ids has the SHA-256 of its pictures and the processor's result for each, so it can be
checked long after it was written (`encoding.check_pictures`)::

    "images": ["images/<sha256>.jpg"],
    "grids": [{"size": [1280, 720], "tokens": 1196, "values": {"image_grid_thw": [1, 52, 92]},
               "shapes": {"pixel_values": [4784, 1176]}}],
    "processor": {"model": "Qwen/Qwen2.5-VL-7B-Instruct", "revision": "<commit>",
                  "class": "Qwen2_5_VLProcessor", "image_processor": "Qwen2VLImageProcessor",
                  "transformers": "5.23.0", "settings": {"image_processor": {"size": ...}}}

* `size` is the picture's width and height as it was sent. The processor may scale, cut, or pad it:
  `settings` say how, and `values` and `shapes` what came out.
* `tokens` are the image tokens in the prompt that stand for it.
* `values` are the model's small inputs of whole numbers, such as patch rows and columns; `shapes`
  are the shapes of the others.
* `revision` is the commit on the Hub, or for a folder the SHA-256 of the processor's files.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from webtraj import errors
from webtraj.agents.models.base import Image
from webtraj.training.export.pictures import picture_error
from webtraj.training.samples import Sample

if TYPE_CHECKING:
    from webtraj.training.sft.encoding import ModelTools

__all__ = ["OF_TOKENS", "ImageTokens", "open_image"]

OF_TOKENS = frozenset({"input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids"})
"""What processors return for each token; all else is made of pictures."""

_BEFORE, _AFTER = "a", "\nb"
_FEW = 16
_FILES = ("*processor_config.json", "*token*.json", "chat_template*", "vocab*", "merges.txt")

_Size = tuple[int, int]


class ImageTokens:
    """A tokenizer of text with images, which also counts and checks image tokens.

    The processor scales an image to find its tokens, which takes most of the time of preparing
    samples. But the tokens depend only on the size, so one blank image per size is enough.

    Args:
        tools: The model's tokenizer and processor.
    """

    def __init__(self, tools: ModelTools) -> None:
        self._tools = tools
        self._whole: set[str] = set()
        self._spelling = functools.cache(self._spell)
        self._blank = functools.cache(self._process_blank)

    @functools.cached_property
    def processor(self) -> Mapping[str, Any]:
        """The description of the processor in rows; empty if the model takes no images."""
        processor = self._tools.processor
        if processor is None:
            return {}
        import transformers

        settings = json.loads(processor.to_json_string())
        settings.pop("video_processor", None)
        name = str(getattr(self._tools.config, "name_or_path", ""))
        return {
            "model": name,
            "revision": getattr(self._tools.config, "_commit_hash", None) or _digest_of(Path(name)),
            "class": type(processor).__name__,
            "image_processor": type(processor.image_processor).__name__,
            "transformers": transformers.__version__,
            "settings": settings,
        }

    def check(self, images: Iterable[Image]) -> None:
        """Check that images are complete. Each image is checked once.

        Raises:
            InvalidInputError: An image cannot be read.
        """
        for image in images:
            if image.uuid not in self._whole:
                if problem := picture_error(image.data):
                    raise _unreadable(image, problem)
                self._whole.add(image.uuid)

    def ids(self, text: str, images: Sequence[Image]) -> list[int]:
        """Return the processor's tokens for a text and its images.

        Raises:
            InvalidInputError: An image cannot be read.
        """
        bare = self._text_ids(text)
        if not images:
            return bare
        sizes = [_size_of(image) for image in images]
        spelled = [self._spelling(size) for size in sizes]
        mark = self._tools.tokenizer.convert_tokens_to_ids(self._tools.image_token)
        if any(one is None for one in spelled) or bare.count(mark) != len(images):
            return _ids_of(self._run_processor(text, [_blank_image(size) for size in sizes]))
        left = iter(spelled)
        return [t for token in bare for t in (next(left) or () if token == mark else (token,))]

    def count(self, text: str, sizes: Sequence[_Size]) -> int:
        """Return the number of the processor's tokens for a text with images of some sizes.

        An image counts as if it were between two words.
        """
        mark = len(self._text_ids(self._tools.image_token or "")) if sizes else 0
        images = sum(len(self._blank(size)[0]) - mark for size in sizes)
        return len(self._text_ids(text)) + images

    def grids(self, images: Iterable[Image]) -> tuple[Mapping[str, Any], ...]:
        """Return the processor's results for images, in the form of rows.

        Raises:
            InvalidInputError: An image cannot be read.
        """
        return tuple(self._blank(_size_of(image))[1] for image in images)

    def misfit(self, ids: Sequence[int], images: Sequence[Image]) -> str:
        """Return why token ids and images do not fit together; empty if they do.

        Each image must have its number of tokens, in order. Swapped images of equal size are not
        noticed.

        Raises:
            InvalidInputError: An image cannot be read.
        """
        if why := self._tools.why_no_images:
            return f"its {len(images)} images are for another model, as {why}" if images else ""
        return self._misfit(ids, [self._blank(_size_of(image))[0] for image in images])

    def departure(self, sample: Sample) -> str:
        """Return how the processor that a sample names differs from this one.

        Empty if they do not differ, or if the sample names no processor.

        Raises:
            InvalidInputError: An image cannot be read.
        """
        return self._departure(sample, self.grids(sample.images)) if sample.processor else ""

    def departure_again(self, sample: Sample) -> str:
        """Process the images again; return the first problem by `departure` or `misfit`.

        Raises:
            InvalidInputError: An image cannot be read.
        """
        ids = (*sample.prompt_token_ids, *sample.completion_token_ids)
        if self._tools.why_no_images:
            return self.misfit(ids, sample.images)
        made = [self._process(open_image(image)) for image in sample.images]
        grids = [grid for _, grid in made]
        why = self._departure(sample, grids) if sample.processor else ""
        return why or self._misfit(ids, [spelled for spelled, _ in made])

    def _departure(self, sample: Sample, grids: Sequence[Mapping[str, Any]]) -> str:
        settings = sample.processor.get("settings", {})
        if why := _difference(settings, self.processor.get("settings", {})):
            return f"its processor had the {why}"
        if len(sample.grids) != len(grids):
            return f"it has {len(sample.grids)} grids for {len(grids)} images"
        for number, (recorded, made) in enumerate(zip(sample.grids, grids, strict=True)):
            if why := _difference(recorded, made):
                return f"of its image {number}, the processor made the {why}"
        return ""

    def _misfit(self, ids: Sequence[int], images: Sequence[Sequence[int]]) -> str:
        token = self._tools.image_token_id
        assert token is not None, "Models without one take no images."
        made = [one for image in images for one in (*image, _NO_TOKEN)]
        found, expected = _ends_of_runs(ids, token), _ends_of_runs(made, token)
        # A prompt may join the runs of neighbouring images, but never divides a run.
        if found[-1:] == expected[-1:] and set(found) <= set(expected):
            return ""
        return (
            f"its image tokens stand in runs of {_lengths(found)}, and those of its {len(images)} "
            f"images in runs of {_lengths(expected)}"
        )

    def _spell(self, size: _Size) -> list[int] | None:
        """Return the tokens of an image; None if they depend on the text around it."""
        between, _ = self._blank(size)
        # Added tokens never join with the text beside them.
        fixed = self._tools.tokenizer.added_tokens_decoder
        return between if between and between[0] in fixed and between[-1] in fixed else None

    def _process_blank(self, size: _Size) -> tuple[list[int], Mapping[str, Any]]:
        return self._process(_blank_image(size))

    def _process(self, picture: Any) -> tuple[list[int], Mapping[str, Any]]:
        """Return the tokens of an image between two words, and its description for rows."""
        before, after = self._text_ids(_BEFORE), self._text_ids(_AFTER)
        made = self._run_processor(f"{_BEFORE}{self._tools.image_token}{_AFTER}", [picture])
        ids = _ids_of(made)[len(before) :]
        ids = ids[: len(ids) - len(after)]
        arrays = {key: np.asarray(made[key]) for key in sorted(made.keys() - OF_TOKENS)}
        small = {key for key, a in arrays.items() if a.dtype.kind in "iu" and a.size <= _FEW}
        return ids, {
            "size": list(picture.size),
            "tokens": ids.count(self._tools.image_token_id or _NO_TOKEN),
            "values": {key: arrays[key].ravel().tolist() for key in arrays if key in small},
            "shapes": {key: list(arrays[key].shape) for key in arrays if key not in small},
        }

    def _text_ids(self, text: str) -> list[int]:
        return list(self._tools.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _run_processor(self, text: str, pictures: Sequence[Any]) -> Mapping[str, Any]:
        made: Mapping[str, Any] = self._tools.processor(
            text=[text], images=[list(pictures)], add_special_tokens=False
        )
        return made


_NO_TOKEN = -1


def _ids_of(made: Mapping[str, Any]) -> list[int]:
    return [int(token) for token in made["input_ids"][0]]


def _blank_image(size: _Size) -> Any:
    from PIL import Image as Pillow

    return Pillow.new("RGB", size)


def _difference(recorded: Mapping[str, Any], ours: Mapping[str, Any], within: str = "") -> str:
    """Return the first difference in a key that both have; empty if there is none.

    >>> _difference({"size": {"longest_edge": 112}, "pad": True}, {"size": {"longest_edge": 224}})
    'size.longest_edge 112, not 224'
    """
    for key in sorted(recorded.keys() & ours.keys() - {"image_processor_type", "processor_class"}):
        one, other = recorded[key], ours[key]
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            if why := _difference(one, other, f"{within}{key}."):
                return why
        elif one != other:
            return f"{within}{key} {one!r:.60}, not {other!r:.60}"
    return ""


def _digest_of(folder: Path) -> str:
    """Return the SHA-256 of a processor's files; empty if there is no such folder."""
    digest = hashlib.sha256()
    files = sorted({path for pattern in _FILES for path in folder.glob(pattern)})
    for path in files:
        data = path.read_bytes()
        digest.update(f"{path.name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest() if files else ""


def _ends_of_runs(ids: Sequence[int], token: int) -> list[int]:
    """Return for each run of a token how often the token has occurred up to the run's end.

    >>> _ends_of_runs([7, 7, 1, 7, 7, 7], 7)
    [2, 5]
    """
    found = np.asarray(ids) == token
    ends = found & ~np.append(found[1:], False)
    return [int(count) for count in np.cumsum(found)[ends]]


def _lengths(ends: Sequence[int]) -> str:
    """Return the lengths of runs, for errors."""
    return f"{np.diff(ends, prepend=0).tolist()!r:.100}"


def _size_of(image: Image) -> _Size:
    """Return the size of an image, from its header.

    Raises:
        InvalidInputError: The header cannot be read.
    """
    from PIL import Image as Pillow

    try:
        with Pillow.open(io.BytesIO(image.data)) as header:
            return header.width, header.height
    except Exception as error:  # Pillow's decoders raise anything.
        raise _unreadable(image, type(error).__name__) from error


def open_image(image: Image) -> Any:
    """Return an image as a Pillow image.

    Raises:
        InvalidInputError: The image cannot be read.
    """
    from PIL import Image as Pillow

    try:
        return Pillow.open(io.BytesIO(image.data)).convert("RGB")
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise anything.
        raise _unreadable(image, type(error).__name__) from error


def _unreadable(image: Image, why: str) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"An image of {len(image.data)} bytes is not a PNG, JPEG, WebP or GIF that can be read "
        f"({why})."
    )
