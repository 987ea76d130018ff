"""A dialect's vocabulary as a table: the word and arguments for each verb.

The parser, formatter, tool schema and prompt all come from this table.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from webtraj import errors
from webtraj.environments.actions.base import VERBS, Action, example_of, summary_of
from webtraj.environments.actions.verbs import InvalidAction

__all__ = [
    "Argument",
    "Dialect",
    "FormatError",
    "MAX_REPLY",
    "ParseError",
    "Phrase",
    "Phrasebook",
    "PhrasebookDialect",
    "call_prompt",
    "default_of",
    "group",
    "input_prompt",
    "invalid",
    "show_value",
    "one_tool",
    "tool_call_prompt",
    "value",
]

# The interface of dialects, and their errors.

MAX_REPLY = 1_250_000
"""The longest reply that is parsed, in characters: the longest text, fully escaped."""

_MAX_QUOTED = 2_000


@runtime_checkable
class Dialect(Protocol):
    """A format for actions in a model's output."""

    name: str
    """The dialect's name, such as `browsergym`."""

    @property
    def verbs(self) -> tuple[type[Action], ...]:
        """The verbs that it can express, at least in some cases."""

    def words(self, verb: type[Action]) -> tuple[str, ...]:
        """Return the words for a verb; empty if there are none."""

    def parse(self, reply: Any) -> Action:
        """Parse a model's reply as one action.

        Never raises on a model's text and never guesses: a reply without exactly one action in the
        dialect's grammar is an `InvalidAction`, with the reason.
        """

    def format(self, action: Action) -> Any:
        """Format an action in the dialect.

        `parse(format(action))` is the same action, with coordinates rounded to the dialect's grid.

        Raises:
          UnsupportedActionError: The dialect cannot express it.
        """

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of one action in its structured form."""

    def tools(self) -> list[dict[str, Any]]:
        """Return the tool definitions to offer to a model; empty if the dialect is plain text."""

    def prompt(self) -> str:
        """Return the text that tells a model how to act."""


class ParseError(Exception):
    """A reply that cannot be parsed. It becomes an `InvalidAction`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class FormatError(Exception):
    """An action that one phrase cannot express. Another phrase may."""


def invalid(kind: str, reason: str, reply: Any) -> InvalidAction:
    """Return the `InvalidAction` for a reply, with a shortened quote of it."""
    text = reply[: _MAX_QUOTED + 1] if isinstance(reply, str) else _repr(reply)
    if len(text) > _MAX_QUOTED:
        text = f"{text[:_MAX_QUOTED]}..."
    return InvalidAction(_storable(reason), _storable(text), kind)


def show_value(wire: Any) -> str:
    """Return a model's value for display in a message."""
    return repr(wire[:60]) if isinstance(wire, str) else f"a {type(wire).__name__}"


def one_tool(dialect: str, tool: str, tools: Mapping[str, Any]) -> str:
    """Return a dialect's tool by its type. An empty type means the first.

    Raises:
      InvalidInputError: The dialect has no such tool.
    """
    if tool and tool not in tools:
        raise errors.InvalidInputError(
            f"The dialect {dialect!r} has no tool {tool!r:.60}; expected one of {', '.join(tools)}."
        )
    return tool or next(iter(tools))


def _repr(reply: Any) -> str:
    try:
        return repr(reply)
    except RecursionError:
        return f"<a deeply nested {type(reply).__name__}>"


def _storable(text: str) -> str:
    # A model's JSON can hold lone surrogates, which no file format accepts.
    return text.encode(errors="replace").decode()


