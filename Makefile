# Everything that one does with this repository. `make help` lists it.
# A machine needs Go, a C compiler (for the race detector), make, bash and git; no container engine except for `make image-docker`.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# DIR is where the local cluster keeps its data, logs and kubeconfig.
DIR ?= $(CURDIR)/.cache/local
# NODES is the number of simulated nodes of the local cluster.
NODES ?= 4
# KEEP=1 leaves the demo's cluster running.
KEEP ?=
# IMAGE is the name of the container image that `make image` and `make image-docker` build.
IMAGE ?= muster:dev
CONTAINER_ENGINE ?= docker
# BIN is where our programs go.
BIN ?= bin
# One set of flags for all, so that the control plane, the programs and the tests share the build cache.
export GOFLAGS := -trimpath -buildvcs=false
export GOWORK := off

# The scheduler takes its version from component-base: upstream's number, with ours as build metadata.
KUBERNETES_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2; exit}' go.mod)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# COMMIT_TIME is in seconds since 1970. The image is as old as its commit, so that two builds are the same.
COMMIT_TIME ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
version_package := k8s.io/component-base/version
LDFLAGS := -X $(version_package).gitVersion=$(KUBERNETES_VERSION)+muster.$(VERSION) \
  -X $(version_package).gitMajor=1 -X $(version_package).gitMinor=37 -X $(version_package).gitCommit=$(COMMIT)

# PROGRAMS are those that `make binaries` builds. STATIC=1 makes them independent of the machine's C library and small.
PROGRAMS ?= muster-scheduler muster-controller muster
ifdef STATIC
export CGO_ENABLED := 0
LDFLAGS += -s -w
endif

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "; print "Usage: make <target>"} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build and try

.PHONY: build
build: binaries controlplane ## Build bin/: our programs, kubectl and the control plane of the local cluster.

.PHONY: binaries
binaries: ## Build our programs only: muster-scheduler, muster-controller and muster.
	@echo "building $(PROGRAMS:%=$(BIN)/%) ($(VERSION))"
	@mkdir -p $(BIN)
	@hack/compile.sh "$(BIN)" "$(LDFLAGS)" $(PROGRAMS:%=./cmd/%)

.PHONY: controlplane
controlplane: ## Build the pinned etcd, kube-apiserver, kube-controller-manager, kube-scheduler, KWOK and kubectl (minutes, once).
	@hack/controlplane/build.sh bin

.PHONY: demo
demo: binaries ## Show gangs held, released, restarted and completed on a local cluster (KEEP=1 leaves it running).
	@bin/muster demo $(if $(filter-out 0 false no,$(KEEP)),--keep)

.PHONY: local-up
local-up: binaries ## Start a local cluster in DIR (default .cache/local) with NODES simulated nodes.
	@bin/muster local up --dir "$(DIR)" --nodes $(NODES)

.PHONY: local-down
local-down: ## Stop the local cluster in DIR.
	@bin/muster local down --dir "$(DIR)"

.PHONY: image
image: ## Build the container image IMAGE without an engine, into bin/image: an OCI layout, muster.tar (docker load), the SBOM and the provenance.
	@$(MAKE) binaries STATIC=1 GOOS=linux BIN=bin/image/programs PROGRAMS="muster-scheduler muster-controller"
	@GOOS= GOARCH= go -C hack/image build -o "$(CURDIR)/bin/image/build" .
	@bin/image/build --name "$(IMAGE)" --programs bin/image/programs --out bin/image \
	  --version "$(VERSION)" --commit "$(COMMIT)" --created "$(COMMIT_TIME)"

.PHONY: image-docker
image-docker: ## Build the same image from the Dockerfile with CONTAINER_ENGINE.
	$(CONTAINER_ENGINE) build --build-arg VERSION="$(VERSION)" --build-arg COMMIT="$(COMMIT)" -t $(IMAGE) .

.PHONY: chart
chart: ## Pack the Helm chart into bin, with Helm from its module.
	@go -C test/chart tool helm package --app-version "$(VERSION)" --destination "$(CURDIR)/bin" "$(CURDIR)/manifests/charts/muster"

.PHONY: docs
docs: ## Write the documentation as a static site with search, into .cache/site; fails on a dead link.
	@go run ./hack/site -out .cache/site

