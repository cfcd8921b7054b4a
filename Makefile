# Two commands do all the set-up: `make chat` and `make test`. A command that is interrupted can
# simply be run again: the stamp is written last.
PYTHON ?= python3
# Passed to pip, for example an index with torch's CPU build (see README).
PIP_FLAGS ?=
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: chat test test-fast lint setup clean

chat: $(STAMP)
	@$(BIN)/radixchat chat

test: $(STAMP)
	@$(BIN)/radixchat models pull
	$(BIN)/pytest -n auto

test-fast: $(STAMP)
	$(BIN)/pytest -n auto -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

setup: $(STAMP)
	@$(BIN)/radixchat models pull

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "radixchat needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another: make $(MAKECMDGOALS) PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check --constraint constraints.txt $(PIP_FLAGS) --editable '.[test,lint]'
	@touch $@

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf kernels/__pycache__/cpu-kernels-*
