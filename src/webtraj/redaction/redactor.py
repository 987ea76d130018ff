"""`Redactor`: removes known secrets from values."""

from __future__ import annotations

import base64
import binascii
import collections
import enum
import functools
import hashlib
import itertools
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar, cast

import numpy as np

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.redaction.rules import NAME, RedactionRules
from webtraj.redaction.searcher import Searcher, plain, spellings
from webtraj.redaction.walker import Visit, Walker
from webtraj.settings import credentials

__all__ = ["DROPPED", "MIN_LENGTH", "PAINTED", "Redactor", "placeholder", "without_keys"]

MIN_LENGTH: Final = 4
"""The minimum length of a secret."""
_MOST_PREFIXES = 64
_DEEPEST = 70
"""Prefixes of a typed secret are searched for up to this length."""

PAINTED: Final = "screenshots_painted"
"""The name under which redacted screenshots are counted."""
DROPPED: Final = "screenshots_dropped"
"""The name under which left-out screenshots are counted: those that could not be painted over."""

_T = TypeVar("_T")
_LOGGER = logging.getLogger(__name__)

_IMAGE_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
"""First bytes of images, which are not searched; no text begins so."""
_IMAGE_TEXT = re.compile(r"(?:/9j/|iVBORw0KGgo)[A-Za-z0-9+/]{200,}={0,2}")
_LEAST_NUMBER = 1_000_000
"""The smallest integer that rules check: token ids and counts are smaller."""
_MOST_BITS = 10_000
"""The longest integer that is searched: Python refuses to print one of more than 4,300 digits."""
_MOST_NUMBERS = 10_000
"""The largest array of numbers that is searched; pictures are larger."""
_IDS = ("episode_id", "group_id", "parent_episode_id", "retry_of")
"""`EpisodeInfo` fields that rules skip: they name files and have a fixed form."""

_BAD_NAME = (
    "{name!r:.100} cannot name a secret: expected up to 64 characters from A-Z a-z 0-9 . _ -, "
    "starting with a letter or digit."
)
_BAD_VALUE = (
    "The secret {name!r} is {what}; expected a string of at least {minimum} characters, not "
    "counting white space. A shorter one would match unrelated text."
)


def placeholder(name: str) -> str:
    """Return the placeholder for a secret in a record.

    >>> placeholder("api-key")
    '<secret:api-key>'
    """
    return f"<secret:{name}>"