# KREW_PLATFORMS are those that "kubectl muster" is built for.
KREW_PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64
.PHONY: krew
krew: ## Build the archives of `kubectl muster` and their krew manifest for a release, into bin/krew (KREW_VERSION=v1.2.0 KREW_URL=https://...).
	@for platform in $(KREW_PLATFORMS); do \
	  $(MAKE) binaries STATIC=1 GOOS=$${platform%-*} GOARCH=$${platform#*-} BIN=bin/krew/programs/$$platform PROGRAMS=muster; done
	@GOOS= GOARCH= go -C hack/krew build -o "$(CURDIR)/bin/krew/build" .
	@bin/krew/build --version "$(KREW_VERSION)" --url "$(KREW_URL)" --programs bin/krew/programs --out bin/krew

# RELEASE_IMAGE, RELEASE_URL and RELEASE_PROCESSORS are the image's name, where the files will be found, and for which processors there is an image.
RELEASE_IMAGE ?= muster
RELEASE_URL ?= https://github.com/muster-sched/muster/releases/download/{version}
RELEASE_PROCESSORS ?= amd64 arm64
.PHONY: release
release: ## Build all that a release publishes, with checksums and notes, into bin/release (VERSION=v1.2.0; RELEASE_IMAGE, RELEASE_URL).
	@hack/release.sh "$(VERSION)" "$(RELEASE_IMAGE)" "$(RELEASE_URL)" "$(RELEASE_PROCESSORS)"

.PHONY: recording
recording: binaries ## Run the demo and draw its recording anew: docs/demo.svg.
	@bin/muster demo | go run ./hack/recording -out docs/demo.svg

##@ Measure

.PHONY: bench
bench: controlplane ## Upstream's scheduler_perf with our plugins, as ratios (ARGS="--rounds 1 --workloads SchedulingBasic" for less).
	@go -C test/benchmark/perf run . $(ARGS)

.PHONY: bench-e2e
bench-e2e: build ## Pods bound per second beside the stock scheduler, as ratios (ARGS="--rounds 1 --shapes 20x100" for less).
	@mkdir -p test-results
	@go run ./test/benchmark/throughput --json test-results/bench-e2e.json $(ARGS)

.PHONY: bench-controller
bench-controller: build ## Promptness, requests, memory, idle CPU and restart of the controller with Jobs and PhJobs, beside their goals (ARGS="--finished 1000 --live 100 --phjobs-finished 1000 --phjobs-pending 100" for less).
	@mkdir -p test-results
	@go run ./test/benchmark/controller --json test-results/bench-controller.json $(ARGS)

.PHONY: bench-reclaim
bench-reclaim: build ## How soon room is made by evictions and for how many pods, beside its goals (ARGS="--parts plan,gpus --nodes 100" for less).
	@mkdir -p test-results
	@go run ./test/benchmark/reclaim --json test-results/bench-reclaim.json $(ARGS)

.PHONY: bench-topology
bench-topology: ## Decisions on gangs with a network topology, how whole they leave a real network, and what they cost, beside the goals. A quarter of an hour.
	@mkdir -p test-results
	@echo "goals: BenchmarkDomains yes and no <= 100 ms, BenchmarkChoose with ten classes <= 300 ms, ten times the domains <= 1.3 times"
	@go test ./pkg/topology ./pkg/placement -run TestLeavesStayWhole -bench 'Build|Choose|Domains' -v -count=1 -vet=off
	@go run ./test/benchmark/topology --json test-results/bench-topology.json $(ARGS)

.PHONY: bench-traces
bench-traces: ## Waits and use of a cluster when workloads are replayed through the scheduler in virtual time (ARGS=--quick for less).
	@mkdir -p test-results
	@go run ./test/benchmark/traces --json test-results/bench-traces.json --picture test-results/bench-traces.svg $(ARGS)

##@ Check

.PHONY: test
test: build ## Run the tests: unit, integration, end to end. A summary comes last.
	@hack/test.sh

.PHONY: test-unit
test-unit: ## Run the unit tests.
	@hack/test.sh unit

.PHONY: test-integration
test-integration: build ## Run the tests against a real API server and scheduler.
	@hack/test.sh integration

.PHONY: test-e2e
test-e2e: build ## Run the tests that play whole stories on a local cluster.
	@hack/test.sh e2e

.PHONY: test-long
test-long: build ## Run the tests that take minutes each: programs that are killed at random moments, older releases, the installed chart.
	@hack/test.sh long

.PHONY: test-real
test-real: build ## Run the tests in real containers, on a local cluster with a real node; needs root and packages (docs/real-node.md).
	@hack/test-real.sh

.PHONY: test-skew
test-skew: build ## Run the demo and a part of the tests on Kubernetes 1.36 and 1.35, which are built first (an hour; MINORS=v1.36 for one).
	@hack/test-skew.sh $(MINORS)

.PHONY: soak
soak: build ## Jobs come for an hour while programs are killed; then nothing may be left (MUSTER_SOAK_FOR=5m MUSTER_SOAK_EVERY=30s for less).
	@go test -tags soak -count 1 -timeout 3h -run '^TestSoak$$' -v ./test/e2e/chaos

.PHONY: large
large: build ## Run, restart, drain and complete a Job of 50,000 pods, and bound its status (MUSTER_LARGE_PODS=5000 for less).
	@go test -tags large -count 1 -timeout 6h -run '^TestLargeJob$$' -v ./test/e2e/chaos

.PHONY: verify
verify: ## Check generated code, formatting, lint, imports, modules and manifests; changes nothing.
	@hack/verify-all.sh

.PHONY: measure
measure: ## Print how plain the code is (knots, sizes, words, imports) beside the goals; fails when one is missed or goes up.
	@hack/verify-measure.sh $(ARGS)

.PHONY: lint
lint: ## Run golangci-lint.
	@hack/verify-lint.sh

##@ Change

.PHONY: update
update: ## Regenerate code, CRDs and reference docs; format; tidy the modules.
	@hack/update-all.sh

.PHONY: clean
clean: ## Remove what was built, but not the local cluster's data.
	rm -rf bin test-results
