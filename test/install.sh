#!/bin/bash
# The stranger's path: a release on a registry of its own, and a cluster that installs from it alone. First by three commands,
# timed, then by the chart: installed, upgraded, uninstalled and installed again. It needs the cluster of make cluster-up
# without classes, takes away the installation that is there, and puts that of deploy/overlays/creator-stamp in its place.
set -euo pipefail
cd "$(dirname "$0")/.."
VERSION=v0.0.1-install PORT=5011
REGISTRY=127.0.0.1:$PORT/flex RELEASE=bin/release/$VERSION WORK=bin/install
export KUBECONFIG=$PWD/.cluster/kubeconfig PATH=$PWD/.cluster/bin:$PATH
export IMAGE_ARCHES=${IMAGE_ARCHES:-$(go env GOARCH)} PLUGIN_PLATFORMS=${PLUGIN_PLATFORMS:-linux_$(go env GOARCH)}

now() { echo "${EPOCHREALTIME/[.,]/}"; }
since() { local t=$((($(now) - $1) / 10000)); printf '%d.%02d s' $((t / 100)) $((t % 100)); }
BEGAN=$(now)
say() { printf '=== %s: %s\n' "$(since "$BEGAN")" "$*"; }
die() { printf 'install: %s\n' "$*" >&2; exit 1; }
run() { echo "\$ $*" && "$@"; }
until_ok() {
	local end=$((SECONDS + $1))
	shift
	until "$@" > /dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || die "not within time: $*"
		sleep 0.2
	done
}
helm() { run bin/helm "$@" 2> >(grep -v -e level=INFO -e level=WARN >&2); }

# check_cluster: nobody uses it.
check_cluster() {
	kubectl version > /dev/null || die "the cluster does not answer: make cluster-up"
	local used
	used=$(kubectl get storageclasses -o 'jsonpath={range .items[?(@.provisioner=="flex-provisioner.io/dispatcher")]}{.metadata.name} {end}')
	[ -z "$used" ] || die "the cluster has classes that this would break: $used"
}

# registry: on the node, whose containerd does without TLS on loopback addresses.
registry() {
	test/cluster/packages.sh docker-registry skopeo # the node cannot get them
	test/cluster/enter.sh test/cluster/registry.sh "127.0.0.1:$PORT" > "$WORK/registry.log" &
	REGISTRY_PID=$!
	until_ok 20 grep -q serving "$WORK/registry.log"
}

# remove_all takes away whatever installed flex-provisioner, by the label that all of its objects have.
remove_all() {
	local kind own=app.kubernetes.io/part-of=flex-provisioner
	for kind in validatingadmissionpolicybindings mutatingadmissionpolicybindings validatingadmissionpolicies mutatingadmissionpolicies; do
		kubectl delete "$kind" -l "$own" --ignore-not-found > /dev/null
	done
	# The dispatcher that would take the finalizers off may be gone.
	kubectl -n flex-provisioners get pods -o name | xargs -r -n 1 kubectl -n flex-provisioners patch --type=merge -p '{"metadata":{"finalizers":null}}' > /dev/null
	kubectl delete namespace flex-system flex-provisioners --ignore-not-found --timeout=120s > /dev/null
	kubectl delete clusterroles,clusterrolebindings -l "$own" --ignore-not-found > /dev/null
	# An API server sees no changes of flex-pv-policy any more once the last policy that reads it was deleted: docs/operations.md.
	test/cluster/ctl.sh restart kube-apiserver > /dev/null
}

