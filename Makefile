# Every target works on a fresh clone: the ones that run something go through `setup` first.
# All paths are relative, so a clone may live in a folder with spaces in its name.

PYTHON ?= python3
RUNS ?= 1000000
SECONDS ?= 300
SEEDS ?= 0:100

VENV := .venv
BIN := $(VENV)/bin
# Workers have to be of the Python that has our packages.
SUBMIT := PYSPARK_PYTHON=$(BIN)/python $(BIN)/spark-submit
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup test test-long lint types imports pytest java up format lock fuzz fuzz-socket clean
.PHONY: bench-broker bench-client bench-cluster bench-codec bench-failover bench-groups bench-idle
.PHONY: bench-log bench-spark bench-start chaos compat-suite sim
.PHONY: job-word-count job-metric-monitoring job-log-aggregation job-stream-enrichment
# The targets of `test` run in their order, also under -j: the quick checks first, one output at a time.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/.project ## create .venv with the locked packages and the project itself

# Two stamps, so that an edit of pyproject.toml does not reinstall every locked package.
#
# pyspark is published as source only. Building it in isolation would fetch whatever setuptools is
# newest, so the locked setuptools goes in first and the rest is built with it.
$(VENV)/.locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "minikafka needs Python 3.11 or newer, and '$(PYTHON)' is not: try make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@echo "installing the locked packages into $(VENV); the first time this takes a minute or two"
	@awk '/^[a-z]/ {keep = /^setuptools==/} keep' requirements.lock > $(VENV)/build.lock
	@$(PIP) install --quiet --require-hashes -r $(VENV)/build.lock
	@$(PIP) install --quiet --require-hashes --no-build-isolation --use-pep517 -r requirements.lock
	@touch $@

$(VENV)/.project: $(VENV)/.locked pyproject.toml src/minikafka/__init__.py
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

test: setup java lint types imports pytest ## run every check and every test

test-long: setup java ## run the tests that take too long for `make test`
	$(BIN)/python -m pytest -m long --durations=15

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

pytest: setup
	$(BIN)/python -m tests.side_by_side

# ZooKeeper and Spark run on the Java virtual machine, and Spark accepts 17 or newer.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	found=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9][0-9]*\).*/\1/p' | head -n 1); \
	[ "$${found:-0}" -ge 17 ] || { \
	    echo "minikafka's tests need Java 17 or newer, in JAVA_HOME or on the PATH; found: $${found:-none}" >&2; exit 1; }

up: setup ## start a cluster of three brokers on this machine (ARGS='--port 19092 --fresh', see `minikafka up --help`)
	$(BIN)/minikafka up --brokers 3 $(ARGS)

format: setup ## let ruff lay out the code and sort the imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup ## write requirements.lock anew from pyproject.toml (ARGS=--upgrade for newer versions)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --extra all --extra dev $(ARGS) --output-file requirements.lock pyproject.toml

sim: setup ## play seeds of the simulator (SEEDS=0:100, ARGS='--profile replication --stop-at-first')
	$(BIN)/python -m tests.sim.run --seeds $(SEEDS) $(ARGS)

bench-codec: setup ## time the message codec
	$(BIN)/python -m bench.codec

bench-log: setup ## time the log against the bare file system
	$(BIN)/python -m bench.log

bench-broker: setup ## send records through a broker (ARGS='--against HOST:PORT --beside HOST:PORT' compares two)
	$(BIN)/python -m bench.broker $(ARGS)

bench-cluster: setup ## the same through three brokers that replicate, acks=all
	$(BIN)/python -m bench.broker --replication-factor 3 $(ARGS)

bench-client: setup ## race our client against aiokafka, kafka-python and confluent-kafka on one broker
	$(BIN)/python -m bench.client $(ARGS)

bench-start: setup ## time `minikafka up` from nothing to the first message, with one and three brokers
	$(BIN)/python -m bench.start $(ARGS)

bench-idle: setup ## hold 10,000 idle connections while others work
	$(BIN)/python -m bench.idle $(ARGS)

bench-failover: setup java ## kill the controller of 2,000 partitions and time until all have leaders
	$(BIN)/python -m bench.failover $(ARGS)

bench-groups: setup ## time groups, offsets and transactions (ARGS='--against HOST:PORT --beside HOST:PORT' compares two)
	$(BIN)/python -m bench.groups $(ARGS)

bench-spark: setup java ## read topics with Spark (ARGS='--scale 0.1 --rounds 2' for a short try)
	$(BIN)/python -m bench.spark $(ARGS)

job-word-count: setup java ## run a job of spark_jobs/jobs (ARGS='--checkpoint DIR --generate 1000')
	$(SUBMIT) spark_jobs/jobs/word_count.py $(ARGS)

job-metric-monitoring: setup java
	$(SUBMIT) spark_jobs/jobs/metric_monitoring.py $(ARGS)

job-log-aggregation: setup java
	$(SUBMIT) spark_jobs/jobs/log_aggregation.py $(ARGS)

job-stream-enrichment: setup java
	$(SUBMIT) spark_jobs/jobs/stream_enrichment.py $(ARGS)

compat-suite: setup java ## put kafka-python's own integration tests to a broker
	$(BIN)/python -m tests.compat.kafka_python_suite.run $(ARGS)

chaos: setup java ## break clusters under load (SECONDS=300 a row, ARGS='--only "kill -9 leader"' for one of them)
	$(BIN)/python -m tests.chaos.run --seconds $(SECONDS) --record $(ARGS)

.PHONY: campaign-client
campaign-client: setup java ## play seeds of clients behind a fault proxy (SEEDS=0:100, ARGS='--workload copying --client aiokafka')
	$(BIN)/python -m tests.client.campaign.run --seeds $(SEEDS) $(ARGS)

.PHONY: mutants
mutants: setup ## remove one rule after the other and see which test notices (ARGS='--only NAME --stages unit,schedules,seeds')
	$(BIN)/python -m tests.mutants.run --results tests/mutants/RESULTS.md $(ARGS)

# Any engine may stand in for Docker: COMPOSE is called as `docker compose`, BUILD as `docker build`, and EXEC stands in
# front of commands of the host that reach published ports.
COMPOSE ?= docker compose
BUILD ?= docker build
EXEC ?=
.PHONY: compose-test
compose-test: setup ## build, start, use, break and take down the stack of deploy/ (ARGS='--no-spark --monitoring')
	$(BIN)/python -m tests.deploy.run --compose '$(COMPOSE)' --build '$(BUILD)' --exec '$(EXEC)' \
	    --results deploy/RESULTS.md $(ARGS)

fuzz: setup ## fuzz the decoders (RUNS=1000000 inputs each)
	@$(PIP) install --quiet --no-build-isolation --editable '.[fuzz]'
	$(BIN)/python tests/fuzz/fuzz_messages.py -runs=$(RUNS)
	$(BIN)/python tests/fuzz/fuzz_records.py -runs=$(RUNS)

fuzz-socket: RUNS := 100000
fuzz-socket: setup ## send a live broker mutated frames (RUNS=100000), with a client beside them that must not notice
	$(BIN)/python -m tests.fuzz.fuzz_socket --frames $(RUNS)

clean: ## remove .venv and everything that was built or cached
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
