#!/bin/bash
# Fuzzes every target of the module, one after the other, each for FOR (10m). What is found is written to testdata/fuzz of the
# package, where it is a test from then on; what is only new stays in Go's cache. ONLY is a pattern of targets: ONLY='^FuzzForms$'.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
while IFS=: read -r file target; do
	[[ $target =~ ${ONLY:-.} ]] || continue
	echo "== $(dirname "$file") $target"
	go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "${FOR:-10m}" | tail -n 12 || status=1
done < <(git grep -o 'func Fuzz[A-Za-z0-9]*(f \*testing.F)' -- '*_test.go' | sed 's/func \(Fuzz[A-Za-z0-9]*\).*/\1/')
exit "$status"