# Arguments: the mapping between a dialect's wire names and a verb's fields.
#
# Most are one field in other units or spelling (`value`). Some fields need several names, as two
# distances need a direction and an amount (`group`).

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """Wire names that together express some fields of a verb."""

    names: tuple[str, ...]
    """Wire names, in the order of the dialect's signature."""
    fields: tuple[str, ...]
    """The fields that they express."""
    read: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Converts wire values to field values. Raises ValueError on invalid values."""
    write: Callable[[Action], Mapping[str, Any]]
    """Converts an action to wire values, without defaults. Raises `FormatError`."""
    schemas: Callable[[type[Action]], Mapping[str, Json]]
    """The JSON Schema of each wire name."""
    optional: frozenset[str] = frozenset()
    """The wire names that may be left out."""


def value(
    name: str,
    field: str | None = None,
    *,
    read: Callable[[Any], Any] = lambda wire: wire,
    write: Callable[[Any], Any] = lambda held: held,
    schema: Json | None = None,
    optional: bool = False,
) -> Argument:
    """Return the argument that maps one name on the wire to one field, by default of the same name.

    Args:
      name: The name on the wire.
      field: The field's name.
      read: Converts the wire value to the field's. Raises ValueError on invalid values.
      write: Converts the field's value to the wire's.
      schema: JSON Schema of the wire value, if it differs from the field's.
      optional: Whether the argument may be omitted. `write` omits it if the field has its default.
    """
    held = field or name

    def write_field(action: Action) -> Mapping[str, Any]:
        current = getattr(action, held)
        if optional and current == default_of(type(action), held):
            return {}
        if current is None:
            raise FormatError(f"{held}=None")
        return {name: plain(write(current))}

    return Argument(
        names=(name,),
        fields=(held,),
        read=lambda args: {held: read(args[name])} if name in args else {},
        write=write_field,
        schemas=lambda cls: {name: schema or cls.rules[held].schema()},
        optional=frozenset((name,)) if optional else frozenset(),
    )


def group(
    schemas: Mapping[str, Json],
    fields: Sequence[str],
    *,
    read: Callable[..., Mapping[str, Any]],
    write: Callable[..., Mapping[str, Any]],
) -> Argument:
    """Return an argument that maps several names on the wire to several fields. All are required.

    Args:
      schemas: The wire names and the JSON Schema of each.
      fields: The names of the fields.
      read: Called with the wire values in order; returns the fields.
      write: Called with the fields in order; returns the wire values. Raises `FormatError`.
    """
    return Argument(
        names=tuple(schemas),
        fields=tuple(fields),
        read=lambda args: read(*(args[name] for name in schemas)),
        write=lambda action: write(*(getattr(action, field) for field in fields)),
        schemas=lambda _: schemas,
    )


def default_of(cls: type[Action], field: str) -> Any:
    """Return a field's default; `dataclasses.MISSING` if it has none."""
    return cls.__dataclass_fields__[field].default  # type: ignore[attr-defined]


def plain(wire: Any) -> Any:
    """Return a value with tuples turned into lists, as in JSON."""
    return [plain(item) for item in wire] if isinstance(wire, (list, tuple)) else wire


