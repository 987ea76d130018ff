# Every target sets up what it needs; the second time that costs nothing.

# Without compiled files, every process of the tests would compile all that it imports: 11 s for torch
# and transformers.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PYTEST_ARGS ?= -n 2 --dist worksteal
EPISODES ?= 100
ROLLOUTS ?= 60
PROCESSED ?= 500
ORACLE_SEEDS ?= 3
EXAMPLES ?= 10
MORE_EXAMPLES ?= 40
ITERATIONS ?= 1
APP_SEEDS ?= 1
APP_CHECKS ?=
# `make full` draws a seed and prints it.
SEED ?= $(or $(WEBTRAJ_SEED),0)
THEIRS ?=
TREES ?= build/tree.md
OUT ?= runs/two_cores
LOOP ?= --resume

.PHONY: help setup demo check format test test-slow test-gate full test-lowest test-newest-python test-s3 test-vllm test-ray test-rollouts test-judges test-processing test-train test-llamafactory test-openenv test-trainers test-apps test-widgets test-typescript test-docs test-demo test-wheel test-loop test-peers test-trees test-soak bench-openenv environments loop docs images clean

help:
	@echo "make setup      .venv with everything, and a browser"
	@echo "make demo       webtraj demo: play real pages, record them in runs/demo, show them; installs only what that needs"
	@echo "make check      formatting, lint, types"
	@echo "make test       check, and the fast lane: all tests that are quick (EXAMPLES=$(EXAMPLES) of each property)"
	@echo "make test-gate  slow tests that hold the contracts: hostile pages, isolation, kills, recovery, one seed of each oracle"
	@echo "make full       every other lane below, one after another (hours); the table is build/full.md"
	@echo "make test-slow  the slow tests that are not in the gate: every oracle (ORACLE_SEEDS=$(ORACLE_SEEDS)), properties again (MORE_EXAMPLES=$(MORE_EXAMPLES))"
	@echo "make test-lowest  what leans on other packages, with the lowest versions that pyproject.toml allows"
	@echo "make test-python3.13  the same tests with another Python; test-newest-python: the newest found here"
	@echo "make test-s3    ten thousand episodes to an S3 server"
	@echo "make test-vllm  agents with a real vLLM on the CPU, in an environment of its own"
	@echo "make test-ray   rollouts on two machines of a Ray cluster, in network namespaces (as root)"
	@echo "make test-rollouts  a rollout under faults, killed and resumed (ROLLOUTS=$(ROLLOUTS))"
	@echo "make test-judges  judges beside the labels of three hundred played episodes"
	@echo "make test-processing  episodes of a bucket through a pipeline that is killed (PROCESSED=$(PROCESSED))"
	@echo "make test-train a model trained on what was recorded, with PyTorch in an environment of its own"
	@echo "make test-llamafactory  LLaMA-Factory, really run on the CPU, in an environment of its own"
	@echo "make test-openenv  the OpenEnv server, with the clients of OpenEnv, TRL and verifiers"
	@echo "make test-trainers  the adapters for verl and SkyRL, with their own drivers, in an environment of their own"
	@echo "make test-apps  real applications: installed, and every task's oracle played (APP_SEEDS=$(APP_SEEDS))"
	@echo "make test-widgets  widgets of UI libraries: installed, their oracles played, recorded, replayed and exported"
	@echo "make test-typescript  exported TypeScript scripts, checked by its compiler and run by @playwright/test"
	@echo "make test-peers a live BrowserGym environment, recorded; logs that Inspect, Harbor and W&B read"
	@echo "make test-trees  the page tree beside Chromium's and Playwright's, on 320 pages of packages (TREES=$(TREES))"
	@echo "make test-soak  a long rollout while browsers fail (EPISODES=$(EPISODES) SEED=$(SEED))"
	@echo "make test-docs  every block of the documentation; the whole of it after make environments"
	@echo "make test-demo  the demo from nothing, in a copy of the checkout: its seconds and megabytes"
	@echo "make test-wheel the built wheel in fresh environments, as a stranger installs it: oldest and newest Python"
	@echo "make test-loop  the loop in small, killed in every phase (ITERATIONS=$(ITERATIONS) SEED=$(SEED))"
	@echo "make environments  the virtual environments of the tests above"
	@echo "make loop       from no model to a good one on two cores: runs/two_cores (OUT=$(OUT))"
	@echo "make docs       the documentation site, in build/site"
	@echo "make images     the pictures of the documentation: the viewer, the demo as it runs, and an MCP client's calls"
	@echo "make format     put the formatting right"
	@echo "make bench-X    run benchmarks/X.py"
	@echo "make bench-openenv  the OpenEnv server beside OpenEnv's own BrowserGym server (THEIRS=its checkout)"
	@echo "CONTRIBUTING.md says what each lane holds."

