"""Decide whether an answer is right: read both sides as values, and compare the values.

The form of the right answer declares its kind:

| right answer | kind | also right | wrong |
|---|---|---|---|
| `2026-03-02`, `March 2027` | day, month | `2 March 2026`, `2/3/2026` | `3/2/2026`, `2 March` |
| `16:20` | time of day | `4.20 pm`, `16h20` | `4:20` |
| `£42.50`, `1190 g` | number with a unit | `42,50`, `1.19 kg` | `$42.50`, `1190 kg` |
| `42` | number | `forty-two`, `42 tickets`, `#42` | `42?`, `about 42`, `42 or 43` |
| `+44 1632 960784` | telephone number | `+44(0)1632-960784` | another digit |
| `room 3.20`, `0042`, `NC-4545` | identifier | `3.20`, `nc 4545` | `3.2`, `42` |
| anything else | text | case, accents, punctuation, markup | a word more or less |

A number is read as English writes it where that is possible: `1,200` is 1200, `1.200` is 1.2, and
`42,53` and `2.496,66` can only have decimal commas. A date with slashes begins with the day, unless
there is no such month. An answer that hedges, negates or offers a choice is never right.
"""

from __future__ import annotations

import calendar
import dataclasses
import datetime
import functools
import html
import re
import unicodedata
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

__all__ = ["same_answer"]


def same_answer(given: str, wanted: str | tuple[str, ...], *, ordered: bool = False) -> bool:
    """Return whether an answer is right.

    >>> same_answer(" £1,200.50. ", "1200.5"), same_answer("$1,200.50", "£1200.50")
    (True, False)
    >>> same_answer("Noah Keller, emma raman", ("Emma Raman", "Noah Keller"))
    True
    >>> same_answer("5, 4", ("4", "5"), ordered=True)
    False

    Args:
        given: The answer.
        wanted: The right answer, or several. All of them must be given and nothing else, separated
            by commas, semicolons, line breaks, "and" and the like.
        ordered: Whether several answers must be given in this order.
    """
    text = _strip_markup(given)
    if isinstance(wanted, str):  # What looks like markup may belong to the answer: `__init__`.
        return _plain(given) == _plain(wanted) or _same(text, wanted)
    return _lists(text, wanted, ordered=ordered)


# Lists.

_SEPARATOR: Final = re.compile(
    r"[;\n|,&()\[\]]|:\s|\s-\s|(?<!\w)(?:and|at|on)(?!\w)", re.IGNORECASE
)
"""What may separate answers. It may also be part of one, so all readings are tried."""

_LONGER: Final = 80
"""How many characters longer than the right answer an answer may be."""


def _lists(text: str, wanted: Sequence[str], *, ordered: bool) -> bool:
    cuts = [(0, 0), *(found.span() for found in _SEPARATOR.finditer(text)), (len(text), len(text))]

    @functools.cache
    def follows(i: int, left: tuple[str, ...]) -> bool:
        """Return whether the text after a cut consists of exactly the remaining answers."""
        start = cuts[i][1]
        while i + 1 < len(cuts) and not text[start : cuts[i + 1][0]].strip(" ."):
            i, start = i + 1, cuts[i + 1][1]
        if i + 1 >= len(cuts) or not left:
            return i + 1 >= len(cuts) and not left
        for one in dict.fromkeys(left[:1] if ordered else left):
            at = left.index(one)
            rest = left[:at] + left[at + 1 :]
            for j in range(i + 1, len(cuts)):
                part = text[start : cuts[j][0]]
                if len(part) > len(one) + _LONGER:
                    break
                if _same(part, one) and follows(j, rest):
                    return True
        return False

    return follows(0, tuple(wanted))


# Texts.

_SIGNS: Final = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b`\u00b4\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u200b\u2060\ufeff", ""),
        **dict(zip("\u00f8\u00d8\u0142\u0141\u0111\u0110", "oolldd", strict=True)),
    }
)
_EMPHASIS: Final = re.compile(
    r"(?<![\w*])(\*{1,3}|_{1,3}|`{1,3})(?=\S)([^\n]{1,400}?)(?<=\S)\1(?![\w*])"
)
_TAG: Final = re.compile(r"</?(?:b|i|u|em|strong|code|span)(?: [^<>]*)?>", re.IGNORECASE)
_BREAK: Final = re.compile(r"<br ?/?>|</?(?:p|div|li|ul|ol)(?: [^<>]*)?>", re.IGNORECASE)
_LABEL: Final = re.compile(
    r"^\s*(?:the\s+)?(?:final\s+)?answer(?:\s+is\b\s*:?|\s*[:=])\s*", re.IGNORECASE
)


