"""BrowserGym's dialect: calls such as `click('12', button='left')`.

The words are those of BrowserGym's high-level action set, `check` and `uncheck` among them, with
its argument names and units. `BrowserGymDialect(extended=True)`, webtraj's default, adds words for
the verbs that BrowserGym lacks, so that every action can be said; `extended=False` writes only what
BrowserGym itself runs.

A reply may hold text around the action. The action is what stands in `<action>` tags, else in a
code fence, else the calls that stand on lines of their own, after a label such as `Action:` at
most. A call inside a sentence is not taken: the sentence may say not to do it.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Collection, Mapping
from typing import Any

from webtraj import errors
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.dialects import replies
from webtraj.environments.actions.dialects.base import MAX_REPLY, ParseError, invalid
from webtraj.environments.actions.dialects.browsergym_words import BROWSERGYM, EXTENSIONS
from webtraj.environments.actions.dialects.calls import Call, read_calls, write_call
from webtraj.environments.actions.dialects.phrases import PhrasebookDialect
from webtraj.environments.actions.dialects.prompts import call_prompt

__all__ = ["DEFAULT", "BrowserGymDialect", "format_action", "parse_action"]


_LABEL = re.compile(
    r"^\s*(?:[-*]\s+)?(?:\*\*)?(?:next |my |the )?action(?:\*\*)?:(?:\*\*)?\s*", re.IGNORECASE
)


class BrowserGymDialect(PhrasebookDialect):
    """Calls in the manner of BrowserGym. See the module."""

    def __init__(
        self, *, extended: bool = False, verbs: Collection[type[Action]] | None = None
    ) -> None:
        """Makes the dialect.

        Args:
          extended: Whether to add webtraj's words for what BrowserGym cannot say.
          verbs: The verbs to have words for, such as `{Click, Fill}`: a smaller action set, and a
            shorter prompt. None is all.

        Raises:
          InvalidInputError: If there would be no word for one of the verbs.
        """
        phrases = BROWSERGYM + (EXTENSIONS if extended else ())
        if verbs is not None:
            phrases = tuple(phrase for phrase in phrases if phrase.action in verbs)
        super().__init__("webtraj" if extended else "browsergym", phrases)
        if missing := set(verbs or ()) - set(self.verbs):
            names = ", ".join(sorted(verb.__name__ for verb in missing))
            raise errors.InvalidInputError(
                f"The dialect {self.name!r} has no words for {names}; leave them out"
                f"{'' if extended else ', or use extended=True'}."
            )
        if not phrases:
            raise errors.InvalidInputError("A dialect needs at least one verb; got none.")
        self._call = re.compile(rf"\b(?:{'|'.join(self._book.words)})\s*\(")

    def parse(self, reply: Any) -> Action:
        """See `Dialect.parse`. Takes text, or a tool call's `{"name", "arguments"}`."""
        actions = self.parse_all(reply)
        if len(actions) == 1:
            return actions[0]
        reason = f"The reply holds {len(actions)} actions; exactly one was expected."
        return invalid("several_actions", reason, reply)

    def parse_all(self, reply: Any) -> tuple[Action, ...]:
        """Reads a reply as a sequence of actions, at least one.

        One unreadable call makes the whole reply one `InvalidAction`: running the others without it
        would do what the model did not say.
        """
        try:
            if isinstance(reply, Mapping):
                return (self._read_tool_call(reply),)
            if not isinstance(reply, str):
                raise ParseError("malformed", f"A reply is text; got a {type(reply).__name__}.")
            return tuple(self._read_call(call) for call in self._calls_in(reply))
        except ParseError as problem:
            return (invalid(problem.kind, problem.reason, reply),)

    def format(self, action: Action) -> str:
        """See `Dialect.format`."""
        word, args = self._book.write(action)
        first = next(phrase for phrase in self._book.of(word) if args.keys() <= set(phrase.names))
        positional = []
        for name in first.names:
            if name in first.optional or name not in args:
                break
            positional.append(args.pop(name))
        return write_call(Call(word, tuple(positional), args))

    def schema(self) -> dict[str, Any]:
        """See `Dialect.schema`. An action's structured form is that of a tool call."""
        return {
            "oneOf": [
                {
                    "type": "object",
                    "description": self._book.summary(phrase.word),
                    "properties": {"name": {"const": phrase.word}, "arguments": phrase.schema()},
                    "required": ["name", "arguments"],
                }
                for phrase in self._book.phrases
            ]
        }

    def tools(self) -> list[dict[str, Any]]:
        """See `Dialect.tools`. One function for each word."""
        return [
            {
                "name": word,
                "description": self._book.summary(word),
                "parameters": self._book.arguments(word),
            }
            for word in self._book.words
        ]

    def prompt(self) -> str:
        """See `Dialect.prompt`."""
        return call_prompt(self._book)

    def _calls_in(self, reply: str) -> list[Call]:
        if len(reply) <= MAX_REPLY and self._call.match(reply):
            # Calls and nothing else, whatever tags or fences their strings may quote.
            with contextlib.suppress(ParseError):
                return read_calls(reply)
        text = replies.spoken_part(reply)
        if marked := replies.tagged(text, "action") or replies.fenced(text):
            text = replies.only(marked)
            if not text:
                raise ParseError("empty", "The reply's action is empty.")
        try:
            calls = read_calls(_LABEL.sub("", text))
        except ParseError as problem:
            # What Python reads, as calls or as code, is no prose with a call in it.
            prose = problem.kind in ("malformed", "no_action")
            if not prose or not (lines := self._lines_with_calls(text)):
                raise self._why_none(text, problem) from None
            calls = read_calls("\n".join(lines))
        if not calls:
            raise ParseError("no_action", "The reply holds no call; reply with one action.")
        return calls

    def _lines_with_calls(self, text: str) -> list[str]:
        """Returns the lines that begin with a call, whatever stands on the others."""
        stripped = (_LABEL.sub("", line).strip().strip("`") for line in text.splitlines())
        return [line for line in stripped if self._call.match(line)]

    def _why_none(self, text: str, problem: ParseError) -> ParseError:
        if problem.kind != "malformed" or self._call.match(text):
            return problem
        if self._call.search(text):
            reason = "A call inside a sentence is not taken; put it on a line of its own."
            return ParseError("no_action", reason)
        if re.match(r"[A-Za-z_][\w.]*\s*\(", text) or text.startswith(("{", "[", "<")):
            return problem
        return ParseError("no_action", "The reply holds no call; reply with one action.")

    def _read_call(self, call: Call) -> Action:
        phrases = self._book.of(call.name)
        names = self._book.names(call.name)
        if phrases and len(call.args) > len(names):
            raise ParseError(
                "bad_arguments",
                f"{call.name} takes at most {len(names)} arguments; got {len(call.args)}.",
            )
        args = dict(zip(names, call.args, strict=False))
        if twice := args.keys() & call.kwargs.keys():
            raise ParseError("bad_arguments", f"{call.name} got {min(twice)!r} twice.")
        return self._book.read(call.name, args | call.kwargs)

    def _read_tool_call(self, reply: Mapping[str, Any]) -> Action:
        arguments = reply.get("arguments", reply.get("input", {}))
        if isinstance(arguments, str):
            arguments = replies.json_object(arguments)
        if not isinstance(arguments, Mapping):
            raise ParseError("bad_arguments", "A tool call's arguments are an object.")
        return self._book.read(reply.get("name"), replies.without_nulls(arguments))


DEFAULT = BrowserGymDialect(extended=True)
"""The dialect of strings given to `step`: BrowserGym's, with words for all other verbs."""


@functools.lru_cache(maxsize=256)  # A step asks twice: to redact, and to act.
def parse_action(text: str) -> Action:
    """Reads a reply in the default dialect. Never raises: see `Dialect.parse`.

    >>> parse_action("click('12', button='right')")
    Click(ref='12', button='right', modifiers=(), count=1)
    >>> parse_action("click(12)").kind
    'bad_arguments'
    """
    return DEFAULT.parse(text)


def format_action(action: Action) -> str:
    """Says an action in the default dialect, which has words for all but `InvalidAction`.

    >>> from webtraj.environments.actions import Click
    >>> format_action(Click("12", count=2))
    "dblclick('12')"

    Raises:
      UnsupportedActionError: If the action is an `InvalidAction`.
    """
    return DEFAULT.format(action)
