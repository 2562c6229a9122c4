# The commands of this project. `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help run dev test check hooks soak bench fmt lint docs
SHELL := /bin/bash

# Where cargo builds, and where `make run` listens and keeps its data.
TARGET := $(or $(CARGO_TARGET_DIR),target)
ADDRESS ?= 127.0.0.1:9090
DATA ?= ./data
# What `make bench` passes on; the tour is all scenarios for ten minutes, against whatever peers are installed.
ARGS ?= tour --reports=$(TARGET)/bench-reports
# How many times the usual iterations a soak runs.
SCALE ?= 50
# How long a soak lets a cluster be scraped and reloaded; it replaces targets for twice as long, and fills a disk for a
# third, 12 at least.
MINUTES ?= 60
# What to run of a test (a crate as `tsdb`, a step as `clippy`, `go` or `ui`) or of a soak (tests, fuzz, crash,
# segments, bodies, disk, cluster, churn); none for all.
ONLY ?=

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build and start the server on 127.0.0.1:9090, its data in ./data
	@.ci/need run
	@test -x $(TARGET)/iterate/narthex || echo "Building the server, which takes four to five minutes on two cores the first time."
	cargo build --profile=iterate --locked -p narthex
	@exec $(TARGET)/iterate/narthex server --web.listen-address=$(ADDRESS) --storage.tsdb.path=$(DATA)

dev: ## build, start, and restart the server and its page whenever a source changes
	@.ci/need run
	@cargo run -q --locked -p xtask -- dev --web.listen-address=$(ADDRESS) --storage.tsdb.path=$(DATA)

test: ## run every check and test, as CI does, or some (ONLY=tsdb, ONLY="fmt tidy", ONLY=go)
	@.ci/need test
	@cargo run -q --locked -p xtask -- ci $(ONLY)

check: ## run what takes seconds: formatting, tidy, the page's types
	@cargo run -q --locked -p xtask -- check

hooks: ## run `make check` before every commit in this clone
	@printf '#!/bin/sh\nexec make --no-print-directory check\n' > "$$(git rev-parse --git-path hooks/pre-commit)"
	@chmod +x "$$(git rev-parse --git-path hooks/pre-commit)"

soak: ## run what takes hours, or one part of it (ONLY=fuzz SCALE=50 MINUTES=60)
	@.ci/need soak
	@SCALE=$(SCALE) MINUTES=$(MINUTES) cargo run -q --locked -p xtask -- soak $(ONLY)

bench: ## compare with the installed peers for ten minutes and write the reports (ARGS="--help" for more)
	cargo build --release --locked -p narthex -p narthex-bench
	$(TARGET)/release/narthex-bench $(ARGS)

fmt: ## format the sources
	cargo fmt --all
	gofmt -w testkit clients/go

lint: ## check the sources without running them
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask tidy
	cargo xtask licenses --check

docs: ## write the generated documents and build the API documentation
	cargo xtask gen-docs
	cargo xtask licenses
	cargo doc --workspace --no-deps --locked
