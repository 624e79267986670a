# Every target creates what it needs: `make demo` works in a fresh clone.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
KERNELS := jaxpriv/_native/kernels.so
COMPARATORS := $(VENV)/.ready-benchmarks
# The first interpreter that is at least 3.11 and can make a virtual environment; PYTHON=... overrides.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python; do \
    $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 2

.PHONY: install demo test lint figures bench clean
.DEFAULT_GOAL := install

install: $(READY) $(KERNELS)

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later with the venv module is needed (or pass PYTHON=...)" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# The editable install compiles them; this is for sources that have changed since.
$(KERNELS): $(wildcard jaxpriv/_native/*.[ch]) | $(READY)
	-$(BIN)/python hatch_build.py

$(COMPARATORS): requirements-benchmarks.lock $(READY)
	$(PIP) install -r requirements-benchmarks.lock
	@touch $@

demo: install
	$(BIN)/jaxpriv demo

test: install
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

# Draws docs/figures anew from the experiments' committed data; their run.py make the data.
figures: $(READY)
	@for plot in experiments/*/plot.py; do echo "$$plot"; $(BIN)/python "$$plot" || exit 1; done

bench: $(COMPARATORS) $(KERNELS)
	$(BIN)/python -m benchmarks.run --suite short --seed 1 --budget-seconds 540 --report

clean:
	rm -rf $(VENV) $(KERNELS) build dist out .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find jaxpriv tests benchmarks experiments scripts -name __pycache__ -type d -prune -exec rm -rf {} +
