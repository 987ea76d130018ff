"""What a row's messages show: text, and images beside the file or within the row."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Text

__all__ = ["completion_of", "messages_of", "picture_of", "shows_images"]

_ROLES = ("system", "user", "assistant")


def messages_of(
    said: Any, images: Iterator[Image], what: str, folder: Path | None
) -> list[Message]:
    """Returns a row's messages; its images are taken one by one, where the messages show them.

    Raises:
        InvalidInputError: They are no messages.
    """
    if not isinstance(said, list):
        raise errors.InvalidInputError(f"{what}: messages is a list; got {said!r:.60}.")
    messages = []
    for position, message in enumerate(said):
        where = f"{what}: message {position}"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise errors.InvalidInputError(
                f"{where} has no role of {', '.join(_ROLES)}: {message!r:.100}."
            )
        content = message.get("content")
        parts = [content] if isinstance(content, str) else content
        if not isinstance(parts, list):
            raise errors.InvalidInputError(
                f"{where}: its content is a text or a list of parts; got {content!r:.60}."
            )
        messages.append(
            Message(message["role"], tuple(_part(part, images, where, folder) for part in parts))
        )
    return messages


def _part(part: Any, images: Iterator[Image], where: str, folder: Path | None) -> Part:
    match part:
        case str():
            return Text(part)
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url)}} if url.startswith("data:"):
            try:
                return Image(base64.b64decode(url.partition(";base64,")[2], validate=True))
            except binascii.Error as error:
                raise errors.InvalidInputError(
                    f"{where}: no data URI in base64: {error}."
                ) from None
        case {"type": "image_url", "image_url": {"url": str(name)}}:
            return Image(picture_of(name, folder, where))
        case {"type": "image"}:
            image = next(images, None)
            if image is None:
                raise errors.InvalidInputError(f"{where} shows an image that `images` lacks.")
            return image
    raise errors.InvalidInputError(f"{where}: a part of text or image is expected: {part!r:.100}.")


def completion_of(said: Any, what: str) -> str | None:
    """Returns a row's reply; None if it has none.

    Raises:
        InvalidInputError: It is neither text nor one message of text.
    """
    match said:
        case None | str():
            return said
        case [{"role": "assistant", "content": str(text)}]:
            return text
        case [{"role": "assistant", "content": [{"type": "text", "text": str(text)}]}]:
            return text
    raise errors.InvalidInputError(
        f"{what}: completion is a text, or a list of one message of the assistant; got "
        f"{said!r:.60}."
    )


def picture_of(name: str, folder: Path | None, what: str) -> bytes:
    """Returns an image that lies beside the file.

    Raises:
        InvalidInputError: It does not, or cannot be read.
    """
    path = None if folder is None else (folder / name).resolve()
    if folder is None or path is None or not path.is_relative_to(folder.resolve()):
        raise errors.InvalidInputError(
            f"{what}: the image {name!r:.200} does not lie beside the file; expected a path in its "
            "folder."
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.InvalidInputError(
            f"{what}: the image {name!r:.200} cannot be read: {error}."
        ) from error


def shows_images(message: Message) -> bool:
    """Returns whether a message has an image."""
    return any(isinstance(part, Image) for part in message.parts)
