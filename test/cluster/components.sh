# shellcheck shell=bash disable=SC2054,SC2153,SC2154 # commas belong to flags; NODE is of lib.sh; the settings come from up.sh
# The components of the control plane and the nodes: how each is started and when it is healthy. Sourced after lib.sh.
# Those of node1 go by their plain names, those of another node by NAME@NODE.
# The settings come from $STATE/settings, so that a component starts again with the flags it had.

CONTROL_PLANE="etcd kube-apiserver kube-controller-manager kube-scheduler"
NODE_COMPONENTS="containerd kubelet kube-proxy"

# component NAME prints a component of $NODE as the command line and the pid files call it.
component() { if [ "$NODE" = node1 ]; then echo "$1"; else echo "$1@$NODE"; fi; }

# components prints all of them.
components() {
	local node c
	for c in $CONTROL_PLANE; do echo "$c"; done
	[ "${SNAPSHOTS:-0}" = 0 ] || echo snapshot-controller
	for node in $(nodes); do
		for c in $NODE_COMPONENTS; do (on "$node" && component "$c"); done
	done
}

# on_node_of COMPONENT goes to the node of a component.
on_node_of() {
	case $1 in
	*@*) on "${1#*@}" ;;
	*) on node1 ;;
	esac
}

# kubernetes PROGRAM prints which program of Kubernetes it is, of the version of the cluster.
kubernetes() { echo "$BIN/$1${KUBERNETES:+-$KUBERNETES}"; }

etcd_command() {
	# Without fsync: what a killed etcd wrote is still there, only a power cut would lose it.
	CMD=("$BIN/etcd" --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn
		--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
		--listen-peer-urls http://127.0.0.1:2380)
}

kube_apiserver_command() {
	CMD=("$(kubernetes kube-apiserver)" --etcd-servers=http://127.0.0.1:2379
		--secure-port=6443 --bind-address=0.0.0.0 --advertise-address="$NODE1_IP" --service-cluster-ip-range=10.96.0.0/16
		--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true
		--client-ca-file="$PKI/ca.crt" --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key"
		--service-account-issuer=https://kubernetes.default.svc.cluster.local
		--service-account-key-file="$PKI/sa.pub" --service-account-signing-key-file="$PKI/sa.key"
		--kubelet-client-certificate="$PKI/apiserver-kubelet-client.crt"
		--kubelet-client-key="$PKI/apiserver-kubelet-client.key"
		--kubelet-certificate-authority="$PKI/ca.crt" --kubelet-preferred-address-types=InternalIP
		--requestheader-client-ca-file="$PKI/ca.crt" --requestheader-allowed-names=front-proxy-client
		--requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group
		--requestheader-extra-headers-prefix=X-Remote-Extra-)
	local extra
	read -ra extra <<< "$APISERVER_EXTRA"
	CMD+=("${extra[@]}")
}

kube_controller_manager_command() {
	# With the default client limits the first ServiceAccounts take ten seconds.
	CMD=("$(kubernetes kube-controller-manager)" --leader-elect=false --kube-api-qps=300 --kube-api-burst=500
		--kubeconfig="$PKI/controller-manager.kubeconfig" --use-service-account-credentials
		--authentication-kubeconfig="$PKI/controller-manager.kubeconfig"
		--authorization-kubeconfig="$PKI/controller-manager.kubeconfig"
		--flex-volume-plugin-dir="$STATE/volumeplugins" --service-account-private-key-file="$PKI/sa.key" --root-ca-file="$PKI/ca.crt"
		--cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key")
}

kube_scheduler_command() {
	CMD=("$(kubernetes kube-scheduler)" --leader-elect=false --kubeconfig="$PKI/scheduler.kubeconfig"
		--authentication-kubeconfig="$PKI/scheduler.kubeconfig" --authorization-kubeconfig="$PKI/scheduler.kubeconfig")
}

# snapshot_version prints what ends the names of an older snapshot-controller and what is for it.
snapshot_version() { [ "$SNAPSHOTS" = 1 ] || echo "-$SNAPSHOTS"; }

snapshot_controller_command() {
	CMD=("$BIN/snapshot-controller$(snapshot_version)" --kubeconfig="$PKI/admin.kubeconfig" --http-endpoint=127.0.0.1:10270
		--kube-api-qps=100 --kube-api-burst=200)
}

containerd_command() {
	CMD=(env PATH="$BIN:$PATH" "$BIN/containerd" -c "$NODE_STATE/containerd.toml")
}

kubelet_command() {
	CMD=(env NODE="$NODE" PATH="$(standins)$BIN:$PATH" "$(kubernetes kubelet)" --config="$NODE_STATE/kubelet.yaml" --root-dir=/var/lib/kubelet
		--kubeconfig="$PKI/$NODE.kubeconfig" --hostname-override="$NODE" --node-ip="$NODE_IP")
	[ "$SPARE" = 0 ] || [ "$NODE" = node1 ] ||
		CMD+=(--node-labels=flex-provisioner.io/spare=true --register-with-taints=flex-provisioner.io/spare=true:NoSchedule)
}

kube_proxy_command() {
	CMD=("$(kubernetes kube-proxy)" --config="$NODE_STATE/kube-proxy.yaml")
}

# standins prints the folders of imitated commands that the kubelet finds before the real ones.
standins() {
	grep -qw nfs /proc/filesystems || printf '%s:' "$HERE/standin/nfs"
	[ "$ISCSI" != 1 ] || printf '%s:' "$HERE/standin/iscsi"
}

healthy() (
	on_node_of "$1"
	case ${1%@*} in
	etcd) inside curl -sf http://127.0.0.1:2379/health ;;
	kube-apiserver) inside curl -sf --cacert "$PKI/ca.crt" --cert "$PKI/admin.crt" --key "$PKI/admin.key" "$API/readyz" ;;
	kube-controller-manager) inside curl -sfk https://127.0.0.1:10257/healthz ;;
	kube-scheduler) inside curl -sfk https://127.0.0.1:10259/healthz ;;
	snapshot-controller) inside curl -sf http://127.0.0.1:10270/metrics ;;
	containerd) inside "$BIN/ctr" -a "$NODE_RUN/containerd.sock" version ;;
	kubelet) inside curl -sf http://127.0.0.1:10248/healthz ;;
	kube-proxy) inside curl -sf http://127.0.0.1:10256/livez ;;
	esac
)

