#!/bin/sh
# Makes .venv-train in the checkout: webtraj with PyTorch for CPUs and what its trainer needs,
# pinned. Does nothing if it was done before and nothing that it depends on has changed.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "train_venv: $*" >&2
    exit 1
}

requirements=scripts/train_requirements.txt
python=.venv/bin/python
[ -x "$python" ] || fail "there is no .venv; run make setup first."

# The checkout's path is in there because a virtual environment cannot be moved.
wanted=$({ pwd -P; "$python" -VV; cat "$requirements" pyproject.toml constraints.txt \
    scripts/cpu_torchvision.sh; } | cksum)
stamp=.venv-train/.webtraj-setup
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

install() {
    .venv-train/bin/python -m pip install --quiet --disable-pip-version-check \
        --constraint constraints.txt --requirement "$requirements" \
        --editable '.[miniwob,config,tensorboard,report,test]' pytest-timeout "$@"
}

echo "train_venv: making .venv-train (1.7 GB on disk)"
rm -rf .venv-train
"$python" -m venv .venv-train
# PyTorch's own index is asked only if the one at hand has no torch for CPUs: PyPI has none.
install 2>/dev/null || install --extra-index-url https://download.pytorch.org/whl/cpu ||
    fail "pip could not install the packages; its message is above."
sh scripts/cpu_torchvision.sh .venv-train
.venv-train/bin/python -c 'import accelerate, peft, torch, transformers' >/dev/null ||
    fail "PyTorch or transformers does not load; see above."
echo "$wanted" >"$stamp"
