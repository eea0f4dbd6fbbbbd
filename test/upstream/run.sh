#!/bin/bash
# Runs Kubernetes' own storage tests against the shipped classes on the running cluster, and judges what comes out. Settings,
# from the environment:
#   ONLY=nfs-subdir   one class, or several with spaces between; the default is all of drivers/
#   FOCUS=REGEXP      of each class only the tests whose names match; the others keep their results
#   NEW=1             only tests without a result, to come to an end in parts
#   PART=ordinary     or disruptive: these tests alone
#   CLAIM=1           only the tests that cannot pass, as if the classes could do everything: what the suite says of them is kept,
#                     and held against cannot.yaml
#   PROCS=2           how many tests run at a time; of disruptive ones, one of each class
#   TIMEOUT=4h        how long the tests of a class may take, twice: the disruptive ones are run after the others
# Everything is put back at the end: taints of spare nodes, the installation, the namespace's labels.
set -euo pipefail
cd "$(dirname "$0")/../.."
HERE=test/upstream OUT=$PWD/bin/upstream BIN=$PWD/.cluster/bin
export KUBECONFIG=$PWD/.cluster/kubeconfig
CLASSES=${ONLY:-nfs-subdir hostpath cinder-iscsi}
PROCS=${PROCS:-2}
TIMEOUT=${TIMEOUT:-4h}
FOCUS=${FOCUS:-}
PART=${PART:-}
CLAIM=${CLAIM:-}
NEW=${NEW:-}
SSH_PORT=16422
SPARE=flex-provisioner.io/spare

say() { echo "upstream: $*"; }
die() { echo "upstream: $*" >&2; exit 1; }
kubectl() { "$BIN/kubectl" "$@"; }
wanted() { case " $CLASSES " in *" $1 "*) ;; *) return 1 ;; esac; }

check() {
	local c
	[ -e "$KUBECONFIG" ] || die "the cluster does not run: make cluster-up"
	case $PART in '' | ordinary | disruptive) ;; *) die "PART=$PART: must be ordinary or disruptive" ;; esac
	for c in $CLASSES; do
		[[ -e examples/$c && -e $HERE/drivers/$c.yaml ]] || die "ONLY=$ONLY: must be of nfs-subdir, hostpath and cinder-iscsi"
	done
}

