#!/bin/bash
# Runs the tests that need a real Cinder: with and without Keystone, and with Ceph. It starts each and stops it again.
set -eu
cd "$(dirname "$0")/../.."
run() { # AUTH CEPH TESTS
	AUTH=$1 CEPH=$2 PLACE=machine test/cinder/up.sh
	trap test/cinder/down.sh EXIT
	go test -count=1 -timeout 40m -tags cinder ./images/cinder-iscsi -run "$3" -v |
		grep -E '^ *(---|ok|FAIL|panic|[a-z_]+_test.go|call |[a-zA-Z"_ ]+ +[0-9]+ +[0-9.]+m?s )'
	trap - EXIT
	test/cinder/down.sh
}
set -o pipefail
run noauth 0 TestReal
run keystone 0 'TestRealCinder$'
run noauth 1 TestRealCeph
