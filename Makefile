# Everything here works on a fresh Debian 12 with Go; what touches the kernel or installs packages needs root.
.DEFAULT_GOAL := help
.SECONDEXPANSION:
.DELETE_ON_ERROR:
SHELL := /bin/bash
export GOFLAGS ?= -buildvcs=false

PROGRAMS := $(notdir $(wildcard cmd/*)) $(patsubst images/%/main.go,%,$(wildcard images/*/main.go))
# Which commit is built; empty without git. The hash has a length of its own, else it depends on the size of the clone.
VERSION  := $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null)
ARCH     := $(shell go env GOARCH)
IMAGES   := $(patsubst images/%/Dockerfile,%,$(wildcard images/*/Dockerfile))
SOURCES  := $(shell find . -path './.*' -prune -o \( -path ./test -o -path ./tools \) -prune -o -type f \( -name '*.go' ! -name '*_test.go' -o -name '*.yaml' -path './deploy/policies/*' -o -path './cmd/kubectl-flex/templates/*' \) -print) go.mod go.sum
FILES     = git ls-files -co --exclude-standard
# Templates become scripts when kubectl flex new fills them in.
SCRIPTS   = $(shell $(FILES) ':!*.md' ':!*.go' ':!cmd/kubectl-flex/templates' | xargs grep -lIE '^\#!(/usr)?/bin/(env )?(ba|da)?sh|^\# shellcheck shell=' 2>/dev/null)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(PROGRAMS:%=bin/%) ## the programs, into bin/

images: $(IMAGES:%=bin/images/%.tar) ## the container images, as archives in bin/images/ that containerd and docker load

pin: images ## REGISTRY=registry.example/flex: the images to a registry, and deploy/base with them by digest into bin/deploy
	tools/pin.sh $(REGISTRY)

release: bin/syft bin/pushchart $(if $(KEY),bin/cosign) $(PROGRAMS:%=bin/licences/%) ## VERSION=v0.1.0 REGISTRY=registry.example/flex [KEY=cosign.key]: all of a release, docs/release.md
	@test/cluster/packages.sh jq
	tools/release.sh build '$(VERSION)' '$(REGISTRY)'
	tools/release.sh push '$(VERSION)' '$(REGISTRY)'

site: ## the documentation as a website, into bin/site
	@command -v npm > /dev/null || test/cluster/packages.sh nodejs npm
	tools/site/build.sh

lint: ## gofmt, go vet, golangci-lint, shellcheck, licences and, where the database can be reached, known vulnerabilities
	@out=$$(gofmt -l $$($(FILES) '*.go')); [ -z "$$out" ] || { echo "gofmt -w $$out" >&2; exit 1; }
	go vet -tags integration,e2e,cinder,conformance ./...
	cd tools && go vet ./...
	go tool -modfile=tools/lint/go.mod golangci-lint run
	cd tools && go tool -modfile=lint/go.mod golangci-lint run
	@test/cluster/packages.sh shellcheck
	shellcheck -x -P SCRIPTDIR $(SCRIPTS)
	tools/licences/licences.sh check ./cmd/... ./images/...
	@tools/vulncheck.sh

test: ## the whole ladder: lint, test-unit, test-conformance, test-integration and chaos beside test-cinder, test-e2e and test-attack
	test/all.sh

# The conformance kit's tests mostly start processes, which the race detector makes slow: test-conformance runs them. chaos
# runs all tests of the simulation, and here some of its seeds look for races.
test-unit: ## what needs nothing but Go
	go test -race -timeout 30m $$(go list ./... | grep -v -e /kubectl-flex/conformance -e '/test/chaos$$')
	go test -race -timeout 30m ./test/chaos -run '^TestSeeds$$'
	cd tools && go test -race -timeout 30m ./...

test-conformance: images ## the shipped images, the templates and wrong images, against the contract
	@test/cluster/packages.sh btrfs-progs fdisk tgt xfsprogs
	go test -count=1 -timeout 40m -tags conformance ./cmd/kubectl-flex/conformance/... ./test/authors/ ./test/docs/ ./cmd/flex-node/ ./cmd/flexctl/tree/
	cd test/sanity && FLEX_SANITY_ACCESS_TYPE=mount go test -count=1 -tags conformance ./...
	cd test/sanity && FLEX_SANITY_ACCESS_TYPE=block go test -count=1 -tags conformance ./...

test-integration: ## against a real API server
	test/cluster/build.sh kubernetes
	test/cluster/build.sh prometheus
	go test -race -count=1 -timeout 40m -tags integration ./test/integration/... ./test/attack

test-cinder: ## the Cinder image, against a real Cinder
	test/cinder/test.sh

test-versions: ## the admission policies on older API servers: a real 1.30, and what the newest emulates
	test/cluster/build.sh kubernetes
	test/cluster/build.sh kubernetes-1.30
	for v in 1.30 1.34 1.35 1.36; do FLEX_KUBERNETES=$$v go test -count=1 -timeout 20m -tags integration ./test/integration \
		-run 'TestManifests|TestPolicies|TestEveryRule|TestDispatcher|TestStolen|TestCreator' || exit 1; done

test-e2e: export ISCSI = 1
test-e2e: export NODES = 3
test-e2e: export SNAPSHOTS = 1
test-e2e: export SPARE = 1
test-e2e: cluster-up images ## against three real nodes, with volumes of a real Cinder
	@test/cluster/packages.sh docker-registry skopeo
	go test -count=1 -timeout 80m -tags e2e ./test/e2e/...

test-nodes: export ISCSI = 1
test-nodes: export NODES = 3
test-nodes: export SNAPSHOTS = 1
test-nodes: export SPARE = 1
test-nodes: cluster-up images ## nodes that fill, refuse, are under pressure, have other labels or are gone, and parts of Kubernetes that break
	FLEX_E2E_NODES=1 go test -count=1 -timeout 60m -tags e2e ./test/e2e -run '^Test(NodesInTrouble|Breakages)$$'

test-snapshots: export ISCSI = 1
test-snapshots: export NODES = 3
test-snapshots: export SNAPSHOTS = 1
test-snapshots: export SPARE = 1
test-snapshots: cluster-up images ## snapshots while dispatcher and snapshot-controller are killed, on a disk without reflinks, and 200 at once
	FLEX_E2E_SNAPSHOTS=1 go test -count=1 -timeout 60m -tags e2e ./test/e2e -run Snapshot

test-install: cluster-up bin/syft bin/pushchart bin/helm $(PROGRAMS:%=bin/licences/%) ## a release on a loopback registry, and a cluster that installs from it alone
	@test/cluster/packages.sh jq
	test/install.sh

test-attack: export SNAPSHOTS = 1
test-attack: cluster-up images ## what attackers try in several steps, from six points of view
	go test -count=1 -timeout 20m -tags e2e ./test/attack

test-upstream: export ISCSI = 1
test-upstream: export NODES = 3
test-upstream: export SNAPSHOTS = 1
test-upstream: export SPARE = 1
test-upstream: cluster-up images ## Kubernetes' own storage tests against the shipped classes and the examples'; ONLY=nfs-subdir, FOCUS=regexp
	test/upstream/run.sh

test-upgrade: export ISCSI = 1
test-upgrade: export NODES = 3
test-upgrade: export SPARE = 1
test-upgrade: cluster-up images ## from the version of the git reference FROM, by default the last tag, to this one and back
	test/upgrade.sh

test-kernel: images bin/kubectl-flex bin/flexctl ## Debian's kernel in two virtual machines: iSCSI, multipath, NVMe and NFS without stand-ins; ONLY='iscsi nvme'
	test/kernel/run.sh $(ONLY)

test-lab: images ## a cluster whose nodes have kernels of their own, with a real Cinder (LVM, LIO) and NFS server; ONLY='cinder paths'
	test/kernel/lab.sh $(ONLY)

tables: ## the tables and lists of docs/ and the keys in the policies anew, from the code
	go test ./configmaps ./test/docs -update

fuzz: ## all fuzz targets, each FOR=10m, or those that match ONLY
	test/fuzz.sh

chaos: ## crashes, lost answers and errors
	test/chaos/run.sh

mutate: ## small changes to the code of a package, which its tests have to notice; ONLY=podspec; too slow for make test
	nice -n 19 go tool -modfile=tools/go.mod gremlins unleash --workers 1 --invert-logical --invert-loopctrl ./$(or $(ONLY),dispatcher/reconcile)

soak: export ISCSI = 1
soak: export NODES = 3
soak: export SPARE = 1
soak: cluster-up images ## crashes for real: two claims a second on the cluster, with a real Cinder, FOR=1h
	FLEX_E2E_SOAK=$(or $(FOR),1h) go test -count=1 -timeout 8h -tags e2e ./test/e2e -run '^TestSoak$$' -v

bench: cluster-up images ## how fast, against the raw API and others
	test/bench/run.sh

demo: $(if $(filter current,$(CLUSTER)),,cluster-up) images bin/kubectl-flex ## a claim from nothing to a volume in use
	test/demo.sh

ifneq ($(filter cinder-%,$(EXAMPLE)),)
demo: export ISCSI = 1
endif

down: cinder-down cluster-down ## stop all that was started

cluster-up: ## a real Kubernetes; settings: test/cluster/README.md
	test/cluster/up.sh

cluster-down: ## stop it
	test/cluster/down.sh

cinder-up: ## a real Cinder on this machine
	test/cinder/up.sh

cinder-down: ## stop it
	test/cinder/down.sh

.PHONY: $(shell awk -F: '/^[a-z0-9-]+:.*\#\# / {print $$1}' $(firstword $(MAKEFILE_LIST)))

# A program that came out the same keeps its time, so that a change elsewhere makes no new images.
replace = cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Tools of a release. cosign and syft bring hundreds of modules each, and have modules of their own.
bin/pushchart: $(wildcard tools/release/pushchart/*.go) tools/go.mod tools/go.sum
	cd tools && CGO_ENABLED=0 go build -trimpath -o ../$@ ./release/pushchart

bin/helm: tools/go.mod tools/go.sum
	cd tools && CGO_ENABLED=0 go build -trimpath -o ../$@ helm.sh/helm/v4/cmd/helm

bin/cosign: tools/cosign/go.mod tools/cosign/go.sum
	cd tools/cosign && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../../$@ github.com/sigstore/cosign/v3/cmd/cosign

bin/syft: tools/syft/go.mod tools/syft/go.sum
	cd tools/syft && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o ../../$@ github.com/anchore/syft/cmd/syft

bin/version: FORCE
	@mkdir -p bin
	@echo '$(VERSION)' > $@.new
	@$(replace)

FORCE:

bin/%: $(SOURCES) bin/version
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w $(VERSION:%=-X github.com/flex-provisioner/flex-provisioner/internal/version.stamp=%)' -o $@.new ./$(firstword $(wildcard cmd/$* images/$*))
	@$(replace)

# The licences that go along with a program.
bin/licences/%: bin/% tools/licences/licences.sh
	tools/licences/licences.sh save ./$(firstword $(wildcard cmd/$* images/$*)) $@

# Dockerfiles find programs by their architecture.
bin/linux-$(ARCH)/%: bin/%
	@mkdir -p $(@D)
	ln -f $< $@

# An image is made again when a file of its folder, its program or its base changed. Its context is the checkout, or for a
# script its folder.
bin/images/%.tar: tools/image.sh tools/buildah.sh tools/debian.sh $$(wildcard images/$$*/*)
	tools/image.sh registry.invalid/flex-provisioner/$*:dev $@ \
		$(if $(wildcard images/$*/provisioner.sh),images/$*,.) --file images/$*/Dockerfile

bin/images/flex-provisioner.tar: bin/linux-$(ARCH)/flex-provisioner bin/licences/flex-provisioner
bin/images/flexctl.tar: bin/linux-$(ARCH)/flexctl bin/licences/flexctl
bin/images/cinder-iscsi.tar: bin/linux-$(ARCH)/cinder-iscsi bin/licences/cinder-iscsi
bin/images/flex-node.tar: bin/linux-$(ARCH)/flex-node bin/licences/flex-node
bin/images/shell.tar: bin/images/flexctl.tar
bin/images/hostpath.tar bin/images/loop.tar bin/images/nfs-subdir.tar: bin/images/shell.tar
