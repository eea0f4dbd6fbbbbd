# shellcheck shell=bash
# Sourced by the scripts in cases/: the assertions of the other cases, and flex-provisioner in the lab's cluster.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=../case.sh
. "$LAB/case.sh"
on node1
INSTALL=$OUT/install
# An attempt has time, by a line of sed for the classes' ConfigMaps: a node may take minutes for a pod.
PATIENT='s#^  plugin-name: .*#&\n  timeout: 1h\n  start-timeout: 1h#'

# install applies deploy/base with the classes of examples/ that the cases use, for the lab's NFS server. The classes
# nfs-squashed and cinder-... of the cases get their rights as well.
install() {
	local classes=(hostpath nfs-subdir cinder-iscsi loop) components
	! alive dispatcher || return 0
	components=$(printf '../../../examples/%s/class, ' "${classes[@]}")
	mkdir -p "$INSTALL"
	cat > "$INSTALL/kustomization.yaml" <<-K
	apiVersion: kustomize.config.k8s.io/v1beta1
	kind: Kustomization
	resources: [../../../deploy/base]
	components: [${components%, }]
	replicas: [{name: flex-provisioner, count: 0}]
	K
	kubectl kustomize "$INSTALL" | sed "s#10\.99\.0\.1\b#$STORAGE_IP#; s#cinder.storageClasses: .*#&,cinder-*#
		s#nfs-subdir.storageClasses: .*#&,nfs-squashed#; s#\(nfs-subdir.nfsExports: .*:/srv\)/nfs#\1#
		s#cinder.volumeTypes: .*#&,csi\n  cinder.stagers: iscsi\n  cinder.volumeFields: iscsi.initiatorName#
		$PATIENT" > "$INSTALL/install.yaml"
	kubectl apply --server-side --force-conflicts --field-manager lab -f "$INSTALL/install.yaml" > "$INSTALL/log"
	dispatcher
}

# flex_node runs flex-node on the nodes, with the stagers for images and arrays.
flex_node() {
	local dir=$INSTALL/node
	mkdir -p "$dir"
	cat > "$dir/kustomization.yaml" <<-'K'
	apiVersion: kustomize.config.k8s.io/v1beta1
	kind: Kustomization
	resources: [../../../../deploy/node]
	components: [../../../../deploy/node/iscsi]
	K
	kubectl apply --server-side --force-conflicts -k "$dir" > "$INSTALL/node.log"
	kubectl -n flex-node rollout status daemonset/flex-node --timeout=15m > /dev/null ||
		kubectl -n flex-node describe pods
}

# dispatcher starts it beside the control plane, as the ServiceAccount of its Deployment: on a node its probes would
# time out.
dispatcher() {
	cat > "$INSTALL/kubeconfig" <<-K
	apiVersion: v1
	kind: Config
	clusters: [{name: lab, cluster: {server: "$API", certificate-authority: "$PKI/ca.crt"}}]
	users: [{name: dispatcher, user: {token: $(kubectl -n flex-system create token dispatcher --duration=24h)}}]
	contexts: [{name: lab, context: {cluster: lab, user: dispatcher}}]
	current-context: lab
	K
	spawn dispatcher nice -n -10 "$REPO/bin/flex-provisioner" --kubeconfig="$INSTALL/kubeconfig" \
		--flexctl-image=registry.invalid/flex-provisioner/flexctl:dev
	until_ok 60 inside curl -sf http://127.0.0.1:8080/readyz || die "the dispatcher is not ready: see $LOG/dispatcher.log"
}

# consume EXAMPLE NODE: makes the example's claim, and has its pod write to it and read it, on that node.
consume() {
	kubectl apply -f "examples/$1/claim.yaml" > /dev/null
	sed "s/^spec:/&\n  nodeSelector: {kubernetes.io\/hostname: $2}/" "examples/$1/consumer.yaml" |
		kubectl apply -f - > /dev/null
	kubectl wait --for=jsonpath='{.status.phase}'=Succeeded "pod/$1" --timeout=15m > /dev/null ||
		kubectl describe pvc,pod "$1"
	is "what the pod on $2 read" "hello from $1" "$(kubectl logs "$1")"
}

