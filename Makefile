# The two commands that README shows are `make run` and `make test`; each does
# all of its own set-up on a fresh machine. `make check` is what to run before a
# commit. Set-up that takes long is kept outside the tree and done once.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

UI := web/ui
UI_SOURCES := $(shell find $(UI)/src $(UI)/public -type f 2>/dev/null) $(wildcard $(UI)/*.html $(UI)/*.json $(UI)/*.ts)
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo dev)
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lomi

.PHONY: build run test check test-go test-ui e2e fuzz bench gen ui clean setup

build: bin/lomi

bin/lomi: tools ui FORCE
	go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/lomi ./cmd/lomi

.PHONY: FORCE
FORCE:

# tools says what is missing in words, before a long build fails in others.
.PHONY: tools
tools:
	@command -v go >/dev/null || { echo "Go 1.26.6 or later is needed: https://go.dev/dl/" >&2; exit 1; }
	@command -v npm >/dev/null || { echo "Node 20.19 or later with npm is needed, to build the page: https://nodejs.org" >&2; exit 1; }

ui: tools $(UI)/dist/index.html

$(UI)/node_modules/.package-lock.json: $(UI)/package-lock.json
	cd $(UI) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(UI)/dist/index.html: $(UI)/node_modules/.package-lock.json $(UI_SOURCES)
	cd $(UI) && npm run --silent build

# install puts lomi where a shell and MCP hosts find it: PREFIX=/usr/local, say.
PREFIX ?= $(HOME)/.local
.PHONY: install
install: build
	install -d "$(PREFIX)/bin"
	install -m 755 bin/lomi "$(PREFIX)/bin/lomi"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "add $(PREFIX)/bin to your PATH";; esac

run: build
	@internal/setup/chromium.sh >/dev/null || true
	./bin/lomi serve

# setup gives the tests the real Chromium and the real Ollama.
setup:
	@internal/setup/chromium.sh >/dev/null
	@internal/setup/ollama.sh >/dev/null
	@internal/setup/shells.sh >/dev/null

test: setup build test-ui test-go e2e
	@echo "make test: everything passed"

test-go:
	go test -timeout 20m ./...

test-ui: $(UI)/node_modules/.package-lock.json
	cd $(UI) && npm run --silent typecheck && npm run --silent test

e2e: build
	cd $(UI) && npm run --silent e2e

check:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "gofmt these"; exit 1; }
	go vet ./...
	go tool staticcheck ./...
	go test -race -shuffle=on -timeout 20m ./...
	$(MAKE) test-ui

fuzz:
	@for target in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$target/*_test.go | sed 's/func //'); do \
	    echo "$$target $$f"; go test $$target -run '^$$' -fuzz "^$$f$$" -fuzztime 30s; done; done

bench: build
	go test -run '^$$' -bench . -benchtime 2s ./... | grep -vE '^(PASS|ok|\?)'

clean:
	rm -rf bin $(UI)/dist/assets $(UI)/dist/index.html $(UI)/node_modules
