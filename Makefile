# SPDX-License-Identifier: Apache-2.0
# The front door. Meson does the work; every target gets what it needs by itself.

TEST_TOOLS      = etcd-3.5 etcd-3.6 etcd-3.7 etcdutl-3.6 bboltcheck kubernetes
RIG_TOOLS       = $(TEST_TOOLS) coredns
PYTHON          = $$(tools/deps python-path)
PYTEST          = $(PYTHON) -m pytest -p no:cacheprovider
REPORTS         = build/reports
# CI=true makes warnings errors; locally they stay warnings, so that an unfinished thought builds.
WERROR          = -Dwerror=$(if $(filter true,$(CI)),true,false)

.PHONY: build demo test test-unit test-tsan test-integration test-snapshot-full test-rig e2e crash mutants \
        bench lint format fuzz crds deps install clean help

build: ## the release binary, at build/raftsman
	@tools/deps packages build
	@tools/configure build/release --buildtype=release --optimization=2 $(WERROR)
	@ninja -C build/release --quiet
	@cmp -s build/release/src/raftsman build/raftsman || install -m 755 build/release/src/raftsman build/raftsman

demo: build ## the main job on a real Kubernetes of one node (root); KEEP=1 leaves it up
	@tools/deps packages test rig
	@tools/deps python
	@tools/deps tool etcd-3.6 kubernetes coredns
	@$(PYTHON) test/demo.py

test: test-unit test-integration ## all fast tests
	@tools/tally $(REPORTS)/unit.xml $(REPORTS)/integration.xml

test-unit: ## C unit tests and fuzz corpora, with address and undefined-behaviour sanitizers
	@tools/deps packages build test
	@tools/configure build/asan -Dtests=true -Db_sanitize=address,undefined $(WERROR)
	@tools/unit build/asan $(REPORTS)/unit.xml

test-tsan: ## the threaded modules, with the thread sanitizer
	@tools/deps packages build test
	@tools/configure build/tsan -Dtests=true -Db_sanitize=thread $(WERROR)
	@tools/unit build/tsan $(REPORTS)/tsan.xml --suite threads

test-integration: build ## our binary against real etcd and Kubernetes API servers
	@tools/deps packages build test
	@tools/configure build/asan -Dtests=true -Db_sanitize=address,undefined $(WERROR)
	@ninja -C build/asan --quiet
	@tools/deps python
	@tools/deps tool $(TEST_TOOLS)
	@$(PYTEST) test/integration --junit-xml=$(REPORTS)/integration.xml

test-rig: ## the rig's own life (root); looks for what is left on the machine, so with nothing beside it
	@tools/deps packages test rig
	@tools/deps python
	@tools/deps tool $(RIG_TOOLS)
	@$(PYTEST) test/rig --junit-xml=$(REPORTS)/rig.xml

e2e: build ## the end-to-end suite on a real Kubernetes of three nodes (root); E2E="--nodes 1" for one
	@tools/deps packages test rig
	@tools/deps python
	@tools/deps tool $(RIG_TOOLS)
	@$(PYTEST) test/e2e --junit-xml=$(REPORTS)/e2e.xml $(E2E)

crash: ## kill the operator after each of its calls in turn (root); CRASH="--share 5" for a fifth
	@tools/deps packages build test rig
	@tools/configure build/asan -Dtests=true -Db_sanitize=address,undefined $(WERROR)
	@ninja -C build/asan --quiet
	@tools/deps python
	@tools/deps tool $(RIG_TOOLS)
	@$(PYTEST) test/crash --junit-xml=$(REPORTS)/crash.xml $(CRASH)

mutants: ## does the policy's test notice when the policy is wrong?
	@tools/deps packages build test
	@tools/mutants

test-snapshot-full: build ## the large matrices of the snapshot tools (half an hour)
	@tools/deps packages build test
	@tools/configure build/asan -Dtests=true -Db_sanitize=address,undefined $(WERROR)
	@ninja -C build/asan --quiet
	@tools/deps python
	@tools/deps tool $(TEST_TOOLS)
	@$(PYTEST) test/full --junit-xml=$(REPORTS)/snapshot-full.xml

bench: build ## what it costs, beside a peer in the same run
	@tools/deps packages build test bench
	@tools/deps python
	@tools/deps tool $(TEST_TOOLS)
	@bench/run

lint: ## formatting, static analysis, layers, scripts
	@tools/deps packages build test lint
	@tools/deps python
	@tools/lint

format: ## rewrite the sources in our layout
	@tools/deps packages lint
	@tools/deps python
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format-14 -i
	@$(PYTHON) -m ruff format --quiet .

fuzz: ## libFuzzer on every target; FUZZ_SECONDS each (default 60)
	@tools/deps packages build test lint
	@CC=clang-14 tools/configure build/fuzz -Dtests=true -Dfuzzer=true -Db_sanitize=address,undefined -Doptimization=1
	@tools/fuzz build/fuzz

crds: ## write deploy/crds/ from tools/crds/kinds.py
	@tools/deps packages test
	@tools/deps python
	@tools/deps tool $(TEST_TOOLS)
	@$(PYTHON) tools/crds

deps: ## everything any target needs
	@tools/deps

install: build ## DESTDIR and PREFIX as usual
	@DESTDIR=$(abspath $(DESTDIR)) meson install -C build/release --no-rebuild --quiet

clean: ## remove build/; the tool cache outside the tree stays
	@rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 20
