PYTHON ?= python3
BIN := .venv/bin
# A container may set it, and then each process that a test starts compiles every module again.
unexport PYTHONDONTWRITEBYTECODE

PYTEST = $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
INSTALL := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test test-all test-lowest test-highest lint types torture adapters browser docs write dist dist-test conformance bench bench-recall mutants clean
.DEFAULT_GOAL := help

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/demo  ## Show an agent's first minute: find, read, recall, walk, and what it saves
	@$(BIN)/abilities demo
	@echo && echo "It ran in the environment .venv. To use it yourself: source .venv/bin/activate"

test: .venv/dev  ## Show every behavior once (three minutes on two idle cores)
	@ABILITIES_TESTS=quick $(PYTEST)

test-all: .venv/dev  ## Run every test at length (fifteen minutes on two idle cores)
	@ABILITIES_TESTS=all $(PYTEST)

# Our backend needs deepagents 0.7.1, which needs a newer LangChain than the lowest.
WITHOUT_DEEPAGENTS := --ignore=tests/surfaces/test_deepagents.py --ignore=abilities/adapters/deepagents \
	--deselect='tests/package/test_architecture.py::test_no_name_hides_a_module[abilities.adapters.deepagents]'

test-lowest: .lowest/installed  ## Run make test with the lowest versions that pyproject.toml allows
	@ABILITIES_TESTS=quick $(subst $(BIN),.lowest/bin,$(PYTEST)) $(WITHOUT_DEEPAGENTS) $(TESTS)

test-highest: .highest/installed  ## Run make test with the newest versions that resolve
	@ABILITIES_TESTS=quick $(subst $(BIN),.highest/bin,$(PYTEST)) $(TESTS)

lint: .venv/dev .lint/installed  ## Check the style of the Python and of the explorer's JavaScript
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@.lint/node_modules/.bin/biome check --config-path=tools/page --max-diagnostics=50 abilities/explorer/static

types: .venv/bench .venv/browser .venv/torture  ## Check types
	@$(BIN)/mypy && $(BIN)/pyright

torture: .venv/torture  ## Test durability, confinement and fuzzing at full size (hours; resumes where it stopped)
	@$(BIN)/python -m tools.torture

adapters: .venv/demo  ## Test the adapters for agent frameworks, each beside its framework (twenty minutes the first time, then three); ONLY=name tests one
	@$(BIN)/python -m tools.adapters $(ONLY)

browser: .venv/browser  ## Test the explorer in a real Chromium (apt installs it, if permitted)
	@$(BIN)/python -m tests.browser

docs: .venv/docs  ## Build the documentation's site in .docs/site
	@$(BIN)/python -m tools.site

dist: .venv/dev  ## Build the source distribution, the wheel and the bundles in dist/; TAG=v0.2.0 must name their version
	@rm -rf dist && $(BIN)/python -m tools.release $(TAG)
	@$(BIN)/python -m build --outdir dist . && $(BIN)/python -m tools.bundles

dist-test:  ## Install the wheel of dist/ into an environment of its own, and use it
	@rm -rf .dist && $(PYTHON) -m venv .dist
	@.dist/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$$(ls dist/*.whl)[all]"
	@cd docs && ../.dist/bin/abilities call file_list '{"limit": 1}' && ../.dist/bin/abilities demo

write: .venv/dev  ## Write every committed file that follows from the code: declarations, pages, plugin, llms.txt
	@$(BIN)/python -m tools.write

conformance: .venv/conformance  ## Run MCP's conformance tool and Inspector against real servers
	@$(BIN)/python -m tests.conformance

bench: .venv/bench  ## Measure every goal against other programs (an hour); writes results.json, the chart and the tables of the documents
	@$(BIN)/python -m benchmarks --keep

bench-recall: .venv/bench  ## Measure what recall finds; DATA=path adds a file or a folder of sets
	@$(BIN)/python -m benchmarks.recall $(DATA)

mutants: .venv/mutation  ## Mutate the code of seven modules, and check that tests fail (hours; resumes where it stopped)
	@$(BIN)/python -m tools.mutation

clean:  ## Remove the environment and caches
	@rm -rf .venv .lint .lowest .highest .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutation .torture .browser .conformance .adapters .coverage .docs .dist build dist *.egg-info

.venv/python: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "Making an environment in .venv (a minute, once) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@touch $@

.venv/demo: .venv/python pyproject.toml
	@$(INSTALL) --editable '.[all]'
	@touch $@

.venv/dev: .venv/demo
	@$(INSTALL) --group dev
	@touch $@

.lint/installed: tools/page/package.json .venv/lint
	@mkdir -p .lint && cp tools/page/package.json .lint/
	@cd .lint && PATH="$(CURDIR)/$(BIN):$$PATH" npm install --ignore-scripts --no-audit --no-fund --no-package-lock --silent
	@touch $@

.lowest/installed: pyproject.toml .venv/resolving
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .lowest
	@$(BIN)/python -m tools.lowest > .lowest/constraints.txt
	@$(BIN)/uv pip install --quiet --python .lowest/bin/python --constraints .lowest/constraints.txt --editable '.[all]' --group test
	@touch $@

.highest/installed: pyproject.toml .venv/resolving
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .highest
	@$(BIN)/uv pip install --quiet --python .highest/bin/python --upgrade --editable '.[all]' --group test
	@touch $@

.venv/lint .venv/conformance .venv/bench .venv/browser .venv/docs .venv/torture .venv/mutation .venv/resolving: .venv/dev
	@$(INSTALL) --group $(@F)
	@touch $@
