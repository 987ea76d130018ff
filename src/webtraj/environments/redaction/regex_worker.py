"""The process in which a user's own regexes run (see `guarded_regexes`).

Run as a script, with nothing but the standard library. Everything is framed by its length in four
bytes. It first reads the regexes, a JSON list; then texts, as UTF-8, and answers each with a JSON
list of [which regex, start, end]. One that takes too long ends the process, and so its input's end.
"""

import json
import re
import signal
import struct
import sys

_LENGTH = struct.Struct(">I")


def _read() -> bytes | None:
    header = sys.stdin.buffer.read(_LENGTH.size)
    return sys.stdin.buffer.read(*_LENGTH.unpack(header)) if len(header) == 4 else None


def main() -> None:
    """Answers until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Meant for the process that records.
    seconds = float(sys.argv[1])
    patterns = [re.compile(source) for source in json.loads(_read() or b"[]")]
    while (data := _read()) is not None:
        text = data.decode("utf-8", "surrogatepass")
        # Nothing handles the signal: it ends the process, in the middle of a match too.
        signal.setitimer(signal.ITIMER_REAL, seconds)
        found = [
            (which, *match.span())
            for which, pattern in enumerate(patterns)
            for match in pattern.finditer(text)
        ]
        signal.setitimer(signal.ITIMER_REAL, 0)
        answer = json.dumps(found).encode()
        sys.stdout.buffer.write(_LENGTH.pack(len(answer)) + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
