#!/bin/bash
# enter.sh COMMAND...: runs a command in the cluster's network, mount and pid namespaces, as if on the node.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || die "usage: enter.sh COMMAND..."
need_root
need_running
exec nsenter -t "$(pid_of holder)" -n -m -p --wd="$PWD" -- "$@"
