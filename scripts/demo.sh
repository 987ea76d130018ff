#!/bin/sh
# Plays MiniWoB++ tasks with the oracle and the random agent, in a real browser, and records every
# episode to runs/demo. Replaces an earlier runs/demo.
set -eu
cd "$(dirname "$0")/.."
webtraj=.venv/bin/webtraj
out=runs/demo
rm -rf "$out"

echo "1. The oracle plays six tasks, ten episodes each."
$webtraj rollout --agent oracle --episodes 60 --parallel 4 --seed 0 --out "$out" \
    --preset miniwob/click-test --preset miniwob/click-button --preset miniwob/click-link \
    --preset miniwob/click-checkboxes --preset miniwob/enter-text --preset miniwob/login-user

echo "2. The random agent plays three of them."
$webtraj rollout --agent random --episodes 30 --parallel 4 --seed 0 --out "$out" \
    --preset miniwob/click-test --preset miniwob/click-button --preset miniwob/enter-text

echo "3. Every byte of the dataset is checked."
$webtraj verify "$out"

cat <<EOT

The dataset is in $out. Look at the episodes in your browser:
    .venv/bin/webtraj view $out

What else to do (first: . .venv/bin/activate):
    webtraj ls $out
        list the episodes
    webtraj show $out EPISODE_ID
        read one episode, step by step
    webtraj presets
        list the environments
    webtraj rollout --preset miniwob/all --agent random --parallel 4 --out runs/all
        run a random agent on every task

In Python:
    import webtraj
    for trajectory in webtraj.open_dataset("$out"):
        print(trajectory.info.task, trajectory.total_reward, trajectory.end_reason.name)
EOT
# Only a person who watches can be asked.
if [ -t 0 ] && [ -t 1 ]; then
    printf '\nOpen the viewer now? [Y/n] '
    read -r answer || answer=n
    case $answer in
    [nN]*) ;;
    *) exec $webtraj view "$out" ;;
    esac
fi
