#!/bin/bash
# build.sh SET: builds kubernetes, kubernetes-1.30, kubernetes-1.33, etcd, runtime, prometheus, kwok, upstream, snapshot or snapshot-8.6 once
# a machine and links the binaries into .cluster/bin.
#
# The cache is keyed by what goes into a build, so other runs and other checkouts share it. A build happens in a folder of
# its own that gets its name when it is complete; of two builders the second waits and then finds it there.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/flex-provisioner/cluster
export GOWORK=off GOFLAGS='-trimpath -buildvcs=false' CGO_ENABLED=0 GOOS=linux

kubernetes_inputs() { echo "$HERE"/kubernetes/*; }
kubernetes_build() { # without a version linked in the components call themselves v0.0.0-master
	local v=k8s.io/component-base/version c=k8s.io/client-go/pkg/version ld="-s -w"
	ld+=" -X $v.gitVersion=v1.37.0 -X $v.gitMajor=1 -X $v.gitMinor=37 -X $v.gitTreeState=clean -X $v.gitCommit=0000000"
	ld+=" -X $v.buildDate=2026-08-26T10:44:20Z -X $c.gitVersion=v1.37.0 -X $c.gitMajor=1 -X $c.gitMinor=37"
	cd "$HERE/kubernetes"
	go build -ldflags "$ld" -o "$1/" tool
	mv "$1/server" "$1/etcd"
}

# Older versions, under names of their own: the oldest that is supported, and one in between.
kubernetes-1.30_inputs() { echo "$HERE"/kubernetes-1.30/*; }
kubernetes-1.30_build() { older "$1" 30 14; }
kubernetes-1.33_inputs() { echo "$HERE"/kubernetes-1.33/*; }
kubernetes-1.33_build() { older "$1" 33 13; }
older() { # OUT MINOR PATCH
	local v=k8s.io/component-base/version c=k8s.io/client-go/pkg/version ld="-s -w" f
	ld+=" -X $v.gitVersion=v1.$2.$3 -X $v.gitMajor=1 -X $v.gitMinor=$2 -X $v.gitTreeState=clean"
	ld+=" -X $c.gitVersion=v1.$2.$3 -X $c.gitMajor=1 -X $c.gitMinor=$2"
	cd "$HERE/kubernetes-1.$2"
	go build -ldflags "$ld" -o "$1/" tool
	for f in "$1"/*; do mv "$f" "$f-1.$2"; done
}

etcd_inputs() { echo "$HERE"/etcd/go.*; }
etcd_build() { cd "$HERE/etcd" && go build -ldflags '-s -w' -o "$1/" tool; }

runtime_inputs() { echo "$HERE"/runtime/go.* "$HERE"/runtime/pause/* "$HERE"/images/*/*; }
runtime_build() {
	local out=$1 c=github.com/containerd/containerd/v2/cmd p=github.com/containernetworking/plugins/plugins i
	cd "$HERE/runtime"
	go build -tags 'no_btrfs no_devmapper no_zfs' -ldflags '-s -w' -o "$out/" $c/containerd $c/containerd-shim-runc-v2 $c/ctr
	go build -ldflags '-s -w' -o "$out/" $p/main/bridge $p/main/loopback $p/ipam/host-local ./pause
	# containerd gives even the pause container a seccomp profile, and seccomp needs libseccomp through cgo.
	CGO_ENABLED=1 go build -tags seccomp -ldflags '-s -w' -o "$out/" github.com/opencontainers/runc
	cp /bin/busybox "$out/"
	for i in pause busybox; do
		"$REPO/tools/image.sh" "registry.invalid/flex-provisioner/$i:1" "$out/images/$i.tar" "$out" \
			--file "$HERE/images/$i/Dockerfile"
	done
	rm "$out/busybox"
}

prometheus_inputs() { echo "$HERE"/prometheus/go.*; }
prometheus_build() { # without the clouds that it could discover targets in
	cd "$HERE/prometheus" && go build -tags remove_all_sd -ldflags '-s -w' -o "$1/" tool
}

kwok_inputs() { echo "$HERE"/kwok/go.*; }
kwok_build() { cd "$HERE/kwok" && go build -ldflags '-s -w' -o "$1/" tool; }

