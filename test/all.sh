#!/bin/bash
# Runs all tests, in two lanes. Those on nodes mostly wait for Kubernetes, and the others take what is left of the
# processors meanwhile. The lane of the others is printed as a whole, when it has ended.
set -u
cd "$(dirname "$0")/.." || exit

others() {
	local log=bin/test-others.log result=0
	nice -n 10 make lint test-unit test-conformance test-integration chaos > "$log" 2>&1 || result=$?
	cat "$log"
	return "$result"
}

# Both lanes use the images, and would build them at the same time.
make images || exit

others &
failed=
make test-cinder test-e2e test-attack || failed="on nodes "
wait $! || failed+="beside them, see bin/test-others.log"
[ -z "$failed" ] || { echo "test: failed: $failed" >&2; exit 1; }
