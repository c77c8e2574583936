# Everything below sets up what it needs, says what it does, and is safe to repeat.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=

.PHONY: help demo test lint engine image clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: image ## fix a fresh random bug with the embedded model in a Docker sandbox (ARGS="--seed 7")
	$(BIN)/clover-agent demo $(ARGS)

test: lint image ## run the linters and all tests (ARGS="-k name")
	$(BIN)/python -m pytest $(ARGS)

lint: $(READY) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

engine: ## install and start the Docker engine where it is missing
	@.ci/setup docker

image: $(READY) engine ## build the sandbox image where it is missing
	$(BIN)/clover-agent sandbox build

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build *.egg-info

$(READY): pyproject.toml constraints.txt .ci/setup
	@PYTHON=$(PYTHON) VENV=$(VENV) .ci/setup venv
	@touch $(READY)