def _strip_markup(text: str) -> str:
    """Return an answer without markup, with plain quotes and dashes, line by line."""
    text = html.unescape(_TAG.sub("", _BREAK.sub("\n", text)))
    text = re.sub(r"^\s*```\w*\n(.*?)\n?```\s*$", r"\1", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\[\]\n]+)\]\(\S{1,400}?\)", r"\1", text)
    text = re.sub(r"^\s*\$?\\boxed\{([^{}]*)\}\$?\s*$", r"\1", text)
    for _ in range(3):
        text = _EMPHASIS.sub(r"\2", text)
    text = _LABEL.sub("", text.translate(_SIGNS))
    lines = [re.sub(r"^\s*(?:#{1,6}|[*+•▪‣◦·])\s+", "", line) for line in text.splitlines()]
    lines = [line for line in lines if line.strip()]
    # One line with a dash may be a negative number.
    item = r"\s*-\s" if len(lines) > 1 else r"\s*-\s(?=[#a-zA-Z])"
    if all(re.match(item, line) for line in lines):
        lines = [line.strip()[2:] for line in lines]
    if len(lines) > 1:
        numbers = [re.match(r"\s*(\d+)[.)]\s", line) for line in lines]
        if [one and int(one[1]) for one in numbers] == list(range(1, len(lines) + 1)):
            lines = [re.sub(r"^\s*\d+[.)]\s", "", line) for line in lines]
    return "\n".join(lines)


@functools.lru_cache(1024)
def _plain(text: str) -> str:
    """Return a text in lower case on one line, without accents and surrounding punctuation."""
    text = re.sub("[\u00b2\u00b3\u00b9\u2070-\u208e]", r"^\g<0>", text.translate(_SIGNS))
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    text = " ".join(text.casefold().split())
    before = None
    while text != before:
        before = text
        text = text.strip(" \"'").rstrip("!,;")
        text = text[:-1] if text.endswith(".") and not text.endswith("..") else text
        for pair in ("[]", "<>"):
            if len(text) > 1 and text[0] + text[-1] == pair:
                text = text[1:-1]
    return text


_TITLES: Final = re.compile(r"^(?:the|mr|mrs|ms|miss|dr)\b\.? (?=.)")


def _words(text: str) -> str:
    """Return a plain text's words, without the punctuation between them."""
    text = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", text.replace("&", " and ").replace("'", ""))
    text = re.sub(r"(?<!\d)[\",;:.]|[\",;:.](?!\d)", " ", text)
    return " ".join(text.split())


def _same(given: str, wanted: str) -> bool:
    """Return whether one answer is right, by the kind of the right answer."""
    said, right = _plain(given), _plain(wanted)
    if said == right:
        return True
    own, bare = _strip_label(said)
    # 1200 is a number, not a time.
    for read in (_day, _time, _phone) if ":" in right else (_day, _phone):
        if value := read(right):
            return value in (read(said), read(bare))
    label, rest = _strip_label(right)
    if (label and re.fullmatch(r"\S*\d\S*", rest)) or re.fullmatch(
        r"0\d+|(?=.*\d)(?=.*[a-z])[a-z\d-]+", right
    ):
        compact = re.sub(r"[ -]", "", bare), re.sub(r"[ -]", "", rest)
        if (own in ("", label) or not label) and compact[0] == compact[1]:
            return True
        if label or right.startswith("0"):
            return False
    if (number := _quantity(right)) is not None:
        found = _quantity(said)
        if number.unit and own not in ("", number.unit) and not _NEUTRAL.fullmatch(own):
            return False
        return found is not None and found.is_(number)
    return _same_text(said, right)


def _same_text(said: str, right: str) -> bool:
    if right.endswith("?"):
        said, right = said.rstrip("?"), right.rstrip("?")
    words = _words(right)
    readings = {said, _strip_label(said)[1]}
    last, comma, first = said.partition(", ")
    if comma and re.fullmatch(r"[^\W\d]+(?: [^\W\d]+){1,2}", right):  # A name: "Raman, Emma".
        readings.add(f"{first} {last}")
    return bool(words) and any(_same_words(_words(one), words) for one in readings)


def _same_words(said: str, right: str) -> bool:
    """Return whether words are the same, apart from a title that one side leaves out."""
    return right in (said, _TITLES.sub("", said)) or said == _TITLES.sub("", right)


