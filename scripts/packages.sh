#!/bin/sh
# Sourced by the scripts that make virtual environments: `install VENV ARGUMENTS` is `pip install
# ARGUMENTS` in that environment, by uv, which links packages from its cache instead of copying them.
# `$our_packages` holds the arguments that install the packages of this checkout, to be developed.
# uv comes from the package index into .venv. Without it, or with WEBTRAJ_INSTALLER=pip, pip installs.

# All packages beside the library, as developed, those of the examples included: two words for each.
our_packages="--editable examples/two_cores --editable examples/own_application"
for each_package in packages/*/; do
    our_packages="$our_packages --editable ${each_package%/}[dev]"
done

uv_of_checkout=.venv/bin/uv

have_uv() {
    [ "${WEBTRAJ_INSTALLER:-uv}" = uv ] || return 1
    [ -x "$uv_of_checkout" ] ||
        .venv/bin/python -m pip install --quiet --disable-pip-version-check uv >/dev/null 2>&1
    [ -x "$uv_of_checkout" ]
}

install() {
    install_python=$1/bin/python
    shift
    if have_uv; then
        # uv does not read pip's configuration. A place of wheels that is named there may hold what
        # no index has, such as PyTorch for CPUs.
        UV_FIND_LINKS=${UV_FIND_LINKS:-$(.venv/bin/python -m pip config get global.find-links \
            2>/dev/null | tr ' ' ',' || true)}
        [ -n "$UV_FIND_LINKS" ] && export UV_FIND_LINKS || unset UV_FIND_LINKS
        # Progress bars are for people.
        quiet=--quiet
        [ -t 2 ] && quiet=
        UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-180} UV_INDEX_STRATEGY=unsafe-best-match \
            "$uv_of_checkout" pip install $quiet --python "$install_python" "$@" && return
        [ "${WEBTRAJ_FALLBACK:-pip}" = pip ] || return 1
        echo "packages: uv could not install them; trying pip" >&2
    fi
    "$install_python" -m pip install --quiet --disable-pip-version-check "$@"
}
