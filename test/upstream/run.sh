#!/bin/bash
# Runs Kubernetes' own storage tests against the classes of drivers/ on the running cluster, and judges what comes out. Settings, from
# the environment:
#   ONLY=nfs-subdir   one class, or several with spaces between; the default is all
#   FOCUS=REGEXP      of each class only the tests whose names match; the others keep their results
#   NEW=1             only tests without a result, and those that failed without a reason, to come to an end in parts
#   PART=ordinary     or disruptive: these tests alone
#   CLAIM=1           only the tests that cannot pass, as if the classes could do everything: what the suite says of them is kept,
#                     and held against cannot.yaml
#   PROCS=2           how many tests run at a time; of disruptive ones, one on each node
#   TIMEOUT=4h        how long the tests may take that are no disruptive ones, and each class's disruptive ones
# Everything is put back at the end: taints of spare nodes, the installation, the storage.
# shellcheck disable=SC2317 # again runs functions
set -euo pipefail
cd "$(dirname "$0")/../.."
HERE=test/upstream OUT=$PWD/bin/upstream BIN=$PWD/.cluster/bin
export KUBECONFIG=$PWD/.cluster/kubeconfig
all_classes() { for f in "$HERE"/drivers/*.yaml; do f=$(basename "$f" .yaml); [ ! -e "examples/$f" ] || echo "$f"; done; }
CLASSES=${ONLY:-$(all_classes | xargs)}
PROCS=${PROCS:-2}
TIMEOUT=${TIMEOUT:-4h}
FOCUS=${FOCUS:-}
PART=${PART:-}
CLAIM=${CLAIM:-}
NEW=${NEW:-}
SSH_PORT=16422
SPARE=flex-provisioner.io/spare
# The copies of a class are named after the tests' namespaces, and these after parts of the suite.
COPIES='capacity-*, disruptive-*, ephemeral-*, fsgroupchangepolicy-*, multivolume-*, provisioning-*, pvc-deletion-performance-*,
  read-write-once-pod-*, selinux-mount-*, stress-*, topology-*, snapshottable-*, snapshotting-*, volume-*, volumeio-*, volumelimits-*, volumemode-*'

# The images that the tests' pods name, and the folder of images/ that each is built of.
declare -A IMAGES=(
	[registry.k8s.io/e2e-test-images/agnhost:2.66.1]=agnhost
	[registry.k8s.io/e2e-test-images/busybox:1.37.0-2]=busybox
	[registry.k8s.io/e2e-test-images/glibc-dns-testing:2.1.1]=glibc-dns-testing
	[registry.k8s.io/e2e-test-images/nginx:1.27.0-2]=busybox
	[registry.k8s.io/sig-storage/hello-populator:v1.0.1]=hello-populator
)

say() { echo "upstream: $*"; }
die() { echo "upstream: $*" >&2; exit 1; }
kubectl() { "$BIN/kubectl" "$@"; }
nodes() { kubectl get nodes -o 'jsonpath={.items[*].metadata.name}'; }

# hook CLASS FUNCTION: what storage/ has for the class.
hook() (
	CLASS=$1 DIR=$OUT/$1
	# shellcheck source=storage/lib.sh
	. "$HERE/storage/lib.sh"
	# shellcheck source=/dev/null
	[ ! -e "$HERE/storage/$CLASS.sh" ] || . "$HERE/storage/$CLASS.sh"
	"$2"
)

check() {
	local c
	[ -e "$KUBECONFIG" ] || die "the cluster does not run: make cluster-up"
	kubectl get crd volumesnapshots.snapshot.storage.k8s.io > /dev/null 2>&1 ||
		die "the cluster has no snapshots: make cluster-down, NODES=3 SPARE=1 ISCSI=1 SNAPSHOTS=1 make cluster-up"
	case $PART in '' | ordinary | disruptive) ;; *) die "PART=$PART: must be ordinary or disruptive" ;; esac
	for c in $CLASSES; do
		[[ -e examples/$c && -e $HERE/drivers/$c.yaml ]] || die "ONLY=$ONLY: must be of $(all_classes | xargs)"
	done
}

# images makes the images that the tests' pods name and those of the classes, and brings them and the project's to the nodes. Nobody
# else brings the tests' images, so that they stay until a node boots.
images() {
	local name c folder all=(bin/images/*.tar) loaded
	mkdir -p "$OUT/context"
	cp -L "$BIN/agnhost" "$BIN/kubectl" "$HERE/images/hello-populator/populator.sh" "$OUT/context"
	tools/buildah.sh pull --quiet "docker-archive:$BIN/images/busybox.tar" > /dev/null
	for name in "${!IMAGES[@]}"; do
		tools/image.sh "$name" "$OUT/images/$(basename "${name%:*}").tar" "$OUT/context" \
			--file "$HERE/images/${IMAGES[$name]}/Dockerfile"
	done
	loaded=$(cat "$OUT"/images/*.tar /run/flex-cluster/pids/node?.pid | sha256sum)
	[ "$loaded" = "$(cat "$OUT/loaded" 2> /dev/null)" ] || all+=("$OUT"/images/*.tar)
	for c in $CLASSES; do
		mkdir -p "$OUT/$c"
		folder=$(hook "$c" dockerfile)
		[ -n "$folder" ] || continue
		name=$(sed -n 's/^  image: //p' "examples/$c/class/configmap.yaml")
		tools/image.sh "$name" "$OUT/$c/image.tar" "$folder"
		all+=("$OUT/$c/image.tar")
	done
	test/cluster/load-image.sh "${all[@]}" > "$OUT/load.log" 2>&1 || die "see $OUT/load.log"
	echo "$loaded" > "$OUT/loaded"
}

install() {
	local c
	say "installs the classes"
	apply deploy/overlays/creator-stamp
	kubectl apply -f "$HERE/snapshotclass.yaml" > /dev/null
	command install -d -o 65532 -g 65532 /srv/nfs
	for c in $CLASSES; do
		say "prepares the storage of $c: log is $OUT/$c/up.log"
		hook "$c" up > "$OUT/$c/up.log" 2>&1 # no || here, by which the hook would go on after an error
		render "$c"
		again server_side "$c" "$OUT/$c/class.yaml"
	done
	kubectl -n flex-system rollout restart deployment/flex-provisioner > /dev/null
	kubectl -n flex-system rollout status deployment/flex-provisioner --timeout=120s > /dev/null
}

# render CLASS writes its example's manifests, without claim and consumer. Each test copies the StorageClass under a name of its own. So
# the class names itself, for the copies to have its ConfigMap, and the allow-list has the names of the copies. The
# VolumeAttributesClass is for CLAIM=1, which shows that claims with one are refused.
render() {
	local class=$1 dir=$OUT/$1
	mkdir -p "$dir/class"
	cat > "$dir/class/kustomization.yaml" <<-K
	resources: [../../../../deploy/allow-list, attributes.yaml]
	components: [../../../../examples/$class/class]
	patches:
	- patch: '{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: $class}, parameters: {flex-provisioner.io/config-from-class: $class}}'
	K
	cat > "$dir/class/attributes.yaml" <<-A
	apiVersion: storage.k8s.io/v1
	kind: VolumeAttributesClass
	metadata: {name: $class}
	driverName: flex-provisioner.io/dispatcher
	parameters: {speed: high}
	A
	kubectl kustomize "$dir/class" | hook "$class" edit |
		sed -E "s/^(  [a-z0-9-]+)\.storageClasses: (.*)/\1.storageClasses: \2, ${COPIES//$'\n'/}\n\1.mountOptions: noatime/" > "$dir/class.yaml"
	awk 'BEGIN { RS = "---\n"; ORS = RS } !/\n  name: flex-pv-policy\n/' "$dir/class.yaml" > "$dir/own.yaml"
}

# clean_up removes what tests left that were cut off, while the classes are still there to remove its storage.
clean_up() {
	local i
	kubectl delete namespaces -l e2e-framework --timeout=120s
	for i in {1..60}; do
		volumes | grep -q -- -e2e-sc || break
		sleep 2
	done
	kubectl get storageclasses -o name | { grep -- -e2e-sc || true; } | xargs -r "$BIN/kubectl" delete
}
volumes() { kubectl get pv -o 'jsonpath={range .items[*]}{.spec.storageClassName}{"\n"}{end}'; }

uninstall() {
	local c
	for c in $CLASSES; do
		[ ! -e "$OUT/$c/own.yaml" ] || kubectl delete --ignore-not-found --timeout=120s -f "$OUT/$c/own.yaml"
		kubectl apply --server-side --field-manager="$c" -k deploy/allow-list
		hook "$c" down
	done
	kubectl delete --ignore-not-found -f "$HERE/snapshotclass.yaml"
	apply deploy/overlays/creator-stamp
}

# apply installs as a field manager of its own: what others put into shared objects stays there. Not so in policies: variables of
# another checkout would stay in ours, and its policies may refuse the allow-list until ours are in force. So they are replaced, and
# what is left of others goes. They must not be deleted first: once no policy has a ConfigMap as its parameters, the API server reads
# no ConfigMap for policies any more, until it is restarted.
apply() {
	kubectl kustomize "$1" > "$OUT/all.yaml"
	awk 'BEGIN { RS = "---\n"; ORS = RS } /(^|\n)kind: (Validating|Mutating)AdmissionPolicy/' "$OUT/all.yaml" > "$OUT/policies.yaml"
	again install_all
}

# again COMMAND...: until policies are in force, which may refuse what is applied.
again() {
	local i
	for i in 1 2 3 4 5; do
		! "$@" > "$OUT/apply.log" 2>&1 || return 0
		sleep 2
	done
	die "could not install: see $OUT/apply.log"
}

install_all() {
	local ours
	server_side flex-upstream "$OUT/policies.yaml" && kubectl replace -f "$OUT/policies.yaml" || return 1
	ours=$(kubectl get -f "$OUT/policies.yaml" -o name)
	all_policies | { grep -vxF "$ours" || true; } | xargs -r "$BIN/kubectl" delete || return 1
	server_side flex-upstream "$OUT/all.yaml"
}
server_side() { kubectl apply --server-side --force-conflicts --field-manager="$1" -f "$2"; }
all_policies() {
	kubectl get -l app.kubernetes.io/part-of=flex-provisioner -o name \
		validatingadmissionpolicybindings,mutatingadmissionpolicybindings,validatingadmissionpolicies,mutatingadmissionpolicies
}

spare_nodes() { kubectl get nodes -l "$SPARE=true" -o 'jsonpath={.items[*].metadata.name}'; }

taint() {
	local node
	for node in $(spare_nodes); do kubectl taint --overwrite node "$node" "$SPARE=true:NoSchedule" > /dev/null; done
}

# put_back runs at the end, whatever happened.
put_back() {
	trap - EXIT
	[ -z "${SSHD:-}" ] || kill "$SSHD" 2> /dev/null || true
	{ taint && clean_up && uninstall; } > "$OUT/end.log" 2>&1 ||
		die "could not put everything back: see $OUT/end.log"
}

# all_nodes lets the tests' pods run on the spare nodes too: the suite counts only nodes without taints.
all_nodes() {
	local node
	taint # what is not there cannot be taken away
	for node in $(spare_nodes); do kubectl taint node "$node" "$SPARE-" > /dev/null; done
}

# crictl brings an imitation of it to where the images' PATH has it, on each node.
crictl() {
	local node socket
	for node in $(nodes); do
		socket=/run/flex-cluster/$node/containerd.sock
		sed "s#@CTR@#$BIN/ctr -a $socket#" "$HERE/crictl" | test/cluster/enter.sh --node "$node" \
			bash -c 'mkdir -p /var/lib/kubelet/upstream && cd /var/lib/kubelet/upstream && cat > crictl && chmod +x crictl'
	done
}

# nodes_by_ssh lets the disruptive tests log in to the nodes, where they stop the kubelet.
nodes_by_ssh() {
	"$BIN/nodessh" -listen "127.0.0.1:$SSH_PORT" -key "$OUT/ssh.key" -- "$PWD/$HERE/on-node.sh" > "$OUT/ssh.log" 2>&1 &
	SSHD=$!
	export KUBE_SSH_BASTION=127.0.0.1:$SSH_PORT KUBE_SSH_KEY_PATH=$OUT/ssh.key KUBE_SSH_USER=root
}

# lists says what tests there are, and which the suite has for the classes.
lists() {
	local c least everything=() drivers=()
	rm -f "$OUT"/{ran,block,claim}.json "$OUT"/*/disruptive.json
	for c in $CLASSES; do
		# A claim below the class's smallest size would be refused for that.
		least=$(sed -n 's/.*SupportedSizeRange: {Min: \([^,}]*\).*/\1/p' "$HERE/drivers/$c.yaml")
		sed "s/NAME/$c/; s/1Mi/${least:-1Mi}/" "$HERE/drivers/everything.yaml" > "$OUT/$c/everything.yaml"
		everything+=("$OUT/$c/everything.yaml") drivers+=("$PWD/$HERE/drivers/$c.yaml")
	done
	list "$OUT/all.json" "${everything[@]}"
	list "$OUT/defined.json" "${drivers[@]}"
}

