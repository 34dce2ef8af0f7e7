# Everything runs from the checkout with Go alone; `make e2e` also wants
# Python 3 and Node.js. Tools are Go modules of their own under tools/, pinned there:
# together they do not compile.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

# tool NAME: runs a tool of tools/NAME/go.mod.
tool = go tool -modfile=tools/$(1)/go.mod $(1)
BUF := $(call tool,buf)

FUZZTIME ?= 10s
# What `make breaking` compares with: a commit. By default the one before.
BREAKING_AGAINST ?=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## Generate gen/ from proto/
	$(BUF) generate

.PHONY: test
test: ## Run the tests
	go test ./...

# The module has etcd's server, which is no part of the program.
.PHONY: test-etcd
test-etcd: ## Run the tests with a real etcd cluster, under the race detector
	@echo "== go test -race, with etcd"
	@cd etcd/etcdtest && go test -race -timeout 10m ./...

# The module has an MCP SDK and SQLite, which are no part of the program.
.PHONY: test-story
test-story: ## Run accounts payable from proposal to payment, and what goes wrong there, under the race detector
	@echo "== go test -race, the story of accounts payable"
	@cd story && go test -race -timeout 10m ./...

# How often the races of test-etcd-long are run.
ETCD_ROUNDS ?= 300

.PHONY: test-etcd-long
test-etcd-long: ## Run the races between revocations and pushes many times
	@cd etcd/etcdtest && WRIT_ETCD_ROUNDS=$(ETCD_ROUNDS) go test -count=1 -timeout 30m -v -run 'TestNewEnemy|TestLiftAfterBundle|TestPushAndRevoke|TestConcurrent' ./...

# How many redemptions and revocations test-linearizable records and checks of
# each ledger, and how many calls of servers that have them.
LINEARIZABLE_OPERATIONS ?= 1000000
LINEARIZABLE_CALLS ?= 100000

.PHONY: test-linearizable
test-linearizable: ## Redeem from both ledgers while members, replicas and clocks fail, many times, and check the histories
	@cd etcd/etcdtest && WRIT_LINEARIZABLE_OPERATIONS=$(LINEARIZABLE_OPERATIONS) go test -count=1 -timeout 180m -v -run '^TestLinearizable' .
	@cd etcd/etcdtest && WRIT_LINEARIZABLE_CALLS=$(LINEARIZABLE_CALLS) go test -count=1 -timeout 180m -v -run '^TestLinearizable' ./serve

# How often test-kill kills a server.
KILL_ROUNDS ?= 500

.PHONY: test-kill
test-kill: ## Kill a server while grants are redeemed, and start it again, many times: nothing is redeemed twice or unrecorded
	WRIT_KILL_ROUNDS=$(KILL_ROUNDS) go test -count=1 -timeout 60m -v -run '^TestRedemptionsKilled$$' ./cmd/pdp

.PHONY: bench-etcd
bench-etcd: ## Measure how soon all replicas of an etcd cluster know of a revocation and of a push, and redemptions a second
	@cd etcd/etcdtest && WRIT_ETCD_LATENCY=1 go test -count=1 -v -run '^Test(Latency|RedemptionRate)$$' . | grep -v '^{'

.PHONY: bench
bench: ## Run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

# Flags of benchmarks/cpu: --json, --rate 0, --rounds 9, --profile DIR.
CPU_FLAGS ?=

.PHONY: bench-cpu
bench-cpu: ## Measure a decision's CPU time over that of a server that does nothing, and of one without a log
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(BUF) build -o "$$dir/api.binpb"; \
	go build -o "$$dir/cpu" ./benchmarks/cpu; \
	"$$dir/cpu" --ghz "$$(go tool -modfile=tools/ghz/go.mod -n ghz)" --protoset "$$dir/api.binpb" $(CPU_FLAGS)

# WRIT_STORM_ROUNDS, WRIT_STORM_SECONDS and WRIT_STORM_RATE say how much;
# GOMAXPROCS says with how many processors.
.PHONY: bench-storm
bench-storm: ## Measure decisions while the bundle changes 20 times a second, over calm, and check each answer
	@go test -run '^$$' -bench '^BenchmarkReloadStorm$$' -benchtime 1x -timeout 30m -v ./benchmarks | grep -v '^==='

# WRIT_LOG_ROUNDS says how many.
.PHONY: bench-log
bench-log: ## Measure the log's durable records over a bare fsync, and its others in a storm of durable ones
	@go test -run '^$$' -bench '^BenchmarkAudit(Durable|ReadInStorm)$$' -benchtime 1x -timeout 30m -v ./benchmarks | grep -v '^==='

# WRIT_FLOOD_ROUNDS, WRIT_FLOOD_SECONDS and WRIT_FLOOD_RATE say how much.
.PHONY: bench-flood
bench-flood: ## Measure a host's calls while another caller, or a stranger, floods the server, over calm
	@go test -run '^$$' -bench '^BenchmarkFlood$$' -benchtime 1x -timeout 30m -v ./benchmarks | grep -v '^==='

