r"""Detection of secrets, for records, logs, errors, command files and sharing.

* `is_secret_name`: whether a field, header, query parameter or option of this name holds a secret.
* `looks_like_key`: whether a text is a key rather than a word or a dummy such as vLLM's `EMPTY`.
* `find_secrets`: the places of secrets in a text.
* `conceal`, `conceal_data`: text and data without secrets, for errors, logs and command files.
* `use_key`, `KEYS`: the API keys of this process, which no record may hold.

A name is *telling* if any value of it is a secret (`password`, `accessToken`), and a *hint* if its
value is a secret only when it looks like a key (`token`, `sig`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = [
    "HIDDEN",
    "KEYS",
    "KEY_NAME",
    "Secrets",
    "conceal",
    "conceal_data",
    "find_api_keys",
    "find_jwt",
    "find_secrets",
    "is_secret",
    "is_secret_name",
    "looks_like_key",
    "use_key",
]

Span = tuple[int, int]
"""The start and end of something in a text."""

HIDDEN: Final = "<hidden>"
"""The replacement for a secret in messages and command files."""

KEY_NAME: Final = "api-key"
"""The name of this process's API keys in records and errors: `<secret:api-key>`."""

_TELLING = re.compile(
    r"(?:authorization|cookie|apikeys?|(?:access|refresh|id|auth|csrf|xsrf|session|security|bearer"
    r"|private|oauth)token|secret|secret(?:access)?key|(?:private|signing|encryption|subscription)"
    r"key|password|passwd|passphrase|httpcredentials)\Z"
)
_HINTS = re.compile(
    r"(?:token|auth|(?:account|auth|sharedaccess)key|signature|sig|credentials?|sessionid|sid)\Z"
)
_NOT_LETTERS = re.compile(r"[^a-z0-9]+")


def is_secret_name(name: str, *, hints: bool = False) -> bool:
    """Return whether a name belongs to a secret.

    >>> [is_secret_name(name) for name in ("apiKey", "X-Amz-Security-Token", "client_secret")]
    [True, True, True]
    >>> [is_secret_name(name) for name in ("token", "api_key_variable", "max_tokens")]
    [False, False, False]

    Args:
        name: The name of a field, header, query parameter or option, in any style.
        hints: Whether to include names whose values are secrets only if they look like keys.
    """
    plain = _NOT_LETTERS.sub("", name.lower())
    return bool(_TELLING.search(plain) or (hints and _HINTS.search(plain)))


_LEAST_KEY: Final = 12
_LONGEST_KEY: Final = 1024
_LEAST_DIFFERENT: Final = 6
_KEY_TEXT = re.compile(r"[A-Za-z0-9_.~+/=%:-]+")
_WORD_LIKE = re.compile(r"[A-Z]?[a-z]{0,15}[0-9]{0,3}|[A-Z]{1,15}[0-9]{0,3}|[0-9]{1,4}")
_SPACE_IN_KEY = re.compile(r"[_.~+/=%:-]+")


def looks_like_key(text: str) -> bool:
    """Return whether a text looks like a key: long, varied, and not made of words.

    Servers that need no key get dummy keys, which are ordinary words. These words must not be
    replaced in texts.

    >>> [looks_like_key(key) for key in ("sk-proj-8fKz02mQx7Lw", "9f86d081884c7d65")]
    [True, True]
    >>> [looks_like_key(key) for key in ("EMPTY", "token-abc123", "sk-no-key-required", "x" * 40)]
    [False, False, False, False]
    """
    return (
        _LEAST_KEY <= len(text) <= _LONGEST_KEY
        and len(set(text)) >= _LEAST_DIFFERENT
        and _KEY_TEXT.fullmatch(text) is not None
        and not all(_WORD_LIKE.fullmatch(piece) for piece in _SPACE_IN_KEY.split(text))
    )


def is_secret(name: str, value: str) -> bool:
    """Return whether a named value is a secret.

    >>> is_secret("password", "tea"), is_secret("token", "tea"), is_secret("token", "9f86d081884c")
    (True, False, True)
    """
    if not value.strip() or _PLACEHOLDER.fullmatch(value.strip()):
        return False
    return is_secret_name(name) or (is_secret_name(name, hints=True) and looks_like_key(value))


_PLACEHOLDER = re.compile(
    r"<[^<>]{1,100}>|\$\{[^{}]{1,100}\}|\$[A-Z_]{1,100}|[*?.\u2022]+|(?i:none|null|true|false)"
)

# API keys, recognised by their shape.

