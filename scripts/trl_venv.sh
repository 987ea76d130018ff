#!/bin/sh
# Makes .venv-trl in the checkout: TRL with PyTorch for CPUs, pinned, without webtraj. Does nothing
# if it was done before and nothing that it depends on has changed.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "trl_venv: $*" >&2
    exit 1
}

requirements=scripts/trl_requirements.txt
python=.venv/bin/python
[ -x "$python" ] || fail "there is no .venv; run make setup first."

# The checkout's path is in there because a virtual environment cannot be moved.
wanted=$({ pwd -P; "$python" -VV; cat "$requirements" constraints.txt scripts/cpu_torchvision.sh \
    scripts/trl_venv.sh; } | cksum)
stamp=.venv-trl/.webtraj-setup
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

install() {
    .venv-trl/bin/python -m pip install --quiet --disable-pip-version-check \
        --constraint constraints.txt --requirement "$requirements" "$@"
}

echo "trl_venv: making .venv-trl (1.6 GB on disk)"
rm -rf .venv-trl
"$python" -m venv .venv-trl
# PyTorch's own index is asked only if the one at hand has no torch for CPUs: PyPI has none.
install 2>/dev/null || install --extra-index-url https://download.pytorch.org/whl/cpu ||
    fail "pip could not install the packages; its message is above."
sh scripts/cpu_torchvision.sh .venv-trl
.venv-trl/bin/python -c 'from trl import SFTTrainer' >/dev/null || fail "TRL does not load; see above."
echo "$wanted" >"$stamp"