# remove NAME: deletes the claim, and a pod of the same name, and waits until the volume is gone.
remove() {
	local volume
	volume=$(kubectl get pvc "$1" -o 'jsonpath={.spec.volumeName}')
	kubectl delete --wait --ignore-not-found "pod/$1" "pvc/$1" > /dev/null
	kubectl wait --for=delete "pv/$volume" --timeout=15m > /dev/null || kubectl describe pv "$volume"
}

# cloud_config makes the Secret by which the image finds the lab's Cinder, which may still be starting.
cloud_config() {
	until_ok 90 inside curl -sf -m 20 "http://$STORAGE_IP:8776/healthcheck" ||
		die "Cinder does not answer: see /run/cinder.log on $STORAGE"
	printf '[Cinder]\nendpoint = http://%s:8776/v3\n[Global]\ntenant-name = 11111111111111111111111111111111\n' \
		"$STORAGE_IP" > "$INSTALL/cloud.conf"
	kubectl -n flex-provisioners create secret generic cinder-cloud-config --from-file="$INSTALL/cloud.conf" \
		--dry-run=client -o yaml | kubectl apply -f - > /dev/null
}

# claim NAME CLASS ACCESSMODE VOLUMEMODE: makes a claim and waits until it is bound.
claim() {
	unbound "$@"
	kubectl wait --for=jsonpath='{.status.phase}'=Bound "pvc/$1" --timeout=15m > /dev/null || kubectl describe pvc "$1"
}

# unbound makes a claim, as claim does, and does not wait.
unbound() {
	kubectl apply -f - > /dev/null <<-Y
	apiVersion: v1
	kind: PersistentVolumeClaim
	metadata: {name: $1}
	spec: {storageClassName: $2, accessModes: [$3], volumeMode: $4, resources: {requests: {storage: 1Gi}}}
	Y
}

# pod NAME NODE CLAIM SCRIPT: a pod of root's on that node, with the volume at /data, which the script works on.
pod() {
	local mount='volumeMounts: [{name: data, mountPath: /data}]'
	[ "$(kubectl get pvc "$3" -o 'jsonpath={.spec.volumeMode}')" != Block ] ||
		mount='volumeDevices: [{name: data, devicePath: /data}]'
	kubectl apply -f - > /dev/null <<-Y
	apiVersion: v1
	kind: Pod
	metadata: {name: $1}
	spec:
	  restartPolicy: Never
	  terminationGracePeriodSeconds: 1
	  nodeSelector: {kubernetes.io/hostname: $2}
	  volumes: [{name: data, persistentVolumeClaim: {claimName: $3}}]
	  containers:
	  - name: main
	    image: registry.invalid/flex-provisioner/busybox:1
	    command: [sh, -c, $(jq -Rs . <<< "$4")]
	    $mount
	Y
}

# volume CLAIM [FIELD] prints the name of its volume, or a field of the volume.
volume() {
	local name
	name=$(kubectl get pvc "$1" -o 'jsonpath={.spec.volumeName}')
	if [ $# = 1 ]; then echo "$name"; else kubectl get pv "$name" -o "jsonpath={$2}"; fi
}

# no_cinder asserts that Cinder's volumes are gone, with all that was made for them.
no_cinder() {
	eventually 60 "logical volumes on the storage" '' at "$STORAGE" lvs --noheadings volumes
	is "targets on the storage" '' "$(at "$STORAGE" "ls $LIO/iscsi | grep iqn")"
	for node in $NODES_OF_LAB; do is "sessions on $node" 0 "$(at "$node" 'iscsiadm -m session 2> /dev/null | wc -l')"; done
}

# cinder_class NAME PARAMETERS [PROPERTIES]: a class beside cinder-iscsi.
cinder_class() {
	kubectl apply -f - > /dev/null <<-Y
	apiVersion: storage.k8s.io/v1
	kind: StorageClass
	metadata: {name: $1}
	provisioner: flex-provisioner.io/dispatcher
	allowVolumeExpansion: true
	parameters: {$2}
	Y
	{ sed "s/\(name\|storage-class\): cinder-iscsi$/\1: $1/; $PATIENT" configmaps/cinder-iscsi.yaml && echo "${3:-}"; } |
		kubectl apply -f - > /dev/null
}
