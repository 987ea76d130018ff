"""Measure how well the tests guard the library: change it in a sample of places, and run the tests.

    pip install cosmic-ray pytest-cov
    python scripts/mutants.py cover   # run the fast lane, noting which test reaches which line
    python scripts/mutants.py run     # draw the sample, test each mutant, write build/mutants.md
    python scripts/mutants.py run --tests 1000 --seconds 120 --files 30  # the survivors, again

All resume after a kill. Delete build/mutants after a change of the library or its tests.

A mutant is one change to one function. Its name is the module, the function, the operator, the
line's text and a count among equal ones, so edits elsewhere leave it alone. The order of the draw
follows from the seed and the names. `run --before FILE` first takes the mutants of another run's
results.jsonl, replaces those that no longer exist by the next draws, and says how many.

Each mutant runs in a copy of the checkout, with at most `--tests` of the tests that reach its line:
the fastest of the `--files` that reach it most, about `--seconds` in all. It dies if a test fails
or hangs that passes on the original, before and after; it is not counted if all fail there too, and
survives if no test reaches it. A test that starts a process does not reach what that runs.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import difflib
import hashlib
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import parso
import pytest
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider
from coverage import CoverageData
from parso.python import tree

AREAS = {
    "recording": "collectors/[!s]*.py environments/collecting_environment.py rollouts/recording.py",
    "sealing and journal": "store/sealing.py store/journal.py store/blobs.py store/files.py "
    "store/layout.py store/encoding.py store/decoding.py datasets/writer.py",
    "recovery": "datasets/recovery.py datasets/verification.py collectors/s*.py "
    "store/bucket_requests.py",
    "plan and tries": "runs/*.py rollouts/runner.py rollouts/collection.py rollouts/scheduler.py",
    "failures and outcomes": "errors.py trajectory.py rollouts/episode.py rollouts/results.py "
    "rollouts/deadlines.py metrics/facts.py metrics/tally.py",
    "judging": "judging/**/*.py rollouts/judging.py",
    "redaction": "redaction/*.py environments/redacting_collector.py "
    "environments/browser/secret_keeper.py settings/credentials.py processing/steps/redact.py",
    "network": "environments/browser/network.py environments/browser/network_policy.py "
    "environments/browser/access.py "
    "environments/browser/guard.py net/hosts.py serving/guard.py",
    "export": "training/export/*.py training/rows.py datasets/exporters/*.py",
}
"""The modules of each area, as globs below src/webtraj; the first area that names one has it."""

KINDS = {
    "statement": "RemoveStatement",
    "return": "ReturnNone",
    "condition": "AddNot Delete_Not ReplaceAndWithOr ReplaceOrWithAnd",
    "comparison": "Eq_NotEq NotEq_Eq Lt_LtE LtE_Lt Gt_GtE GtE_Gt Lt_Gt Gt_Lt Is_IsNot IsNot_Is",
    "arithmetic": "Add_Sub Sub_Add Mul_Div FloorDiv_Mul Mod_Mul BitOr_BitAnd BitAnd_BitOr",
    "constant": "NumberReplacer ReplaceTrueWithFalse ReplaceFalseWithTrue",
    "flow": "ZeroIterationForLoop ReplaceBreakWithContinue ReplaceContinueWithBreak "
    "ExceptionReplacer",
}
"""The operators, by kind; an area has equally many mutants of each kind."""

ELSEWHERE = (
    "demonstrating docs downstream_project exploring golden loop packaging peers ray soak support "
    "view vllm"
)
"""The folders of tests that `cover` leaves out."""

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "webtraj"
WORK = ROOT / "build" / "mutants"
COVER = WORK / "cover"
PYTEST = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=short"]


class _Removal:
    """An operator: `pass` for a call, a raise, a write to an attribute; or `return None`."""

    def __init__(self, instead: str) -> None:
        self.instead = instead

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        first = node.children[0] if node.type == "simple_stmt" else node
        first = first.children[0] if first.type == "expr_stmt" else first
        if self.instead == "None":
            fits = node.type == "return_stmt" and node.children[1].get_code() != " None"
        else:
            kinds = {"atom_expr", "power", "await", "raise_stmt", "del_stmt"}
            fits = node.type == "simple_stmt" and first.type in kinds
        if fits:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, _: int) -> Any:
        at = 1 if self.instead == "None" else 0
        leaf = node.children[at].get_first_leaf()
        node.children[at] = tree.Name(self.instead, leaf.start_pos, leaf.prefix)
        return node


_OWN = {"RemoveStatement": _Removal("pass"), "ReturnNone": _Removal("None")}
_THEIRS = {name.rpartition("Operator_")[2]: name for name in OperatorProvider()}
OPERATORS = {
    name: (kind, _OWN.get(name) or OperatorProvider()[_THEIRS[name]]())
    for kind, names in KINDS.items()
    for name in names.split()
}


class Mutant(NamedTuple):
    """One change to one function."""

    name: str
    path: Path
    operator: str
    occurrence: int
    """Which of the places in the file that the operator could change."""
    lines: tuple[int, int]
    """The changed line, and the first line of its statement."""

    def code(self) -> str:
        """Return the module's text with the change; an empty one if that cannot be compiled."""
        operator = OPERATORS[self.operator][1]
        text: str = mutate_code(self.path.read_text("utf-8"), operator, self.occurrence)
        try:
            compile(text, self.path, "exec")
        except SyntaxError:
            return ""
        return text

    def diff(self) -> str:
        """Return the lines that the change removes and adds."""
        texts = (text.splitlines() for text in (self.path.read_text("utf-8"), self.code()))
        changes = list(difflib.unified_diff(*texts, n=0, lineterm=""))[3:]
        return "\n".join(f"{line[0]} {line[1:].strip()}" for line in changes)


