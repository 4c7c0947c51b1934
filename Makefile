# `make run` reproduces the paper's Sequential-MNIST table; `make test` runs the tests.
# Each target makes the set-up that it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup run test lint bench bench-gpu bench-methods bench-learner soak clean

run: setup
	$(BIN)/recollect reproduce seq-mnist --methods sgd er der derpp

test: setup
	$(BIN)/python -m pytest -n 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks.cpu

bench-methods: setup
	$(BIN)/python -m benchmarks.methods

bench-learner: setup
	$(BIN)/python -m benchmarks.learner

soak: setup
	$(BIN)/python -m benchmarks.soak

bench-gpu: setup
	$(BIN)/python -m benchmarks.gpu

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
