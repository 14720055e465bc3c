# The same lines that people type. `make demo` and `make test` work from a clean checkout with Python >= 3.11 and pip.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help setup demo docs test test-clients torture lint format bench clean

help:           ## Show the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

setup: .venv/.ready  ## Make .venv with everything the demo and the tests need.

# The stamp depends on what decides the installation, so that a second call installs nothing.
.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "ltgcd needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup     ## Discover the novel classes of a long-tailed copy of scikit-learn's digits.
	$(BIN)/ltgcd demo

docs: setup     ## The documentation site, in docs/_build/html; a warning is an error.
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

# With bytecode kept the hundred processes that tests start need not compile everything anew. A file goes to one process
# as a whole: what its tests share, a Ray cluster or a trained run, is made once.
test: setup lint  ## Lint, types and the whole test suite.
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -q

# Not part of `make test`: 2 GB of other people's programs, each in an environment of its own.
test-clients: setup .venv-clients/fiftyone/.ready .venv-clients/label-studio/.ready  ## Exports in the real FiftyOne, pycocotools and Label Studio, and back.
	$(BIN)/python tests/clients/run.py

.venv-clients/%/.ready: tests/clients/%.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --requirement $<
	@touch $@

# Not part of `make test`, which does a few of these trials: minutes of hostile sources, damage, kills and pairs.
MINUTES ?= 10
SEED ?= 0
torture: setup  ## The standing trial of robustness, for MINUTES=10 from SEED=0.
	$(BIN)/python -m tests.torture --minutes $(MINUTES) --seed $(SEED)

lint: setup     ## ruff, mypy and the layers of the rooms only.
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports --no-cache

format: setup   ## Rewrite the sources in the house style.
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

bench: setup    ## Speed ratios and studies; results are committed as text under benchmarks/.
	$(BIN)/python benchmarks/run.py

clean:          ## Remove what make made.
	rm -rf docs/_build docs/_generated .venv .venv-clients .mypy_cache .ruff_cache .pytest_cache .hypothesis
