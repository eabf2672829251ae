# Spillway. Two commands do all on a fresh Debian machine with Go: make run, make test.
GO       ?= go
BIN      := bin/spillway
SOURCES  := $(shell find . -name '*.go' -not -path './e2e/*') go.mod go.sum
FUZZTIME ?= 60s

.PHONY: run build test check race fuzz bench e2e agents suite soak generate lint clean

run: build ## start the gateway; with no keys it runs on the built-in lab and prints a curl line that answers
	@exec $(BIN) serve $(ARGS)

build: $(BIN) ## one static binary in bin/

$(BIN): $(SOURCES)
	CGO_ENABLED=0 $(GO) build -trimpath -o $@ ./cmd/spillway

test: ## all tests, with real SDKs end to end; installs what it needs
	$(GO) test ./...
	$(MAKE) e2e

check: lint race ## format, vet, modernisers, linter, race tests, generated files
	@$(MAKE) --no-print-directory generate
	@git diff --exit-code -- docs || { echo 'generated files under docs/ are not up to date: commit what make generate made'; exit 1; }

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo 'gofmt wants:'; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) fix -diff ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

race: ## race tests; they need a C compiler
	CGO_ENABLED=1 $(GO) test -race ./...

generate: ## files under docs/ that are made from the code
	$(GO) generate ./...

fuzz: ## every fuzz target for FUZZTIME each
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
		done; \
	done

bench: build ## speed against a bare reverse proxy, as ratios of one run
	$(GO) build -o bin/bench ./bench
	bin/bench -spillway $(BIN) $(ARGS)

suite: build ## the failover suite: 16 scenarios, two minutes
	$(BIN) lab run --suite failover

soak: build ## the long runs: 100 000 streams with aborts, and P6 in real time
	$(GO) test -tags soak -run Soak -timeout 60m -v ./internal/app
	$(BIN) lab run --scenario p6

e2e: ## real SDKs (JavaScript, Python, Go) against the binary over the lab; about five minutes once all is installed
	cd e2e && $(GO) vet ./... && $(GO) test -count=1 -timeout 40m -v .

agents: ## by hand: real coding agents against the binary; downloads up to 0.4 GB each (ARGS='-only pi -keep')
	cd e2e && $(GO) vet -tags agents ./agents && $(GO) test -tags agents -count=1 ./agents
	cd e2e && $(GO) run -tags agents ./agents $(ARGS)

clean:
	rm -rf bin
