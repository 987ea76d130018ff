#!/bin/sh
# The tests of the parts that lean on other packages, in another environment: that of the lowest
# versions which pyproject.toml allows (`lowest`), or that of another Python (`python3.13`).
# `newest-python` means the newest other Python found here, and does nothing if there is none. Other
# arguments go to pytest; name files to run other tests, `tests` for all that are quick and need no browser.
set -eu
cd "$(dirname "$0")/.."
. scripts/other_pythons.sh
name=$1
shift
if [ "$name" = newest-python ]; then
    name=$(newest_other_python) || {
        echo "test_with: skipped, as no other Python from 3.11 on was found here."
        exit 0
    }
fi
sh scripts/environment.sh "$name"
[ $# -gt 0 ] || set -- tests/packaging/test_import.py tests/formats tests/serialization \
    tests/storage/test_bucket_access.py tests/agents/models tests/cli tests/datasets/exporters \
    packages/webtraj-formats/tests/exporters tests/datasets/test_parquet.py \
    tests/rollouts/configuration tests/rollouts/metrics tests/environments/bridges \
    tests/testing tests/test_trajectory.py packages/webtraj-integrations/tests
".venv-$name/bin/python" -VV
exec env WEBTRAJ_EXAMPLES="${WEBTRAJ_EXAMPLES:-3}" ".venv-$name/bin/python" -m pytest -n 2 \
    --dist worksteal -p no:cacheprovider -m "not slow and not browser" "$@"
