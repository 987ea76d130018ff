#!/bin/sh
# Make .venv in the checkout, with webtraj and a browser. The argument is the extra to install: `dev`
# for development, or `web` for running and viewing episodes; `dev` includes `web` and can be added
# later. Do nothing if pyproject.toml, constraints.txt and Python are unchanged since the last setup.
# PYTHON selects the Python, 3.11 or newer; by default, search PATH.
set -eu
cd "$(dirname "$0")/.."
extra=${1:-dev}
. scripts/packages.sh

fail() {
    echo "setup: $*" >&2
    exit 1
}

is_debian_root() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

apt_install() {
    echo "setup: installing $* with apt-get"
    apt-get update -qq >/dev/null 2>&1 || true # The existing lists may suffice.
    DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
        apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

make_venv() {
    rm -rf .venv
    "$python" -m venv .venv >/dev/null 2>&1 && return
    # Debian has the venv module in a separate package.
    is_debian_root && apt_install python3-venv && rm -rf .venv && "$python" -m venv .venv && return
    rm -rf .venv
    fail "$python cannot make a virtual environment. Install Python's venv module" \
        "(on Debian or Ubuntu: sudo apt-get install python3-venv) and run this again."
}

python=$(find_python) || {
    if [ -z "${PYTHON:-}" ] && is_debian_root; then apt_install python3 python3-venv; fi
    python=$(find_python)
} || fail "no Python 3.11 or newer was found${PYTHON:+ at PYTHON=$PYTHON}. Install one, or set PYTHON."

# The checkout's path is included because a virtual environment cannot be moved.
wanted=$({ pwd -P; "$python" -VV; cat pyproject.toml constraints.txt packages/*/pyproject.toml \
    examples/*/pyproject.toml; } | cksum)
stamp=.venv/.webtraj-setup
done_before() {
    grep -qsxF "dev $wanted" "$stamp" || grep -qsxF "$extra $wanted" "$stamp"
}
if done_before; then
    exit 0
fi

began=$(date +%s)
if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    ! head -n 1 .venv/bin/pip 2>/dev/null | grep -qF "$(pwd -P)/.venv/bin/"; then
    echo "setup: making .venv with $python"
    make_venv
fi
rm -f "$stamp"
case $extra in
web) echo "setup: installing webtraj with browser support and the viewer (300 MB)" ;;
dev) echo "setup: installing webtraj and its development packages (1.8 GB)" ;;
*) echo "setup: installing webtraj[$extra]" ;;
esac
others=
[ "$extra" != dev ] || others="$our_packages"
# shellcheck disable=SC2086  # Many words, or none.
install .venv --constraint constraints.txt --editable ".[$extra]" $others ||
    fail "the packages could not be installed; the messages are above."

# Playwright's driver includes Node.js, which needs a library that a minimal Debian lacks.
if ! .venv/bin/python -m playwright --version >/dev/null 2>&1; then
    is_debian_root && apt_install libatomic1 || true
    .venv/bin/python -m playwright --version >/dev/null ||
        fail "Playwright's driver does not run; its message is above. If libatomic is missing:" \
            "sudo apt-get install libatomic1 (on Debian or Ubuntu), and run this again."
fi

# If the second attempt fails too, it prints the same message.
.venv/bin/python scripts/get_browser.py 2>/dev/null || {
    is_debian_root && { apt_install chromium-headless-shell || apt_install chromium; } || true
    .venv/bin/python scripts/get_browser.py --check ||
        fail "no browser found. To see what else is missing, run .venv/bin/webtraj doctor"
}

# MiniWoB++'s pages are laid out for Arial: with a wider font, some lines break and daily-calendar
# cannot be solved. Debian's headless browser includes no fonts.
if is_debian_root && ! dpkg -s fonts-liberation >/dev/null 2>&1; then
    apt_install fonts-liberation || echo "setup: fonts-liberation could not be installed" >&2
fi

# The tests of `webtraj record` show windows, on a virtual screen.
if [ "$extra" = dev ] && is_debian_root && ! { command -v chromium && command -v Xvfb; } >/dev/null; then
    apt_install chromium xvfb || echo "setup: chromium and xvfb could not be installed" >&2
fi

echo "$extra $wanted" >"$stamp"
echo "setup: done in $(($(date +%s) - began)) s; .venv has $(du -sh .venv | cut -f1)." \
    "To use webtraj in this shell: . .venv/bin/activate"