_NOUNS: Final = (
    "due date|total amount|total cost|total price|amount|answer|author|badge|balance|build|"
    "component|contract|cost|cupboard|customer|date|day|deck|defect|email|ext|extension|"
    "full name|gate|hotel|invoice|job|mail|milestone|name|nr|number|order|page|person|phone|"
    "price|product|reference|room|server|step|stock|tel|telephone|ticket|time|title|topic|"
    "total|upc|v|version|weight|mailto"
)
"""Nouns that may stand before or after an answer to say what it is."""
_NEUTRAL: Final = re.compile(
    "amount|answer|balance|cost|number|nr|price|stock|time|total(?: amount| cost| price)?|weight"
)
_BEFORE: Final = re.compile(
    rf"(?:the )?({_NOUNS})s?\b(?: ?number\b| id\b|\.? no\b\.?)?[.:]? ?#? ?(?=.)"
)
_AFTER: Final = re.compile(rf"(.+[^,;:]) ({_NOUNS})")


def _strip_label(text: str) -> tuple[str, str]:
    """Split a plain text into a leading noun, its label, and the rest."""
    text = re.sub(r"^(?:#|no\.? ?(?=#?\d))", "", text).strip()
    if found := _BEFORE.match(text) or re.match(r"(v)(?=\d)", text):
        rest = text[found.end() :].strip(" #\"'")
        names = {"ext": "extension", "v": "version"}
        return names.get(found[1], found[1]), rest or text
    if found := _AFTER.fullmatch(text):
        return found[2], found[1].strip()
    return "", text


def _phone(text: str) -> str | None:
    """Return the digits of a telephone number with a country, `+` or `00` before it."""
    text = text.replace("(0)", "")
    if not re.fullmatch(r"(?:\+|00)[\d ()/.-]{7,20}", text):
        return None
    return re.sub(r"\D", "", text).removeprefix("00")


# Days and times.

_MONTH: Final = r"(?P<word>[a-z]{3,9})\.?"
_DAY: Final = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_WEEKDAY: Final = re.compile(r"\b(mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs|ur)?(?:day)?\b\.?")
_DAYS: Final = [
    re.compile(pattern)
    for pattern in (
        r"(?P<y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})",
        r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})",
        r"(?P<d>\d{1,2})([-/.]) ?(?P<m>\d{1,2})\2 ?(?P<y>\d{4}|\d{2})",
        rf"(?:the )?{_DAY}(?: of|[-./])? ?{_MONTH},?[ -/]?(?P<y>\d{{4}})",
        rf"{_MONTH}[ -]?(?:the )?{_DAY}(?:, ?| |-)(?P<y>\d{{4}})",
        rf"(?P<y>\d{{4}}),?[ -]{_MONTH}[ -]{_DAY}",
        rf"{_MONTH},?(?: of)?[ -](?P<y>\d{{4}})",
        rf"(?P<y>\d{{4}}),?[ -]{_MONTH}",
        r"(?P<y>\d{4})[-/](?P<m>\d{1,2})",
        r"(?P<m>\d{1,2})/(?P<y>\d{4})",
    )
]


def _day(text: str) -> tuple[int, int, int] | None:
    """Return year, month and day of a plain text that is a date; the day of a month is 0."""
    text = re.sub(r"^on ", "", text)
    weekday = _WEEKDAY.search(text)
    if weekday:
        text = (text[: weekday.start()] + text[weekday.end() :]).replace("()", "").strip(" ,")
    found = next(filter(None, (pattern.fullmatch(text) for pattern in _DAYS)), None)
    if not found:
        return None
    part = found.groupdict()
    year = int(part["y"]) + (2000 if len(part["y"]) == 2 else 0)
    month, day = int(part.get("m") or 0), int(part.get("d") or 0)
    if word := part.get("word"):
        names = enumerate(calendar.month_name)
        month = next((n for n, name in names if name.lower().startswith(word)), 0)
    if month > 12 >= day > 0 and found.re is _DAYS[2]:
        month, day = day, month
    try:
        date = datetime.date(year, month, day or 1)
    except ValueError:
        return None
    if weekday and (not day or f"{date:%a}".lower() != weekday[1]):
        return None
    return year, month, day


_TIME: Final = re.compile(
    r"(?:at )?(?P<h>\d{1,2})(?:[:.h] ?(?P<m>\d{2})(?::(?P<s>\d{2}))?)?"
    r" ?(?P<half>[ap]\.?m)?\.?(?P<clock> o'?clock)?(?: ?(?:h|hrs|hours|utc|gmt|z))?"
)


