# shellcheck shell=bash
# The machine with tgtd is node1. The account is that of the cluster's tgtd.
up() {
	local in
	tgtd_up
	golden_up
	[ -n "$(kubectl get namespace iscsi --ignore-not-found -o name)" ] || kubectl create namespace iscsi
	for in in flex-provisioners iscsi; do
		kubectl -n "$in" delete secret iscsi-chap --ignore-not-found
		kubectl -n "$in" create secret generic iscsi-chap --type kubernetes.io/iscsi-chap \
			--from-literal=node.session.auth.username=chap-user --from-literal=node.session.auth.password=chap-password-1
	done
}
down() {
	kubectl delete namespace iscsi --ignore-not-found
	kubectl -n flex-provisioners delete secret iscsi-chap --ignore-not-found
	golden_down
	tgtd_down
}
edit() { sed 's#node-selector: kubernetes.io/os=linux#node-selector: kubernetes.io/hostname=node1#'; }
