# shellcheck shell=bash disable=SC2034 # what is set is for who sources this
# What a class needs beside its example, by default nothing. run.sh sources this, and then storage/CLASS.sh, which may have functions of
# these names. They run in the root of the repository, with the class in CLASS and a folder for files in DIR.

up() { :; }     # prepares storage and Secrets, before the class is installed
down() { :; }   # undoes it, once the class is gone
edit() { cat; } # filters the example's manifests: what an administrator has to write into them
node() { :; }   # prints the node that has all volumes, if there is one

# dockerfile prints the folder with the Dockerfile of the class's image, if make images has none.
dockerfile() { ls -d "examples/$CLASS/image" 2> /dev/null || true; }

on_node() { test/cluster/enter.sh --node "$1" bash -euc "$2"; }

# start COMMAND...: on node1, in the background, until stop.
start() {
	setsid test/cluster/enter.sh "$@" > "$DIR/background.log" 2>&1 < /dev/null &
	echo $! > "$DIR/background.pid"
}
stop() {
	[ ! -e "$DIR/background.pid" ] || kill -- "-$(cat "$DIR/background.pid")" 2> /dev/null || true
	rm -f "$DIR/background.pid"
}

# golden_up puts on the NFS export what volumes of use case 2 begin with.
golden_up() {
	command install -d -m 0777 /srv/nfs/golden /srv/nfs/golden/common
	echo "be careful" > /srv/nfs/golden/common/motd
	echo welcome > /srv/nfs/golden/index.html
	tar -czf /srv/nfs/golden/site.tar.gz -C /srv/nfs/golden index.html
	rm /srv/nfs/golden/index.html
}
golden_down() { rm -rf /srv/nfs/golden; }

# tgtd_up gives node1 the directories by which pods reach the cluster's tgtd.
tgtd_up() {
	[ -e /run/flex-cluster/tgt.sock.0 ] || { echo "upstream: the cluster has no iSCSI target: make cluster-down, make cluster-up ISCSI=1" >&2 && exit 1; }
	on_node node1 "mkdir -p /run/tgtd /var/lib/flex-iscsi; touch /run/tgtd/socket.0
		grep -q ' /run/tgtd/socket.0 ' /proc/self/mountinfo || mount --bind /run/flex-cluster/tgt.sock.0 /run/tgtd/socket.0"
}
tgtd_down() {
	on_node node1 "! grep -q ' /run/tgtd/socket.0 ' /proc/self/mountinfo || umount /run/tgtd/socket.0
		rm -rf /run/tgtd /var/lib/flex-iscsi/.use-case-2; [ ! -e /var/lib/flex-iscsi ] || rmdir /var/lib/flex-iscsi"
}
