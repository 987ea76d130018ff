#!/bin/sh
# What a stranger gets: builds the archives of the library and of each package beside it, checks them as a
# package index does, and installs the library's wheel in fresh environments, with the oldest Python that it
# is for and the newest that is found here. In each, first with the core alone, then with `web`: an episode is
# recorded and read, one is played in a browser, and the viewer is asked for its page; the example package
# two_cores is installed and its recipe read. Each package beside the library is installed alone with it. The
# versions are those of constraints.txt, so that only a change here can fail this.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
. scripts/other_pythons.sh
checkout=$(pwd -P)
work=$(mktemp -d)
viewer=
trap '[ -z "$viewer" ] || kill "$viewer" 2>/dev/null; rm -rf "$work"' EXIT
unset PYTHONPATH

# In a copy, where nothing lies that an earlier build has made.
mkdir "$work/copy"
tar --exclude=__pycache__ --exclude='*.egg-info' -cf - src pyproject.toml README.md LICENSE CHANGELOG.md \
    MANIFEST.in | tar -xf - -C "$work/copy"
cp -R examples/two_cores "$work/two_cores"
.venv/bin/python -m venv "$work/tools"
install "$work/tools" --constraint constraints.txt build==1.6.1 twine==7.0.0 setuptools
"$work/tools/bin/python" -m build --no-isolation --outdir "$work/dist" "$work/copy" >"$work/build.log" 2>&1 ||
    { cat "$work/build.log" >&2; exit 1; }
for package in packages/*/; do
    name=$(basename "$package")
    tar --exclude=__pycache__ --exclude='*.egg-info' -cf - "$package" | tar -xf - -C "$work/copy"
    "$work/tools/bin/python" -m build --no-isolation --outdir "$work/dist" "$work/copy/packages/$name" \
        >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }
done
"$work/tools/bin/twine" check --strict "$work"/dist/*
wheel=$(echo "$work"/dist/webtraj-[0-9]*.whl)
files=$("$work/tools/bin/python" -m zipfile -l "$wheel" | tail -n +2 | wc -l)
echo "test_wheel: ${wheel##*/} has $files files, $(($(wc -c <"$wheel") / 1024)) KiB"

used_like_a_stranger() {
    venv=$work/$1
    began=$(date +%s)
    "$(find_other_python "$1")" -m venv "$venv"
    install "$venv" --constraint constraints.txt "$wheel"
    mkdir "$venv/place" && cd "$venv/place"
    case $("$venv/bin/python" -c 'import webtraj; print(webtraj.__file__)') in
    "$venv"/*) ;;
    *) echo "test_wheel: another webtraj is imported" >&2 && return 1 ;;
    esac
    "$venv/bin/webtraj" --help >help.txt
    "$venv/bin/webtraj" presets >presets.txt
    "$venv/bin/python" "$checkout/examples/01_record_your_environment.py" recorded
    "$venv/bin/webtraj" verify recorded

    cd "$checkout"
    install "$venv" --constraint constraints.txt "webtraj[web,config] @ file://$wheel" "$work/two_cores"
    cd "$venv/place"
    "$venv/bin/webtraj" loop --config one_gpu --print-config >loop.yaml
    "$venv/bin/webtraj" loop --config "$checkout/examples/two_cores/two_cores.yaml" --print-config >loop.yaml
    "$venv/bin/webtraj" rollout --preset miniwob/click-test --agent oracle --episodes 1 --out played
    "$venv/bin/webtraj" view --no-open played >view.txt 2>&1 &
    viewer=$!
    "$venv/bin/python" - <<'PYTHON' || { cat view.txt >&2; return 1; }
import pathlib, re, time, urllib.request

deadline = time.monotonic() + 60
while not (found := re.search(r"http://\S+", pathlib.Path("view.txt").read_text())):
    assert time.monotonic() < deadline, "the viewer did not start"
    time.sleep(0.1)
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
page = opener.open(found[0], timeout=30).read()
assert b"<html" in page, page[:200]
PYTHON
    kill "$viewer" && wait "$viewer" 2>/dev/null || true
    viewer=
    cd "$checkout"
    echo "test_wheel: $("$venv/bin/python" -V) took $(($(date +%s) - began)) s, $(du -sh "$venv" | cut -f1)"
}

# Each package beside the library, alone with it: its own modules load, and its commands are found.
beside_the_library() {
    venv=$work/beside-$1
    began=$(date +%s)
    module=$(echo "$1" | tr - _)
    "$(find_other_python python3.11)" -m venv "$venv"
    install "$venv" --constraint constraints.txt --find-links "$work/dist" "$1[$2]"
    mkdir "$venv/place" && cd "$venv/place"
    case $("$venv/bin/python" -c "import $module; print($module.__file__)") in
    "$venv"/*) ;;
    *) echo "test_wheel: another $module is imported" >&2 && return 1 ;;
    esac
    "$venv/bin/webtraj" --help >help.txt
    for command in $3; do
        grep -q "^ *$command " help.txt
        "$venv/bin/webtraj" "$command" --help >/dev/null
    done
    cd "$checkout"
    echo "test_wheel: $1 took $(($(date +%s) - began)) s"
}

beside_the_library webtraj-apps dev apps
beside_the_library webtraj-integrations mcp,otel "mcp openenv otel"
beside_the_library webtraj-formats minari,otel ""

oldest=python3.11
newest=$oldest
for each in python3.14 python3.13 python3.12; do
    find_other_python "$each" >/dev/null && newest=$each && break
done
used_like_a_stranger "$oldest"
[ "$newest" = "$oldest" ] || used_like_a_stranger "$newest"
