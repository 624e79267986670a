# Every target creates what it needs: `make demo` works in a fresh clone.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := $(VENV)/.ready-demo
BUILDER := $(VENV)-build
KERNELS := jaxpriv/_runtime/native/kernels.so
COMPARATORS := $(VENV)/.ready-benchmarks
SITE := $(VENV)/.ready-docs
# The newest interpreter from 3.11 to 3.13 that can make a virtual environment, on the path or among pyenv's versions; else
# any from 3.11 on. PYTHON=... overrides.
PYENV_ROOT ?= $(HOME)/.pyenv
places = python$(1) $(wildcard $(PYENV_ROOT)/versions/$(1).*/bin/python$(1))
usable = $(shell for p in $(1); do \
    $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PYTHON ?= $(call usable,$(foreach v,3.13 3.12 3.11,$(call places,$(v))) python3 python)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 2

# Python 3.11 takes an older JAX (its last): the tests of what depends on JAX's version run there too.
OLDEST := $(VENV)-3.11
SMOKE := tests/test_package.py tests/test_compile.py tests/test_regressions.py tests/test_numerics.py \
    tests/streaming/test_gibbs_kernel.py tests/solvers/test_kernels.py tests/solvers/test_kernel_library.py \
    tests/cli/test_program.py

.PHONY: install demo docs test smoke lint figures bench wheels clean
.DEFAULT_GOAL := install

have_python = test -n "$(PYTHON)" || \
    { echo "Python 3.11 or later with the venv module is needed (or pass PYTHON=...)" >&2; exit 1; }
# The editable install compiles them; this is for sources that have changed since, or a library that is gone.
kernels = test -z "$$(find jaxpriv/_runtime/native/*.[ch] -newer $(KERNELS) 2>/dev/null || echo missing)" || $(BIN)/python hatch_build.py
# A line with the seconds that a command took: $(call stage,name,command).
stage = @printf '%-60s' "$(1)"; from=$$(date +%s); { $(2); } && echo "$$(($$(date +%s) - from)) s"
# What compiles the kernels: the headers come with jaxlib.
BUILD := jaxlib|hatchling|packaging|pathspec|pluggy|trove-classifiers
# $(call packages,lock): the kernels are compiled while pip fetches the other packages; if that fails, the last line tries
# again and goes on without them. Files of Python are compiled when they are imported, not all at once.
packages = grep -E '^($(BUILD))==' $(1) > $(VENV)/build.txt && \
    $(PIP) install --no-compile --no-deps -r $(VENV)/build.txt && \
    { $(BIN)/python hatch_build.py >/dev/null 2>&1 & $(PIP) install --no-compile -r $(1); } && { wait $$! || true; } && \
    $(PIP) install --no-compile --no-deps --no-build-isolation --editable .

install: $(READY)
	-@$(kernels)

# Anew, but where only the demo has been installed: what it needs is a part of this, in the same versions.
$(READY): requirements.lock pyproject.toml
	@$(have_python)
	@test -f $(DEMO) -a ! -f $@ || $(PYTHON) -m venv --clear $(VENV)
	$(call stage,Installing packages and compiling kernels,$(call packages,requirements.lock))
	@touch $(DEMO) $@

# Without the tools of development, and kernels for this machine alone.
$(DEMO): requirements-demo.lock pyproject.toml
	@$(have_python)
	$(call stage,Making an environment in $(VENV),test -f $(READY) || $(PYTHON) -m venv --clear $(VENV))
	$(call stage,Installing packages and compiling kernels,$(call packages,requirements-demo.lock))
	@touch $@

$(COMPARATORS): requirements-benchmarks.lock $(READY)
	$(PIP) install -r requirements-benchmarks.lock
	@touch $@

$(SITE): requirements-docs.lock $(READY)
	$(PIP) install -r requirements-docs.lock
	@touch $@

demo: export JAXPRIV_KERNELS := native
demo: $(DEMO)
	-@$(kernels)
	$(BIN)/jaxpriv demo

# Files in the order of their names: by default those with the fewest tests, the longest ones among them, would come last.
test: install
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Kernels that were compiled for an older XLA work with a newer one, not the other way round. Their arithmetic on other
# machines' instructions does not depend on it.
smoke:
ifeq ($(call usable,$(call places,3.11)),)
	@echo "smoke: no Python 3.11 on this machine, its tests were not run"
else
	rm -f $(KERNELS)
	$(MAKE) install VENV=$(OLDEST) PYTHON=$(call usable,$(call places,3.11))
	JAXPRIV_SHAPES=on $(OLDEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" -k "not avx2 and not baseline" $(SMOKE)
endif

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

# Draws docs/figures anew from the experiments' committed data, and writes docs/gallery; their run.py make the data.
figures: $(READY)
	@for plot in experiments/*/plot.py; do echo "$$plot"; $(BIN)/python "$$plot" || exit 1; done
	$(BIN)/python scripts/build_gallery.py

# Pages in build/docs/index.html; notebooks whose code has not changed do not run again.
docs: install $(SITE)
	$(BIN)/sphinx-build -W --keep-going -b html -d build/docs-cache docs build/docs

bench: install $(COMPARATORS)
	$(BIN)/python -m benchmarks.run --suite short --seed 1 --budget-seconds 840 --report

# Compiled on the headers of the oldest jaxlib that pyproject.toml takes: kernels work with that one and with later ones.
wheels:
	@$(have_python)
	$(PYTHON) -m venv --clear $(BUILDER)
	$(BUILDER)/bin/python -m pip --disable-pip-version-check --quiet install auditwheel $$(grep ^hatchling== requirements.lock)
	$(BUILDER)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps \
	    $$(sed -n 's/^    "jaxlib>=\(.*\)",$$/jaxlib==\1/p' pyproject.toml)
	$(BUILDER)/bin/python scripts/build_wheels.py dist

clean:
	rm -rf $(VENV) $(OLDEST) $(BUILDER) $(KERNELS) $(KERNELS:.so=.sha256) build dist out .jax_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find jaxpriv tests benchmarks experiments scripts -name __pycache__ -type d -prune -exec rm -rf {} +
