#!/bin/sh
# The loop in small, with everything real: three tasks, one iteration from random weights, a browser,
# a training, vLLM. Fails unless what was learned is clearly better than chance.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
tasks='[miniwob/click-button,miniwob/click-link,miniwob/click-test-2]'
sh scripts/loop.sh "out=$out/loop" iterations=1 "rollout.overrides.env_config.train_tasks=$tasks" \
    rollout.overrides.env_config.attempts_per_task=250 \
    evaluation.overrides.env_config.attempts_per_task=40 export.options.copies=50 \
    train.overrides.schedule=stable
.venv-train/bin/python tests/loop/check_learned.py "$out/loop"