def area_files() -> dict[Path, str]:
    """Return the area of each module, or exit if a glob matches nothing."""
    areas: dict[Path, str] = {}
    for area, globs in AREAS.items():
        for glob in globs.split():
            found = [path for path in sorted(SRC.glob(glob)) if path.name != "__init__.py"]
            if not found:
                sys.exit(f"No module matches {glob!r} of {area!r}: correct AREAS in {__file__}.")
            areas = dict.fromkeys(found, area) | areas
    return areas


def mutants_of(path: Path) -> list[Mutant]:
    """Return the mutants of a module's functions, in the order of its text."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    met: collections.Counter[str] = collections.Counter()
    found: list[Mutant] = []

    def visit(node: Any, function: str, inside: bool, statement: int) -> None:
        if node.type in {"simple_stmt", "if_stmt", "for_stmt", "while_stmt", "with_stmt"}:
            statement = node.start_pos[0]
        for operator, (_, how) in OPERATORS.items():
            for (start, _), _ in how.mutation_positions(node):
                line = " ".join(lines[start - 1].split())
                if inside and not line.startswith("_logger."):
                    name = f"{path.relative_to(SRC)}::{function}::{operator}::{line}"
                    met[name] += 1
                    name, at = f"{name}#{met[name]}", (start, statement or start)
                    found.append(Mutant(name, path, operator, met[operator], at))
                met[operator] += 1
        for child in getattr(node, "children", ()):
            # Only what is evaluated when a function runs: not its head, not a local annotation.
            name, within = function, inside
            if node.type in {"funcdef", "classdef"}:
                within = node.type == "funcdef" and child is node.children[-1]
                name = f"{function}.{node.name.value}".strip(".")
            elif node.type == "annassign":
                within = inside and child is not node.children[1]
            visit(child, name, within, statement)

    visit(parso.parse(text), "", False, 0)
    return found


def draws(seed: int) -> dict[str, list[Mutant]]:
    """Return the mutants by area in the order of the draw: one for a line, all kinds in turn."""
    drawn: dict[str, list[Mutant]] = {area: [] for area in AREAS}
    for path, area in area_files().items():
        drawn[area] += mutants_of(path)
    for mutants in drawn.values():
        mutants.sort(key=lambda one: hashlib.sha256(f"{seed} {one.name}".encode()).digest())
        first = {(one.path, one.lines[0]): one for one in reversed(mutants)}
        met = collections.Counter(dict.fromkeys(KINDS, 0))
        turns = {}
        for one in reversed(first.values()):
            kind = OPERATORS[one.operator][0]
            turns[one], met[kind] = met[kind], met[kind] + 1
        mutants[:] = sorted(turns, key=lambda one: turns[one])
    return drawn


class Notes:
    """A plugin of pytest: picks tests, checks which webtraj they test, and notes their seconds."""

    def __init__(self, notes: str, source: str) -> None:
        self.notes, self.source = Path(notes), Path(source)
        self.seconds: collections.Counter[str] = collections.Counter()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the wanted tests; not every name of a test is one that a command line takes."""
        if wanted := read_lines(self.notes.with_suffix(".wanted")):
            items[:] = [item for item in items if item.nodeid in wanted[0]]

    def pytest_collection_finish(self) -> None:
        """Check that the tests imported the webtraj that they are to test."""
        import webtraj

        assert Path(webtraj.__file__).parent == self.source, f"tests {webtraj.__file__}"

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note the seconds of a test that passed, and infinity for another."""
        self.seconds[report.nodeid] += report.duration if report.passed else math.inf
        if report.when == "teardown":
            with self.notes.open("a", encoding="utf-8") as file:
                file.write(json.dumps([report.nodeid, self.seconds[report.nodeid]]) + "\n")


def run_tests(tests: list[str], notes: Path, source: Path, limit: float) -> int | None:
    """Run tests until one fails on the webtraj at `source`, as `run_pytest`."""
    notes.with_suffix(".wanted").write_text(json.dumps(tests) + "\n", encoding="utf-8")
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return run_pytest(["-x", *files], notes, source, limit)


def run_pytest(arguments: list[str], notes: Path, source: Path, limit: float) -> int | None:
    """Run pytest on the webtraj at `source`; return its exit status, or None if it hangs."""
    notes.unlink(missing_ok=True)
    command = [sys.executable, __file__, "pytest", str(notes), str(source), *PYTEST, *arguments]
    variables = {
        "PYTHONPATH": str(source.parent),
        "COVERAGE_FILE": str(notes.with_suffix(".coverage")),
    }
    with notes.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | variables,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def read_lines(path: Path) -> list[Any]:
    """Return the values of a file of JSON lines; none if it is missing."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def cover(lane: str) -> None:
    """Run the tests once, folder by folder, and note which test reaches which line."""
    (COVER).mkdir(parents=True, exist_ok=True)
    settings = COVER / "coveragerc"
    settings.write_text("[run]\ninclude =\n" + "".join(f"  {path}\n" for path in area_files()))
    options = ["-m", lane, "--cov", f"--cov-config={settings}", "--cov-context=test"]
    for folder in sorted((ROOT / "tests").iterdir()):
        done = COVER / f"{folder.stem}.done"
        is_tests = folder.match("test_*.py") or any(folder.rglob("test_*.py"))
        if is_tests and folder.name not in ELSEWHERE.split() and not done.exists():
            done.with_suffix(".coverage").unlink(missing_ok=True)
            arguments = [*options, "--cov-report=", str(folder)]
            status = run_pytest(arguments, done.with_suffix(".jsonl"), SRC, 3600)
            print(f"{folder.name}: status {status}", flush=True)
            if status in (0, 1, 5):
                done.touch()


