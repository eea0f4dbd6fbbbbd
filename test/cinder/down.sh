#!/bin/bash
# Stops what up.sh started and removes all data. Logs and Debian packages stay.
set -eu
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

take_down() {
	local name pid
	# KILL: tgtd ignores TERM while it has targets, and nothing is to be kept. All first, then wait for each.
	for name in $PROGRAMS; do if pid=$(pid_of "$name"); then kill -KILL "$pid" 2> /dev/null || true; fi; done
	for name in $PROGRAMS; do stop "$name" KILL; done
	rm -rf --one-file-system "$STATE" "$RUN" "$ENV" "$POD_ENV"
}

down() {
	local began was=
	need_root
	lock
	need_ours
	began=$(now)
	[ ! -e "$RUN" ] || was=1
	take_down
	if [ -n "$was" ]; then step stopped "$began"; else say "is not running"; fi
}
[ "${BASH_SOURCE[0]}" != "$0" ] || down
