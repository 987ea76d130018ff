"""The page's modules as one script, for a page without a server.

It is no bundler for anything else. The modules of `static/` keep to rules, and what does not is
refused: an import stands on one line and keeps its names; an export stands before what it exports;
top-level names begin in the first column, and no two modules share one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["bundle"]

_IMPORT = re.compile(r'import \{ (\w+(?:, \w+)*) \} from "\./(\w+\.js)";')
_NAME = re.compile(r"(?:async )?(?:function\*? ?|const |let |class )(\w+)\b")
_BESIDE_NAMES = re.compile(r"(?:import|export|var)\b|(?:const|let) [\[{]")


def bundle(entry: str, read: Callable[[str], str]) -> str:
    r"""Returns a module and all that it imports as one script, in the order in which they run.

    >>> files = {
    ...     "a.js": 'import { two } from "./b.js";\nconsole.log(two());\n',
    ...     "b.js": "export function two() {\n  return 2;\n}\n",
    ... }
    >>> print(bundle("a.js", files.__getitem__))
    function two() {
      return 2;
    }
    console.log(two());
    <BLANKLINE>

    Args:
        entry: The name of the module that is run.
        read: Returns a module's text by its name.

    Raises:
        ValueError: A module does not keep to the rules.
    """
    made: list[str] = []
    owners: dict[str, str] = {}
    _add(entry, read, made, owners, set())
    return "".join(made)


def _add(
    name: str,
    read: Callable[[str], str],
    made: list[str],
    owners: dict[str, str],
    seen: set[str],
) -> None:
    seen.add(name)
    kept: list[str] = []
    for number, line in enumerate(read(name).splitlines(), start=1):
        if (found := _IMPORT.fullmatch(line)) is not None:
            if found[2] not in seen:
                _add(found[2], read, made, owners, seen)
            continue
        told = line.removeprefix("export ")
        if (declared := _NAME.match(told)) is not None:
            owner = owners.setdefault(declared[1], name)
            if owner != name:
                raise ValueError(f"{name}:{number}: {owner} has a {declared[1]!r}, too.")
        elif _BESIDE_NAMES.match(told) or told != line:
            raise ValueError(f"{name}:{number}: {line!r:.100} is not understood here.")
        kept.append(told)
    made.append("\n".join(kept) + "\n")