# list REPORT DRIVER...
list() {
	local report=$1
	shift
	"$BIN/e2e.test" "${@/#/-storage.testdriver=}" -ginkgo.dry-run -ginkgo.no-color -ginkgo.focus='External Storage' -ginkgo.json-report="$report" \
		> "$report.log" 2>&1 || die "could not list the tests: see $report.log"
}

# run REPORT PROCS GINKGO-OPTION... -- DRIVER...: tests that fail are in the report, and no error here.
run() {
	local report=$1 procs=$2 options=()
	shift 2
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	shift
	rm -f "$report"
	"$BIN/ginkgo" run --procs="$procs" --no-color -v --timeout="$TIMEOUT" --output-dir="$(dirname "$report")" --json-report="$(basename "$report")" "${options[@]}" \
		"$BIN/e2e.test" -- -kubeconfig="$KUBECONFIG" -kubectl-path="$BIN/kubectl" -provider=local -node-schedulable-timeout=1m "${@/#/-storage.testdriver=}" \
		> "${report%.json}.log" 2>&1 || true
	[ -s "$report" ] || die "the tests did not run: see ${report%.json}.log"
}

# ordinary runs what stops no kubelet. Raw devices may be able to do what file systems are not: then they have a file of their own.
ordinary() {
	local c files=$PWD/$HERE/drivers drivers=() blocks=() all=() focus skip=()
	for c in $CLASSES; do
		focuses "$c" || continue
		all+=("${focus[@]}") drivers+=("$files/$c.yaml")
		[ ! -e "$files/$c-block.yaml" ] || { blocks+=("$files/$c-block.yaml") && skip+=(--skip="Driver: $c\\] .*block volmode"); }
	done
	[ ${#drivers[@]} -gt 0 ] || return 0
	say "tests: log is $OUT/ran.log"
	[ ${#blocks[@]} = 0 ] ||
		run "$OUT/block.json" "$PROCS" "${all[@]}" --skip='\[Disruptive\]' --skip='\[Testpattern: ([^]b]|b[^]l])*\]' -- "${blocks[@]}"
	run "$OUT/ran.json" "$PROCS" "${all[@]}" --skip='\[Disruptive\]' "${skip[@]}" -- "${drivers[@]}"
}

# disruptive tests as many classes at the same time as there are nodes: what is stopped on one disturbs no test on another.
disruptive() {
	local c node nodes focus
	local -A tested=()
	read -ra nodes <<< "$(nodes)"
	for c in $CLASSES; do
		focuses "$c" || continue
		node=$(hook "$c" node)
		if [ -n "${tested[${node:-none}]:-}" ] || [ ${#tested[@]} = ${#nodes[@]} ]; then
			wait "${tested[@]}"
			tested=()
		fi
		[ -n "$node" ] || node=$(printf '%s\n' "${nodes[@]}" | grep -vxF "$(printf '%s\n' "${!tested[@]}")" | head -n 1)
		say "tests $c on $node: log is $OUT/$c/disruptive.log"
		sed "\$a ClientNodeName: $node" "$HERE/drivers/$c.yaml" > "$OUT/$c/disruptive.yaml"
		run "$OUT/$c/disruptive.json" 1 "${focus[@]}" --skip='\[Driver: [^]]*\] ([^D]|D[^i]|Di[^s])*$' -- "$OUT/$c/disruptive.yaml" &
		tested[$node]=$!
	done
	wait "${tested[@]}"
}

# focuses CLASS: the tests that are asked for, as Ginkgo's options, into the caller's variable focus.
focuses() {
	focus=(--focus="Driver: $1\\] .*$FOCUS")
	[ -n "$NEW" ] || return 0
	mapfile -t focus < <(judge "$1" -new "${FOCUS:-.}" | sed 's/^/--focus=/')
	[ ${#focus[@]} -gt 0 ]
}

# claim runs what cannot pass as if the classes could do everything. Much of that waits for what never comes, and so waits less.
claim() {
	local c drivers=() all=()
	for c in $CLASSES; do
		mapfile -t -O ${#all[@]} all < <(judge "$c" -cannot "${FOCUS:-.}" | sed 's/^/--focus=/')
		drivers+=("$OUT/$c/everything.yaml")
	done
	[ ${#all[@]} -gt 0 ] || die "no test that cannot pass matches FOCUS=$FOCUS"
	say "tests as if the classes could do everything: log is $OUT/claim.log"
	run "$OUT/claim.json" "$PROCS" "${all[@]}" -- "${drivers[@]}"
}

# judge CLASS OPTION...
judge() {
	local class=$1
	shift
	"$OUT/judge" -class "$class" -all "$OUT/all.json" -defined "$OUT/defined.json" "$@"
}

verdict() {
	local options=() ran=("$OUT"/{ran,block,claim}.json "$OUT/$1/disruptive.json") i
	for i in "${!ran[@]}"; do [ -e "${ran[i]}" ] || unset "ran[i]"; done
	[ -n "$FOCUS$PART$CLAIM$NEW" ] || options=(-whole)
	[ ${#ran[@]} -gt 0 ] || return 0
	[ -z "$CLAIM" ] || options=(-claim)
	judge "$1" -commit "$(git rev-parse --short=12 HEAD)" "${options[@]}" "${ran[@]}"
}

tests() {
	lists
	if [ -n "$CLAIM" ]; then
		claim
		return
	fi
	[ "$PART" = disruptive ] || ordinary
	[ "$PART" = ordinary ] || disruptive
}

main() {
	local c bad=()
	check
	mkdir -p "$OUT/images"
	[ -e bin/upstream.json ] || cp test/upstream/results.json bin/upstream.json
	test/cluster/build.sh upstream
	go build -o "$OUT/judge" "./$HERE"
	images
	trap put_back EXIT
	trap 'exit 130' INT TERM
	install
	all_nodes
	crictl
	nodes_by_ssh
	tests
	for c in $CLASSES; do verdict "$c" || bad+=("$c"); done
	put_back
	[ ${#bad[@]} = 0 ] || die "not as it should be: ${bad[*]}"
}
main; exit # bash reads no further, in case the file changes meanwhile
