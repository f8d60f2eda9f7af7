# All that is done with the project. Needs make and a Python >= 3.12 (see tools/find-python);
# everything else goes into .venv, and is installed again only when its list has changed.

VENV := .venv
BIN := $(VENV)/bin
DATA := $(or $(INTARSIA_DATA),../shared/data)
PYTEST_ARGS ?=
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test readers lint types imports docs bench clean

help:
	@echo 'make demo     make unlike files, combine them, verify every bit, draw figures (in demo/)'
	@echo 'make test     run the tests; PYTEST_ARGS="-k name" for some of them'
	@echo 'make readers  install other readers of Zarr, whose tests are skipped without them'
	@echo 'make lint     style, format, and that imports point down'
	@echo 'make types    pyright, strict, over src'
	@echo 'make docs     build the docs into site/'
	@echo 'make bench    measure speed and memory, beside other readers; BENCH_ARGS for some'
	@echo 'make clean    remove .venv and all that was built'

demo: $(VENV)/.installed-plot
	$(BIN)/intarsia demo

test: $(VENV)/.installed-test
	INTARSIA_DATA='$(DATA)' $(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

readers: $(VENV)/.installed-readers $(VENV)/readers/.installed

lint: $(VENV)/.installed-dev imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports --no-logo --no-cache

types: $(VENV)/.installed-dev
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

bench: $(VENV)/.installed-bench
	$(BIN)/python -m bench $(BENCH_ARGS)

clean:
	rm -rf $(VENV) site dist .pytest_cache .ruff_cache .hypothesis

# One stamp per set of optional dependencies.
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'installing intarsia[$*] into $(VENV) ...'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

# zarrita.js, beside the virtual environment; no readers for a machine without npm.
$(VENV)/readers/.installed: tests/readers/package.json | $(BIN)/python
	@mkdir -p $(@D) && cp $< $(@D)/
	@if command -v npm > /dev/null; then \
		echo 'installing zarrita into $(@D) ...'; \
		npm install --prefix $(@D) --no-package-lock --no-audit --no-fund --ignore-scripts \
			--omit=dev --loglevel=error && touch $@; \
	else \
		echo 'npm is not installed, so that zarrita is not tested'; \
	fi

$(BIN)/python:
	@python="$$(PYTHON='$(PYTHON)' tools/find-python)" && \
	echo "making $(VENV) with $$python" && \
	{ "$$python" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; }
