# ackloss: `make run` runs the two plans, `make test` runs all checks, `make check` the fast ones.

.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory
# Hundreds of processes import the same modules: what one has compiled is kept for the others.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
GROUPS := --dist loadgroup --no-loadscope-reorder
WITHOUT_NODES := not docker and not real_time and not e2e
FAST := $(WITHOUT_NODES) and not spark and not browser and not java and not go and not node and not slow

.PHONY: help setup run test check lint types style compile collect docs bench e2e track-record claims torture mutants clean

help:  ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

setup:  ## Set this machine up: packages, Docker, .venv, images, archives
	@scripts/setup

run: setup  ## Set up, run the unclean and the safe plan, compare them on one page
	@$(BIN)/ackloss run plans/kafka-unclean.toml plans/kafka-safe.toml --as-expected --compare

# While types are checked, which takes one core, packages are compiled, and tests by being collected
# once: for all processes. Three of the five wait for nodes most of the time; the others, of a low
# priority, take the processors meanwhile.
test:  ## Set up, then lint, types, import contracts and all tests, also on real Kafka
	@COMPILE_LATER=1 MEANWHILE="make lint AND='compile collect'" scripts/setup dev
	@$(BIN)/pytest -q -n 5 $(GROUPS) --durations=25

check:  ## Format, lint, types, import contracts, fast tests (no cluster)
	@scripts/venv dev
	@$(MAKE) lint
	@$(BIN)/pytest -q -n 4 $(GROUPS) -m "$(FAST)" $(PYTEST_ARGS)

lint:
	@$(MAKE) types & $(MAKE) style $(AND); status=$$?; wait $$! && exit $$status

types:
	$(BIN)/mypy

style:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/plan_reference.py --check
	$(BIN)/python scripts/size

compile:
	@scripts/compile

collect:
	@$(BIN)/pytest -q --collect-only >/dev/null || true

docs:  ## Write docs/reference/plan.md, the tables in docs/how-to/campaigns.md, docs/reference/kafka-versions.md and docs/start/notebook.ipynb again
	@scripts/venv dev
	@$(BIN)/python scripts/plan_reference.py
	@$(BIN)/python scripts/notebook.py

bench:  ## Measure start-up, recording and checking, as ratios
	@scripts/setup dev
	@missed=0; for file in bench/[a-z]*.py; do \
		name=$$(basename $$file .py); \
		$(BIN)/python -m bench.$$name || missed=1; \
	done; exit $$missed

e2e:  ## Run all tests with large budgets: every plan, version and kind of cluster (hours; restarts Docker once)
	@scripts/setup dev
	@failed=0; \
	ACKLOSS_E2E=all $(BIN)/pytest -q -n 2 $(GROUPS) --timeout 7200 -m "$(WITHOUT_NODES)" || failed=1; \
	ACKLOSS_E2E=all $(BIN)/pytest -s -m "not ($(WITHOUT_NODES))" || failed=1; \
	exit $$failed

track-record:  ## Find historical defects again, each with its control; write docs/evidence/track-record.md (about an hour and a half)
	@scripts/setup
	@$(BIN)/python scripts/track_record.py

claims:  ## Ask real clusters what the five documents claim, write docs/evidence/claims.md (hours; continues where it stopped)
	@scripts/setup
	@$(BIN)/python -m scripts.claims

torture:  ## Kill runs with all fault families but manual ones 50 times at random instants; check that clean leaves nothing
	@scripts/setup dev
	@ACKLOSS_E2E=all ACKLOSS_TORTURE_ROUNDS=50 $(BIN)/pytest -s tests/e2e/test_torture.py

mutants:  ## Mutation testing of checkers and statistics (hours; continues where it stopped)
	@scripts/venv dev
	@$(BIN)/python scripts/mutants.py

clean:  ## Remove what dead runs left, and the tools' caches; runs/ and .venv stay
	@if [ -x $(BIN)/ackloss ]; then $(BIN)/ackloss clean; fi
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
