#!/bin/sh
# Rewrites constraints.txt from what is installed in .venv: run it after changing dependencies in
# pyproject.toml and installing them, then run the tests.
set -eu
cd "$(dirname "$0")/.."
{
    echo "# The versions that webtraj is developed and tested with. Written by scripts/constraints.sh."
    .venv/bin/python -m pip freeze --exclude-editable --exclude webtraj --exclude wandb
    # Tested in an environment of its own: see scripts/test_peers.py.
    echo "wandb==0.31.0"
    # Likewise: see scripts/train_requirements.txt.
    printf '%s\n' accelerate==1.15.0 peft==0.21.2 safetensors==0.8.0 torch==2.13.0 \
        transformers==5.23.0
} >constraints.txt.new
mv constraints.txt.new constraints.txt
