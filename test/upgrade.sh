#!/bin/bash
# upgrade.sh: builds the version of the git reference FROM, by default the last tag, and shows on the cluster that an upgrade
# from it, and the way back, lose nothing. The version before is kept in .cluster/from.
set -eu
cd "$(dirname "$0")/.."
FROM=${FROM:-$(git describe --tags --abbrev=0 2> /dev/null)} ||
	{ echo "there is no tag to upgrade from: make test-upgrade FROM=COMMIT" >&2; exit 1; }
commit=$(git rev-parse --verify --short=12 "$FROM^{commit}")
from=$PWD/.cluster/from/$commit
if [ ! -e "$from/built" ]; then
	rm -rf "$from"
	mkdir -p "$from"
	git archive "$commit" | tar -x -C "$from"
	make -C "$from" images
	touch "$from/built"
fi
echo "upgrade: from $FROM, commit $commit, to $(git describe --tags --always --dirty)"
FLEX_E2E_UPGRADE_FROM=$from go test -count=1 -timeout 30m -tags e2e ./test/e2e -run '^TestUpgrade$' -v
