#!/bin/bash
# vulncheck.sh: looks for known vulnerabilities in what the programs contain. The database is vuln.go.dev, or what GOVULNDB
# says (https://… or file:///…). Where it cannot be reached, nothing was checked, and this says so: with
# VULNCHECK=required, as for a release, that is a failure.
set -eu
cd "$(dirname "$0")/.."
db=${GOVULNDB:-https://vuln.go.dev}
if ! curl -fsS -m 10 -o /dev/null "$db/index/db.json"; then
	echo "NOT CHECKED for known vulnerabilities: $db cannot be reached. Set GOVULNDB to a mirror of it." >&2
	[ "${VULNCHECK:-}" != required ] || exit 1
	exit 0
fi
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
(cd tools && go build -o "$bin/govulncheck" golang.org/x/vuln/cmd/govulncheck)
# Programs and not sources: what the linker kept of a program is all that it can call, and it takes a second, not minutes.
for main in cmd/*/main.go images/*/main.go; do
	program=$(basename "$(dirname "$main")")
	CGO_ENABLED=0 go build -trimpath -o "$bin/$program" "./$(dirname "$main")"
	echo "== $program"
	"$bin/govulncheck" -db "$db" -mode binary "$bin/$program"
done