upstream_inputs() { echo "$HERE"/upstream/go.* "$HERE"/upstream/*/*; }
upstream_build() { # Kubernetes' own e2e tests, what runs them, and the program of many of their pods
	local v=k8s.io/component-base/version
	cd "$HERE/upstream"
	go test -c -ldflags "-s -w -X $v.gitVersion=v1.37.0 -X $v.gitMajor=1 -X $v.gitMinor=37" -o "$1/e2e.test" k8s.io/kubernetes/test/e2e
	go build -ldflags '-s -w' -o "$1/" tool
}

# The unmodified snapshot-controller, and the CustomResourceDefinitions that it is for.
snapshot_inputs() { echo "$HERE"/snapshot/go.*; }
snapshot_build() { snapshots "$1" 8.7.0; }
snapshot-8.6_inputs() { echo "$HERE"/snapshot-8.6/go.*; }
snapshot-8.6_build() { snapshots "$1" 8.6.0 -8.6; }
snapshots() { # OUT VERSION [SUFFIX]
	local kind crds
	cd "$HERE/snapshot${3:-}"
	go build -ldflags "-s -w -X main.version=v$2" -o "$1/snapshot-controller${3:-}" tool
	crds=$(go list -m -f '{{.Dir}}' github.com/kubernetes-csi/external-snapshotter/client/v8)/config/crd
	for kind in volumesnapshotclasses volumesnapshotcontents volumesnapshots; do
		cat "$crds/snapshot.storage.k8s.io_$kind.yaml"
	done > "$1/snapshot-crds${3:-}.yaml"
}

about() {
	case $1 in
	kubernetes) echo "Kubernetes v1.37.0 and etcd, about 7 minutes on two cores when Go's cache is empty" ;;
	kubernetes-1.30) echo "Kubernetes v1.30.14, about 7 minutes on two cores when Go's cache is empty" ;;
	kubernetes-1.33) echo "Kubernetes v1.33.13, about 7 minutes on two cores when Go's cache is empty" ;;
	etcd) echo "etcdctl and etcdutl 3.7.1, about 60 s when Go's cache is empty" ;;
	runtime) echo "containerd, runc, CNI plugins and two images, about 90 s when Go's cache is empty" ;;
	prometheus) echo "Prometheus and promtool v0.316.0, about 3 minutes when Go's cache is empty" ;;
	kwok) echo "kwok v0.8.0, about 90 s when Go's cache is empty" ;;
	upstream) echo "the e2e tests of Kubernetes v1.37.0, about 4 minutes on two cores after kubernetes" ;;
	snapshot) echo "snapshot-controller v8.7.0, about 2 minutes when Go's cache is empty" ;;
	snapshot-8.6) echo "snapshot-controller v8.6.0, about 2 minutes when Go's cache is empty" ;;
	*) die "no such set: $1: one of kubernetes kubernetes-1.30 kubernetes-1.33 etcd runtime prometheus kwok upstream snapshot snapshot-8.6" ;;
	esac
}

key_of() { # SET: changes with anything that changes the binaries
	local files
	read -ra files <<< "$("$1_inputs")"
	{ cd "$HERE/$1" && go env GOVERSION GOARCH && declare -f "$1_build" && { [[ $1 != kubernetes-1.* ]] || declare -f older; } && { [[ $1 != snapshot* ]] || declare -f snapshots; } && cat "${files[@]}"; } | sha256sum | cut -c1-16
}

main() {
	local set=$1 dir tmp began about
	about=$(about "$set")
	command -v go > /dev/null || die "needs go 1.26 or newer in PATH: https://go.dev/dl"
	dir=$CACHE/$set-$(key_of "$set")
	mkdir -p "$CACHE" "$BIN"
	exec 8> "$CACHE/$set.lock"
	flock -n 8 || { say "waiting for another build of $set"; flock 8; }
	if [ ! -d "$dir" ]; then
		tmp=$(mktemp -d "$CACHE/.$set-XXXXXX")
		# shellcheck disable=SC2064 # the folder of now
		trap "rm -rf '$tmp'" EXIT
		say "building $about"
		began=$(now)
		"${set}_build" "$tmp"
		mv -T "$tmp" "$dir"
		say "built $set in $(since "$began"): $dir"
	fi
	touch "$dir" # so that one can see which are still in use
	ln -sfn "$dir"/* "$BIN/"
}
main "$@"