def _time(text: str) -> tuple[int, int, int] | None:
    """Return hour, minute and second of a plain text that is a time of day."""
    text = re.sub(r"^12 ?(?=noon|midnight)", "", text)
    if text in ("noon", "midnight", "midday"):
        return (0 if text == "midnight" else 12), 0, 0
    text = re.sub(r"^(\d\d)(\d\d)(?=$| ?h)", r"\1:\2", text)
    found = _TIME.fullmatch(text)
    if not found or not (found["m"] or found["half"] or found["clock"]):
        return None
    hour, minute, second = (int(found[name] or 0) for name in "hms")
    if found["half"]:
        afternoon = found["half"][0] == "p"
        if 0 < hour <= 12:
            hour = hour % 12 + 12 * afternoon
        elif afternoon != (hour > 12):
            return None
    return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


# Numbers and units.

_COUNTED: Final = (
    "answer article badge bill comment customer defect email event hit item like mail member "
    "message order page participant piece point product report review row seat server step ticket "
    "time topic user view vote"
)
_UNITS: Final[dict[str, tuple[str, Fraction]]] = {
    name: (dimension, Fraction(factor))
    for dimension, factor, names in (
        ("EUR", "1", "€ eur euro"),
        ("EUR", "0.01", "cent ct"),
        ("GBP", "1", "£ gbp sterling quid pound"),
        ("GBP", "0.01", "p penny pence"),
        ("USD", "1", "$ us$ usd dollar"),
        ("CHF", "1", "chf franc sfr"),
        ("JPY", "1", "¥ jpy yen"),
        ("mass", "0.001", "mg milligram"),
        ("mass", "1", "g gr gram gramme"),
        ("mass", "1000", "kg kilo kilogram kilogramme"),
        ("mass", "1000000", "t tonne"),
        ("mass", "453.59237", "lb"),
        ("mass", "28.349523125", "oz ounce"),
        ("time", "1", "s sec second"),
        ("time", "60", "min minute"),
        ("time", "3600", "h hr hour"),
        ("time", "86400", "d day"),
        ("time", "604800", "w week"),
        ("months", "1", "month"),
        ("months", "12", "y yr year"),
        ("data", "1", "kb kib kilobyte"),
        ("data", "1024", "mb mib megabyte"),
        ("data", "1048576", "gb gib gigabyte"),
        ("data", "1073741824", "tb tib terabyte"),
        ("rate", "1", "mbps mbit mbit/s megabit"),
        ("rate", "1000", "gbps gbit gbit/s gigabit"),
        ("length", "1", "mm millimetre millimeter"),
        ("length", "10", "cm centimetre centimeter"),
        ("length", "1000", "m metre meter"),
        ("length", "1000000", "km kilometre kilometer"),
        ("share", "1", "% percent"),
        *((noun, "1", noun) for noun in _COUNTED.split()),
        ("person", "1", "person people"),
        ("piece", "1", "pc"),
        ("reply", "1", "reply replies"),
        ("place", "1", "st nd rd th"),
    )
    for name in names.split()
}
"""The dimension of each unit, and its size in it. What is counted is a dimension of its own.

A plural with an s is not listed."""

_NEVER_MEANT: Final = {
    _UNITS[unit] for unit in ("t", "%", "mm", "cm", "m", "km", "kb", "mb", "gb", "tb")
}
"""Units that are wrong if the right answer has none: 5m may be five million."""

_SIGN: Final = r"(?:[-+]|minus\b|plus\b)?"
_MONEY: Final = r"(?:us\$|[£€$¥]|(?:eur|gbp|usd|chf|jpy)(?![a-z]))?"
_DIGITS: Final = re.compile(
    rf"(?P<sign>{_SIGN}) ?(?P<money>{_MONEY}) ?(?P<late>[-+]?)"
    r"(?P<digits>\.?\d(?:[\d.,' ]{0,38}\d)?)\.?"
    r" ?(?P<scale>(?:k|thousand|million|mn)\b)?(?P<rest>.*)"
)
_SCALES: Final = {None: 1, "k": 1000, "thousand": 1000, "million": 10**6, "mn": 10**6}
_PER: Final = re.compile(r" ?(?:/|\bper\b|\ban?\b|\beach\b) ?([a-z]+)$")
_FORMS: Final = (
    (re.compile(r"(?!0\d*,)\d{1,3}(?:,\d{3})+(?:\.\d+)?"), ",", "."),
    (re.compile(r"\d{1,3}(?: \d{3})+(?:[.,]\d+)?"), " ", ","),
    (re.compile(r"\d{1,3}(?:'\d{3})+(?:[.,]\d+)?"), "'", ","),
    (re.compile(r"\d*\.\d+|\d+"), ",", "."),
    (re.compile(r"(?!\d{4,},\d{3}$)\d+,\d+"), ".", ","),
    (re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}"), ".", ","),
)
"""How numbers are written: the form, what groups thousands, what separates decimals."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Quantity:
    """A number, with its unit if it has one."""

    value: Fraction
    unit: str = ""
    per: str = ""

    def is_(self, wanted: _Quantity) -> bool:
        """Return whether it equals the wanted one. A side without a unit gets the other side's."""
        if self.per and self.per != wanted.per:
            return False
        if self.unit and not wanted.unit and _UNITS[self.unit] in _NEVER_MEANT:
            return False
        if not self.unit or not wanted.unit:
            return self.value == wanted.value
        mine, others = _UNITS[self.unit], _UNITS[wanted.unit]
        if self.unit == "pound" and others[0] == "mass":
            mine = _UNITS["lb"]
        return mine[0] == others[0] and self.value * mine[1] == wanted.value * others[1]


