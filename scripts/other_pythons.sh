#!/bin/sh
# Sourced by scripts that need a Python other than that of .venv: `find_other_python python3.13`
# prints the path of that Python, from PATH or pyenv, or one that uv fetches; fails if there is none.
# `newest_other_python` prints the name of the newest that there is, such as python3.13.

find_other_python() {
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/${1#python}".*/bin/"$1" "$1"; do
        "$candidate" -c 'import ssl, venv' 2>/dev/null && command -v "$candidate" && return
    done
    .venv/bin/uv python install --quiet "${1#python}" 2>/dev/null &&
        .venv/bin/uv python find --managed-python "${1#python}"
}

newest_other_python() {
    ours=$(.venv/bin/python -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    for name in python3.14 python3.13 python3.12 python3.11; do
        [ "$name" != "$ours" ] && find_other_python "$name" >/dev/null && echo "$name" && return
    done
    return 1
}
