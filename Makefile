# Everything that is done with this repository, one line each. `make help` lists it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help try dev check test fix gen bench docs real clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

try: $(VENV)/.user ## install, fetch the small local model, watch a scripted coding turn, get one real answer
	$(BIN)/hermes models pull smollm2 && $(BIN)/hermes demo --yes && $(BIN)/hermes chat --model local/smollm2 --query "In one sentence: what is a daemon in computing?"

dev: $(VENV)/.dev ## everything needed to work on it, in .venv

check: dev ## format, lint, strict types, import contracts, generated files
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo && $(BIN)/python protocol/generate.py --check && $(BIN)/python docs/generate.py --check

test: dev ## all tests; what needs a program that is not here is skipped with a reason
	$(BIN)/pytest -rs $(ARGS)

fix: dev ## format, and mend what can be mended by itself
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

gen: dev ## the files that follow from the types: schemas, reference pages
	$(BIN)/python protocol/generate.py && $(BIN)/python docs/generate.py

bench: dev ## the figures of docs/performance.md, measured here and now
	$(BIN)/python -m tests.bench $(ARGS)

docs: gen ## the generated pages, and the tests that hold pages and code together
	$(BIN)/pytest tests/docs tests/protocol tests/stories

real: dev ## programs by others that the tests in tests/real speak with
	tests/real/setup

clean: ## what can be made again
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")' && { $(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }; }

$(VENV)/.user: $(BIN)/python pyproject.toml
	@echo "installing into $(VENV)" && $(PIP) --editable '.[local]' && touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	@echo "installing into $(VENV), with what its development needs" && $(PIP) --editable '.[local,dev]' && touch $@