.PHONY: bench-idle
bench-idle: ## Measure the memory of 1,000 and of 5,000 connections that ask nothing
	@go test -run '^$$' -bench '^BenchmarkIdle$$' -benchtime 1x -timeout 10m ./benchmarks

.PHONY: check-cpu
check-cpu: ## Fail if that has become worse by more than a fifth than benchmarks/cpu.json
	@$(MAKE) bench-cpu CPU_FLAGS="--against benchmarks/cpu.json"

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	@for package in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "== $$package $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
	  done; \
	done

.PHONY: e2e
e2e: ## Run what needs more than Go: the Python lab, tokens of other libraries, OCSF's schema (they install what they need: pip, npm)
	@packages=$$(grep -rl --include='*_test.go' '^//go:build e2e' . | xargs -r dirname | sort -u); \
	if [ -z "$$packages" ]; then echo "no test has the build tag e2e"; exit 1; fi; \
	echo "== end to end: go test -tags e2e" $$packages; \
	go test -count=1 -tags e2e -v $$packages

# What CI runs, in the order of how soon it fails.
.PHONY: check
check: check-format check-proto check-generated check-breaking check-tidy check-vet check-static check-vuln check-race test-etcd test-story ## Run every check
	@echo "== all checks passed"

.PHONY: check-format
check-format:
	@echo "== gofmt"
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
	  echo "not formatted (run gofmt -w on them):"; echo "$$unformatted"; exit 1; fi

.PHONY: check-proto
check-proto:
	@echo "== buf lint, buf format"
	@$(BUF) lint
	@$(BUF) format --diff --exit-code

.PHONY: check-generated
check-generated:
	@echo "== gen/ is what proto/ generates"
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(BUF) generate --output "$$fresh"; \
	diff -r gen "$$fresh/gen" || { echo "gen/ is not what proto/ generates: run make generate"; exit 1; }

# The wire may only grow. With uncommitted changes under proto/ the base is the
# last commit; on another branch than main it is where the branch left main;
# and on main, so in CI's fresh clone of it, the base is the last commit with
# another proto/ than today's.
.PHONY: check-breaking
check-breaking:
	@echo "== buf breaking"
	@base="$(BREAKING_AGAINST)"; \
	if [ -n "$$base" ]; then git rev-parse --quiet --verify "$$base^{commit}" >/dev/null || { \
	  echo "BREAKING_AGAINST: $$base is no commit here"; exit 1; }; \
	elif ! git rev-parse --quiet --verify HEAD >/dev/null; then \
	  echo "NOT COMPARED: there is no commit yet"; exit 0; \
	elif [ -n "$$(git status --porcelain -- proto)" ]; then base=HEAD; \
	elif [ "$$(git rev-parse --abbrev-ref HEAD)" != main ] && git rev-parse --quiet --verify main >/dev/null; then \
	  base=$$(git merge-base HEAD main); \
	else \
	  last=$$(git log -1 --format=%H -- proto); \
	  base=$$(git rev-parse --quiet --verify "$$last~1" || true); \
	fi; \
	if [ -z "$$base" ] || [ -z "$$(git ls-tree "$$base" proto 2>/dev/null)" ]; then \
	  echo "NOT COMPARED: no earlier commit has a proto/"; exit 0; fi; \
	old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
	git archive "$$base" proto | tar -x -C "$$old"; \
	cp buf.yaml "$$old"; \
	echo "compared with $$(git log -1 --format='%h %s' "$$base")"; \
	$(BUF) breaking --against "$$old"

.PHONY: check-tidy
check-tidy:
	@echo "== go mod tidy"
	@go mod tidy -diff
	@for module in tools/*/ etcd/etcdtest/ story/; do go -C "$$module" mod tidy -diff; done

.PHONY: check-vet
check-vet:
	@echo "== go vet"
	@go vet ./...
	@go vet -tags e2e ./...
	@go -C etcd/etcdtest vet ./...
	@go -C story vet ./...

.PHONY: check-static
check-static:
	@echo "== staticcheck"
	@$(call tool,staticcheck) -tags e2e ./...

# Where the database of vulnerabilities cannot be reached, nothing is known
# about them; that is said, and is no failure.
.PHONY: check-vuln
check-vuln:
	@echo "== govulncheck"
	@said=$$(mktemp); trap 'rm -f "$$said"' EXIT; \
	if $(call tool,govulncheck) ./... >"$$said" 2>&1; then cat "$$said"; \
	elif grep -q '^govulncheck: fetching vulnerabilities: ' "$$said"; then \
	  cat "$$said"; \
	  echo "NOT CHECKED: the database of vulnerabilities cannot be reached from here"; \
	else cat "$$said"; exit 1; fi

.PHONY: check-race
check-race:
	@echo "== go test -race"
	@go test -race -timeout 20m ./...