class Redactor(Walker):
    """A redactor of known secrets in any value.

    Matching ignores case and covers many spellings of a secret (see `searcher`). A value without
    secrets is returned unchanged, not copied.

    Args:
        secrets: Values by name.
        rules: Further secrets, by their form. (Selectors apply in environments only.)
        placeholders: Further names whose placeholders are kept unchanged, because they were
            redacted earlier.

    Raises:
        InvalidInputError: A name or value is invalid. The message does not contain the value.
    """

    def __init__(
        self,
        secrets: Mapping[str, str] | None = None,
        *,
        rules: RedactionRules | None = None,
        placeholders: Iterable[str] = (),
    ) -> None:
        rules = rules or RedactionRules()
        self._searcher = Searcher(rules)
        self._rule_names = rules.names
        self._kept_names = self._known_names = self._rule_names.union(placeholders)
        self._lines: dict[str, tuple[str, str]] = {}
        self._given: dict[str, str] = {}
        self._name_by_value: dict[str, str] = {}
        self.searches = self._searcher.active
        """Whether there are rules for texts."""
        self.spellings: tuple[str, ...] = ()
        """The spellings to search for, in lower case; empty if none."""
        # Those that contain no other one, for a fast first check of a text.
        self._least_needles: tuple[str, ...] = ()
        self._byte_needles: tuple[bytes, ...] = ()
        self._numbers: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self._bytes_pattern: re.Pattern[bytes] | None = None
        # Typed secrets, spelled letter by letter: patterns and names. Only decisions are searched.
        self._letters: dict[str, tuple[re.Pattern[str], str]] = {}
        self._in_decision = False
        # By group name of the patterns.
        self._names: list[str] = []
        self._images: dict[bytes, Callable[[], bytes]] = {}
        self._counts: collections.Counter[str] = collections.Counter()
        for name, value in (secrets or {}).items():
            _check(name, value)
            self._given[value] = name
        self.forget_learned()

    def learn(self, name: str, value: str) -> bool:
        """Add a secret found during an episode.

        Returns:
            Whether it is searched for from now on; False if it is too short.
        """
        return self.learn_all({value: name}) == 1

    def learn_typed(self, name: str, value: str, *, shown: str = "") -> bool:
        """Add a secret that is typed key by key, including the prefixes that the page sees.

        Args:
            name: The placeholder's name.
            value: The secret.
            shown: What the page showed before. A prefix that is part of it, such as the start of a
                label, reveals nothing about the secret and is not redacted.

        Returns:
            Whether the value is searched for from now on; False if it is too short.
        """
        shown = shown.lower()
        ends = range(MIN_LENGTH, min(len(value), _MOST_PREFIXES))
        prefixes = [value[:end] for end in ends if value[:end].lower() not in shown]
        self.learn_all({value: name, **dict.fromkeys(prefixes, name)})
        if len("".join(value.split())) < MIN_LENGTH:
            return False
        if value not in self._letters and len(value) <= _MOST_PREFIXES:
            known = {
                one: found for one, found in self._letters.items() if not value.startswith(one)
            }
            self._letters = {**known, value: (re.compile(_letters_of(value), re.IGNORECASE), name)}
        return True

    def secrets_in(self, text: str) -> list[tuple[str, str]]:
        """Return the secrets in a text, known or found by rules, each with its name."""
        found = [*self._secrets_in(text), *self._searcher.search(text)]
        return [(text[start:end], name) for start, end, name in found]

    def learn_all(self, name_by_value: Mapping[str, str]) -> int:
        """Add secrets found during an episode.

        Returns:
            The number that are searched for from now on.
        """
        findable = {
            value: name
            for value, name in name_by_value.items()
            if len("".join(value.split())) >= MIN_LENGTH and value != placeholder(name)
        }
        if not findable.keys() <= self._name_by_value.keys():
            self._name_by_value = {**findable, **self._name_by_value}
            self._compile()
        return len(findable)

    def learn_line(self, line: str, redacted: str, name: str) -> None:
        """Replace a whole line of text from now on, wherever it occurs.

        Args:
            line: The line, without white space around it.
            redacted: The line to record instead.
            name: The name for counting.
        """
        self._lines[line] = (redacted, name)

    def forget_learned(self) -> None:
        """Forget learned secrets and screenshots; keep the given secrets."""
        self._images.clear()
        self._lines.clear()
        self._letters.clear()
        if self._name_by_value != self._given:
            self._name_by_value = dict(self._given)
            self._compile()

    def cover_image(self, image: bytes, cover: Callable[[], bytes]) -> None:
        """Replace an image, as bytes or base64, by the result of `cover` from now on.

        Args:
            image: The encoded image.
            cover: Returns the image to record, empty if there is none. Called at most once, when
                the image is about to be recorded.
        """
        self._images[_digest(image)] = cover

    def count(self, name: str) -> None:
        """Count a redaction made outside `redact`."""
        self._counts[name] += 1

    def placeholder_of(self, name: str) -> str:
        """Return the placeholder of a name, and count it as a redaction."""
        self._counts[name] += 1
        return placeholder(name)

    def find(self, text: str) -> Iterator[str]:
        """Yield the parts of a text that match a rule.

        Raises:
            TimeoutError: The user's regexes take too long.
        """
        return self._searcher.pieces(text)

    def take_counts(self) -> dict[str, int]:
        """Return how often each secret, and screenshots, were redacted since the last call."""
        counts, self._counts = dict(self._counts), collections.Counter()
        return counts

    def redact(self, value: Any) -> Any:
        """Return `value` without secrets.

        Searches everything that a `Walker` visits. Any other object is replaced by its redacted
        `repr` if that holds a secret. In decisions and model calls, typed secrets are also found as
        separate letters, such as keys to press. A `ModelCall` with a redaction loses its token ids,
        log-probabilities and raw response, which also spell the secret. Never fails; see
        `Walker.walk`.
        """
        if not (self.spellings or self._images or self._lines or self.searches):
            return value
        return self.walk(value)

    def visit_text(self, text: str) -> str:
        """See `Walker.visit_text`."""
        return self.redact_text(text)

    def redact_text(self, text: str) -> str:
        """Return `text` without secrets."""
        if self._in_decision:
            for pattern, name in self._letters.values():
                if pattern.search(text):
                    text = pattern.sub(self.placeholder_of(name), text)
        if self._lines:
            text = self._redact_lines(text)
        if not self.searches:
            return self._without_secrets(text)
        text = self._without_images(text)
        return self._searcher.replace_matches(
            text,
            self.placeholder_of,
            also=[*self._secrets_in(text), *self._find_disguised(text)],
            known=self._known_names,
        )

    def _without_secrets(self, text: str) -> str:
        if self._may_hold_secrets(text):
            assert self._pattern is not None
            text = self._pattern.sub(self._placeholder_for, text)
        return self._without_images(self._without_disguised(text))

    def _without_disguised(self, text: str) -> str:
        parts, at = [], 0
        for start, end, name in self._find_disguised(text):
            if start >= at:
                parts += [text[at:start], self.placeholder_of(name)]
                at = end
        return "".join((*parts, text[at:])) if parts else text

    def _find_disguised(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the places of secrets written with unusual escapes."""
        if self._pattern is None or not self.spellings or (read := plain(text)) is None:
            return
        for start, end, name in self._secrets_in(read.text):
            first, last = read.origin(start, end)
            yield first, last, name

    def _without_images(self, text: str) -> str:
        if self._images and len(text) > 200:
            text = _IMAGE_TEXT.sub(self._cover_text, text)
        return text

    def _may_hold_secrets(self, text: str) -> bool:
        lowered = text.lower()
        return self._pattern is not None and any(
            needle in lowered for needle in self._least_needles
        )

    def _secrets_in(self, text: str) -> Iterator[tuple[int, int, str]]:
        if self._may_hold_secrets(text):
            assert self._pattern is not None
            for match in self._pattern.finditer(text):
                if match.lastindex is not None:
                    yield (*match.span(), self._names[match.lastindex - 1])

    def _redact_lines(self, text: str) -> str:
        lines = text.split("\n")
        for index, line in enumerate(lines):
            bare = line.strip()
            # Lines of a diff begin with a sign.
            found = self._lines.get(bare) or self._lines.get(bare.lstrip("+-").lstrip())
            if found is not None:
                end = len(line.rstrip())
                start = end - len(bare if bare in self._lines else bare.lstrip("+-").lstrip())
                lines[index] = f"{line[:start]}{found[0]}{line[end:]}"
                self._counts[found[1]] += 1
        return "\n".join(lines)

    def __repr__(self) -> str:
        names = sorted(self._rule_names.union(self._name_by_value.values()))
        return f"{type(self).__name__}({', '.join(names)})"

    def _compile(self) -> None:
        name_by_spelling: dict[str, str] = {}
        for value, name in self._name_by_value.items():
            for spelling in spellings(value):
                name_by_spelling.setdefault(spelling, name)
        self.spellings = tuple({spelling.lower() for spelling in name_by_spelling})
        # A spelling that contains another one of the same secret is redundant.
        least = {needle for value in self._name_by_value for needle in _least(spellings(value))}
        self._least_needles = tuple(least)
        self._byte_needles = tuple(map(_encode, least))
        self._numbers = {v: name for v, name in self._name_by_value.items() if v.isdecimal()}
        lowered: dict[str, str] = {}
        for spelling, name in name_by_spelling.items():
            lower = spelling.lower()  # Some letters become two, which match nothing.
            lowered.setdefault(lower if len(lower) == len(spelling) else spelling, name)
        self._names = []
        found = _any_of(lowered, self._names)
        # Placeholders are kept, even if a secret looks like a part of one.
        self._known_names = self._kept_names.union(self._names)
        known = "|".join(re.escape(name) for name in sorted(self._known_names))
        source = f"<secret:(?:{known})>|{found}" if found else f"<secret:(?:{known})>"
        self._pattern = re.compile(source, re.IGNORECASE)
        self._bytes_pattern = re.compile(_encode(source), re.IGNORECASE)

    def _placeholder_for(self, match: re.Match[str]) -> str:
        if match.lastindex is None:
            return match[0]
        return self.placeholder_of(self._names[match.lastindex - 1])

    def _placeholder_bytes_for(self, match: re.Match[bytes]) -> bytes:
        if match.lastindex is None:
            return match[0]
        return self.placeholder_of(self._names[match.lastindex - 1]).encode()

    def _cover_text(self, match: re.Match[str]) -> str:
        text = match[0]
        try:
            image = base64.b64decode(text + "=" * (-len(text) % 4))
        except binascii.Error:
            return text
        covered = self._cover(image)
        return text if covered is image else base64.b64encode(covered).decode()

    def _cover(self, image: bytes) -> bytes:
        cover = self._images.get(_digest(image)) if self._images else None
        if cover is None:
            return image
        covered = cover()
        self._counts[PAINTED if covered else DROPPED] += 1
        return covered

    def visit_number(self, value: Any) -> Any:
        """See `Walker.visit_number`."""
        known = isinstance(value, int | float | np.integer | np.floating)
        if not known or isinstance(value, bool | enum.Enum):
            return value
        if not (self._numbers or value >= _LEAST_NUMBER):
            return value
        if isinstance(value, int):
            if value.bit_length() > _MOST_BITS:
                return value
        elif not math.isfinite(value) or value != int(value):
            return value
        shown = str(int(value))
        name = self._numbers.get(shown)
        if name is not None:
            return self.placeholder_of(name)
        if value < _LEAST_NUMBER or not self.searches:
            return value
        redacted = self.redact_text(shown)
        return value if redacted == shown else redacted

    def visit_bytes(self, data: bytes) -> bytes:
        """See `Walker.visit_bytes`."""
        if self._images and (covered := self._cover(data)) is not data:
            return covered
        if data.startswith(_IMAGE_MAGIC):
            return data
        lowered = data.lower()
        redacted = data
        if self._bytes_pattern is not None and any(n in lowered for n in self._byte_needles):
            redacted = self._bytes_pattern.sub(self._placeholder_bytes_for, data)
        if self.spellings and (read := self._without_disguised(_text_of(redacted))):
            redacted = read.encode("utf-8", "surrogateescape")
        if self.searches:
            text = redacted.decode("utf-8", "surrogateescape")
            found = self._searcher.replace_matches(
                text, self.placeholder_of, known=self._known_names
            )
            redacted = found.encode("utf-8", "surrogateescape")
        return redacted

    def visit_array(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """See `Walker.visit_array`."""
        if array.dtype.kind in "iuf" and self._numbers and array.size <= _MOST_NUMBERS:
            return None
        return super().visit_array(array)

    def visit_field(self, record: Any, name: str, value: Any, visit: Visit) -> Any:
        """See `Walker.visit_field`."""
        if name in _IDS and isinstance(record, trajectory_lib.EpisodeInfo):
            redacted = self._without_secrets(value)
            return value if redacted == value else redacted
        before = self._in_decision
        self._in_decision |= isinstance(record, trajectory_lib.Decision | trajectory_lib.ModelCall)
        try:
            return self._walk(value, visit)
        finally:
            self._in_decision = before


@functools.lru_cache(maxsize=8)
def _keys_redactor(keys: frozenset[str]) -> Redactor:
    redactor = Redactor()
    redactor.learn_all(dict.fromkeys(sorted(keys), credentials.KEY_NAME))
    return redactor


def without_keys(value: _T) -> _T:
    """Return a value for a record, without the API keys that this process uses.

    Use it on the output of a model or its server only when recording: the agent needs the original.
    """
    if not credentials.KEYS or value is None:
        return value
    return cast("_T", _keys_redactor(frozenset(credentials.KEYS)).redact(value))


def _check(name: Any, value: Any) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise errors.InvalidInputError(_BAD_NAME.format(name=name))
    if not isinstance(value, str):
        what = f"of type {type(value).__name__}"
    elif len("".join(value.split())) < MIN_LENGTH:
        what = "too short"
    else:
        return
    raise errors.InvalidInputError(_BAD_VALUE.format(name=name, what=what, minimum=MIN_LENGTH))


def _any_of(name_by_word: Mapping[str, str], names: list[str], depth: int = 0) -> str:
    """Return a regex that matches the longest of some words. The last group gives its name.

    Words with the same beginning share it, so a secret's prefixes add no cost.

    Args:
        name_by_word: The words, none of them empty.
        names: Receives the name of each group.
        depth: The nesting depth of the regex around it, because `re` limits nesting.
    """
    if depth > _DEEPEST:
        longest_first = sorted(name_by_word, key=len, reverse=True)
        names += [name_by_word[word] for word in longest_first]
        return f"(?:{'|'.join(f'{re.escape(word)}()' for word in longest_first)})"
    parts = []
    for _, group in itertools.groupby(sorted(name_by_word), key=lambda word: word[0]):
        words = list(group)
        alike = itertools.takewhile(
            lambda pair: pair[0] == pair[1], zip(words[0], words[-1], strict=False)
        )
        common = "".join(character for character, _ in alike)
        part = re.escape(common)
        if common in name_by_word:
            names.append(name_by_word[common])
            part += "()"
        longer = {word[len(common) :]: name_by_word[word] for word in words if word != common}
        if longer:
            part += _any_of(longer, names, depth + 1) + "?" * (common in name_by_word)
        parts.append(part)
    return f"(?:{'|'.join(parts)})" if parts else ""


def _letters_of(secret: str) -> str:
    r"""Return a regex for a secret spelled letter by letter, such as in quotes or as keys to press.

    Blanks or punctuation separate the letters, with at most one word in between, such as the name
    of a function. The digits of a number must be in quotes, because a page may show 1 2 3 4.

    >>> found = re.compile(_letters_of("cat5"))
    >>> [bool(found.search(text)) for text in ('["c", "a", "t", "5"]', "c a t 5", "cat 5", "cat5")]
    [True, True, False, False]
    """
    letters = "".join(secret.split())
    quoted = r"(?=[^\w\"'`]{0,8}[\"'`])" if letters.isdecimal() else ""
    parts = [re.escape(letters[0])]
    for letter in letters[1:]:
        # Possessive, and without the next letter, so that a search takes linear time.
        gap = rf"[^\w{re.escape(letter)}]{{1,12}}+" if not letter.isalnum() else r"\W{1,12}+"
        parts.append(rf"{quoted}{gap}(?:\w{{2,12}}+{gap})?{re.escape(letter)}")
    return rf"(?<!\w){''.join(parts)}(?!\w)"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _least(texts: Iterable[str]) -> Iterator[str]:
    lowered = {text.lower() for text in texts}
    for text in lowered:
        if not any(other in text for other in lowered if other != text):
            yield text


def _digest(image: bytes) -> bytes:
    return hashlib.blake2b(image, digest_size=16).digest()
