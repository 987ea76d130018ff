"""A small phase: `work.py OUT SEED INPUT...` does five units of work, and goes on where it was.

What it makes, `OUT/result`, follows from the seed and the inputs' results alone. Each unit is done
once, whatever happens: `OUT/done` has a line for each, `OUT/starts` one for each time it was begun.
SIGTERM ends it between two units. With `HOLD` in the environment, `PHASE:UNIT PHASE:UNIT ...`, the
phase whose folder's path has that name in it holds after that unit, until SIGTERM. With `FAIL`,
`PHASE:TIMES`, it fails so often.
"""

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

UNITS = 5


def read(source: str) -> bytes:
    path = Path(source) / "result"
    return path.read_bytes() if path.exists() else path.parent.name.encode()


def append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


def main(out: str, seed: str, *inputs: str) -> None:
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    append(folder / "starts", str(os.getpid()))
    starts = len((folder / "starts").read_text().splitlines())
    name, _, times = os.environ.get("FAIL", "").partition(":")
    if name and name in out and starts <= int(times or 1000):
        print("the printer is on fire")
        sys.exit(1)
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    holds = [hold.partition(":") for hold in os.environ.get("HOLD", "").split()]
    done = folder / "done"
    first = len(done.read_text().splitlines()) if done.exists() else 0
    for unit in range(first, UNITS):
        time.sleep(float(os.environ.get("UNIT", "0.01")))
        append(done, str(unit))
        print(f"unit {unit} of {out}", flush=True)
        if any(name in out and held == str(unit) for name, _, held in holds):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            if not ended:
                print("holds", flush=True)
                signal.sigwait([signal.SIGTERM])
            sys.exit(143)
        if ended:
            sys.exit(143)
    content = hashlib.sha256(b"".join([seed.encode(), *map(read, inputs)])).hexdigest()
    draft = folder / ".result"
    draft.write_text(content)
    draft.rename(folder / "result")


if __name__ == "__main__":
    main(*sys.argv[1:])
