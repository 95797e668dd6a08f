# `make demo` and `make test` are all that a fresh machine needs; they set up .venv by themselves.

VENV := .venv
PY := $(VENV)/bin/python

.PHONY: demo test check docs examples clean help

help: ## what there is
	@grep -hE '^[a-z]+:.*##' Makefile | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(VENV)/.runtime ## set up, then the main job on the recordings in examples/
	@scripts/demo

test: $(VENV)/.tests ## everything that CI runs: style, types, layers, docs, tests
	@scripts/test

check: $(VENV)/.tests ## style, types, layers and docs only
	@scripts/test --no-pytest

docs: $(VENV)/.tests ## write docs/reference.md anew from the code
	@$(PY) scripts/reference.py

examples: $(VENV)/.tests ## write the simulated example recordings anew
	@$(PY) examples/make_simulated.py

clean: ## remove what was built
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.runtime: pyproject.toml
	@scripts/setup
	@touch $@

$(VENV)/.tests: pyproject.toml
	@scripts/setup test
	@touch $@ $(VENV)/.runtime