clean_up() {
	local code=$?
	if [ $code != 0 ]; then
		printf 'install: failed after %s; what the cluster says:\n' "$(since "$BEGAN")"
		kubectl get pods -A
		kubectl get events -A --sort-by=.lastTimestamp | tail -15
		kubectl -n flex-system logs deployment/flex-provisioner --tail=15
	fi >&2
	trap - EXIT
	set +e
	if [ "${CHANGED:-}" = yes ]; then
		say "the installation of the checkout is put back"
		kubectl -n default delete --ignore-not-found --timeout=120s -f "$RELEASE/hostpath-claim.yaml" > /dev/null
		(until_ok 120 no_volumes)
		kubectl delete storageclass hostpath gold --ignore-not-found > /dev/null
		kubectl -n kube-system delete secret -l owner=helm,name=flex-provisioner > /dev/null
		remove_all
		test/cluster/load-image.sh bin/images/flex-provisioner.tar bin/images/flexctl.tar > /dev/null
		kubectl apply --server-side -k deploy/overlays/creator-stamp > /dev/null
		kubectl -n flex-system rollout status deployment/flex-provisioner --timeout=120s || code=1
	fi
	local ctr=(test/cluster/enter.sh env CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1 .cluster/bin/ctr -a /run/flex-cluster/node1/containerd.sock -n k8s.io images)
	"${ctr[@]}" ls -q "name~=^$REGISTRY/" | xargs -r "${ctr[@]}" rm > /dev/null
	# The registry is the child of what entered the node's namespaces.
	[ -z "${REGISTRY_PID:-}" ] || kill "$(pgrep -P "$REGISTRY_PID")" "$REGISTRY_PID" 2> /dev/null
	exit $code
}

no_volumes() { [ -z "$(kubectl get pv -o 'jsonpath={range .items[?(@.metadata.annotations.pv\.kubernetes\.io/provisioned-by=="flex-provisioner.io/dispatcher")]}{.metadata.name}{end}')" ]; }

# used_and_deleted: the claim that has been made is bound, its pod writes and reads, and when it is deleted its volume goes.
used() {
	kubectl wait --for=jsonpath='{.status.phase}'=Bound pvc/hostpath --timeout=180s
	TOOK=$(since "$1")
	kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/hostpath --timeout=120s
	[ "$(kubectl logs hostpath)" = "hello from hostpath" ] || die "the pod did not read what it wrote"
}
deleted() {
	kubectl delete --timeout=120s -f "$RELEASE/hostpath-claim.yaml"
	until_ok 120 no_volumes
}

three_commands() {
	local began
	say "three commands to the first bound claim"
	began=$(now)
	run kubectl apply --server-side -f "$RELEASE/install.yaml" | tail -1
	run kubectl apply --server-side --field-manager=hostpath -f "$RELEASE/hostpath.yaml"
	run kubectl apply -f "$RELEASE/hostpath-claim.yaml"
	used "$began"
	say "bound $TOOK after the first command"
	images=$(kubectl get pods -A -o 'jsonpath={range .items[*]}{range .spec.containers[*]}{.image}{"\n"}{end}{end}' | sort -u)
	! grep -v -e "^$REGISTRY/" <<< "$images" || die "pods run images that are not the release's"
	deleted
	kubectl delete storageclass hostpath > /dev/null
	remove_all
}

lines() { kubectl -n flex-system get configmap flex-pv-policy -o 'jsonpath={.data}'; }
hostpath_values() {
	cat <<-V
		classes:
		  hostpath:
		    storageClass: {reclaimPolicy: Delete, volumeBindingMode: WaitForFirstConsumer, allowVolumeExpansion: true}
		    config:
		      image: $(grep "/hostpath@" "$RELEASE/images.txt")
		      host-path: /var/lib/flex-hostpath
		      root: /var/lib/flex-hostpath
		      node-local: "true"
		      listable: "true"
		      expandable: "true"
		      run-as-user: "0"
		      mode: "0777"
		    grants: {volumeTypes: local, pathPrefixes: /var/lib/flex-hostpath, hostPaths: /var/lib/flex-hostpath, privileges: root}
	V
}

