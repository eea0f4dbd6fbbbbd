#!/bin/bash
# The image nfs-subdir on the kernel's NFS server and client, by the conformance kit: on an export where root is root,
# and on one where root is nobody. The kit stands for the cluster.
# shellcheck source=../case.sh
. "$(dirname "$0")/../case.sh"
CHECKS=(provision provision-twice provision-at-once delete delete-at-once)

# kit EXPORT prints how many of the checks passed on an export, after what they printed.
kit() {
	local report=/run/kit-$1 check=("${CHECKS[@]/#/--check=}")
	bin/kubectl-flex conformance bin/images/nfs-subdir.tar --property server="$NODE1" --property export="/srv/$1" \
		--run-as-user 0 --host-users --mount "/export=/mnt/$1" --list "ls /srv/$1" --timeout 5m --flexctl bin/flexctl \
		"${check[@]}" > "$report" 2>&1 || true
	grep -E '^(ok|FAIL)' "$report" >&2 || cat "$report" >&2
	grep -c '^ok ' "$report" || true
}

for export in nfs squashed; do
	mkdir -p "/mnt/$export"
	mount -t nfs "$NODE1:/srv/$export" "/mnt/$export"
	is "mount of $export" "$NODE1:/srv/$export /mnt/$export nfs4 rw,*vers=4.2*" "$(grep " /mnt/$export " /proc/mounts)"
	is "checks of the conformance kit that passed on $export" ${#CHECKS[@]} "$(kit "$export")"
	is "what is left there" '' "$(ls "/srv/$export")"
done
umount /mnt/nfs /mnt/squashed
