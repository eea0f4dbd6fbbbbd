# shellcheck shell=sh
# The provisioner of the current directory beside another delete, which removes each directory first.
rm() {
	command rm "$@"
	echo "rm: can't remove '$3': No such file or directory" >&2
	return 1
}
# shellcheck source=/dev/null
. ./provisioner.sh