by_chart() {
	local chart=flex-provisioner-${VERSION#v}.tgz began kept
	say "the chart, with a class as values"
	hostpath_values > "$WORK/values.yaml"
	run test/cluster/enter.sh bin/helm pull "oci://$REGISTRY/charts/flex-provisioner" --version "${VERSION#v}" --plain-http -d "$WORK" 2>&1 | grep -v level=
	cmp "$WORK/$chart" "$RELEASE/$chart" || die "the registry has another chart"
	began=$(now)
	helm install flex-provisioner "$WORK/$chart" --namespace kube-system --values "$WORK/values.yaml" --wait --timeout 3m
	kubectl apply -f "$RELEASE/hostpath-claim.yaml"
	used "$began"
	say "bound $TOOK after helm install"

	say "an upgrade keeps what others wrote, and a volume"
	kubectl apply --server-side --field-manager=other -f - <<-C > /dev/null
		{apiVersion: v1, kind: ConfigMap, metadata: {name: flex-pv-policy, namespace: flex-system}, data: {other.storageClasses: other, other.volumeTypes: nfs}}
	C
	cat >> "$WORK/values.yaml" <<-V
		  gold:
		    config: {image: "registry.example/gold:1"}
		    grants: {volumeTypes: nfs}
	V
	helm upgrade flex-provisioner "$WORK/$chart" --namespace kube-system --values "$WORK/values.yaml" --set replicas=2 --set options.deleteLimit=7 --wait --timeout 3m
	[[ $(lines) == *gold.volumeTypes* && $(lines) == *other.volumeTypes* && $(lines) == *hostpath.privileges* ]] || die "flex-pv-policy has $(lines)"
	[ "$(kubectl -n flex-system get deployment flex-provisioner -o 'jsonpath={.status.readyReplicas}')" = 2 ] || die "there are not two dispatchers"
	kubectl -n flex-system get deployment flex-provisioner -o yaml | grep -q -e --delete-limit=7 || die "the option did not arrive"
	hostpath_values > "$WORK/values.yaml"
	helm upgrade flex-provisioner "$WORK/$chart" --namespace kube-system --values "$WORK/values.yaml" --wait --timeout 3m
	[[ $(lines) != *gold* && $(lines) == *other.volumeTypes* ]] || die "flex-pv-policy has $(lines)"
	! kubectl get storageclass gold > /dev/null 2>&1 || die "the class gold is still there"
	! kubectl -n flex-system get poddisruptionbudget flex-provisioner > /dev/null 2>&1 || die "the PodDisruptionBudget is still there"

	say "uninstalled with a volume that is left, and installed again"
	helm uninstall flex-provisioner --namespace kube-system --wait
	kept=$(kubectl -n flex-system get secret flex-provisioner-record-key -o 'jsonpath={.data}')
	[ -n "$kept" ] || die "the dispatcher's key is gone"
	[[ $(lines) == *other.volumeTypes* ]] || die "flex-pv-policy has $(lines)"
	kubectl get validatingadmissionpolicybindings -o name | grep -q /flex-provisioner-pods || die "nothing guards the namespace of provisioners any more"
	helm install flex-provisioner "$WORK/$chart" --namespace kube-system --values "$WORK/values.yaml" --wait --timeout 3m
	[ "$(kubectl -n flex-system get secret flex-provisioner-record-key -o 'jsonpath={.data}')" = "$kept" ] || die "the dispatcher's key is another"
	deleted
	say "the volume of before was removed by the new installation"
	helm uninstall flex-provisioner --namespace kube-system --wait
	# docs/install-on.md has this.
	run kubectl delete namespace flex-provisioners flex-system --timeout=120s
	kubectl get validatingadmissionpolicybindings,validatingadmissionpolicies -o name --selector=app.kubernetes.io/part-of=flex-provisioner |
		grep /flex- | xargs kubectl delete
	kubectl delete clusterrole flex-provisioner-pod flex-dispatcher
	test/cluster/ctl.sh restart kube-apiserver > /dev/null # see remove_all
	[ -z "$(kubectl get clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings -o name | grep flex- || true)" ] || die "something is left"
}

mkdir -p "$WORK"
rm -rf "${WORK:?}"/*
check_cluster
say "a release is built"
[ "${BUILT:-}" = yes ] || tools/release.sh build "$VERSION" "$REGISTRY" > "$WORK/build.log" 2>&1 || die "see $WORK/build.log"
trap clean_up EXIT
trap 'exit 143' INT TERM
registry
say "it goes to $REGISTRY"
test/cluster/enter.sh env KEY= IMAGE_ARCHES="$IMAGE_ARCHES" tools/release.sh push "$VERSION" "$REGISTRY" || die "the release could not be pushed"
CHANGED=yes
remove_all
three_commands
by_chart
say "done"