# images makes the images that the tests' pods name, and brings them and the project's to the nodes. Nobody else brings the tests'
# images, so that they stay until a node boots.
images() {
	local i all=() c loaded
	for i in "$HERE"/images/*/; do
		i=$(basename "$i")
		bin/mkimage build -o "$OUT/images/$i.tar" "$HERE/images/$i/image.yaml"
	done
	loaded=$(cat "$OUT"/images/*.tar /run/flex-cluster/pids/node?.pid | sha256sum)
	[ "$loaded" = "$(cat "$OUT/loaded" 2> /dev/null)" ] || all=("$OUT"/images/*.tar)
	for c in flex-provisioner flexctl $CLASSES; do all+=("bin/images/$c.tar"); done
	test/cluster/load-image.sh "${all[@]}" > "$OUT/load.log" 2>&1 || die "see $OUT/load.log"
	echo "$loaded" > "$OUT/loaded"
}

install() {
	say "installs the classes"
	apply "$HERE/classes"
	kubectl -n flex-system rollout restart deployment/flex-provisioner > /dev/null
	kubectl -n flex-system rollout status deployment/flex-provisioner --timeout=120s > /dev/null
	command install -d -o 65532 -g 65532 /srv/nfs
	if wanted cinder-iscsi; then
		test/cinder/up.sh
		(umask 077; test/cinder/cloud-conf.sh > "$OUT/cloud.conf")
		kubectl -n flex-provisioners create secret generic cinder-cloud-config --from-file=cloud.conf="$OUT/cloud.conf" > /dev/null
	fi
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
	local of
	if wanted cinder-iscsi; then
		kubectl -n flex-provisioners delete secret cinder-cloud-config --ignore-not-found
		test/cinder/down.sh
	fi
	kubectl delete -f "$HERE/classes/storageclasses.yaml" --ignore-not-found
	for of in nfs-subdir hostpath cinder-iscsi; do
		kubectl delete storageclass "$of" --ignore-not-found
		kubectl -n flex-provisioners delete configmap "$of" --ignore-not-found
	done
	for of in nfs-subdir hostpath cinder; do
		kubectl -n flex-provisioners delete serviceaccount "$of" --ignore-not-found
		kubectl delete clusterrolebinding "flex-provisioner-pod-$of" --ignore-not-found
	done
	kubectl delete --ignore-not-found -f examples/nfs-subdir/class/export.yaml
	kubectl delete --ignore-not-found -f images/cinder-iscsi/rbac.yaml
	apply deploy/overlays/creator-stamp
}

# apply installs as a field manager of its own: what others put into shared objects stays there. Not so in policies: variables of
# another checkout would stay in ours, and its policies may refuse the allow-list until ours are in force. So they are replaced, and
# what is left of others goes. They must not be deleted first: once no policy has a ConfigMap as its parameters, the API server reads
# no ConfigMap for policies any more, until it is restarted.
apply() {
	local i
	kubectl kustomize "$1" > "$OUT/all.yaml"
	awk 'BEGIN { RS = "---\n"; ORS = RS } /(^|\n)kind: (Validating|Mutating)AdmissionPolicy/' "$OUT/all.yaml" > "$OUT/policies.yaml"
	for i in 1 2 3 4 5; do
		! install_all > "$OUT/apply.log" 2>&1 || return 0
		sleep 2
	done
	die "could not install $1: see $OUT/apply.log"
}

install_all() {
	local ours
	server_side "$OUT/policies.yaml" && kubectl replace -f "$OUT/policies.yaml" || return 1
	ours=$(kubectl get -f "$OUT/policies.yaml" -o name)
	all_policies | { grep -vxF "$ours" || true; } | xargs -r "$BIN/kubectl" delete || return 1
	server_side "$OUT/all.yaml"
}
server_side() { kubectl apply --server-side --force-conflicts --field-manager=flex-upstream -f "$1"; }
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
	for node in $(kubectl get nodes -o 'jsonpath={.items[*].metadata.name}'); do
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

# list CLASS DRIVER REPORT: the tests that the suite has for a driver.
list() {
	"$BIN/e2e.test" -storage.testdriver="$2" -ginkgo.dry-run -ginkgo.no-color -ginkgo.focus="Driver: $1\]" -ginkgo.json-report="$3" \
		> "$3.log" 2>&1 || die "could not list the tests: see $3.log"
}

# run DRIVER REPORT PROCS GINKGO-OPTION...: tests that fail are in the report, and no error here.
run() {
	local driver=$1 report=$2 procs=$3
	shift 3
	rm -f "$report"
	"$BIN/ginkgo" run --procs="$procs" --no-color -v --timeout="$TIMEOUT" --output-dir="$(dirname "$report")" --json-report="$(basename "$report")" "$@" \
		"$BIN/e2e.test" -- -kubeconfig="$KUBECONFIG" -kubectl-path="$BIN/kubectl" -provider=local -node-schedulable-timeout=1m -storage.testdriver="$driver" \
		> "${report%.json}.log" 2>&1 || true
	[ -s "$report" ] || die "the tests did not run: see ${report%.json}.log"
}

# lists says what tests there are for a class.
lists() {
	local class=$1 dir=$OUT/$1
	mkdir -p "$dir"
	rm -f "$dir"/{ran,block,disruptive,claim}.json
	sed "s/NAME/$class/; s/: everything$/: upstream-$class/" "$HERE/drivers/everything.yaml" > "$dir/everything.yaml"
	list "$class" "$dir/everything.yaml" "$dir/all.json"
	list "$class" "$PWD/$HERE/drivers/$class.yaml" "$dir/defined.json"
}

# ordinary runs what stops no kubelet. Raw devices may be able to do what file systems are not: then they have a file of their own.
ordinary() {
	local class=$1 dir=$OUT/$1 files=$PWD/$HERE/drivers skip=() focus
	focuses "$class" || return 0
	say "tests $class: log in $dir"
	if [ -e "$files/$class-block.yaml" ]; then
		skip=(--skip='block volmode')
		run "$files/$class-block.yaml" "$dir/block.json" "$PROCS" "${focus[@]}" --skip='\[Disruptive\]' --skip='\[Testpattern: ([^]b]|b[^]l])*\]'
	fi
	run "$files/$class.yaml" "$dir/ran.json" "$PROCS" "${focus[@]}" --skip='\[Disruptive\]' "${skip[@]}"
}

# disruptive tests all classes at the same time, each on a node of its own: what is stopped there disturbs none of the others.
disruptive() {
	local c nodes tests=() focus
	read -ra nodes <<< "$(kubectl get nodes -o 'jsonpath={.items[*].metadata.name}')"
	for c in $CLASSES; do
		focuses "$c" || continue
		say "tests $c on ${nodes[${#tests[@]}]}: log in $OUT/$c"
		sed "\$a ClientNodeName: ${nodes[${#tests[@]}]}" "$HERE/drivers/$c.yaml" > "$OUT/$c/disruptive.yaml"
		run "$OUT/$c/disruptive.yaml" "$OUT/$c/disruptive.json" 1 "${focus[@]}" --skip='\[Driver: [^]]*\] ([^D]|D[^i]|Di[^s])*$' &
		tests+=($!)
	done
	wait "${tests[@]}"
}

# focuses CLASS: the tests that are asked for, as Ginkgo's options, into the caller's variable focus.
focuses() {
	focus=(--focus="Driver: $1\\] .*$FOCUS")
	[ -n "$NEW" ] || return 0
	mapfile -t focus < <(judge "$1" -new "${FOCUS:-.}" | sed 's/^/--focus=/')
	[ ${#focus[@]} -gt 0 ]
}

# claim runs what cannot pass as if the class could do everything. Much of that waits for what never comes, and so waits less.
claim() {
	local dir=$OUT/$1 focus
	mapfile -t focus < <(judge "$1" -cannot "${FOCUS:-.}" | sed 's/^/--focus=/')
	[ ${#focus[@]} -gt 0 ] || die "no test of $1 that cannot pass matches FOCUS=$FOCUS"
	say "tests $1 as if it could do everything: log in $dir"
	run "$dir/everything.yaml" "$dir/claim.json" "$PROCS" "${focus[@]}"
}

# judge CLASS OPTION...
judge() {
	local class=$1
	shift
	go run "./$HERE" -class "$class" -all "$OUT/$class/all.json" -defined "$OUT/$class/defined.json" "$@"
}

verdict() {
	local options=() ran=("$OUT/$1"/{ran,block,disruptive,claim}.json) i
	for i in "${!ran[@]}"; do [ -e "${ran[i]}" ] || unset "ran[i]"; done
	[ -n "$FOCUS$PART$CLAIM$NEW" ] || options=(-whole)
	[ ${#ran[@]} -gt 0 ] || return 0
	[ -z "$CLAIM" ] || options=(-claim)
	judge "$1" -commit "$(git rev-parse --short=12 HEAD)" "${options[@]}" "${ran[@]}"
}

tests() {
	local c
	for c in $CLASSES; do lists "$c"; done
	if [ -n "$CLAIM" ]; then
		for c in $CLASSES; do claim "$c"; done
		return
	fi
	[ "$PART" = disruptive ] || for c in $CLASSES; do ordinary "$c"; done
	[ "$PART" = ordinary ] || disruptive
}

main() {
	local c bad=()
	check
	mkdir -p "$OUT/images"
	test/cluster/build.sh upstream
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
