"""Run the lanes of tests that `scripts/lanes.toml` lists, one after another.

    python scripts/lanes.py gate          the gate's lanes, and those whose paths changed
    python scripts/lanes.py full          all other lanes; the table is build/full.md too
    python scripts/lanes.py full ray s3   only these

Each lane has a time limit, at which its processes are killed. At the end, every test that failed
runs once more, alone. A test that passes then is unsteady: it is listed, and more than three of
them fail the run. A failed lane that names no test runs again as a whole.

`gate` adds a lane of the full run if one of its paths changed since the newest commit that is more
than 48 hours old, the most affected first, while the whole stays under an hour. It prints which it
left out. Seeds are fixed in the gate; `full` draws one and prints it (`WEBTRAJ_SEED=N` repeats it).

As a plugin of pytest (`PYTEST_PLUGINS=lanes`), this file writes how each test ended to the file
`$WEBTRAJ_NOTES`.
"""

import collections
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET = 54 * 60
"""The seconds after which the gate starts no lane of the full run."""
UNSTEADY = 3
"""The number of unsteady tests that a run accepts."""
SLOWEST = 20
"""The number of slow files to print."""
TOLD = "WEBTRAJ_", "HF_", "PYTEST_ADDOPTS"
"""The beginnings of environment variables that a lane sets, and a second run of its test needs."""


# --- the plugin ---------------------------------------------------------------------------------

NOTES = os.environ.get("WEBTRAJ_NOTES", "")
if __name__ != "__main__" and NOTES:
    # Programs that a test starts are not noted. Workers send their reports to the first process.
    for name in ("PYTEST_PLUGINS", "PYTHONPATH", "WEBTRAJ_NOTES"):
        os.environ.pop(name, None)
_again: dict = {}


def pytest_configure(config):
    """Note how a test of this run is repeated."""
    confcutdir = config.getoption("confcutdir")
    _again["command"] = [sys.executable, "-m", "pytest", "-p", "no:xdist"]
    if confcutdir:
        _again["command"] += ["--confcutdir", str(confcutdir)]
    for value in config.getoption("pythonwarnings") or []:
        _again["command"] += ["-W", value]
    _again["folder"] = str(config.rootpath)
    _again["variables"] = {k: v for k, v in os.environ.items() if k.startswith(TOLD)}


def pytest_runtest_logreport(report):
    """Note how a test ended."""
    note = {"test": report.nodeid, "seconds": report.duration, "message": ""}
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash else str(report.longrepr)
        note |= {"ended": "failed", "message": f"{report.when}: {message}"[:500], **_again}
    elif report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected to fail"
        note |= {"ended": "skipped", "message": reason}
    elif report.when == "call":
        note |= {"ended": "passed"}
    else:
        return
    with open(NOTES, "a", encoding="utf-8") as notes:  # noqa: PTH123  # A line is written at once.
        notes.write(json.dumps(note) + "\n")


def pytest_collectreport(report):
    """Note a file that cannot be collected."""
    if report.failed:
        report.when, report.duration = "collect", 0.0
        pytest_runtest_logreport(report)


# --- lanes --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Lane:
    """One lane, as `lanes.toml` describes it."""

    name: str
    command: str
    seconds: int
    limit: int
    gate: bool = False
    quick: str = ""
    paths: tuple[str, ...] = ()


@dataclasses.dataclass
class Result:
    """How a lane ended, and what its tests noted."""

    lane: Lane
    status: str
    seconds: float
    notes: list[dict]

    @property
    def failures(self) -> dict[str, dict]:
        """The failed tests, by name."""
        return {note["test"]: note for note in self.notes if note["ended"] == "failed"}

    def count(self, ended: str) -> int:
        """Return how many tests ended so."""
        return len({note["test"] for note in self.notes if note["ended"] == ended})


def read_lanes() -> list[Lane]:
    """Return all lanes, in the order of the file."""
    text = (ROOT / "scripts" / "lanes.toml").read_text(encoding="utf-8")
    return [
        Lane(**{**lane, "paths": tuple(lane.get("paths", ()))})
        for lane in tomllib.loads(text)["lane"]
    ]


def run_limited(
    command: list[str], limit: float, variables: dict[str, str], folder: Path | str = ROOT
) -> str:
    """Run a command, kill what is left of its process group, and return how it ended."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return "passed" if process.wait(limit) == 0 else "FAILED"
    except subprocess.TimeoutExpired:
        return f"FAILED: stopped after {limit:.0f} s"
    finally:
        for sign, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, None)):
            try:
                os.killpg(process.pid, sign)
                process.wait(patience)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def run_lane(lane: Lane, variables: dict[str, str]) -> Result:
    """Run a lane and print how it ended."""
    say(f"lane {lane.name}: {lane.command}")
    began = time.monotonic()
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", suffix=".jsonl") as notes:
        plugin = {
            "PYTEST_PLUGINS": "lanes",
            "PYTHONPATH": str(ROOT / "scripts"),
            "WEBTRAJ_NOTES": notes.name,
        }
        status = run_limited(["sh", "-c", lane.command], lane.limit, variables | plugin)
        lines = [json.loads(line) for line in notes if line.endswith("\n")]
    result = Result(lane, status, time.monotonic() - began, lines)
    say(f"lane {lane.name} {result.status} in {result.seconds:.0f} s")
    return result


def repeat_failures(
    results: list[Result], variables: dict[str, str]
) -> tuple[list[str], list[str]]:
    """Run failed tests, and failed lanes that name none, again; return what passed and failed."""
    unsteady: list[str] = []
    failed: list[str] = []
    for result in results:
        if result.status == "passed":
            continue
        lane = result.lane
        if not result.failures:
            # Formatting, lint and types do not fail by chance.
            again = None if lane.name == "test" else run_lane(lane, variables)
            passed = again is not None and again.status == "passed"
            (unsteady if passed else failed).append(f"lane {lane.name}")
            continue
        for test, note in result.failures.items():
            say(f"again: {test}")
            ended = run_limited(
                [*note["command"], test], lane.limit, note["variables"], note["folder"]
            )
            message = f"{test} ({lane.name}): {' '.join(note['message'].split())}"
            (unsteady if ended == "passed" else failed).append(message)
    return unsteady, failed


# --- what changed -------------------------------------------------------------------------------


def changed_lines() -> dict[str, int]:
    """Return the lines that changed in each file since the newest commit older than 48 hours."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout

    base = git("rev-list", "-1", "--before=48 hours ago", "HEAD").strip()
    if not base:  # All commits are newer, or the checkout is shallow: everything counts as changed.
        return dict.fromkeys(git("ls-files").splitlines(), 1)
    changed = {}
    for line in git("diff", "--numstat", "--no-renames", base).splitlines():
        added, removed, path = line.split("\t")
        changed[path] = sum(int(number) for number in (added, removed) if number != "-") or 1
    return changed


