"""The vocabulary of a dialect as a table: which word says which verb, and with what arguments.

A `Phrase` ties a word of the dialect to a verb. Its arguments tie names on the wire to fields of
the verb, converting units and spellings on the way. Parsing, formatting, schemas and prompts of all
dialects are read off such tables; what remains for a dialect is its syntax.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.environments.actions.base import Action, summary_of
from webtraj.environments.actions.dialects.arguments import Argument, Json, default_of
from webtraj.environments.actions.dialects.base import FormatError, ParseError, named

__all__ = ["Phrase", "Phrasebook", "PhrasebookDialect"]


@dataclasses.dataclass(frozen=True, slots=True)
class Phrase:
    """One way of saying a verb."""

    word: str
    """The dialect's word for it."""
    action: type[Action]
    """The verb."""
    arguments: tuple[Argument, ...] = ()
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the word itself says of the verb: `dblclick` says `count=2`."""
    wire: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Wire values that tell this phrase from others of the word. A false one may be left out."""
    spoken: bool = True
    """Whether it is written, or only read."""
    meaning: str = ""
    """What it does, in a line, where that is more than the verb's own summary."""

    @property
    def names(self) -> tuple[str, ...]:
        """All wire names, in order."""
        return (*(name for argument in self.arguments for name in argument.names), *self.wire)

    @property
    def optional(self) -> frozenset[str]:
        """The wire names that may be left out."""
        constants = frozenset(name for name, constant in self.wire.items() if not constant)
        return constants.union(*(argument.optional for argument in self.arguments))

    @property
    def required(self) -> frozenset[str]:
        """The wire names that may not be left out."""
        return frozenset(self.names) - self.optional

    @property
    def summary(self) -> str:
        """What it says, in a line: the verb's docstring and what the word adds."""
        if self.meaning:
            return self.meaning
        added = ", ".join(
            f"{field}={said!r}"
            for field, said in self.fields.items()
            if said != default_of(self.action, field)
        )
        return f"{summary_of(self.action)} ({added})" if added else summary_of(self.action)

    def fits(self, args: Mapping[str, Any]) -> bool:
        """Returns whether the arguments are this phrase's, whatever their values."""
        return args.keys() <= set(self.names) and all(
            args[name] == constant if name in args else not constant
            for name, constant in self.wire.items()
        )

    def read(self, args: Mapping[str, Any]) -> Action:
        """Returns the action that the arguments say; raises `ParseError`."""
        if surplus := [name for name in args if name not in self.names]:
            raise ParseError("bad_arguments", f"{self._usage()}; {surplus[0]!r} is none of them.")
        if missing := [name for name in self.names if name in self.required - args.keys()]:
            raise ParseError("bad_arguments", f"{self._usage()}; {missing[0]!r} is missing.")
        for name, constant in self.wire.items():
            if args.get(name, constant) != constant:
                raise ParseError(
                    "bad_arguments", f"{self.word}: {name} cannot be {named(args[name])}."
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
        """Returns the arguments that say the action; raises `FormatError`."""
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
        """Returns the JSON Schema of the arguments."""
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


@dataclasses.dataclass(frozen=True, slots=True)
class Phrasebook:
    """All phrases of a dialect."""

    dialect: str
    phrases: tuple[Phrase, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The dialect's words, each once, in order."""
        return tuple(dict.fromkeys(phrase.word for phrase in self.phrases))

    @property
    def verbs(self) -> tuple[type[Action], ...]:
        """The verbs that can be said, each once, in order."""
        return tuple(dict.fromkeys(phrase.action for phrase in self.phrases if phrase.spoken))

    def of(self, word: str) -> tuple[Phrase, ...]:
        """Returns the phrases of a word; none if it is unknown."""
        return tuple(phrase for phrase in self.phrases if phrase.word == word)

    def read(self, word: Any, args: Mapping[str, Any]) -> Action:
        """Returns the action that a word says with its arguments; raises `ParseError`."""
        phrases = self.of(word) if isinstance(word, str) else ()
        if not phrases:
            raise ParseError(
                "unknown_action",
                f"{named(word)} is no action; the actions are {', '.join(self.words)}.",
            )
        fitting = [phrase for phrase in phrases if phrase.fits(args)]
        complete = [phrase for phrase in fitting if phrase.required <= args.keys()]
        return (complete or fitting or phrases)[0].read(args)

    def write(self, action: Action) -> tuple[str, Json]:
        """Returns a word and its arguments that say the action.

        Raises:
          UnsupportedActionError: If no phrase can say it.
        """
        obstacles = []
        for phrase in self.phrases:
            if phrase.spoken and phrase.action is type(action):
                try:
                    return phrase.word, phrase.write(action)
                except FormatError as obstacle:
                    obstacles.append(f"{phrase.word} cannot say {obstacle}")
        reason = "; ".join(obstacles) or "it has no word for this verb"
        raise errors.UnsupportedActionError(
            f"The dialect {self.dialect!r} cannot say {type(action).__name__}: {reason}. "
            f"It has words for {', '.join(verb.__name__ for verb in self.verbs)}."
        )

    def names(self, word: str) -> tuple[str, ...]:
        """Returns the wire names that a word takes, in order; none if it is unknown."""
        return tuple(dict.fromkeys(name for phrase in self.of(word) for name in phrase.names))

    def summary(self, word: str) -> str:
        """Returns what a word does, in a line: the summaries of what it says."""
        phrases = self.of(word)
        lines = [phrase.summary for phrase in phrases if phrase.spoken or len(phrases) == 1]
        return " Or: ".join(dict.fromkeys(lines))

    def arguments(self, word: str) -> Json:
        """Returns the JSON Schema of all that a word takes, in whichever of its phrases."""
        phrases = self.of(word)
        return {
            "type": "object",
            "properties": _merged([phrase.schema()["properties"] for phrase in phrases]),
            "required": [
                name
                for name in self.names(word)
                if all(name in phrase.required for phrase in phrases)
            ],
            "additionalProperties": False,
        }

    def schema(self, word_key: str) -> Json:
        """Returns the JSON Schema of an object that holds a word and its arguments side by side."""
        options = []
        for phrase in self.phrases:
            schema = phrase.schema()
            schema["properties"] = {word_key: {"const": phrase.word}, **schema["properties"]}
            schema["required"] = [word_key, *schema["required"]]
            options.append({"description": phrase.summary, **schema})
        return {"oneOf": options}

    def flat_schema(self, word_key: str) -> Json:
        """Returns `schema` as one object with all arguments side by side, as tool calls have it."""
        meanings = [f"* `{word}`: {self.summary(word)}" for word in self.words]
        words = {
            "type": "string",
            "description": "\n".join(["The action to perform:", *meanings]),
            "enum": list(self.words),
        }
        properties = _merged([self.arguments(word)["properties"] for word in self.words])
        for name, schema in properties.items():
            users = [word for word in self.words if name in self.names(word)]
            properties[name] = {**schema, "description": f"For {', '.join(users)}."}
        return {
            "type": "object",
            "properties": {word_key: words, **properties},
            "required": [word_key],
        }


def _merged(options: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Returns the union of several objects' properties; those that differ take any value."""
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
    """What a dialect reads off its phrasebook, whatever its syntax."""

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
