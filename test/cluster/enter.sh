#!/bin/bash
# enter.sh [--node NODE] COMMAND...: runs a command in the node's network, mount and pid namespaces; node1's by default.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ "${1:-}" != --node ] || { on "$2" && shift 2; }
[ $# -gt 0 ] || die "usage: enter.sh [--node NODE] COMMAND..."
need_root
need_running
alive "$NODE" || die "$NODE is not running: ctl.sh start $NODE"
exec nsenter -t "$(pid_of "$NODE")" -n -m -p --wd="$PWD" -- "$@"
