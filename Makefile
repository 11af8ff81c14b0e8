# Atoll: every target sets up what it needs by itself. Nothing beyond git and make is assumed.
#
#   make demo      install, build, bootstrap, run Python in a sandbox, show the times, clean up
#   make test      install, build, run every test
#   make build     build/bin/atoll and build/bin/atoll-guest
#   make crash-test  kill -9 at every point of every state operation; long byte-identity run
#   make conformance  every version of the official E2B packages; writes docs/conformance.md
#   make bench     side by side with bwrap, crun, runc, podman, gVisor and the raw floor; writes docs/bench/; PARTS=
#   make bench-quick  instructions and ratios against bench/baseline.json, part of make test; UPDATE=1
#   make generate  what follows from api/openapi.yaml: models and types of the SDKs
#   make lint      clang-tidy, formatting and layering
#   make sanitize  unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   make fuzz      every codec under libFuzzer and the sanitizers, ten minutes each for the boundary, one for the rest; SECONDS=, TARGETS=

SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: setup setup-test build demo test test-unit crash-test conformance bench bench-quick generate lint fmt sanitize fuzz clean

setup:
	@tools/setup

setup-test:
	@tools/setup --test

build: setup
	@tools/build rel

demo: build
	@tools/demo

test: setup-test build
	@tools/run-tests

test-unit: setup-test build
	@ctest --test-dir build --output-on-failure -L unit

crash-test: setup-test build
	@ATOLL_CRASH_CASES=all ATOLL_BIN_DIR=$(CURDIR)/build/bin \
	  /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/crash

conformance: setup-test build
	@ATOLL_CONFORMANCE=all ATOLL_CONFORMANCE_RESULTS=$(CURDIR)/build/conformance.json \
	  ATOLL_BIN_DIR=$(CURDIR)/build/bin /usr/bin/python3 -m pytest -q -p no:cacheprovider \
	  tests/conformance/test_e2b.py tests/conformance/test_e2b_coverage.py; status=$$?; \
	  /usr/bin/python3 tests/conformance/e2b_report.py docs/conformance.md build/conformance.json; \
	  exit $$status

bench: build
	@tools/setup --bench
	@bench/run

bench-quick: setup-test build
	@bench/quick

generate: setup-test
	@sdk/python/tools/generate_models
	@sdk/python/tools/generate_sync
	@cd sdk/typescript && npm ci --silent --no-audit --no-fund && npm run --silent generate

lint: setup-test
	@tools/lint

fmt:
	@git ls-files '*.cpp' '*.h' | xargs clang-format-19 -i

sanitize: setup-test
	@tools/build asan
	@ctest --test-dir build-asan --output-on-failure -L unit

fuzz: setup-test
	@tools/fuzz "$(SECONDS)" $(TARGETS)

clean:
	@rm -rf build build-dev build-asan build-fuzz
