"""Prompts are files of a version, each known by its hash."""

import hashlib
from pathlib import Path

import pytest

import webtraj.agents.prompts as prompts
from rows import each
from webtraj import errors
from webtraj.environments.actions.dialects import DIALECTS, make_dialect

FOLDER = Path(prompts.__file__).parent


@each("name", prompts.prompt_names())
def test_prompt_is_recorded_by_the_hash_of_its_file(name):
    prompt = prompts.load_prompt(name)
    digest = hashlib.sha256((FOLDER / "v1" / f"{name}.txt").read_bytes()).hexdigest()
    assert prompt.reference == {"name": name, "version": "v1", "sha256": digest}
    assert prompt == prompts.load_prompt(f"v1/{name}")


@each("name", prompts.prompt_names())
@each("dialect", DIALECTS)
def test_system_message_has_the_dialects_own_words(name, dialect):
    actions = make_dialect(dialect).prompt()
    system = prompts.load_prompt(name).render(actions)
    # The tools describe themselves.
    assert (actions in system) == (name != "tools")
    assert "${" not in system.replace(actions, "")


def test_webgyms_prompts_have_its_structure():
    vanilla, complete = map(prompts.load_prompt, ("webgym_vanilla", "webgym_complete"))
    assert vanilla.sections == ("Action",)
    assert complete.sections == ("Memory", "Progress", "Intention", "Action")
    tool = make_dialect("webgym").tools()[0]
    for prompt in (vanilla, complete):
        system = prompt.render(make_dialect("webgym").prompt())
        assert system.index("# Tools") < system.index("<tools>") < system.index("# Response format")
        assert f'{{"name": "{tool["name"]}"' in system
        assert "<tool_call>" in system


def test_names_that_are_none_are_refused():
    for name in ("plan", "v2/plain", "v1/../v1/plain", "", "../prompts/v1/plain"):
        with pytest.raises(errors.InvalidInputError, match="bare, explore, memory, plain"):
            prompts.load_prompt(name)


def test_prompt_of_ones_own(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("sections: Plan, Action\n---\nCost: 1 $$. ${actions}\n---\nGo.\n")
    prompt = prompts.load_prompt(str(path))
    assert (prompt.name, prompt.version, prompt.ask) == ("mine", "", "Go.")
    assert prompt.sections == ("Plan", "Action")
    assert prompt.render("click(bid)") == "Cost: 1 $. click(bid)"
    assert prompt.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("You act.", "has the wrong format"),
        ("sections: Action\n---\nYou act.", "two lines '---'"),
        ("sections: action!\n---\nYou act.\n---\nGo.", "has the wrong"),
        ("sections:\n---\nYou act on ${page}.\n---\nGo.", r"placeholder other than \$\{actions\}"),
        ("sections:\n---\nIt costs 5$.\n---\nGo.", r"Write \$\$"),
    ],
    ids=["text", "two parts", "label", "placeholder", "dollar"],
)
def test_text_that_is_no_prompt_is_refused(text, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        prompts.read_prompt(text, name="mine")
