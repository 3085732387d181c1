# ackloss: `make run` runs the two plans, `make test` runs all checks, `make check` the fast ones.

.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory
# Hundreds of processes import the same modules: what one has compiled is kept for the others.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
FAST := not spark and not docker and not e2e and not browser and not java and not go and not node

.PHONY: help setup run test check lint docs bench e2e track-record torture mutants clean

help:  ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

setup:  ## Set this machine up: packages, Docker, .venv, images, archives
	@scripts/setup

run: setup  ## Set up, run the unclean and the safe plan, compare them on one page
	@$(BIN)/ackloss run plans/kafka-unclean.toml plans/kafka-safe.toml --as-expected --compare

# Tests are collected once while images are made: that compiles them for all five processes.
test:  ## Set up, then lint, types, import contracts and all tests, also on real Kafka
	@MEANWHILE="make lint && ($(BIN)/pytest -q --collect-only >/dev/null; true)" scripts/setup dev
	@$(BIN)/pytest -q -n 5 --dist loadscope --durations=25

check:  ## Format, lint, types, import contracts, fast tests (no cluster)
	@scripts/venv dev
	@$(MAKE) lint
	@$(BIN)/pytest -q -n 2 --dist loadscope -m "$(FAST)" $(PYTEST_ARGS)

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/plan_reference.py --check
	$(BIN)/python scripts/size

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

e2e:  ## Run every plan in plans/faults/ and plans/zookeeper/, all supported versions, campaigns, a Spark cluster (restarts Docker once)
	@scripts/setup dev
	@ACKLOSS_DEFECT_SEEDS=200 $(BIN)/pytest -s tests/e2e/test_defects.py
	@MEMORY_SEEDS=200 $(BIN)/pytest -q -n 2 --timeout 7200 tests/targets/memory/test_defects.py
	@ACKLOSS_ORACLE_EXAMPLES=10000 $(BIN)/pytest -q -n 2 --timeout 7200 tests/checkers/register
	@ACKLOSS_ORACLE_EXAMPLES=1000 $(BIN)/pytest -q -n 2 --timeout 7200 tests/checkers/*/test_oracle.py \
		tests/checkers/*/test_*_oracle.py --ignore tests/checkers/register
	@ACKLOSS_E2E=all $(BIN)/pytest -s tests/e2e/test_fault_plans.py tests/e2e/test_versions.py \
		tests/e2e/test_campaigns.py tests/e2e/test_any_client.py tests/e2e/test_ssh.py \
		tests/e2e/test_external.py tests/e2e/test_compose.py tests/e2e/test_spark_cluster.py \
		tests/e2e/test_unacknowledged.py tests/e2e/test_java_client.py tests/e2e/test_clean_up.py \
		tests/e2e/test_clock_on_real_kafka.py tests/conformance/test_nemeses.py \
		tests/targets/kafka/test_images.py tests/reports/test_page.py \
		tests/reports/test_campaign_in_a_browser.py tests/e2e/test_memory_campaign.py \
		tests/scripts/test_nightly.py tests/e2e/test_transactions_in_memory.py

track-record:  ## Find historical defects again, each with its control; write docs/evidence/track-record.md (about an hour and a half)
	@scripts/setup
	@$(BIN)/python scripts/track_record.py

torture:  ## Kill runs with all fault families but manual ones 50 times at random instants; check that clean leaves nothing
	@scripts/setup dev
	@ACKLOSS_TORTURE_ROUNDS=50 $(BIN)/pytest -s tests/e2e/test_torture.py

mutants:  ## Mutation testing of checkers and statistics (hours; continues where it stopped)
	@scripts/venv dev
	@$(BIN)/python scripts/mutants.py

clean:  ## Remove what dead runs left, and the tools' caches; runs/ and .venv stay
	@if [ -x $(BIN)/ackloss ]; then $(BIN)/ackloss clean; fi
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
