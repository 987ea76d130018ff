"""Editors of rich text, of Markdown and of code."""

from __future__ import annotations

import random
from typing import Final

from webtraj.environments.browser.oracles import click, press
from webtraj_apps.widgets.environment import Goal, key, type_text, widget

SENTENCES: Final = (
    "The bridge is closed.",
    "Lunch is at one.",
    "Bring the blue folder.",
    "The train leaves at six.",
    "Water the plants twice.",
)


@widget(state="quill.getContents().ops.map(op => [op.insert.trim(), op.attributes ?? {}])")
def quill(rng: random.Random) -> Goal:
    """The style of a whole text."""
    style, name = rng.choice((("bold", "bold"), ("italic", "italic"), ("underline", "underlined")))
    return Goal(
        f"Make the whole note {name}.",
        [["Meeting on Tuesday at noon.", {style: True}], ["", {}]],
        press(".ql-editor", "Control+a"),
        click(f".ql-{style}"),
    )


@widget(state="[quill.getText(), quill.getFormat(0, 1).list]")
def quill_list(rng: random.Random) -> Goal:
    """A list in rich text."""
    kind, name = rng.choice((("ordered", "numbered list"), ("bullet", "list with bullets")))
    things = rng.sample(("bread", "milk", "rice", "apples", "tea"), 3)
    return Goal(
        f"Write a {name} of {things[0]}, {things[1]} and {things[2]}, in this order.",
        ["\n".join(things) + "\n", kind],
        click(".ql-editor"),
        click(f".ql-list[value={kind}]"),
        [
            step
            for number, thing in enumerate(things)
            for step in ([key("Enter")] if number else []) + [type_text(thing)]
        ],
    )


@widget(state="editor.getValue()")
def codemirror(rng: random.Random) -> Goal:
    """Another line of code."""
    size = rng.randint(11, 99)
    return Goal(
        f"Add a line at the end of the script that logs the size: console.log(size * {size});",
        f'let size = 1;\nlet name = "Otter";\nlet open = false;\nconsole.log(size * {size});',
        press(".CodeMirror textarea", "Control+End Enter"),
        type_text(f"console.log(size * {size});"),
    )


@widget(state="JSON.parse(editor.getValue())")
def ace(rng: random.Random) -> Goal:
    """Code that is replaced."""
    colour = rng.choice(("blue", "green", "violet", "orange"))
    return Goal(
        f'Change the colour in the settings to "{colour}".',
        {"colour": colour},
        press(".ace_text-input", "Control+a"),
        type_text(f'{{"colour": "{colour}'),
        key("End"),
    )


@widget(state="document.querySelector('trix-editor').editor.getDocument().toString().trim()")
def trix(rng: random.Random) -> Goal:
    """A web component."""
    sentence = rng.choice(SENTENCES)
    return Goal(
        f"Write the comment: {sentence}",
        sentence,
        click("trix-editor"),
        type_text(sentence),
    )


@widget(state="blocks")
def editorjs(rng: random.Random) -> Goal:
    """Blocks."""
    first, second = rng.sample(SENTENCES, 2)
    return Goal(
        f"Write two paragraphs: {first} And then: {second}",
        [first, second],
        click(".ce-paragraph"),
        type_text(first),
        key("Enter"),
        type_text(second),
    )


@widget(state="editor.value()")
def easymde(rng: random.Random) -> Goal:
    """Markdown."""
    sentence = rng.choice(SENTENCES)
    button, marks = rng.choice((("bold", "**"), ("italic", "*")))
    return Goal(
        f"Write in {button} letters: {sentence}",
        f"{marks}{sentence}{marks}",
        click(".CodeMirror"),
        click(f"button.{button}"),
        type_text(sentence),
    )


@widget(state="editor.getContent()")
def medium_editor(rng: random.Random) -> Goal:
    """A toolbar that comes with the selection."""
    action, tag, name = rng.choice((("bold", "b", "bold"), ("italic", "i", "italic")))
    return Goal(
        f"Make the text of the story {name}.",
        f"<p><{tag}>Once upon a time</{tag}></p>",
        click("#story"),
        key("Control+a"),
        click(f".medium-editor-action-{action}"),
    )


@widget(state="editor.value")
def jodit(rng: random.Random) -> Goal:
    """A style from the toolbar."""
    sentence = rng.choice(SENTENCES)
    button, tag = rng.choice((("bold", "strong"), ("italic", "em"), ("underline", "u")))
    return Goal(
        f"Write in {button} letters: {sentence}",
        f"<p><{tag}>{sentence}</{tag}></p>",
        click(".jodit-wysiwyg"),
        type_text(sentence),
        key("Control+a"),
        click(f".jodit-toolbar-button_{button} button"),
    )


@widget(state="$('#notice').summernote('code')")
def summernote(rng: random.Random) -> Goal:
    """A list from the toolbar."""
    things = rng.sample(("Chairs", "Tables", "Lamps", "Mugs"), 2)
    kind, tag = rng.choice((("bullets", "ul"), ("numbers", "ol")))
    label = "unordered" if tag == "ul" else "ordered"
    return Goal(
        f"Write a list with {kind}: first {things[0]}, then {things[1]}.",
        f"<{tag}><li>{things[0]}</li><li>{things[1]}</li></{tag}>",
        click(".note-editable"),
        click(f".note-icon-{label}list"),
        type_text(things[0]),
        key("Enter"),
        type_text(things[1]),
    )


@widget(state="content.replace('&nbsp;', ' ')")
def pell(rng: random.Random) -> Goal:
    """The smallest editor."""
    name = rng.choice(("Ada", "Grace", "Edith", "Hedy"))
    return Goal(
        f"Write your name, {name}, in italics.",
        f"<div><i>{name}</i></div>",
        click(".pell-content"),
        type_text(name),
        key("Control+a"),
        click(".pell-button[title=Italic]"),
    )
