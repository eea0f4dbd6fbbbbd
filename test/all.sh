#!/bin/bash
# Runs all tests, in two lanes. Those on nodes mostly wait for Kubernetes, and those of the code take what is left of the
# processors meanwhile. The lane of the code is printed as a whole, when it has ended.
set -u
cd "$(dirname "$0")/.." || exit

code() {
	local log=bin/test-code.log result=0
	nice -n 10 make lint test-unit test-conformance chaos > "$log" 2>&1 || result=$?
	cat "$log"
	return "$result"
}

# Both lanes use the images, and would build them at the same time.
make images || exit
code &
failed=
make test-integration test-e2e test-attack || failed="on nodes "
wait $! || failed+="of the code, see bin/test-code.log"
[ -z "$failed" ] || { echo "test: failed: $failed" >&2; exit 1; }
