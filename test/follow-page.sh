#!/bin/bash
# follow-page.sh PAGE.md [VARIANT]: does what a page says, word for word: runs every block of ```sh in it, and those of
# ```sh VARIANT, one after another in one shell in the folder of the sources, and says how long it took up to the end of
# each. The first command that fails ends it.
set -euo pipefail
cd "$(dirname "$0")/.."
page=${1:?usage: follow-page.sh PAGE.md [VARIANT]}
variant="\`\`\`sh ${2:-}"
[ -z "${2:-}" ] || grep -qx "$variant" "$page" || { echo "follow-page: $page has no block of sh $2" >&2; exit 1; }
blocks=$(awk -v variant="$variant" '
	/^```sh$/ || $0 == variant {inside = 1; print "set -x"; next}
	/^```$/ && inside {inside = 0; print "{ set +x; } 2> /dev/null; took", ++n; next}
	inside {print}' "$page")
[ -n "$blocks" ] || { echo "follow-page: $page has no block of sh" >&2; exit 1; }

began=${EPOCHREALTIME/[.,]/}
took() {
	local t=$(((${EPOCHREALTIME/[.,]/} - began) / 100000))
	echo "follow-page: block $1 done after $((t / 10)).$((t % 10)) s"
}
eval "$blocks"
