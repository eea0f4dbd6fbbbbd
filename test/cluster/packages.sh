#!/bin/bash
# packages.sh PACKAGE...: installs those Debian packages that are missing. Of two runs the second waits.
set -eu
exec 9< "$0"
flock 9
missing=()
for p; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || { echo "packages: needs root to install ${missing[*]}" >&2; exit 1; }
SECONDS=0
log=$(mktemp)
echo "packages: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } > "$log" 2>&1 9<&-; then
	tail -n 20 "$log" >&2
	echo "packages: apt-get could not install ${missing[*]}: see $log" >&2
	exit 1
fi
rm -f "$log"
echo "packages: installed in $SECONDS s"
