#!/bin/bash
# Shows the main job: installs flex-provisioner, and takes a claim of an ordinary user to a volume that a pod writes to and
# reads from. Every step says when it began and which commands it ran; the first thing that does not come true ends it with
# an error. Everything stays up afterwards. Settings, from the environment or after "make demo":
#   EXAMPLE=silver        one of EXAMPLES below; for cinder-... a real Cinder is started as well
#   NAMESPACE=flex-demo   where the claim and its consumer live
#   CLUSTER=current       the cluster of your kubeconfig, instead of the one that make cluster-up starts; then also
#   REGISTRY=registry.example/flex   where to push the images, with the credentials of docker login
#   CLOUD_CONF=file       for the examples with Cinder: how to reach yours, docs/cinder.md
#   NFS=server:/export    for the examples that use NFS; root must be able to write there
set -euo pipefail
cd "$(dirname "$0")/.."

EXAMPLE=${EXAMPLE:-silver}
NAMESPACE=${NAMESPACE:-flex-demo}
CLUSTER=${CLUSTER:-local}
REGISTRY=${REGISTRY:-}
NFS=${NFS:-}
CLOUD_CONF=${CLOUD_CONF:-}
OUT=bin/demo
IMAGES=(flex-provisioner flexctl shell hostpath nfs-subdir cinder-iscsi)
SERVER=10.99.0.1 EXPORT=/srv/nfs # what the examples name: the node of the local cluster, and a directory there

now() { echo "${EPOCHREALTIME/[.,]/}"; }
BEGAN=$(now)
since() { local t=$((($(now) - $1) / 10000)); printf '%d.%02d s' $((t / 100)) $((t % 100)); }
step() { printf '\n=== %s: %s\n' "$(since "$BEGAN")" "$*"; }
die() { printf '\ndemo: %s\n' "$*" >&2; exit 1; }

# until_ok SECONDS COMMAND...: try until it succeeds.
until_ok() {
	local end=$((SECONDS + $1))
	shift
	until "$@" > /dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

# admin and tom run kubectl as the administrator, and as a user without rights outside his namespace, and say so.
admin() { echo "admin\$ kubectl $*" && kubectl "$@"; }
tom() { echo "tom\$ kubectl -n $NAMESPACE $*" && as_tom "$@"; }
as_tom() { kubectl "${TOM[@]}" -n "$NAMESPACE" "$@"; }

explain_failure() {
	[ $? != 0 ] || return 0
	exec >&2
	printf '\ndemo: failed after %s; what the cluster says:\n' "$(since "$BEGAN")"
	kubectl -n "$NAMESPACE" get events --sort-by=.lastTimestamp | tail -15
	kubectl -n flex-provisioners get events --sort-by=.lastTimestamp | tail -15
	kubectl get pods -A | grep -e flex- -e "$NAMESPACE"
	kubectl -n flex-system logs deployment/flex-provisioner --tail=15
}

# EXAMPLES are those that every cluster can show. The others need nodes or images that their README.md says how to make.
EXAMPLES="silver hostpath inline nfs-subdir cinder-iscsi cinder-clone"

check_settings() {
	[[ " $EXAMPLES " == *" $EXAMPLE "* ]] || die "EXAMPLE=$EXAMPLE: must be one of $EXAMPLES"
	case $CLUSTER in
	local)
		[ -z "$REGISTRY$NFS$CLOUD_CONF" ] || die "REGISTRY, NFS and CLOUD_CONF go with CLUSTER=current only"
		export KUBECONFIG=$PWD/.cluster/kubeconfig PATH=$PWD/bin:$PWD/.cluster/bin:$PATH
		[ -f "$KUBECONFIG" ] || die "the cluster does not run: make cluster-up"
		TOM=(--kubeconfig "$PWD/.cluster/tom.kubeconfig") ;;
	current)
		command -v kubectl > /dev/null || die "CLUSTER=current needs kubectl"
		[ -n "$REGISTRY" ] || die "CLUSTER=current: REGISTRY is missing: say where to push the images, such as registry.example/flex"
		TOM=(--as=tom --as-group=team-a --as-group=system:authenticated) ;;
	*) die "CLUSTER=$CLUSTER: must be local or current" ;;
	esac
	admin version || die "the cluster does not answer"
	CLASS=$(sed -n 's/^ *storageClassName: //p' "examples/$EXAMPLE/claim.yaml")
	[ "$CLUSTER" = local ] || [ -f "$CLOUD_CONF" ] || [ "$CLASS" != cinder-iscsi ] || die "CLUSTER=current: CLOUD_CONF is missing: the file with the way to Cinder, docs/cinder.md"
	[ "$CLUSTER" = local ] || [ -n "$NFS" ] || ! classes | xargs grep -rq "$SERVER" ||
		die "CLUSTER=current: NFS is missing: say which server and export, such as 10.0.0.1:/srv/nfs, or take EXAMPLE=hostpath"
	kubectl auth can-i '*' '*' --all-namespaces > /dev/null || die "installing takes the rights of cluster-admin"
}

