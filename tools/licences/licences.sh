#!/bin/bash
# licences.sh check PACKAGE...
#   fails where a module that the packages are linked from, theirs included, has a licence that is unknown, or none that lets
#   the project be given on under its own.
# licences.sh save PACKAGE FOLDER
#   writes the texts that have to go along with the program: those of its modules, and Go's.
#
# Both run in the folder of the packages' module and ask nobody.
set -eu
allowed=Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT,MPL-2.0
case ${1:-}:$# in
check:[2-9] | check:[1-9]? | save:3) ;;
*) sed -n '2,6s/^# \?//p' "$0" >&2; exit 2 ;;
esac

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
(cd "$(dirname "$0")/.." && go build -o "$bin" github.com/google/go-licenses/v2)
GOROOT=$(go env GOROOT) # by which go-licenses knows what is Go's own
export GOROOT CGO_ENABLED=0
licenses() { "$bin/go-licenses" "$@" --logtostderr=false --log_file=/dev/null --stderrthreshold=ERROR; }

case $1 in
check)
	licenses check "${@:2}" --allowed_licenses="$allowed"
	;;
save)
	rm -rf "$3" "$3.new"
	licenses save "$2" --save_path "$3.new"
	# go-licenses takes one text for each package. What lies beside it, such as the licence of ported files, goes along too.
	go list -deps -f '{{with .Module}}{{.Path}} {{.Dir}}{{end}}' "$2" | sort -u | while read -r module dir; do
		for text in "$dir"/{LICEN[CS]E,COPYING,COPYRIGHT,NOTICE,PATENTS}*; do
			[ -f "$text" ] || continue
			mkdir -p "$3.new/$module"
			[ -n "$(find "$3.new/$module" -name "${text##*/}" -exec cmp -s "$text" {} \; -print -quit)" ] ||
				install -m 644 "$text" "$3.new/$module"
		done
	done
	install -D -m 644 "$GOROOT/LICENSE" "$3.new/go/LICENSE"
	chmod -R u=rwX,go=rX "$3.new" # whatever the umask is: images have the texts, and run as any user
	mv "$3.new" "$3"
	;;
esac
