# llmserve: `make help` lists what there is. Everything is set up on first use, in .venv and in the
# user's cache directory (LLMSERVE_CACHE_DIR, by default ~/.cache/llmserve).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

PYTHON ?= python3
# Arguments of `make serve`, `make bench` and `make pytest`.
ARGS ?=
# Cargo features of the build: cuda, metal or vulkan.
FEATURES ?= $(LLMSERVE_CARGO_FEATURES)
# VERBOSE=1 shows all output of the setup, which is otherwise in target/logs only.
export VERBOSE
export PYTHON
export LLMSERVE_CARGO_FEATURES := $(FEATURES)

# Paths are relative, so that the checkout may lie in a directory with spaces.
BIN := .venv/bin
DEPENDENCIES := .venv/.dependencies
BUILD := .venv/.build
NATIVE_SOURCES := Cargo.toml Cargo.lock .cargo/config.toml pyproject.toml \
	$(shell find crates -type f -not -name '.*') $(wildcard build_support/*.py)

# A virtual environment belongs to one path and one interpreter; an extension module to one set of features.
export CHECKOUT := $(CURDIR)
venv_state := $(shell $(BIN)/python -c 'import pip' 2>/dev/null && cat .venv/.path 2>/dev/null)
ifneq ($(venv_state),$(CHECKOUT))
$(DEPENDENCIES): FORCE
endif
ifneq ($(shell cat .venv/.features 2>/dev/null),$(FEATURES))
$(BUILD): FORCE
endif
ifeq ($(wildcard python/llmserve/_core*.so),)
$(BUILD): FORCE
endif

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: serve
serve: $(if $(findstring .gguf,$(ARGS)),build,model) ## Set up everything and serve; ARGS="PATH.gguf --port 9000"
	@exec $(BIN)/llmserve serve $(ARGS)

.PHONY: build
build: $(BUILD) ## Build the engine and install llmserve into .venv; FEATURES=cuda|metal|vulkan

.PHONY: model
model: $(BUILD) ## Get the default model (about 100 MB) into the cache directory
	@$(BIN)/llmserve pull

.PHONY: test
test: model ## Run every check: formats, lints, types, Rust tests, Python tests
	@scripts/ensure-system tests
	@$(BIN)/python scripts/check.py

.PHONY: lint
lint: $(BUILD) ## Run the formatters' checks, linters and type checkers only
	@$(BIN)/python scripts/check.py lint

.PHONY: pytest
pytest: model ## Run the Python tests only; ARGS="tests/test_engine.py -k stream"
	@scripts/ensure-system tests
	@$(BIN)/python build_support/run.py python -m pytest $(ARGS)

.PHONY: format
format: $(DEPENDENCIES) ## Format the Rust and Python sources
	@$(BIN)/python build_support/run.py cargo fmt --all
	@$(BIN)/python -m ruff format .

.PHONY: bench
bench: model ## Run the benchmarks of the Rust engine; ARGS go to cargo bench
	@$(BIN)/python build_support/run.py cargo bench --locked --package llmserve-engine \
		$(if $(FEATURES),--features $(FEATURES)) $(ARGS)

.PHONY: compare
compare: model ## Measure against llama.cpp's own tools (builds them first, long); ARGS are names of benches
	@$(BIN)/python build_support/run.py python -m benches $(or $(ARGS),all)

.PHONY: wheel
wheel: $(DEPENDENCIES) ## Build a wheel for other Linux machines into dist; FEATURES=cuda|vulkan
	@$(BIN)/python scripts/wheel.py

.PHONY: wheel-test
wheel-test: $(BUILD) wheel ## Build the wheel, and try it on several Pythons and CPUs
	@$(BIN)/python build_support/run.py python -m pytest -m wheel tests/wheels

.PHONY: image
image: wheel ## Build a container image of the wheel from Debian packages, into dist
	@$(BIN)/python scripts/image.py dist/llmserve-*.whl

.PHONY: image-test
image-test: $(BUILD) image ## Build the image, and start it in namespaces
	@$(BIN)/python build_support/run.py python -m pytest -m image tests/images

.PHONY: lock
lock: ## Pin the newest versions of all Python dependencies in requirements/*.lock
	@scripts/lock

.PHONY: proto
proto: $(DEPENDENCIES) ## Generate the gRPC code from its .proto
	@$(BIN)/python build_support/grpc_code.py

.PHONY: tables
tables: $(BUILD) ## Write the tables and plots in docs
	@$(BIN)/python build_support/docs_tables.py
	@$(BIN)/python build_support/docs_plots.py

.PHONY: site
site: $(DEPENDENCIES) ## Build the documentation's site in target/site/html
	@$(BIN)/python scripts/site.py

.PHONY: clean
clean: ## Remove what was built in the checkout; the cache directory stays
	rm -rf .venv dist target .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -f python/llmserve/_core*.so
	find build_support python scripts tests benches -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEPENDENCIES): requirements/dev.lock
	@scripts/ensure-system
	@if [ "$$(cat .venv/.path 2>/dev/null)" != "$$CHECKOUT" ] || ! $(BIN)/python -c 'import pip' 2>/dev/null; then \
		echo "llmserve: creating .venv" >&2; \
		"$$PYTHON" -m venv --clear .venv; \
	fi
	@scripts/quietly pip "installing build tools and Python packages (a minute or two)" \
		$(BIN)/python -m pip install --disable-pip-version-check --require-hashes --requirement requirements/dev.lock
	@printf '%s' "$$CHECKOUT" > .venv/.path
	@touch $@

$(BUILD): $(DEPENDENCIES) $(NATIVE_SOURCES)
	@$(BIN)/python build_support/native_build.py
	@scripts/quietly install "installing llmserve into .venv" \
		$(BIN)/python build_support/run.py python -m pip install --disable-pip-version-check \
		--no-deps --no-build-isolation --editable .
	@printf '%s' "$$LLMSERVE_CARGO_FEATURES" > .venv/.features
	@touch $@

.PHONY: FORCE
FORCE:
