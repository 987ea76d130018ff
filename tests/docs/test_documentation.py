"""Every block of the README and the docs says what is so, and every link leads somewhere.

Commands are parsed by the commands themselves, JSON and YAML are read by what reads such files.
`test_pages.py` runs what is to be run.
"""

import functools
import itertools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from documented_blocks import PAGES, ROOT, Block, blocks_of

from rows import each
from webtraj.cli.app import COMMANDS, make_app
from webtraj.datasets.dataset import parse_condition

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")

BLOCKS = [block for page in PAGES for block in blocks_of(page)]

SHELLS = ("", "sh", "bash", "console")

SYNOPSIS = re.compile(r"[\[\]|]|\.\.\.")

"""What tells the description of a command from a command, in a fence without a language."""


def written_in(*languages: str) -> list:
    return [pytest.param(one, id=one.name) for one in BLOCKS if one.language in languages]


def run(*command: str, cwd: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def commands_in(block: Block) -> list[list[str]]:
    """Returns the arguments of each call of `webtraj` in a block."""
    found = []
    for line in block.text.replace("\\\n", " ").split("\n"):
        if block.language == "" and SYNOPSIS.search(line):
            continue
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("();<>|&"):
                if "webtraj" in words and not any(
                    one in words for one in ("pip", "python", "open")
                ):
                    found.append(words[words.index("webtraj") + 1 :])
                words = []
            else:
                words.append(word)
    return found


@functools.cache
def webtraj_command():
    return typer.main.get_command(make_app())


@each(
    "block",
    [
        pytest.param(block, id=block.name)
        for block in BLOCKS
        if block.language in SHELLS
        and re.search(r"^\W*(\w+=\S+ )*webtraj ", block.text, re.MULTILINE)
    ],
)
def test_commands_are_understood(block: Block) -> None:
    for arguments in commands_in(block):
        command, called, rest = webtraj_command(), "webtraj", arguments
        while rest and hasattr(command, "commands"):
            context = command.make_context(called, list(rest), resilient_parsing=True)
            words = [*context._protected_args, *context.args]
            assert words[0] in command.commands or hasattr(command, "resolve_command"), arguments
            _, command, rest = command.resolve_command(context, words)
            called = f"{called} {words[0]}"
            assert command is not None, arguments
        try:
            command.make_context(called, list(rest))
        except Exception as error:
            raise AssertionError(f"webtraj {shlex.join(arguments)}: {error}") from error


def test_conditions_are_understood() -> None:
    for block in BLOCKS:
        if block.language != "sh" or "--where" not in block.text:
            continue
        for arguments in commands_in(block):
            for option, value in itertools.pairwise(arguments):
                if option == "--where":
                    parse_condition(value)


def hints() -> list[str]:
    """Returns the commands that messages, help texts and docstrings name, as `webtraj ...`."""
    found = set()
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("packages/*/src/**/*.py")]:
        text = re.sub(r'"\s*\n\s*f?"', "", path.read_text())
        found |= {" ".join(one.split()) for one in re.findall("`webtraj ([a-z-][^`]*)`", text)}
    return sorted(found)


def test_commands_that_messages_name_are_there() -> None:
    assert len(hints()) > 50
    for hint in hints():
        command, words = webtraj_command(), hint.split()
        while words and words[0][0] != "-" and hasattr(command, "commands"):
            context = command.make_context("webtraj", list(words), resilient_parsing=True)
            _, command, words = command.resolve_command(context, words)
            assert command is not None, hint
        options = {option for one in command.params for option in one.opts} | {"--help"}
        assert {word for word in words if word.startswith("-")} <= options, hint


@each("block", written_in("json"))
def test_json_is_json(block: Block) -> None:
    try:
        json.loads(block.text)
    except ValueError:  # Then it is a line each.
        assert [json.loads(line) for line in block.text.splitlines()]


@each("block", written_in("yaml"))
def test_yaml_is_taken_by_what_reads_it(block: Block, tmp_path: Path, monkeypatch) -> None:
    import yaml

    monkeypatch.setenv("BUCKET", "bucket")
    (tmp_path / "block.yaml").write_text(block.text)
    refused = {}
    for reads in (as_rules, as_pipeline, as_rollout, as_loop, as_training, as_agent_loops):
        try:
            reads(yaml.safe_load(block.text), tmp_path / "block.yaml")
        except Exception as error:
            refused[reads.__name__] = str(error)[:300]
        else:
            return
    raise AssertionError(refused)


def as_rules(data, _):
    from webtraj.judging.rules import make_rules

    assert set(data) == {"rules"}
    assert make_rules(data["rules"])


def as_pipeline(data, path):
    from webtraj.processing.configuration import load_config
    from webtraj.processing.steps import step_class

    config = load_config(path, {})
    assert config.steps
    for name, _ in config.choices():
        assert step_class(name)


def as_rollout(data, path):
    from webtraj.rollouts.configuration import load_configuration

    text = path.read_text()
    whole = data.get("kind") == "run"
    if "defaults" not in data and not whole:
        text = f"defaults: [rollout_train, _self_]\n{text}"
    path.with_name("documented.yaml").write_text(text)
    missing = [] if "save_path" in data or whole else ["save_path=runs"]
    assert load_configuration("documented", missing, config_dir=path.parent)


def as_agent_loops(data, _):
    """Reads what verl, which is not at hand, would: classes of webtraj and their arguments."""
    for one in data:
        module, _, name = one["_target_"].rpartition(".")
        (file,) = ROOT.glob(f"packages/*/src/{module.replace('.', '/')}.py")
        source = file.read_text()
        _, found, body = source.partition(f"class {name}(")
        assert found
        signature = body.partition("def __init__(")[2].partition(")")[0]
        assert set(one) - {"name", "_target_"} <= set(re.findall(r"(\w+):", signature))


def as_loop(data, path):
    from webtraj.loop import load_loop_config

    missing = {"out": "out=runs", "train": "train.model=base", "rollout": "rollout.preset=[x]"}
    assert load_loop_config(path, [text for key, text in missing.items() if key not in data])


def as_training(data, path):
    from webtraj.training.sft.settings import load_train_config

    assert load_train_config(path, [])


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs_and_leaves_a_sound_dataset(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from webtraj.datasets.verification import verify

    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path / "apps"))

    assert run(str(example), str(tmp_path / "data"), cwd=tmp_path).strip()
    report = verify(tmp_path / "data")
    assert report.clean
    assert report.num_episodes > 0


@each("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in LINK.findall(text):
        inside = re.sub(r"^https://github.com/webtraj/webtraj/(blob|tree)/main/", "", target)
        if inside.startswith(("http:", "https:")):
            continue
        folder = page.parent if inside == target else ROOT
        path = folder / inside if inside else page
        assert path.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            slugs = [re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-") for h in headings]
            assert anchor in slugs, f"{page.name} links to {target}#{anchor}"


def test_docs_name_every_command() -> None:
    text = "\n".join(page.read_text() for page in PAGES if page.name != "CHANGELOG.md")
    for command in COMMANDS:
        assert f"webtraj {command}" in text, command