@dataclasses.dataclass(frozen=True)
class Phrase:
    """One way to express a verb."""

    word: str
    """The dialect's word for it."""
    action: type[Action]
    """The verb."""
    arguments: tuple[Argument, ...] = ()
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields that the word implies: `dblclick` implies `count=2`."""
    wire: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Wire values that identify this phrase among those of the word. False ones may be omitted."""
    spoken: bool = True
    """Whether it is also written, not only read."""
    meaning: str = ""
    """A one-line description, if it adds to the verb's summary."""

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """All wire names, in order."""
        return (*(name for argument in self.arguments for name in argument.names), *self.wire)

    @functools.cached_property
    def optional(self) -> frozenset[str]:
        """The wire names that may be left out."""
        constants = frozenset(name for name, constant in self.wire.items() if not constant)
        return constants.union(*(argument.optional for argument in self.arguments))

    @functools.cached_property
    def required(self) -> frozenset[str]:
        """The wire names that may not be left out."""
        return frozenset(self.names) - self.optional

    @property
    def summary(self) -> str:
        """A one-line description: the verb's docstring and what the word adds."""
        if self.meaning:
            return self.meaning
        added = ", ".join(
            f"{field}={said!r}"
            for field, said in self.fields.items()
            if said != default_of(self.action, field)
        )
        return f"{summary_of(self.action)} ({added})" if added else summary_of(self.action)

    def fits(self, args: Mapping[str, Any]) -> bool:
        """Return whether the argument names fit this phrase."""
        return args.keys() <= set(self.names) and all(
            args[name] == constant if name in args else not constant
            for name, constant in self.wire.items()
        )

    def read(self, args: Mapping[str, Any]) -> Action:
        """Return the action that the arguments express, or raise `ParseError`."""
        if not args.keys() <= set(self.names):
            surplus = next(name for name in args if name not in self.names)
            raise ParseError("bad_arguments", f"{self._usage()}; {surplus!r} is none of them.")
        if missing := self.required - args.keys():
            first = min(missing, key=self.names.index)
            raise ParseError("bad_arguments", f"{self._usage()}; {first!r} is missing.")
        for name, constant in self.wire.items():
            if args.get(name, constant) != constant:
                raise ParseError(
                    "bad_arguments", f"{self.word}: {name} cannot be {show_value(args[name])}."
                )
        fields: dict[str, Any] = dict(self.fields)
        try:
            for argument in self.arguments:
                fields.update(argument.read(args))
            return self.action(**fields)
        except RecursionError:
            raise ParseError("bad_arguments", f"{self.word}: nested too deeply.") from None
        except (ValueError, OverflowError) as error:
            reason = str(error).rstrip(".")
            raise ParseError("bad_arguments", f"{self.word}: {reason}.") from None

    def write(self, action: Action) -> Json:
        """Return the arguments that express the action, or raise `FormatError`."""
        said = {field for argument in self.arguments for field in argument.fields}
        for field in action.rules:
            current = getattr(action, field)
            if field in self.fields:
                if current != self.fields[field]:
                    raise FormatError(f"{field}={current!r}")
            elif field not in said and current != default_of(type(action), field):
                raise FormatError(f"{field}={current!r}")
        args: Json = {name: constant for name, constant in self.wire.items() if constant}
        written = [argument.write(action) for argument in self.arguments]
        return {name: wire for part in written for name, wire in part.items()} | args

    def schema(self) -> Json:
        """Return the JSON Schema of the arguments."""
        properties: Json = {name: _constant(constant) for name, constant in self.wire.items()}
        for argument in self.arguments:
            properties.update(argument.schemas(self.action))
        return {
            "type": "object",
            "properties": {name: properties[name] for name in self.names},
            "required": [name for name in self.names if name in self.required],
            "additionalProperties": False,
        }

    def _usage(self) -> str:
        return f"{self.word} takes ({', '.join(self.names)})"


