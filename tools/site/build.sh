#!/bin/bash
# build.sh: the documentation as a website, into bin/site. It needs npm, whose packages are those of package-lock.json.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=bin/.site # a folder that Go does not look into
mkdir -p "$work"
cp -r tools/site/. "$work"
if ! cmp -s "$work/package-lock.json" "$work/node_modules/.installed"; then
	(cd "$work" && npm ci)
	cp "$work/package-lock.json" "$work/node_modules/.installed"
fi
node "$work/pages.mjs" . "$work"
rm -rf bin/site
"$work/node_modules/.bin/vitepress" build "$work"
node "$work/check.mjs" bin/site
node "$work/look.mjs" bin/site