def reaching(mutant: Mutant, took: dict[str, float]) -> list[list[str]]:
    """Return the tests that reach a mutant, the fastest first, by file: the longest list first."""
    reached: dict[int, set[str]] = collections.defaultdict(set)
    for path in COVER.glob("*.coverage"):
        data = CoverageData(str(path))
        data.read()
        for line, contexts in data.contexts_by_lineno(str(mutant.path)).items():
            reached[line] |= {test.rpartition("|")[0] for test in contexts}
    changed, statement = (reached[line] & took.keys() for line in mutant.lines)
    files: dict[str, list[str]] = collections.defaultdict(list)
    for test in sorted(changed or statement, key=lambda test: (took[test], test)):
        files[test.partition("::")[0]].append(test)
    return sorted(files.values(), key=len, reverse=True)


def choose(files: list[list[str]], took: dict[str, float], most: int, seconds: float) -> list[str]:
    """Return tests of all files in turn: at most `most`, of `seconds` together, or only one."""
    chosen: list[str] = []
    for test in filter(None, itertools.chain(*itertools.zip_longest(*files))):
        if len(chosen) < most and (took[test] <= seconds or not chosen):
            chosen.append(test)
            seconds -= took[test]
    return chosen


def try_mutant(mutant: Mutant, tests: list[str], shadow: Path, limit: float) -> dict[str, str]:
    """Run tests on the mutant; leave out those that fail on the original too."""
    copy, notes = shadow / mutant.path.relative_to(SRC), WORK / "tests.jsonl"
    while tests:
        copy.write_text(mutant.code(), encoding="utf-8")
        status = run_tests(tests, notes, shadow, limit)
        shutil.copy2(mutant.path, copy)
        if status == 0:
            return {"end": "survived"}
        ran = dict(read_lines(notes))
        failed = [test for test in tests if ran.get(test) == math.inf]
        failed = failed or [test for test in tests if test not in ran]
        if run_tests(failed, notes, shadow, 600) == 0:
            return {"end": "died", "killer": "hangs" if status is None else failed[0]}
        tests = [test for test in tests if test not in failed]
    return {}