class Phrasebook:
    """All phrases of a dialect."""

    def __init__(self, dialect: str, phrases: tuple[Phrase, ...]) -> None:
        self.dialect = dialect
        self.phrases = phrases
        by_word: dict[str, list[Phrase]] = {}
        for phrase in phrases:
            by_word.setdefault(phrase.word, []).append(phrase)
        self.by_word = by_word
        """The phrases of each word, in order."""

    @property
    def words(self) -> tuple[str, ...]:
        """The dialect's words, each once, in order."""
        return tuple(self.by_word)

    @property
    def verbs(self) -> tuple[type[Action], ...]:
        """The verbs that can be expressed, each once, in order."""
        return tuple(dict.fromkeys(phrase.action for phrase in self.phrases if phrase.spoken))

    def read(self, word: Any, args: Mapping[str, Any]) -> Action:
        """Return the action of a word with its arguments, or raise `ParseError`."""
        phrases = self.by_word.get(word) if isinstance(word, str) else None
        if not phrases:
            raise ParseError(
                "unknown_action",
                f"{show_value(word)} is not an action; the actions are {', '.join(self.words)}.",
            )
        fitting = [phrase for phrase in phrases if phrase.fits(args)]
        complete = [phrase for phrase in fitting if phrase.required <= args.keys()]
        return (complete or fitting or phrases)[0].read(args)

    def write(self, action: Action) -> tuple[str, Json]:
        """Return a word and arguments that express the action.

        Raises:
          UnsupportedActionError: No phrase can express it.
        """
        obstacles = []
        for phrase in self.phrases:
            if phrase.spoken and phrase.action is type(action):
                try:
                    return phrase.word, phrase.write(action)
                except FormatError as obstacle:
                    obstacles.append(f"{phrase.word} cannot express {obstacle}")
        reason = "; ".join(obstacles) or "it has no word for this verb"
        raise errors.UnsupportedActionError(
            f"The dialect {self.dialect!r} cannot express {type(action).__name__}: {reason}. "
            f"It has words for {', '.join(verb.__name__ for verb in self.verbs)}."
        )

    def names(self, word: str) -> tuple[str, ...]:
        """Return the wire names of a word, in order; empty if it is unknown."""
        phrases = self.by_word.get(word, ())
        return tuple(dict.fromkeys(itertools.chain(*[phrase.names for phrase in phrases])))

    def summary(self, word: str) -> str:
        """Return a one-line description of a word: the summaries of its phrases."""
        phrases = self.by_word[word]
        lines = [phrase.summary for phrase in phrases if phrase.spoken or len(phrases) == 1]
        return " Or: ".join(dict.fromkeys(lines))

    def arguments(self, word: str) -> Json:
        """Return the JSON Schema of all arguments of a word, over all its phrases."""
        phrases = self.by_word[word]
        return {
            "type": "object",
            "properties": _merge_properties([phrase.schema()["properties"] for phrase in phrases]),
            "required": [
                name
                for name in self.names(word)
                if all(name in phrase.required for phrase in phrases)
            ],
            "additionalProperties": False,
        }

    def schema(self, word_key: str) -> Json:
        """Return the JSON Schema of an object that holds a word and its arguments side by side."""
        options = []
        for phrase in self.phrases:
            schema = phrase.schema()
            schema["properties"] = {word_key: {"const": phrase.word}, **schema["properties"]}
            schema["required"] = [word_key, *schema["required"]]
            options.append({"description": phrase.summary, **schema})
        return {"oneOf": options}

    def flat_schema(self, word_key: str) -> Json:
        """Return `schema` as one object with all arguments side by side, as in tool calls."""
        meanings = [f"* `{word}`: {self.summary(word)}" for word in self.words]
        words = {
            "type": "string",
            "description": "\n".join(["The action to perform:", *meanings]),
            "enum": list(self.words),
        }
        properties = _merge_properties([self.arguments(word)["properties"] for word in self.words])
        for name, schema in properties.items():
            users = [word for word in self.words if name in self.names(word)]
            properties[name] = {**schema, "description": f"For {', '.join(users)}."}
        return {
            "type": "object",
            "properties": {word_key: words, **properties},
            "required": [word_key],
        }


