"""Which tests passed in a lane of CI, and which in none of them.

As a plugin of pytest (`PYTEST_PLUGINS=lanes`) it notes in the file `$WEBTRAJ_LANES` what passed, in
how many seconds, and what was skipped. As a program it compares that with all tests that there are:
it prints the slowest files, the tests that were skipped in every lane, with the reason, and last
what failed, and fails if a test belongs to no lane.
"""

import collections
import os
import subprocess
import sys
from pathlib import Path

NOTES = Path(os.environ["WEBTRAJ_LANES"])
SLOWEST = 30
"""The number of files to print."""
NAMED = 40
"""The number of failed tests, and of tests in no lane, to print: readers see the end of a log."""

if __name__ != "__main__":
    # What tests start is not to be noted, and may not find this file. Workers hand their reports to
    # the process that started them, which notes each once.
    del os.environ["PYTEST_PLUGINS"], os.environ["PYTHONPATH"]


def pytest_runtest_logreport(report):
    """Note how a test ended."""
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "expected to fail"
        note = f"skipped\t{report.nodeid}\t{reason}"
    elif report.when == "call" and report.passed:
        note = f"passed\t{report.nodeid}\t{report.duration:.2f}"
    elif report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        note = f"failed\t{report.nodeid}\t{report.when}: {crash.message if crash else ''}"
    else:
        return
    with NOTES.open("a", encoding="utf-8") as notes:
        notes.write(" ".join(note.splitlines()) + "\n")


def main():
    """Print what ran, and return the exit status."""
    passed, skipped, failed = set(), {}, {}
    seconds: collections.Counter[str] = collections.Counter()
    for line in NOTES.read_text(encoding="utf-8").splitlines():
        kind, test, told = line.split("\t", 2)
        if kind == "passed":
            passed.add(test)
            seconds[test.partition("::")[0]] += float(told)
        elif kind == "failed":
            failed[test] = told
        else:
            skipped[test] = told
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist"],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_PLUGINS"},
    )
    tests = [line for line in listed.stdout.splitlines() if "::" in line]
    only_skipped = [test for test in tests if test in skipped and test not in passed]
    ran = passed | skipped.keys() | failed.keys()
    nowhere = [test for test in tests if test not in ran]
    print("ci: seconds in all lanes, of the slowest files:")
    for file, total in seconds.most_common(SLOWEST):
        print(f"ci: {total:8.0f} {file}")
    print(
        f"ci: of {len(tests)} tests, {len(passed.intersection(tests))} passed in a lane, "
        f"{len(nowhere)} are in none, {len(only_skipped)} were skipped in each:"
    )
    reasons = collections.Counter(skipped[test] for test in only_skipped)
    for reason, number in reasons.most_common():
        print(f"ci: {number:5d} {reason}")
    for test in nowhere[:NAMED]:
        print(f"ci: in no lane: {test}")
    print(f"ci: {len(failed)} tests failed")
    for test, message in list(failed.items())[:NAMED]:
        print(f"ci: failed: {test}: {message[:300]}")
    return 1 if nowhere or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
