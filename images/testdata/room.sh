# shellcheck shell=sh
# The provisioner of hostpath, on a node on which each root has the free space that the file beside it says.
stat() { cat "$4.free"; }
# shellcheck source=/dev/null
. ./hostpath/provisioner.sh