start() (
	alive "$1" && exit
	name=${1%@*} CMD=()
	on_node_of "$1"
	"${name//-/_}_command"
	case $1 in # elsewhere they have machines of their own, that no pod keeps busy
	etcd | kube-apiserver | kube-controller-manager | kube-scheduler) CMD=(nice -n -10 "${CMD[@]}") ;;
	esac
	spawn "$1" "${CMD[@]}"
)

wait_healthy() {
	until_ok 60 healthy_or_dead "$1" && alive "$1" && return
	tail -n 5 "$LOG/$1.log" >&2
	die "$1 did not become healthy: see $LOG/$1.log"
}
healthy_or_dead() { gone "$1" || healthy "$1"; }

check_component() { # fail with a name, not with a bash error
	local all
	all=$(components | xargs)
	case " $all " in
	*" $1 "*) ;;
	*) die "no component $1: one of $all" ;;
	esac
}

# write_configs writes the files that the commands of $NODE name.
write_configs() {
	mkdir -p "$NODE_STATE/cni" "$NODE_RUN"
	cat > "$NODE_STATE/containerd.toml" <<-C
	version = 2
	root = "$NODE_STATE/containerd"
	state = "$NODE_RUN/containerd"
	disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
	[grpc]
	  address = "$NODE_RUN/containerd.sock"
	[plugins."io.containerd.grpc.v1.cri"]
	  sandbox_image = "registry.invalid/flex-provisioner/pause:1"
	  restrict_oom_score_adj = true
	  disable_hugetlb_controller = true
	  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
	    runtime_type = "io.containerd.runc.v2"
	    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
	      BinaryName = "$BIN/runc"
	      SystemdCgroup = false
	  [plugins."io.containerd.grpc.v1.cri".cni]
	    bin_dir = "$BIN"
	    conf_dir = "$NODE_STATE/cni"
	C
	cat > "$NODE_STATE/cni/10-pods.conflist" <<-C
	{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
	 "ipam": {"type": "host-local", "dataDir": "$NODE_RUN/cni", "ranges": [[{"subnet": "$POD_RANGE"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
	C
	cat > "$NODE_STATE/kubelet.yaml" <<-C
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	failCgroupV1: false
	failSwapOn: false
	cgroupDriver: cgroupfs
	cgroupRoot: "$(cgroup_root)"
	containerRuntimeEndpoint: unix://$NODE_RUN/containerd.sock
	authentication: {x509: {clientCAFile: $PKI/ca.crt}, anonymous: {enabled: false}, webhook: {enabled: true}}
	authorization: {mode: Webhook}
	tlsCertFile: $PKI/$NODE-server.crt
	tlsPrivateKeyFile: $PKI/$NODE-server.key
	podLogsDir: $NODE_STATE/pods
	volumePluginDir: $NODE_STATE/volumeplugins
	oomScoreAdj: 0
	evictionHard: {nodefs.available: 1%, imagefs.available: 1%, memory.available: 100Mi}
	imageGCHighThresholdPercent: 100
	clusterDomain: cluster.local
	resolvConf: ""
	serializeImagePulls: false
	registryPullQPS: 0
	eventRecordQPS: 0
	kubeAPIQPS: 200
	kubeAPIBurst: 400
	nodeStatusUpdateFrequency: 2s
	featureGates: {EventedPLEG: $([ "$PLEG" = evented ] && echo true || echo false)}
	C
	cat > "$NODE_STATE/kube-proxy.yaml" <<-C
	apiVersion: kubeproxy.config.k8s.io/v1alpha1
	kind: KubeProxyConfiguration
	mode: nftables
	clientConnection: {kubeconfig: $PKI/kube-proxy.kubeconfig}
	clusterCIDR: 10.244.0.0/16
	hostnameOverride: $NODE
	oomScoreAdj: 0
	featureGates: {$([ "$KUBERNETES" != 1.30 ] || echo 'NFTablesProxyMode: true')}
	conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
	C
}

# cgroup_root prints the cgroup below which the node's pods run. That of another node than node1 has to be there before.
cgroup_root() { if [ "$NODE" = node1 ]; then echo /; else echo "/flex-$NODE"; fi; }
