# Every target makes what it needs: with Python 3.11 or later, pip and make on the machine nothing else has to be prepared.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
STAMPS := $(VENV)/.stamps

# Arguments for pytest, e.g.  make test ARGS="-k frame -x"
ARGS ?=
# Seconds that `make fuzz` runs.
FUZZ_SECONDS ?= 60
# A real conversation with a broker: SASL, a session, a sender and a receiver on one queue, six messages there and back.
CAPTURE ?= tests/data/captures/p10-rmq-rhea-simple-small.pcapng
# What the report of `make run` is about: real conversations of Proton and rhea with RabbitMQ.
CAPTURES ?= 'tests/data/captures/p10-rmq-*.pcapng'

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run generate check lint types fresh typescript generate-typescript format test test-slow test-typescript chaos soak conformance peers interop-peers interop bench fuzz docs check-compiled api dist clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- environment ------------------------------------------------------------------------------------------------------

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "amqpforge needs Python 3.11 or later; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp an extra; a change of pyproject.toml installs again.
$(STAMPS)/%: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --editable ".[$*]"
	@mkdir -p $(STAMPS)
	@touch $@

DEV := $(STAMPS)/dev

# --- daily work -------------------------------------------------------------------------------------------------------

run: $(DEV) ## Regenerate the protocol package, then take messages from a broker through Spark into a report
	@echo "0. amqpforge-generate: XML definitions to Python"
	@$(BIN)/amqpforge-generate --force --target python --target spark --target markdown
	@$(PY) -m amqpforge.spark.demo --capture $(CAPTURE) --report $(CAPTURES)

generate: $(DEV) ## Render generated/ and docs/reference from the definitions in spec/
	$(BIN)/amqpforge-generate --target python --target spark --target markdown

check: lint types fresh typescript ## Lint, types (mypy strict, basedpyright, tsc), dependency rule, generated code is fresh

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PY) -m pytest -q tests/test_dependency_rule.py

types: $(DEV)
	$(BIN)/mypy
	$(BIN)/basedpyright

fresh: $(DEV)
	$(BIN)/amqpforge-generate --check --target python --target spark --target markdown

# What formats, compiles and runs the TypeScript package; npm installs it where there is Node.
NODE_TOOLS := tests/typescript/node_modules
TSC := $(NODE_TOOLS)/.bin/tsc --project generated/typescript/amqp-1-0
NODE := $(shell command -v npm 2>/dev/null)

$(NODE_TOOLS)/.package-lock.json: tests/typescript/package.json tests/typescript/package-lock.json
	npm ci --prefix tests/typescript --no-audit --no-fund
	@touch $@

ifeq ($(NODE),)
typescript:
	@echo "Node and npm are absent: the TypeScript package is neither compared with its templates nor compiled"

generate-typescript test-typescript:
	@echo "$@ needs Node 20 or later and npm" >&2; exit 1
else
typescript: $(DEV) $(NODE_TOOLS)/.package-lock.json
	PATH="$(CURDIR)/$(NODE_TOOLS)/.bin:$$PATH" $(BIN)/amqpforge-generate --check --target typescript
	$(TSC) --noEmit

generate-typescript: $(DEV) $(NODE_TOOLS)/.package-lock.json ## Render the TypeScript package from the definitions in spec/
	PATH="$(CURDIR)/$(NODE_TOOLS)/.bin:$$PATH" $(BIN)/amqpforge-generate --target typescript

# What the package is held to; the last of its files stands for all.
VECTORS := tests/typescript/build/vectors/captures.jsonl
$(VECTORS): tests/typescript/vectors.py tests/codec/strategies.py $(wildcard generated/amqpforge_protocol/amqp_1_0/*.py) | $(DEV)
	$(PY) -m tests.typescript.vectors $(@D)

test-typescript: $(DEV) $(NODE_TOOLS)/.package-lock.json $(VECTORS) ## Hold the TypeScript package against the vectors, the captures and the Python package, in Node
	$(TSC) --outDir tests/typescript/build/package
	$(NODE_TOOLS)/.bin/tsc --project tests/typescript
	node --test tests/typescript/*.test.js
endif

format: $(DEV) ## Format the handwritten code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(DEV) ## Run the tests
	@$(PY) -m pytest $(ARGS)

test-slow: $(DEV) ## Run the long tests: faults at every octet, long random conversations
	@$(PY) -m pytest -m slow $(ARGS)

# Rounds of kill -9: of the broker alone, and of a Spark program, its parts and the broker.
CHAOS_ROUNDS ?= 200
SPARK_CHAOS_ROUNDS ?= 50

chaos: $(DEV) ## Kill the broker, and Spark programs that read from it, again and again, and look for every message
	@AMQPFORGE_CHAOS_ROUNDS=$(CHAOS_ROUNDS) $(PY) -m pytest -q tests/broker/test_chaos.py $(ARGS)
	@AMQPFORGE_SPARK_CHAOS_ROUNDS=$(SPARK_CHAOS_ROUNDS) $(PY) -m pytest -q -m "slow or not slow" \
		tests/spark/source/test_killed_broker.py tests/spark/source/test_killed_worker.py tests/spark/source/test_chaos.py $(ARGS)

# Messages that go through a stream.
SOAK_MESSAGES ?= 1000000

soak: $(DEV) ## Stream a million messages from a broker into Parquet: each once, in bounded memory and space
	@AMQPFORGE_SOAK_MESSAGES=$(SOAK_MESSAGES) $(PY) -m pytest -q -o log_cli=true --log-cli-level=INFO tests/spark/test_soak.py $(ARGS)

conformance: $(DEV) ## Count the requirements that tests prove, and write docs/conformance.md
	@$(PY) -m tests.conformance $(ARGS)

docs: $(DEV) ## Render the reference pages, and the conformance page
	$(BIN)/amqpforge-generate --target markdown
	$(PY) -m tests.conformance --quiet

api: $(DEV) ## Write the snapshot of the public API anew
	$(PY) -m tests.public_api

# --- on demand --------------------------------------------------------------------------------------------------------

peers: $(DEV) $(STAMPS)/bench ## Install the stacks that `make bench` compares with; their tests skip without them

interop-peers: $(DEV) ## Install other people's peers: RabbitMQ (apt, as root), rhea (npm), Proton (pip)
	tests/interop/install.sh
	@$(MAKE) --no-print-directory $(STAMPS)/interop

interop: interop-peers ## Talk with other people's peers; an absent one is a failure
	AMQPFORGE_REQUIRE_PEERS=1 $(PY) -m pytest tests/interop $(ARGS)

bench: peers ## Compare speed with other AMQP stacks
	sh tests/interop/install.sh
	$(PY) -m benchmarks $(ARGS)

fuzz: $(DEV) $(STAMPS)/fuzz ## Fuzz the decoders for FUZZ_SECONDS (60)
	$(PY) -m fuzz -max_total_time=$(FUZZ_SECONDS) $(ARGS)

check-compiled: $(DEV) $(STAMPS)/compiled ## Compile the codecs with mypyc and run the vectors through them
	$(PY) -m tests.compiled $(ARGS)

dist: $(DEV) ## Build the sdist, and the wheel from it
	rm -rf dist
	$(PY) -m build --outdir dist .

clean: ## Remove the environment, caches and everything built
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
