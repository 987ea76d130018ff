#!/bin/sh
# Makes .venv-llamafactory in the checkout: LLaMA-Factory for CPUs, pinned, which shares no
# environment with webtraj. Does nothing if it was done before and neither this script, nor
# cpu_torchvision.sh, nor llamafactory_requirements.txt, nor Python has changed. Needs x86-64 Linux.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "llamafactory_venv: $*" >&2
    exit 1
}

requirements=scripts/llamafactory_requirements.txt
venv=.venv-llamafactory
python=.venv/bin/python
[ -x "$python" ] || fail "there is no .venv; run make setup first."
[ "$(uname -sm)" = "Linux x86_64" ] ||
    fail "the pinned packages are for x86-64 Linux, and this is $(uname -sm)."

# The checkout's path is in there because a virtual environment cannot be moved.
wanted=$({ pwd -P; "$python" -VV; cat "$requirements" scripts/llamafactory_venv.sh \
    scripts/cpu_torchvision.sh; } | cksum)
stamp=$venv/.webtraj-setup
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

install() {
    $venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
        --requirement "$requirements" "$@"
}

loads() {
    $venv/bin/python -W ignore -c "import $1" >/dev/null 2>&1
}

echo "llamafactory_venv: making $venv (2 GB on disk)"
rm -rf $venv
"$python" -m venv $venv
# PyTorch's own index is asked only if the one at hand has no torch for CPUs: PyPI has none.
install 2>/dev/null || install --extra-index-url https://download.pytorch.org/whl/cpu ||
    fail "pip could not install the packages; its message is above."

sh scripts/cpu_torchvision.sh $venv
# PyPI's torchaudio is linked against CUDA too; LLaMA-Factory needs of it that it can be imported.
packages=$($venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
if ! loads torchaudio; then
    # Without its libraries it does what it can, by design.
    mkdir "$packages/torchaudio/lib/unused"
    mv "$packages"/torchaudio/lib/*.so "$packages/torchaudio/lib/unused/"
    loads torchaudio || fail "torchaudio does not load beside this torch."
fi
$venv/bin/llamafactory-cli version >/dev/null || fail "LLaMA-Factory does not load; see above."
echo "$wanted" >"$stamp"
