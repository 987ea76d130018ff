"""Redaction rules: secrets by their form, from built-in patterns and the user's regexes."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from webtraj import errors
from webtraj.settings import credentials

__all__ = [
    "ELEMENTS",
    "Finder",
    "NAME",
    "PATTERNS",
    "RedactionRules",
    "Span",
    "compile_regex",
    "find_all",
]

# A user's regexes.
#
# Python's own `re` may take exponential time and cannot be stopped. The `regex` package has the
# same syntax and a timeout.

_BAD = "Invalid regex {source!r:.200}: {error}. Use Python's syntax."


@functools.lru_cache(maxsize=256)
def compile_regex(source: str) -> Any:
    """Return a regex, compiled.

    Raises:
        InvalidInputError: It is not a regex.
    """
    import regex

    try:
        return regex.compile(source, regex.VERSION0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise errors.InvalidInputError(_BAD.format(source=source, error=error)) from error


def find_all(source: str, text: str, *, until: float) -> list[tuple[int, int]]:
    """Return the start and end of every match of a regex in a text.

    Args:
        source: The regex.
        text: The text.
        until: The deadline, by `time.monotonic`.

    Raises:
        InvalidInputError: `source` is not a regex.
        TimeoutError: The deadline passed.
    """
    seconds = max(until - time.monotonic(), 1e-3)
    try:
        matches = compile_regex(source).finditer(text, timeout=seconds, concurrent=True)
        return [match.span() for match in matches]
    except TimeoutError:
        raise TimeoutError(
            f"The regex {source!r:.200} timed out on a text of {len(text)} characters."
        ) from None


# Built-in patterns: personal data and credentials with a recognizable form.
#
# Each is a function from a text to the matches in it, in linear time: repeats are bounded or
# possessive, and checksums are checked for the few candidates only. They see text as recorded, so
# that escapes of JSON and URLs may come right before a match (`\n4111...`, `%204111...`).
#
# Each is off unless requested by name (`RedactionRules`), because each has false positives:
#
#     email     an e-mail address, `@` also as `%40`
#     card      a payment card's number: 13 to 19 digits, in groups or not, whose checksum holds
#     iban      an international bank account number whose checksum holds
#     phone     a number in international (`+49 ...`) or North American form, or with a leading 0
#     api_key   credentials (`settings.credentials.find_secrets`): keys of well-known services,
#               private keys in PEM, values of headers, fields and parameters (`access_token`)
#     jwt       a JSON web token
#     ipv4      an address; also matches a version number of four parts
#     ipv6      an address of at least three groups

Span = tuple[int, int]
"""The start and end of a match in a text."""

Finder = Callable[[str], Iterator[Span]]

_START = credentials.START
_END = r"(?![^\W_])"
_GAP = r"(?:[ \u00a0\u2007\u2009\u202f+-]|%20|&nbsp;|\\u00a0|\\xa0)"


def _regex(source: str, hint: str = "", flags: int = 0) -> Finder:
    """Return a finder of a regex in texts that contain `hint`."""
    compiled = re.compile(source, flags)

    def find(text: str) -> Iterator[Span]:
        if hint in text:
            for match in compiled.finditer(text):
                yield match.span()

    return find


_EMAIL = re.compile(
    _START + r"(?:[\w!$'*+^`{|}~.-]|%2[Bb]){1,64}(?:@|%40|&#64;)"
    r"(?:[^\W_](?:[\w-]{0,62})\.){1,8}[^\W\d_](?:[\w-]{1,62})"
)


def _find_email(text: str) -> Iterator[Span]:
    if "@" in text or "%40" in text or "&#64;" in text:
        for match in _EMAIL.finditer(text):
            yield match.span()


_DIGITS = re.compile(_START + rf"(?<!\d\.)\d++(?:{_GAP}\d++)*+")
_GROUP = re.compile(rf"{_GAP}|(\d+)")
_CARD_LENGTHS = range(13, 20)


def _find_card(text: str) -> Iterator[Span]:
    """Yield cards: consecutive groups of digits, 13 to 19 in all, with a valid Luhn checksum."""
    for run in _DIGITS.finditer(text):
        if run.end() - run.start() < _CARD_LENGTHS[0]:
            continue
        groups = [
            match.span()
            for match in _GROUP.finditer(text, run.start(), run.end())
            if match.lastindex
        ]
        yield from _cards_in(text, groups)


def _cards_in(text: str, groups: list[Span]) -> Iterator[Span]:
    first = 0
    while first < len(groups):
        start, digits, found = groups[first][0], "", 0
        for last in range(first, len(groups)):
            digits += text[slice(*groups[last])]
            if len(digits) > _CARD_LENGTHS[-1]:
                break
            ends = not text[groups[last][1] : groups[last][1] + 1].isalnum()
            if ends and len(digits) in _CARD_LENGTHS and digits[0] in "23456" and _luhn(digits):
                found = last + 1
        if found:
            yield start, groups[found - 1][1]
        first = found or first + 1


def _luhn(digits: str) -> bool:
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


_IBAN_LENGTHS: Final[Mapping[str, int]] = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
# In a lookahead, so that a false start does not hide a match inside it.
_IBAN = re.compile(_START + rf"(?=([A-Za-z]{{2}}\d\d(?:{_GAP}?[A-Za-z0-9]){{11,29}}))")
_IBAN_CHARACTER = re.compile(rf"{_GAP}?([A-Za-z0-9])")


def _find_iban(text: str) -> Iterator[Span]:
    end = 0
    for match in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(match[1][:2].upper())
        if length is None or match.start() < end:
            continue
        characters = [m.span(1) for m in _IBAN_CHARACTER.finditer(text, *match.span(1))][:length]
        stop = characters[-1][1]
        if len(characters) == length and not text[stop : stop + 1].isalnum():
            spelt = "".join(text[slice(*character)] for character in characters).upper()
            number = "".join(str(int(character, 36)) for character in spelt[4:] + spelt[:4])
            if int(number) % 97 == 1:
                end = stop
                yield match.start(), end


_DIALLED_GAP = r"[ \u00a0\u202f()./-]{0,3}"
_find_phone = _regex(
    "|".join(
        (
            rf"(?:\+|%2[Bb]|{_START}00)(?=[ (]{{0,2}}[1-9])(?:{_DIALLED_GAP}\d){{8,15}}(?!\d)",
            rf"{_START}(?:\(\d{{3}}\) ?|\d{{3}}[ .-])\d{{3}}[ .-]\d{{4}}{_END}",
            rf"{_START}0[1-9](?:([ .-])\d\d)(?:\1\d\d){{3}}{_END}",
            rf"(?:(?<=\()|{_START})0[1-9]\d{{1,3}}\)?[ /-]{{1,3}}\d(?:[ -]?\d){{4,9}}{_END}",
            rf"{_START}0[1-9]\d{{8,10}}{_END}",
        )
    )
)

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_find_ipv4 = _regex(rf"{_START}(?<!\d\.){_OCTET}(?:\.{_OCTET}){{3}}{_END}(?!\.\d)", ".")

_IPV6 = re.compile(
    _START + r"(?<![_:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,8}(?:\.\d{1,3}){0,3}"
)


def _find_ipv6(text: str) -> Iterator[Span]:
    for match in _IPV6.finditer(text) if ":" in text else ():
        address = match[0]
        if text[match.end() : match.end() + 1].isalnum():
            continue
        if address.endswith(":") and not address.endswith("::"):  # As in "2001:db8::1: no answer".
            address = address[:-1]
        if len([group for group in address.split(":") if group]) < 3:
            continue
        try:
            ipaddress.IPv6Address(address)
        except ValueError:
            continue
        yield match.start(), match.start() + len(address)


PATTERNS: Final[Mapping[str, Finder]] = MappingProxyType(
    {
        "email": _find_email,
        "card": _find_card,
        "iban": _find_iban,
        "phone": _find_phone,
        "api_key": credentials.find_secrets,
        "jwt": credentials.find_jwt,
        "ipv4": _find_ipv4,
        "ipv6": _find_ipv6,
    }
)
"""The built-in patterns by name."""


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Valid names of secrets and rules."""

ELEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "password": "input[type=password], [autocomplete$=current-password],"
        " [autocomplete$=new-password]",
        "one_time_code": "[autocomplete~=one-time-code]",
        "payment": "[autocomplete~=cc-name], [autocomplete~=cc-given-name],"
        " [autocomplete~=cc-family-name], [autocomplete~=cc-additional-name],"
        " [autocomplete~=cc-number], [autocomplete~=cc-csc], [autocomplete~=cc-exp],"
        " [autocomplete~=cc-exp-month], [autocomplete~=cc-exp-year], [autocomplete^=cc-]",
        "contact": "input[type=email], input[type=tel], [autocomplete~=email],"
        " [autocomplete~=tel], [autocomplete~=name], [autocomplete~=street-address],"
        " [autocomplete~=address-line1], [autocomplete~=address-line2],"
        " [autocomplete~=postal-code], [autocomplete~=bday]",
        "marked": "[data-private], [data-sensitive], [data-hj-suppress], [data-sl=mask],"
        " .ph-no-capture, .fs-mask, .fs-exclude, .rr-mask, .rr-block, .sentry-mask, .sentry-block",
    }
)
"""Built-in CSS selectors by name; `marked` is what sites mark as private for session replay."""

_UNKNOWN = "Unknown {kind}: {unknown}. The built-in ones are {known}. Give your own as {own}."
_BAD_NAME = (
    "{name!r:.100} cannot name a rule: expected up to 64 characters from A-Z a-z 0-9 . _ -, "
    "starting with a letter or digit."
)


