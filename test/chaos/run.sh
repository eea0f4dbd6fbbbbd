#!/usr/bin/env bash
# Runs SEEDS schedules from FROM, on every processor at once. The last line counts what was done.
set -euo pipefail
cd "$(dirname "$0")"
seeds=${SEEDS:-2000} from=${FROM:-1} processors=$(nproc)
each=$(((seeds + processors - 1) / processors))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -o "$work/chaos" .
children=()
for ((i = 0; i < processors && i * each < seeds; i++)); do
	count=$((each < seeds - i * each ? each : seeds - i * each))
	GODEBUG=asyncpreemptoff=1 GOMAXPROCS=1 "$work/chaos" -test.timeout 0 -test.run '^TestSeeds$' -test.v -seeds "$count" -from $((from + i * each)) >"$work/$i.log" 2>&1 &
	children+=($!)
done
failed=0
for child in "${children[@]}"; do wait "$child" || failed=1; done
if ((failed)); then grep -hv '^chaos: ' "$work"/*.log || true; fi
awk -v seeds="$seeds" -v from="$from" '
	/^chaos: / {
		violations += $NF
		sub(/.*faults drawn: */, ""); sub(/;.*/, "")
		n = split($0, words, " ")
		for (i = 1; i < n; i += 2) drawn[words[i]] += words[i + 1]
	}
	END {
		printf "chaos: %d seeds from %d, faults drawn:", seeds, from
		for (kind in drawn) printf " %s %d", kind, drawn[kind]
		printf "; seeds with violations: %d\n", violations
	}' "$work"/*.log
exit "$failed"