# bring_images: into the node of the local cluster directly, into every other cluster through a registry.
bring_images() {
	local image pushed
	REPLACE=(-e '')
	if [ "$CLUSTER" = local ]; then
		step "the images come to the node"
		echo "admin\$ test/cluster/load-image.sh bin/images/*.tar"
		(cd bin/images && ../../test/cluster/load-image.sh "${IMAGES[@]/%/.tar}" > ../demo/load.log 2>&1) || die "see $OUT/load.log"
		return
	fi
	step "the images go to $REGISTRY"
	for image in "${IMAGES[@]}"; do
		echo "admin\$ tools/push.sh bin/images/$image.tar $REGISTRY/$image:demo"
		pushed=$(tools/push.sh "bin/images/$image.tar" "$REGISTRY/$image:demo")
		REPLACE+=(-e "s#registry.invalid/flex-provisioner/$image:dev#$pushed#g")
	done
	[ -z "$NFS" ] || REPLACE+=(-e "s#$SERVER#${NFS%%:*}#g" -e "s#$EXPORT#${NFS#*:}#g")
}

# classes are those to install: the example's, and those of earlier demos, which keep their rights that way.
classes() {
	local class
	for class in $(cd examples && echo */ | tr -d /); do
		if [ "$class" = "$EXAMPLE" ] || kubectl get storageclass "$class" > /dev/null 2>&1; then
			realpath --relative-to=. "examples/$class/class"
		fi
	done | sort -u
}