# Not in the middle of a word, unless that "word" is the end of an escape.
START: Final = (
    r"(?:(?<![^\W_])(?<!%)(?<!%\d)(?<!%[A-Fa-f])(?<!\\)"
    r"|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
)
_PEM = r"(?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY-----"
_API_KEYS = re.compile(
    "|".join(
        (
            START
            + "(?:"
            + "|".join(
                (
                    r"sk-[A-Za-z0-9_-]{20,300}",
                    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,300}",
                    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
                    r"AIza[A-Za-z0-9_-]{35}",
                    r"gh[pousr]_[A-Za-z0-9]{36,255}",
                    r"github_pat_[A-Za-z0-9_]{22,255}",
                    r"glpat-[A-Za-z0-9_-]{20,255}",
                    r"hf_[A-Za-z0-9]{30,100}",
                    r"npm_[A-Za-z0-9]{36}",
                    r"xox[abeprs]-[A-Za-z0-9-]{10,255}",
                )
            )
            + ")",
            r"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{16,4096}={0,2}",
            r"-----BEGIN " + _PEM + r"[^-]{1,20000}-----END " + _PEM,
        )
    )
)
_API_KEY_HINTS = (
    "sk-", "sk_", "rk_", "AKIA", "ASIA", "AIza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
    "github_pat_", "glpat-", "hf_", "npm_", "xox", "earer ", "-----BEGIN",
)  # fmt: skip
_JWT = re.compile(
    r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
    r"eyJ[A-Za-z0-9_-]{8,8000}\.eyJ[A-Za-z0-9_-]{2,8000}\.[A-Za-z0-9_-]{0,2000}"
)


def find_api_keys(text: str) -> Iterator[Span]:
    """Yield the places of keys of well-known services, bearer tokens and PEM private keys."""
    if any(hint in text for hint in _API_KEY_HINTS):
        for match in _API_KEYS.finditer(text):
            yield match.span()


def find_jwt(text: str) -> Iterator[Span]:
    """Yield the places of JSON web tokens."""
    if "eyJ" in text:
        for match in _JWT.finditer(text):
            yield match.span()


# Secrets, recognised by what precedes them.

_STEMS = ("auth", "cookie", "key", "token", "secret", "pass", "sig", "cred", "sid", "sessionid")
_QUOTE = r"(?:\\{0,7}[\"']|&quot;|&#3[49];|%(?:25){0,3}2[27])"
# The end of a name, its closing quotes, and the separator before the value.
_FIELD = re.compile(
    r"(?:token|keys?|secret|passw(?:or)?d|passphrase|auth(?:orization)?|cookie|sig(?:nature)?|sid"
    rf"|credentials?|sessionid)(?P<shut>{_QUOTE})?"
    r"\s{0,5}(?P<sign>=>|[:=>]|%(?:25){0,3}3[ADad]|\\{1,7}u003[ADad]|&#61;)\s{0,5}"
    rf"(?P<open>{_QUOTE})?",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"(?<![\w-])--?(?P<name>[A-Za-z_-]{0,60}(?:token|key|secret|password))\s{1,5}"
    r"(?P<value>[^\s\"'<>]{1,2000})",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z0-9_.-]*\Z")
_LONGEST_NAME = 80
_BARE = re.compile(r"[^\s\"'<>&,;(){}\[\]\\=]{1,2000}+={0,2}")
_LONGEST = 8000
_HEADER = re.compile(
    r"(?:authorization\\{0,7}[\"']?\s{0,5}[:=]\s{0,5}\\{0,7}[\"']?"
    r"(?P<login>(?:bearer|basic|token|negotiate|apikey)\s{1,5}[^\s\"',}\])\\]{1,8000}"
    r"|(?:digest|aws4|signature|hmac)[\w-]{0,40}\s[^\"'\r\n\\]{1,8000})"
    r"|cookie\\{0,7}[\"']?\s{0,5}[:=]\s{0,5}\\{0,7}[\"']?"
    r"(?P<cookie>[\w!#$%&*.^`|~+-]{1,200}=[^\"'\r\n\\]{1,8000}))",
    re.IGNORECASE,
)
_USER_IN_URL = re.compile(
    r"(?:(?<=://)|(?<=:\\/\\/))(?P<user>[^\s/@:\"'<>\\?#]{1,200})(?P<password>:[^\s/@\"'<>\\]{1,200})?@"
)


