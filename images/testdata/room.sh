# shellcheck shell=sh
# The provisioner of hostpath, on a node on which each root has the free space that the file beside it says.
stat() {
	case $1 in
	-f) cat "$4.free" ;;
	*) echo "$3" ;; # each is a file system of its own
	esac
}
# shellcheck source=/dev/null
. ./hostpath/provisioner.sh