def run(options: argparse.Namespace) -> None:
    """Test the sample, and write and print the table."""
    drawn, file = draws(options.seed), WORK / "results.jsonl"
    results = {result["name"]: result for result in read_lines(file)}
    notes = itertools.chain(*(read_lines(path) for path in COVER.glob("*.jsonl")))
    took = {test: seconds for test, seconds in notes if seconds < math.inf}
    shadow = WORK / "tree" / "src" / "webtraj"
    shutil.rmtree(WORK / "tree", ignore_errors=True)
    shutil.copytree(SRC, shadow)
    for path in ROOT.iterdir():  # Tests look for files of the checkout beside the library.
        if path.name not in {"src", "build", ".git"}:
            (WORK / "tree" / path.name).symlink_to(path)
    before = {one["name"] for one in read_lines(options.before) if one["end"] != "uncounted"}
    gone = before - {mutant.name for mutants in drawn.values() for mutant in mutants}
    rows: dict[str, list[dict[str, Any]]] = {area: [] for area in AREAS}
    for area, mutants in drawn.items():
        for mutant in sorted(mutants, key=lambda mutant: mutant.name not in before):
            if len(rows[area]) == math.ceil(options.mutants / len(AREAS)):
                break
            result = results.get(mutant.name)
            if result is None and not mutant.code():
                continue
            result = result or {"name": mutant.name, "end": "survived", "ran": None}
            files = reaching(mutant, took) if result["end"] == "survived" else []
            chosen = choose(files[: options.files], took, options.tests, options.seconds)
            more = [test for test in chosen if test not in (result["ran"] or [])]
            if more or result["ran"] is None:
                result |= {"diff": mutant.diff(), "reaching": sum(map(len, files))}
                result["end"] = "survived" if result["ran"] or not more else "uncounted"
                result["ran"] = (result["ran"] or []) + more
                limit = 60 + 5 * sum(took[test] for test in more)
                result |= try_mutant(mutant, more, shadow, limit)
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(result) + "\n")
                print(f"{result['end']:9} {mutant.name}", flush=True)
            if result["end"] != "uncounted":
                rows[area].append(result)
    table = "\n".join([*report(rows), f"\nNo longer there, and replaced: {len(gone)}.\n"])
    (WORK.parent / "mutants.md").write_text(table, encoding="utf-8")
    print(table)


def report(rows: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yield the lines of the table, and of the list of survivors."""
    yield "| area | mutants | died | share | survived | reached by no test |"
    yield "|---|---|---|---|---|---|"
    for area, found in [*rows.items(), ("all", list(itertools.chain(*rows.values())))]:
        died = sum(one["end"] == "died" for one in found)
        missed = sum(not one["reaching"] for one in found)
        share = f"{died / max(len(found), 1):.0%}"
        yield f"| {area} | {len(found)} | {died} | {share} | {len(found) - died} | {missed} |"
    for area, found in rows.items():
        yield f"\n## {area}: survivors"
        for one in [one for one in found if one["end"] == "survived"]:
            yield f"\n{one['name']}, {len(one['ran'])} of {one['reaching']} tests\n"
            yield "\n".join(f"    {line}" for line in one["diff"].splitlines())


def main() -> None:
    """Read the command line and do what it says."""
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("command", choices=["cover", "run"])
    parser.add_argument("--lane", default="not slow", help='for cover; or "not slow or gate"')
    parser.add_argument("--mutants", type=int, default=126)
    parser.add_argument("--tests", type=int, default=100, help="at most, for each mutant")
    parser.add_argument("--seconds", type=float, default=20, help="at most, for those tests")
    parser.add_argument("--files", type=int, default=8, help="of tests at most, for each mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--before", type=Path, default=Path("none"), help="a results.jsonl")
    options = parser.parse_args()
    cover(options.lane) if options.command == "cover" else run(options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["pytest"]:
        sys.exit(pytest.main(sys.argv[4:], plugins=[Notes(*sys.argv[2:4])]))
    main()
