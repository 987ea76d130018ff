#!/bin/sh
# Exported TypeScript scripts, checked by TypeScript and run by @playwright/test, which npm installs
# into a folder of their own. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
folder=.venv-typescript
if ! command -v npm >/dev/null; then
    echo "npm is not installed: the TypeScript lane needs Node.js, such as Debian's npm" >&2
    exit 1
fi
mkdir -p "$folder"
npm install --prefix "$folder" --no-save --no-audit --no-fund --silent \
    @playwright/test@1.65.1 typescript@5 @types/node@20
WEBTRAJ_TYPESCRIPT="$PWD/$folder" exec .venv/bin/python -m pytest -p no:xdist \
    -m "slow or not slow" -k typescript packages/webtraj-formats/tests/exporters/test_export_playwright.py "$@"
