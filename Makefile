# Every target sets up what it needs; the second time that costs nothing.

BIN := .venv/bin
PYTEST_ARGS ?= -n 2 --dist worksteal

.PHONY: help setup demo check format test clean

help:
	@echo "make setup    .venv with everything, and a browser"
	@echo "make demo     play real tasks in a real browser, and record them to runs/demo"
	@echo "make check    formatting, lint, types"
	@echo "make test     check, and all tests"
	@echo "make format   put the formatting right"
	@echo "make bench-X  run benchmarks/X.py"

setup:
	@sh scripts/setup.sh

demo: setup
	@sh scripts/demo.sh

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: check
	$(BIN)/pytest $(PYTEST_ARGS)

bench-%: setup
	$(BIN)/python benchmarks/$*.py

clean:
	rm -rf .venv build dist runs/demo
