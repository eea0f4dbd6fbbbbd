#!/usr/bin/env bash
# Runs SEEDS schedules from FROM, on every processor at once. Without either it runs the other tests of the simulation too.
# The last line counts what was done.
set -euo pipefail
cd "$(dirname "$0")"
seeds=${SEEDS:-500} from=${FROM:-1} chunk=200
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -o "$work/chaos" .
export GODEBUG=asyncpreemptoff=1 GOMAXPROCS=1
tasks() {
	if [[ -z ${SEEDS:-} && -z ${FROM:-} ]]; then echo "-test.skip=^TestSeeds$"; fi
	for ((first = from; first < from + seeds; first += chunk)); do
		echo "-test.run=^TestSeeds$ -from=$first -seeds=$((chunk < from + seeds - first ? chunk : from + seeds - first))"
	done
}
failed=0
# The first argument is the task, of several words; each writes a log of its own.
# shellcheck disable=SC2016
tasks | xargs -d '\n' -P "$(nproc)" -I '{}' bash -c '
	log=$(mktemp "$0/log.XXXXXX")
	read -ra args <<<"$1"
	"$0/chaos" -test.timeout=0 -test.v "${args[@]}" >"$log" 2>&1 || { grep -v "^chaos: " "$log"; exit 1; }' "$work" '{}' || failed=1
awk -v seeds="$seeds" -v from="$from" '
	/^chaos: / {
		ran += $2
		violations += $NF
		sub(/.*faults drawn: */, ""); sub(/;.*/, "")
		n = split($0, words, " ")
		for (i = 1; i < n; i += 2) {
			if (!(words[i] in drawn)) kinds[++known] = words[i]
			drawn[words[i]] += words[i + 1]
		}
	}
	/^--- (PASS|FAIL): Test/ && !/TestSeeds/ { tests++ }
	END {
		if (tests) printf "chaos: %d other tests\n", tests
		printf "chaos: %d of %d seeds from %d, faults drawn:", ran, seeds, from
		for (i = 1; i <= known; i++) printf " %s %d", kinds[i], drawn[kinds[i]]
		printf "; seeds with violations: %d\n", violations
	}' "$work"/log.*
exit "$failed"