setup:
	@sh scripts/setup.sh

demo:
	@sh scripts/setup.sh web
	@$(BIN)/webtraj demo

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: check
	WEBTRAJ_EXAMPLES=$(EXAMPLES) $(BIN)/pytest $(PYTEST_ARGS) --durations=25 -m "not slow"

test-gate: setup
	WEBTRAJ_ORACLE_SEEDS=1 $(BIN)/pytest $(PYTEST_ARGS) --durations=25 -m gate

test-slow: setup
	WEBTRAJ_EXAMPLES=$(MORE_EXAMPLES) WEBTRAJ_ORACLE_SEEDS=$(ORACLE_SEEDS) $(BIN)/pytest $(PYTEST_ARGS) --hypothesis-seed=$(SEED) --durations=25 -m "(slow or hypothesis) and not gate" --ignore=tests/docs --ignore=packages/webtraj-apps

full: setup
	$(BIN)/python scripts/lanes.py full

test-lowest: setup
	@sh scripts/test_with.sh lowest

# For example `make test-python3.13`; `make test-newest-python` takes the newest other one found here.
test-python%: setup
	@sh scripts/test_with.sh python$*

test-newest-python: setup
	@sh scripts/test_with.sh newest-python

environments: setup
	@sh scripts/environment.sh vllm train llamafactory browsergym agents stagehand openenv verifiers trainers wandb inspect lowest

test-s3: setup
	WEBTRAJ_S3_EPISODES=10000 $(BIN)/pytest -p no:xdist tests/collectors/bucket/test_s3_scale.py

test-vllm: setup
	@sh scripts/test_vllm.sh

test-ray: setup
	@sh scripts/test_ray.sh

test-rollouts: setup
	WEBTRAJ_ROLLOUTS=$(ROLLOUTS) WEBTRAJ_SEED=$(SEED) $(BIN)/pytest -s -p no:xdist tests/soak/test_rollout_soak.py

test-judges: setup
	WEBTRAJ_TEST_JUDGES=1 $(BIN)/pytest -p no:xdist tests/judging -k "labelled or real or rules"

test-processing: setup
	WEBTRAJ_PROCESSING_EPISODES=$(PROCESSED) $(BIN)/pytest -p no:xdist tests/processing/test_killed_pipelines.py

test-train: setup
	@sh scripts/test_train.sh

test-llamafactory: setup
	@sh scripts/test_llamafactory.sh

test-openenv: setup
	@sh scripts/test_openenv.sh

test-trainers: setup
	@sh scripts/test_trainers.sh

test-apps: setup
	@SEEDS=$(APP_SEEDS) sh scripts/test_apps.sh $(APP_CHECKS)

test-widgets: setup
	@WEBTRAJ_APPS=$(CURDIR)/.venv-apps $(BIN)/webtraj apps install widgets
	@WEBTRAJ_APPS=$(CURDIR)/.venv-apps $(BIN)/python packages/webtraj-apps/scripts/widgets.py --check $(WIDGETS)

test-typescript: setup
	@sh scripts/test_typescript.sh

test-docs: setup
	$(BIN)/pytest $(PYTEST_ARGS) -m slow tests/docs

test-loop: setup
	@sh scripts/test_loop.sh --seed $(SEED) --iterations $(ITERATIONS)

loop: setup
	@sh scripts/loop.sh out=$(OUT) $(LOOP)

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

images: setup
	$(BIN)/python scripts/viewer_images.py
	$(BIN)/python scripts/first_picture.py
	$(BIN)/python scripts/mcp_picture.py
	xvfb-run -a $(BIN)/python scripts/record_picture.py

test-demo:
	@sh scripts/test_demo.sh

test-wheel: setup
	@sh scripts/test_wheel.sh

test-peers: setup
	$(BIN)/python scripts/test_peers.py

test-trees: setup
	WEBTRAJ_TREES=$(TREES) $(BIN)/pytest -p no:xdist tests/trees

test-soak: setup
	$(BIN)/python -W error tests/soak/soak.py --episodes $(EPISODES) --seed $(SEED)

bench-%: setup
	$(BIN)/python benchmarks/$*.py

bench-openenv: setup
	@sh scripts/environment.sh openenv
	.venv-openenv/bin/python benchmarks/openenv_browsergym.py $(if $(THEIRS),--theirs $(THEIRS))

clean:
	rm -rf .venv build dist runs/demo