# render makes the manifests: deploy/base and the classes, and the stamp of claims where the cluster knows how. The hash
# makes the Deployment follow an image that changed under the same name.
render() {
	local components file
	components=$(classes | sed 's#^#../../#')
	STAMP=
	if kubectl get --raw /apis/admissionregistration.k8s.io/v1 | grep -q '"mutatingadmissionpolicies"'; then
		STAMP=yes components+=$'\n'../../deploy/components/creator-stamp
	fi
	# A pod that succeeds is removed at once, and its log with it: here the script waits a moment at its end.
	awk '/^  provision: \|/ {script = 1; print; next}
		script && !/^    / {script = 0; print "    sleep 3 # in this demo only: time to read the log"}
		{print}' "$(config)" > "$OUT/linger.yaml"
	cat > "$OUT/kustomization.yaml" <<-K
		apiVersion: kustomize.config.k8s.io/v1beta1
		kind: Kustomization
		resources: [../../deploy/base]
		components: [${components//$'\n'/, }]
		patches:
		- path: linger.yaml
		- target: {kind: Deployment, name: flex-provisioner}
		  patch: |-
		    - {op: add, path: /spec/template/metadata/annotations, value: {image-hash: "$(sha256sum < bin/images/flex-provisioner.tar | cut -c1-64)"}}
		    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --flexctl-image=registry.invalid/flex-provisioner/flexctl:dev}
	K
	kubectl kustomize "$OUT" | sed "${REPLACE[@]}" > "$OUT/install.yaml"
	for file in claim consumer original; do
		[ ! -f "examples/$EXAMPLE/$file.yaml" ] || sed "${REPLACE[@]}" "examples/$EXAMPLE/$file.yaml" > "$OUT/$file.yaml"
	done
	sed "${REPLACE[@]}" "$(config)" > "$OUT/configmap.yaml"
}

# config is the file with the class's provisioner ConfigMap.
config() { if [ -f "configmaps/$CLASS.yaml" ]; then echo "configmaps/$CLASS.yaml"; else echo "examples/$EXAMPLE/class/configmap.yaml"; fi; }

# cloud_config makes the Secret by which the image finds Cinder.
cloud_config() {
	[ "$CLASS" = cinder-iscsi ] || return 0
	if [ "$CLUSTER" = local ]; then
		echo "\$ make cinder-up"
		test/cinder/up.sh
		CLOUD_CONF=$OUT/cloud.conf
		(umask 077; test/cinder/cloud-conf.sh > "$CLOUD_CONF")
	fi
	kubectl -n flex-provisioners delete secret cinder-cloud-config --ignore-not-found > /dev/null
	admin -n flex-provisioners create secret generic cinder-cloud-config --from-file=cloud.conf="$CLOUD_CONF"
}

# original makes what the claim is a clone of, in the examples with clones.
original() {
	[ -f "examples/$EXAMPLE/original.yaml" ] || return 0
	step "tom has a claim already, to which a pod has written"
	tom apply -f "$OUT/original.yaml"
	tom wait --for=jsonpath='{.status.phase}'=Succeeded "pod/${EXAMPLE%-clone}-original" --timeout=120s || die "the pod that writes to the original did not succeed"
}

# set_up installs, as a field manager of its own: what others put into shared objects stays there.
set_up() {
	step "flex-provisioner and the class of examples/$EXAMPLE are installed"
	render
	apply "$OUT/install.yaml"
	admin -n flex-system rollout status deployment/flex-provisioner --timeout=120s
	cloud_config
	[ "$CLUSTER" = current ] || export_directory
	step "tom gets a namespace"
	kubectl get namespace "$NAMESPACE" > /dev/null 2>&1 || admin create namespace "$NAMESPACE"
	kubectl -n "$NAMESPACE" get rolebinding tom > /dev/null 2>&1 ||
		admin -n "$NAMESPACE" create rolebinding tom --clusterrole=edit --user=tom
	clean_up
	[ -z "$STAMP" ] || until_ok 30 stamped || die "claims are not stamped with their creator: $(kubectl get mutatingadmissionpolicies 2>&1)"
}

apply() { admin apply --server-side --force-conflicts --field-manager flex-demo -f "$1" | awk 'NR == 1 {print} END {print NR - 1 " objects"}'; }

# export_directory: the nodes mount this directory as if an NFS server had it; see test/cluster/README.md. Where the machine
# has none, the nodes share one that goes with the cluster.
export_directory() {
	local node shared=$PWD/.cluster/state/srv
	if [ ! -d "$EXPORT" ]; then
		mkdir -p "$shared"
		for node in $(kubectl get nodes -l 'type!=kwok' -o 'jsonpath={.items[*].metadata.name}'); do
			test/cluster/enter.sh --node "$node" mountpoint -q "${EXPORT%/*}" ||
				test/cluster/enter.sh --node "$node" mount --bind "$shared" "${EXPORT%/*}"
		done
	fi
	test/cluster/enter.sh install -d -o 65532 -g 65532 "$EXPORT"
}

# clean_up removes what an earlier demo left.
clean_up() {
	local volume
	[ ! -f "$OUT/original.yaml" ] || tom delete --wait -f "$OUT/original.yaml" --ignore-not-found --timeout=60s
	volume=$(as_tom get pvc "$EXAMPLE" --ignore-not-found -o 'jsonpath={.spec.volumeName}')
	as_tom get pvc "$EXAMPLE" > /dev/null 2>&1 || return 0
	tom delete --wait "pod/$EXAMPLE" "pvc/$EXAMPLE" --ignore-not-found --timeout=60s
	[ -z "$volume" ] || admin wait --for=delete "pv/$volume" --timeout=120s
}

stamped() {
	[ "$(as_tom create --dry-run=server -f "$OUT/claim.yaml" -o 'jsonpath={.metadata.annotations.flex-provisioner\.io/created-by}')" = tom ]
}

show_config() {
	step "the ConfigMap: what the storage administrator wrote for class $EXAMPLE"
	echo "admin\$ cat $(config)"
	cat "$OUT/configmap.yaml"
}

# claim is the job itself. The first pod for a claim is called prov-UID-0, so that its log can be asked for before it exists.
claim() {
	step "tom makes a claim"
	local began uid
	began=$(now)
	echo "tom\$ kubectl -n $NAMESPACE create -f examples/$EXAMPLE/claim.yaml"
	uid=$(as_tom create -f "$OUT/claim.yaml" -o 'jsonpath={.metadata.uid}')
	POD=prov-$uid-0
	until_ok 60 follow_log &
	FOLLOWER=$!
	if [ "$(kubectl get storageclass "$CLASS" -o 'jsonpath={.volumeBindingMode}')" = WaitForFirstConsumer ]; then
		tom create -f "$OUT/consumer.yaml"
	fi
	until_ok 60 kubectl -n flex-provisioners get pod "$POD" && admin -n flex-provisioners get pod "$POD" || echo "(gone already)"
	tom wait --for=jsonpath='{.status.phase}'=Bound "pvc/$EXAMPLE" --timeout=120s || die "the claim is not bound"
	echo "bound $(since "$began") after tom asked"
}

# follow_log succeeds once it has followed the pod's log to its end.
follow_log() { kubectl -n flex-provisioners logs -f "$POD" > "$OUT/log" && cp "$OUT/log" "$OUT/$POD.log"; }

show_log() {
	step "what the pod printed"
	echo "admin\$ kubectl -n flex-provisioners logs -f $POD"
	if grep -q '^  provision: |' "$(config)"; then
		wait "$FOLLOWER" || die "the log of pod $POD could not be read"
		cat "$OUT/$POD.log"
	else
		kubectl -n flex-provisioners wait --for=delete "pod/$POD" --timeout=60s > /dev/null
		kill "$FOLLOWER" 2> /dev/null || true
		cat "$OUT/$POD.log" 2> /dev/null || echo "(the pod succeeded, and was removed before its log could be read)"
	fi
}

show_events() {
	step "the events of the claim"
	until_ok 30 succeeded || die "no event ProvisioningSucceeded on the claim"
	tom events --for "pvc/$EXAMPLE"
	kubectl -n flex-provisioners wait --for=delete "pod/$POD" --timeout=60s > /dev/null || die "pod $POD was not removed"
}
succeeded() { as_tom events --for "pvc/$EXAMPLE" -o json | grep -q '"reason": "ProvisioningSucceeded"'; }

show_volume() {
	local volume
	step "the claim and its volume"
	tom get pvc "$EXAMPLE"
	volume=$(as_tom get pvc "$EXAMPLE" -o 'jsonpath={.spec.volumeName}')
	admin describe pv "$volume"
	[ "$volume" = "pvc-${POD:5:36}" ] || die "the claim is bound to $volume, which is not the volume of pod $POD"
}

consume() {
	step "a pod of tom's writes to the volume and reads it back"
	as_tom get pod "$EXAMPLE" > /dev/null 2>&1 || tom create -f "$OUT/consumer.yaml"
	tom wait --for=jsonpath='{.status.phase}'=Succeeded "pod/$EXAMPLE" --timeout=120s || die "the consumer did not succeed"
	tom logs "$EXAMPLE"
	[ "$(as_tom logs "$EXAMPLE")" = "hello from $EXAMPLE" ] || die "the consumer did not read what it wrote"
}

go_on() {
	step "done"
	cat <<-G
		All of it is still there. Go on with:
		    export KUBECONFIG=${KUBECONFIG:-\$HOME/.kube/config} PATH=$PWD/bin${1:+:$PWD/.cluster/bin}:\$PATH
		    kubectl flex status                                 # what waits, and for what
		    kubectl -n $NAMESPACE delete pod/$EXAMPLE pvc/$EXAMPLE    # a pod removes the storage, then the volume goes
		    kubectl -n flex-provisioners get pods --watch       # meanwhile, elsewhere
		    make demo EXAMPLE=hostpath                          # or another of: $EXAMPLES
	G
	if [ "$CLUSTER" = local ]; then echo "End with: make down"; else
		echo "End with: kubectl delete namespace $NAMESPACE; then docs/operations.md, \"Removing it\""
	fi
}

main() {
	mkdir -p "$OUT"
	rm -f "$OUT"/*
	step "the cluster"
	check_settings
	trap explain_failure EXIT
	bring_images
	set_up
	show_config
	original
	claim
	show_log
	show_events
	show_volume
	consume
	apply "$OUT/configmap.yaml" > /dev/null # the next pod need not linger
	go_on "$([ "$CLUSTER" = current ] || echo local)"
	trap - EXIT
}
main