@functools.lru_cache(1024)
def _quantity(text: str) -> _Quantity | None:
    """Return the number in a plain text, or None if the text is anything else."""
    text = _strip_label(text)[1] if re.match("[#a-z]", text) else text
    text = text.removeprefix("the ")
    if parts := re.fullmatch(r"(\d+ ?[a-z]+)(?:,? and | |, ?|)(\d+ ?[a-z]+)", text):
        large, small = _one(parts[1]), _one(parts[2])
        if large and small and large.unit and small.unit:
            unit = small.unit
            if unit == "m" and _UNITS[large.unit] == _UNITS["h"]:
                unit = "min"
            (kind, size), (other, part) = _UNITS[large.unit], _UNITS[unit]
            if kind == other and size > part and small.value * part < size:
                return _Quantity(small.value + large.value * size / part, unit)
        return None
    return _one(text)


def _one(text: str) -> _Quantity | None:
    if found := _DIGITS.fullmatch(text):
        if found["sign"] and found["late"]:
            return None
        value = _number(found["digits"])
        is_negative = "-" in (found["sign"], found["late"]) or found["sign"] == "minus"
        rest, money, scale = found["rest"], found["money"], found["scale"]
    else:
        value, rest = _parse_spoken(text)
        is_negative, money, scale = False, "", None
    if value is None:
        return None
    value *= _SCALES[scale] * (-1 if is_negative else 1)
    per, rest = "", rest.replace("per cent", "percent")
    if each := _PER.search(rest):
        rest, per = rest[: each.start()], each[1]
    unit = rest.strip().removesuffix(".").removeprefix("of ")
    if unit in ("pounds sterling", "british pounds"):
        unit = "gbp"
    if unit not in _UNITS:
        unit = re.sub("(?<=[a-z]{2})s$", "", unit)
    if (unit and unit not in _UNITS) or (per and not (unit or money)):
        return None
    if money and unit and _UNITS[unit] != _UNITS[money]:
        return None
    return _Quantity(value, unit or money, per)


def _number(digits: str) -> Fraction | None:
    for form, group, point in _FORMS:
        if form.fullmatch(digits):
            plain = digits.replace(group, "")
            return Fraction(plain.replace(point, "."))
    return None


_CARDINALS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_ORDINALS: Final = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
)
_SMALL: Final = {
    word: number for words in (_CARDINALS, _ORDINALS) for number, word in enumerate(words.split())
}
_TENS: Final = {
    word: 10 * number
    for number, word in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
_DIGIT_SMALL: Final = "|".join(word for word, number in _SMALL.items() if 0 < number < 10)
_BELOW_100: Final = rf"(?:(?:{'|'.join(_TENS)})(?:[ -](?:{_DIGIT_SMALL}))?|{'|'.join(_SMALL)})\b"
_BELOW_1000: Final = rf"{_BELOW_100}(?:[ -]hundred\b(?:(?: and)?[ -]{_BELOW_100})?)?"
_BELOW_MILLION: Final = rf"{_BELOW_1000}(?:[ -]thousand\b(?:(?: and)?[ -]{_BELOW_1000})?)?"
_SPOKEN: Final = re.compile(
    rf"{_BELOW_1000}[ -]million\b(?:(?: and)?[ -]{_BELOW_MILLION})?|{_BELOW_MILLION}"
)


def _parse_spoken(text: str) -> tuple[Fraction | None, str]:
    """Return a number in words at the start of a plain text, and the rest."""
    found = _SPOKEN.match(text)
    if not found:
        return None, text
    total = part = 0
    for word in re.findall("[a-z]+", found[0]):
        if word == "hundred":
            part *= 100
        elif word in ("thousand", "million"):
            total, part = total + part * _SCALES[word], 0
        else:
            part += _SMALL.get(word) or _TENS.get(word, 0)
    return Fraction(total + part), text[found.end() :]
