#!/bin/sh
# The tests of the core, the formats and the command line with the lowest versions of our direct
# dependencies that pyproject.toml allows, in .venv-lowest. So the floors there are true. The packages
# that only tests need stay current. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
have_uv || { echo "test_lowest: this needs uv in .venv" >&2; exit 1; }
venv=.venv-lowest
wanted=$({ pwd -P; .venv/bin/python -VV; cat pyproject.toml scripts/test_lowest.sh; } | cksum)
if ! grep -qsxF "$wanted" $venv/.webtraj-setup; then
    rm -rf $venv
    .venv/bin/python -m venv $venv
    floors=$(mktemp)
    trap 'rm -f "$floors"' EXIT
    .venv/bin/uv pip compile pyproject.toml --quiet --no-header --no-annotate \
        --resolution lowest-direct --python .venv/bin/python --output-file "$floors" \
        --extra web --extra config --extra s3 --extra protobuf --extra parquet \
        --extra gymnasium --extra report
    install $venv --requirement "$floors" --editable '.[test]' pytest-xdist pytest-timeout jsonschema psutil
    echo "$wanted" >$venv/.webtraj-setup
fi
$venv/bin/python -m pip list 2>/dev/null | grep -iE \
    '^(dm-env|numpy|h11|httpx|pydantic|orjson|typer|rich|playwright|pillow|starlette|uvicorn|omegaconf|obstore|protobuf|pyarrow|gymnasium|matplotlib) '
WEBTRAJ_EXAMPLES=10 exec $venv/bin/python -m pytest -n 2 -m "not slow" \
    tests/cli tests/serialization tests/formats tests/collectors tests/agents/models \
    tests/test_trajectory.py tests/datasets/test_dataset.py tests/datasets/test_parquet.py "$@"