def affected_lanes(lanes: list[Lane], changed: dict[str, int]) -> list[tuple[int, Lane]]:
    """Return the lanes whose paths changed, with the number of changed lines, most first."""
    found = [
        (sum(n for path, n in changed.items() if any(is_below(path, p) for p in lane.paths)), lane)
        for lane in lanes
    ]
    return sorted((pair for pair in found if pair[0]), key=lambda pair: -pair[0])


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is this file, or lies in this folder."""
    return path == folder or path.startswith(folder + "/")


# --- the two runs -------------------------------------------------------------------------------


def run_gate(lanes: list[Lane], began: float, variables: dict[str, str]) -> list[Result]:
    """Run the gate's lanes, then the affected ones while there is time."""
    results = [run_lane(lane, variables) for lane in lanes if lane.gate]
    # A busy or slow machine needs longer for the others too.
    planned = sum(result.lane.seconds for result in results)
    pace = max(1.0, sum(result.seconds for result in results) / planned)
    affected = affected_lanes([lane for lane in lanes if not lane.gate], changed_lines())
    left_out = []
    for number, lane in affected:
        if time.monotonic() - began + pace * lane.seconds > BUDGET:
            left_out.append(f"{lane.name} ({number} changed lines)")
        else:
            quick = dataclasses.replace(lane, command=lane.quick or lane.command)
            results.append(run_lane(quick, variables))
    say(f"affected, but left out for time: {', '.join(left_out) or 'none'}")
    return results


def table(results: list[Result]) -> Iterator[str]:
    """Yield the lines of the table of results."""
    yield "| lane | result | seconds | passed | skipped | failed |"
    yield "|---|---|---|---|---|---|"
    for result in results:
        counts = " | ".join(str(result.count(how)) for how in ("passed", "skipped", "failed"))
        yield f"| {result.lane.name} | {result.status} | {result.seconds:.0f} | {counts} |"


def say(text: str) -> None:
    """Print a line of this script's own."""
    print(f"lanes: {text}", flush=True)


def main(words: list[str]) -> int:
    """Run the lanes and return the exit status."""
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that the lane's processes end too.
    lanes = read_lanes()
    unknown = set(words[1:]) - {lane.name for lane in lanes}
    if words[:1] not in (["gate"], ["full"]) or unknown or (words[0] == "gate" and words[1:]):
        print(__doc__, file=sys.stderr)
        print(f"lanes: the lanes are {', '.join(lane.name for lane in lanes)}", file=sys.stderr)
        return 2
    # OpenMP's threads would spin while one of them waits for a core.
    variables = {"OMP_NUM_THREADS": "1"}
    if words[0] == "gate":
        results = run_gate(lanes, began, variables)
    else:
        variables["WEBTRAJ_SEED"] = os.environ.get("WEBTRAJ_SEED") or str(random.randrange(2**32))
        say(f"WEBTRAJ_SEED={variables['WEBTRAJ_SEED']}")
        chosen = [x for x in lanes if (x.name in words[1:] if words[1:] else not x.gate)]
        results = [run_lane(lane, variables) for lane in chosen]
    unsteady, failed = repeat_failures(results, variables)

    seconds: collections.Counter[str] = collections.Counter()
    passed, skipped = set(), {}
    for note in (note for result in results for note in result.notes):
        seconds[note["test"].partition("::")[0]] += note["seconds"]
        if note["ended"] == "passed":
            passed.add(note["test"])
        elif note["ended"] == "skipped":
            skipped[note["test"]] = note["message"]
    for file, total in seconds.most_common(SLOWEST):
        say(f"{total:6.0f} s {file}")
    reasons = collections.Counter(why for test, why in skipped.items() if test not in passed)
    for reason, number in reasons.most_common():
        say(f"skipped in each of these lanes: {number}: {reason}")
    for line in table(results):
        print(line)
    for test in unsteady:
        say(f"unsteady: {test}")
    for test in failed:
        say(f"failed: {test}")
    if words[0] == "full":
        report = ROOT / "build" / "full.md"
        report.parent.mkdir(exist_ok=True)
        report.write_text("\n".join(table(results)) + "\n", encoding="utf-8")
    too_many = len(unsteady) > UNSTEADY
    say(
        f"all of it took {time.monotonic() - began:.0f} s; {len(unsteady)} unsteady"
        + (f" (more than {UNSTEADY}: red)" if too_many else "")
    )
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or too_many else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
