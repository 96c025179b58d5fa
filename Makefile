# Every target sets up what it needs in .venv, from a bare clone: with uv if it is installed, otherwise with pip.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# The tests start hundreds of processes, each of which would compile everything again.
unexport PYTHONDONTWRITEBYTECODE
BENCH_READY := .venv/.bench-ready
RELEASE_READY := .venv/.release-ready
COLLECTED := .venv/.collected
# Where the tests keep their files, if it has 4 GB free: they create thousands of stores, which wait for a disk at every commit.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "/dev/shm"}')

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# $(call set-up,EXTRA): the versions of uv.lock with uv, the newest with pip. uv keeps uv.lock in step with pyproject.toml.
define set-up
	@if command -v uv >/dev/null 2>&1; then \
		echo "Setting up .venv with uv ($(1)): seconds, or a minute the first time"; \
		uv sync --quiet --inexact --extra $(1); \
	else \
		echo "Setting up .venv with pip ($(1)): about a minute"; \
		$(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(1)]'; \
	fi
endef

$(READY): pyproject.toml $(wildcard uv.lock)
	$(call set-up,dev)
	@touch $(READY)

$(BENCH_READY): $(READY)
	$(call set-up,bench)
	@touch $(BENCH_READY)

$(RELEASE_READY): $(READY)
	$(call set-up,release)
	@touch $(RELEASE_READY)

.PHONY: install
install: $(READY) ## set up .venv

.PHONY: serve
serve: $(READY) ## run the server on http://127.0.0.1:3000, with its data in a SQLite file
	$(BIN)/octostore serve $(ARGS)

# So that not each of the five below compiles all modules by itself. Two at once, because most machines can.
$(COLLECTED): $(READY) $(shell find src tests -name '*.py')
	@$(BIN)/pytest --collect-only -q tests/[a-o]* >/dev/null & $(BIN)/pytest --collect-only -q tests/[p-z]* >/dev/null; wait
	@touch $(COLLECTED)

.PHONY: test
test: $(COLLECTED) ## run the tests, in under five minutes
	$(if $(IN_MEMORY),TMPDIR=$${TMPDIR:-$(IN_MEMORY)}) \
		$(BIN)/pytest -n 7 --dist loadgroup --no-loadscope-reorder -m 'not slow'  # many wait for leases and processes

.PHONY: faults
faults: $(READY) ## run the long fault tests, bad clients, a swarm of killed agents, and 1,000 simulated hours
	$(BIN)/pytest -m slow
	$(BIN)/python -m tests.processes.bad_clients --seconds 120
	$(BIN)/python -m tests.agents.swarm
	$(BIN)/python -m tests.simulation --seeds 1001..1900
	$(BIN)/python -m tests.simulation --seeds 1901..2000 --store sqlite
	$(BIN)/python -m tests.simulation --seeds 2001..3000 --hours 0.1 --pace 5

.PHONY: lint
lint: $(READY) ## check formatting, lint, types and layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src

.PHONY: compat
compat: $(READY) ## run a quick part of the tests with the oldest dependencies, and on the other installed Pythons
	$(BIN)/python -m release.compat

.PHONY: dist
dist: $(READY) ## build the wheel and the sdist in dist/, reproducibly
	$(BIN)/hatchling build -d dist

.PHONY: sbom
sbom: $(READY) ## list what the package and its extras install, as CycloneDX, in dist/
	$(BIN)/python -m release.sbom

.PHONY: release-check
release-check: $(RELEASE_READY) ## check everything in a release; VERSION=1.2.3 also checks the version
	$(BIN)/python -m release.check --version '$(VERSION)'

.PHONY: lock
lock: $(READY) ## update uv.lock from pyproject.toml; UPGRADE=1 takes the newest versions
	$(BIN)/uv lock $(if $(UPGRADE),--upgrade)

.PHONY: docs
docs: $(READY) ## build the documentation site in build/site, and check every link
	$(BIN)/python -m docs.site.build

.PHONY: pictures
pictures: $(READY) ## redraw the pictures in the documents, from a real store and its page
	$(BIN)/python -m docs.pictures.draw
	$(BIN)/python -m docs.pictures.photograph

.PHONY: references
references: $(READY) ## regenerate the pages and plugin files that come from the code
	$(BIN)/python -m docs.references

.PHONY: bench
bench: $(BENCH_READY) ## measure speed side by side with other systems
	$(BIN)/python bench/run.py

.PHONY: clean
clean: ## remove everything the other targets created
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .compat dist