def _merge_properties(options: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return the union of several objects' properties. A property that differs takes any value."""
    merged: dict[str, Json] = {}
    for properties in options:
        for name, schema in properties.items():
            known = merged.setdefault(name, schema)
            if "enum" in known and "enum" in schema:
                enum = list(dict.fromkeys([*known["enum"], *schema["enum"]]))
                merged[name] = {**known, "enum": enum}
                if enum == [False, True]:
                    merged[name] = {"type": "boolean"}
            elif known != schema:
                merged[name] = {key: known[key] for key in known if schema.get(key) == known[key]}
    return merged


def _constant(constant: Any) -> Json:
    if isinstance(constant, bool):
        return {"type": "boolean", "enum": [constant]}
    return {"type": "string", "enum": [constant]}


class PhrasebookDialect:
    """The part of a dialect that depends only on its phrasebook, not on its syntax."""

    def __init__(self, name: str, phrases: tuple[Phrase, ...]) -> None:
        self.name = name
        self._book = Phrasebook(name, phrases)

    @property
    def verbs(self) -> tuple[type[Action], ...]:
        """See `Dialect.verbs`."""
        return self._book.verbs

    def words(self, verb: type[Action]) -> tuple[str, ...]:
        """See `Dialect.words`."""
        said = [phrase for phrase in self._book.phrases if phrase.spoken]
        return tuple(dict.fromkeys(phrase.word for phrase in said if phrase.action is verb))


class ObjectDialect(PhrasebookDialect):
    """A dialect of JSON objects that name the verb under one key, like those of computer tools.

    Args:
        name: The dialect.
        phrases: The phrases.
        word_key: The key of the verb.
        call: The `type` of the item in a reply that holds the object.
    """

    def __init__(self, name: str, phrases: tuple[Phrase, ...], *, word_key: str, call: str) -> None:
        super().__init__(name, phrases)
        self._word_key = word_key
        self._call = call

    def format(self, action: Action) -> dict[str, Any]:
        """See `Dialect.format`. Returns the object."""
        word, args = self._book.write(action)
        return {self._word_key: word, **args}

    def schema(self) -> dict[str, Any]:
        """See `Dialect.schema`."""
        return self._book.schema(self._word_key)

    def prompt(self) -> str:
        """See `Dialect.prompt`."""
        return input_prompt(self._book, self._word_key)

    def _object_in(self, reply: Any) -> Mapping[Any, Any]:
        """Return a reply if it is an object; if it is a list of items, return its only call."""
        if isinstance(reply, (list, tuple)):
            items = [item for item in reply if isinstance(item, Mapping)]
            calls = [item for item in items if item.get("type") == self._call]
            if len(calls) != 1:
                kind = "several_actions" if calls else "no_action"
                raise ParseError(kind, f"One {self._call} was expected; got {len(calls)}.")
            reply = calls[0]
        if not isinstance(reply, Mapping):
            raise ParseError("malformed", f"An object was expected; got a {type(reply).__name__}.")
        return reply


# Prompt texts, written from the vocabulary and the docstrings of the verbs.

_TYPES = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"}


def call_prompt(book: Phrasebook) -> str:
    """Return the prompt of a dialect of calls: the signature, meaning and examples of each word."""
    lines = [
        f"{len(book.words)} actions are available:",
        "",
    ]
    for word in book.words:
        lines.append(f"{word}({_signature(book.arguments(word))})")
        lines.append(f"    {book.summary(word)}")
        lines.extend(f"    Example: {example}" for example in _examples().get(word, ()))
    lines += [
        "",
        "Reply with exactly one of these calls, on a line of its own, with literal arguments.",
    ]
    return "\n".join(lines)


def tool_call_prompt(tool: dict[str, Any]) -> str:
    """Return the prompt of a dialect of `<tool_call>` JSON, in the manner of Qwen's template."""
    return (
        "You have one tool:\n"
        f"<tools>\n{json.dumps(tool)}\n</tools>\n\n"
        "Reply with exactly one call of it, as JSON with its name and arguments:\n"
        "<tool_call>\n"
        f'{{"name": "{tool["name"]}", "arguments": {{"action": ...}}}}\n'
        "</tool_call>"
    )


def input_prompt(book: Phrasebook, word_key: str) -> str:
    """Return the prompt of a dialect of JSON objects, for models without the tool built in."""
    schema = book.flat_schema(word_key)
    return f"Reply with exactly one JSON object, which follows this schema:\n{json.dumps(schema)}"


def _signature(schema: dict[str, Any]) -> str:
    parts = []
    for name, property_ in schema["properties"].items():
        default = "" if name in schema["required"] else " = ..."
        parts.append(f"{name}: {_type_name(property_)}{default}")
    return ", ".join(parts)


def _type_name(schema: dict[str, Any]) -> str:
    if schema["type"] == "array":
        return f"list[{_type_name(schema['items'])}]"
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    return _TYPES[schema["type"]]


@functools.cache
def _examples() -> dict[str, list[str]]:
    examples: dict[str, list[str]] = {}
    for verb in VERBS.values():
        if example := example_of(verb):
            examples.setdefault(example.partition("(")[0], []).append(example)
    return examples
