# `make run` reproduces the paper's Sequential-MNIST table; `make test` runs the tests.
# Each target makes the set-up that it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USABLE := $(VENV)/.usable
READY := $(VENV)/.ready

.PHONY: setup run test test-fast torture lint tables docs docs-serve bench bench-gpu bench-methods bench-learner bench-serving soak clean

run: $(USABLE)
	$(BIN)/recollect reproduce seq-mnist --methods sgd er der derpp

test: setup
	$(BIN)/python -m pytest -n 2

# The inner loop: what is not marked slow.
test-fast: setup
	$(BIN)/python -m pytest -n 2 -m "not slow"

# Kills, random inputs and soak in full; `make test` has a tenth of them.
torture: setup
	RECOLLECT_TORTURE=1 $(BIN)/python -m pytest -n 2 -m torture
	$(BIN)/python -m benchmarks.soak

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation's tables, from the runs in results/.
tables: setup
	$(BIN)/python -m tools.tables

# The site goes to site/ and opens from disk: site/index.html.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

docs-serve: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: setup
	$(BIN)/python -m benchmarks.cpu

bench-methods: setup
	$(BIN)/python -m benchmarks.methods

bench-learner: setup
	$(BIN)/python -m benchmarks.learner

bench-serving: setup
	$(BIN)/python -m benchmarks.serving

soak: setup
	$(BIN)/python -m benchmarks.soak

bench-gpu: setup
	$(BIN)/python -m benchmarks.gpu

setup: $(READY)

# What a user needs, and then all that a developer needs besides.
$(USABLE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[digits]'
	touch $(USABLE)

$(READY): $(USABLE)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