@dataclasses.dataclass(frozen=True, slots=True)
class RedactionRules:
    r"""Rules for what is recorded as `<secret:name>`, and counted by that name.

    By default there are no rules:

    >>> from webtraj.redaction import Redactor
    >>> rules = RedactionRules(patterns=("email",), regexes={"badge": r"\bB-\d{6}\b"})
    >>> Redactor(rules=rules).redact({"text": "anna@example.com has badge B-123456"})
    {'text': '<secret:email> has badge <secret:badge>'}

    Raises:
        InvalidInputError: A built-in rule is unknown, or a name or regex is invalid.
    """

    patterns: Iterable[str] = ()
    """Names of built-in patterns (see `PATTERNS`)."""
    regexes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The user's regexes by name, in Python's syntax. The `regex` package runs them."""
    elements: Iterable[str] = ()
    """Names of built-in selectors (see `ELEMENTS`), for browser environments."""
    selectors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The user's CSS selectors by name. The whole content of an element is redacted."""
    seconds: float = 1.0
    """The time limit of the user's regexes per text, in seconds. A text that exceeds it is not
    recorded."""

    def __post_init__(self) -> None:
        for field, known, own in (
            ("patterns", PATTERNS, "`regexes`"),
            ("elements", ELEMENTS, "`selectors`"),
        ):
            given = getattr(self, field)
            names = tuple(dict.fromkeys((given,) if isinstance(given, str) else given))
            unknown = [name for name in names if name not in known]
            if unknown:
                raise errors.InvalidInputError(
                    _UNKNOWN.format(kind=field, unknown=unknown, known=", ".join(known), own=own)
                )
            object.__setattr__(self, field, names)
        for field in ("regexes", "selectors"):
            rules = dict(getattr(self, field))
            object.__setattr__(self, field, MappingProxyType(rules))
            for name, rule in rules.items():
                if not isinstance(name, str) or not NAME.fullmatch(name):
                    raise errors.InvalidInputError(_BAD_NAME.format(name=name))
                if not isinstance(rule, str) or not rule.strip():
                    raise errors.InvalidInputError(
                        f"The rule {name!r} in `{field}` is {rule!r:.100}; expected a string."
                    )
        for name, regex in self.regexes.items():
            _check_regex(name, regex)
        if not (isinstance(self.seconds, (int, float)) and 0 < self.seconds <= 60):
            raise errors.InvalidInputError(
                f"seconds={self.seconds!r}: expected a number above 0 and at most 60."
            )

    @classmethod
    def of(cls, value: RedactionRules | Mapping[str, Any] | Iterable[str] | None) -> RedactionRules:
        """Convert `value` to rules.

        Args:
            value: Rules; a mapping of their fields, as in a configuration file; names of built-in
                patterns; or None for no rules.

        Raises:
            InvalidInputError: `value` is not valid.
        """
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            return cls(patterns=value)  # type: ignore[arg-type]
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(str(name) for name in value if name not in known)
        if unknown:
            raise errors.InvalidInputError(
                f"Unknown redaction settings: {', '.join(unknown)}; expected {', '.join(known)}."
            )
        return cls(**value)

    def merge(self, other: RedactionRules) -> RedactionRules:
        """Combine these rules with others.

        Raises:
            InvalidInputError: Both have different rules of the same name.
        """
        for field in ("regexes", "selectors"):
            mine, theirs = getattr(self, field), getattr(other, field)
            for name in mine.keys() & theirs.keys():
                if mine[name] != theirs[name]:
                    raise errors.InvalidInputError(
                        f"Two rules of `{field}` are called {name!r}: {mine[name]!r:.100} and "
                        f"{theirs[name]!r:.100}. Rename one of them."
                    )
        return RedactionRules(
            patterns=(*self.patterns, *other.patterns),
            regexes={**self.regexes, **other.regexes},
            elements=(*self.elements, *other.elements),
            selectors={**self.selectors, **other.selectors},
            seconds=max(self.seconds, other.seconds),
        )

    @property
    def names(self) -> frozenset[str]:
        """The names of its redactions."""
        return frozenset((*self.patterns, *self.regexes, *self.elements, *self.selectors))

    @property
    def selectors_by_name(self) -> dict[str, str]:
        """All CSS selectors, built-in and the user's."""
        return {**{name: ELEMENTS[name] for name in self.elements}, **self.selectors}


def _check_regex(name: str, regex: str) -> None:
    try:
        compiled = re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise errors.InvalidInputError(
            f"The regex {name!r} is invalid: {regex!r:.200}: {error}."
        ) from error
    compile_regex(regex)
    if compiled.match(""):
        raise errors.InvalidInputError(
            f"The regex {name!r} is {regex!r:.200}, which matches the empty string and so is found "
            "everywhere; expected one that matches at least one character."
        )
