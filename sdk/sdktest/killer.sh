# shellcheck shell=sh
# Puts a function before each command that changes something, so that the shell can be killed before and after it.
: >"$POINTS"
point() {
	echo >>"$POINTS"
	[ "$(wc -l <"$POINTS")" -ne "$KILL_AT" ] || {
		kill -9 $$
		exit 137 # a part of a pipeline is another process than $$
	}
}
between_points() {
	point
	status=0
	command "$@" || status=$?
	point
	return "$status"
}
mkdir() { between_points mkdir "$@"; }
chmod() { between_points chmod "$@"; }
chown() { between_points chown "$@"; }
ln() { between_points ln "$@"; }
mv() { between_points mv "$@"; }
rm() { between_points rm "$@"; }
flexctl() { between_points flexctl "$@"; }