def find_secrets(text: str) -> Iterator[Span]:
    """Yield the places of secrets in a text: values of fields, headers and URLs, and keys by shape.

    >>> text = 'see http://me:pw@host/?api-key=S and {"accessToken": "abc"}'
    >>> [text[start:end] for start, end in find_secrets(text)]
    ['me:pw', 'S', 'abc']
    """
    found = [*find_api_keys(text), *find_jwt(text)]
    lowered = text.lower()
    if any(stem in lowered for stem in _STEMS):
        if "authorization" in lowered or "cookie" in lowered:
            headers = _HEADER.finditer(text)
            found += (match.span("login" if match["login"] else "cookie") for match in headers)
        found += _fields(text)
        if "-" in text:
            found += (
                option.span("value")
                for option in _OPTION.finditer(text)
                if is_secret_name(option["name"], hints=True) and looks_like_key(option["value"])
            )
    if "@" in text:
        for match in _USER_IN_URL.finditer(text):
            if match["password"] or looks_like_key(match["user"]):
                found.append((match.start("user"), match.end() - 1))
    last = 0
    for start, end in sorted(found, key=lambda span: (span[0], -span[1])):
        if start >= last:
            yield start, end
            last = end


def _fields(text: str) -> Iterator[Span]:
    at = 0
    while (match := _FIELD.search(text, at)) is not None:
        at = match.end("sign")  # The value may be a field itself.
        # Names are recognised by their ends, so escapes before them (`\n`, `%3F`) do not matter.
        end = match.start("shut") if match["shut"] else match.start("sign")
        name = _NAME.search(text[max(0, end - _LONGEST_NAME) : end].rstrip())
        assert name is not None  # It may be empty.
        shown = name[0]
        if shown.lower() == "key" and text[max(0, end - 4) : end - 3] in ("?", "&"):
            shown = "token"  # In a URL: ?key=
        if not is_secret_name(shown, hints=True):
            continue
        span = _value(text, match)
        if span is not None and _holds(match, shown, text[slice(*span)]):
            yield span
            at = span[1]


def _value(text: str, field: re.Match[str]) -> Span | None:
    """Return the place of a field's value: within its quotes, or up to a delimiter."""
    quote, start = field["open"], field.end()
    if quote is None:
        bare = _BARE.match(text, start)
        return None if bare is None else bare.span()
    end = text.find(quote, start, start + _LONGEST)
    while end > start and text[end - 1] == "\\":
        end = text.find(quote, end + 1, start + _LONGEST)
    return (start, end) if end > start else None


def _holds(field: re.Match[str], name: str, value: str) -> bool:
    if not is_secret(name, value):
        return False
    if looks_like_key(value):
        return True
    if field["sign"] in (">", "=>"):
        return False
    # In running text, words follow a telling name: "Password: at least 8 characters".
    if field["sign"] == ":":
        is_identifier = "_" in name or (name[0].islower() and not name.islower())
        return field["open"] is not None and (field["shut"] is not None or is_identifier)
    return field.end("sign") == (field.end() if field["open"] is None else field.start("open"))


# The keys in use by this process.

KEYS: Final[set[str]] = set()
"""The API keys that no record of this process may hold; `use_key` adds to them."""


def use_key(key: str) -> None:
    """Keep an API key out of everything this process records from now on, unless it is a dummy."""
    if looks_like_key(key):
        KEYS.add(key)


def conceal(text: str) -> str:
    """Return a text without secrets, for an error, a log or a terminal.

    >>> conceal("cannot reach http://host/v1?api-key=S")
    'cannot reach http://host/v1?api-key=<hidden>'
    """
    for key in KEYS.copy():  # Another thread may add to them.
        text = text.replace(key, HIDDEN)
    parts, at = [], 0
    for start, end in find_secrets(text):
        parts += [text[at:start], HIDDEN]
        at = end
    return "".join((*parts, text[at:]))


def conceal_data(data: Any, name: str = "") -> Any:
    """Return plain data without secrets, for an error, a log or a terminal.

    >>> conceal_data({"secrets": {"pin": "tea"}, "url": "http://h/?token=x", "password": "tea"})
    {'secrets': {'pin': '<hidden>'}, 'url': 'http://h/?token=x', 'password': '<hidden>'}

    Args:
        data: Mappings, sequences and text; other values are returned unchanged.
        name: The name of the data.
    """
    if isinstance(data, Mapping):
        inside = is_secret_name(name) or name.lower() == "secrets"
        return {key: conceal_data(v, "secrets" if inside else str(key)) for key, v in data.items()}
    if isinstance(data, list | tuple):
        return [conceal_data(item, name) for item in data]
    if isinstance(data, str | bytes):
        shown = data if isinstance(data, str) else data.decode("utf-8", "replace")
        return HIDDEN if name == "secrets" or is_secret(name, shown) else conceal(shown)
    return data


class Secrets(dict[str, str]):
    """Values by name, whose repr shows only the names.

    >>> Secrets(pin="1234")
    {'pin': <hidden>}
    """

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {HIDDEN}" for name in self) + "}"
