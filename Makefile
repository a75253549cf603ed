# Two commands: `make run` starts the app with its engine, `make test` tests it. Both set up what they need.
SHELL := /bin/bash
export VENV ?= .venv
PY := $(VENV)/bin/python
# An NVIDIA GPU brings the GPU toolchain with it; TOOLCHAIN=1 asks for it elsewhere (programs then compile here).
GPU := $(shell { nvidia-smi -L 2>/dev/null | grep -q GPU || [ -n "$(TOOLCHAIN)" ]; } && echo gpu)
ARGS ?=

.PHONY: run test lint vendor setup clean

run: ## set everything up and start the app with its engine (ARGS="--port 9000 --device modelled:h200")
	@.ci/setup $(GPU)
	@exec $(PY) manage.py up $(ARGS)

test: ## set everything up, lint, and run every test that this machine can run
	@.ci/setup gpu test chromium postgresql
	@$(MAKE) --no-print-directory lint
	@.ci/test $(ARGS)

lint: ## style, and the arrows between the rooms
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/lint-imports

vendor: ## rebuild static/vendor from npm (needs node; the result is committed)
	@static/vendor/build.sh

setup:
	@.ci/setup $(GPU) test chromium postgresql

clean: ## remove what was built; keeps var/ (your sessions)
	rm -rf $(VENV) staticfiles .pytest_cache .ruff_cache .hypothesis .import_linter_cache
