# shellcheck shell=bash
# Sourced by the scripts in cases/: what is asserted, and the kernel's initiator as the kubelet uses it. They run on
# node1, by guest.sh.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO"
WRONG=0
trap 'end $?' EXIT
end() {
	[ "$1" = 0 ] || exit "$1"
	exit "$WRONG"
}

# is WHAT WANT GOT: asserts a value that was seen. WANT may have wildcards.
is() {
	# shellcheck disable=SC2053 # a pattern
	if [[ $3 == $2 ]]; then
		echo "ok: $1: $3"
	else
		echo "WRONG: $1: '$3', want '$2'"
		WRONG=1
	fi
}

# eventually SECONDS WHAT WANT COMMAND...: asserts what a command prints, once it does. The seconds are of a fast
# machine.
eventually() {
	local seconds=$1 what=$2 want=$3
	shift 3
	until_ok "$seconds" prints "$want" "$@" || true
	is "$what" "$want" "$("$@" 2>&1 || true)"
}
prints() {
	local want=$1
	shift
	# shellcheck disable=SC2053 # a pattern
	[[ $("$@" 2>&1) == $want ]]
}

# golden CASE KEY...: prints values of what the mapper's test of that name wants it to write.
golden() {
	local cases=$REPO/images/cinder-iscsi/mapper/testdata/cases.txtar
	awk -v want="$1/want.yaml" -v keys=" ${*:2} " '/^-- / {ours = $2 == want; next}
		ours && index(keys, " " $1 " ") {gsub("\"", "", $2); print $2}' "$cases"
}

# lio IQN PORTAL...: has the kernel's target export the file /run/lio.img, of 64 MiB, as LUN 1.
LIO=/sys/kernel/config/target
lio() {
	local iqn=$1 portal store=$LIO/core/fileio_0/lio
	shift
	truncate -s 64M /run/lio.img
	mkdir -p "$store" "$LIO/iscsi/$iqn/tpgt_1/lun/lun_1"
	echo "fd_dev_name=/run/lio.img,fd_dev_size=$((64 << 20))" > "$store/control"
	echo 1 > "$store/enable"
	echo "dae46dbd-d712-48fe-af72-de0872d24140" > "$store/wwn/vpd_unit_serial"
	ln -s "$store" "$LIO/iscsi/$iqn/tpgt_1/lun/lun_1/lio"
	for portal; do mkdir -p "$LIO/iscsi/$iqn/tpgt_1/np/$portal"; done
	echo 1 > "$LIO/iscsi/$iqn/tpgt_1/enable"
}
# lio_host IQN INITIATOR USER PASSWORD: lets an initiator in, by CHAP.
lio_host() {
	local group=$LIO/iscsi/$1/tpgt_1
	echo 1 > "$group/attrib/authentication"
	mkdir -p "$group/acls/$2/lun_1"
	ln -s "$group/lun/lun_1" "$group/acls/$2/lun_1/lun"
	echo -n "$3" > "$group/acls/$2/auth/userid"
	echo -n "$4" > "$group/acls/$2/auth/password"
}
lio_gone() { # IQN
	local group=$LIO/iscsi/$1/tpgt_1
	echo 0 > "$group/enable"
	find "$group/acls" "$group/lun" -type l -exec rm {} + 2> /dev/null || true
	for dir in "$group"/acls/*/lun_1 "$group"/acls/* "$group"/np/* "$group/lun/lun_1" "$group" "$LIO/iscsi/$1" \
		"$LIO/core/fileio_0/lio"; do
		[ ! -d "$dir" ] || rmdir "$dir"
	done
}

# log_in PORTAL IQN VOLUME INITIATOR [USER PASSWORD]: what the kubelet does for a portal of a volume, in its order.
log_in() {
	local portal=$1 iqn=$2 iface=$1:$3 initiator=$4 user=${5:-} password=${6:-} setting
	iscsiadm -m iface -I "$iface" -o new > /dev/null
	iscsiadm -m iface -I "$iface" -o update -n iface.initiatorname -v "$initiator" > /dev/null
	iscsiadm -m discoverydb -t sendtargets -p "$portal" -I "$iface" -o new > /dev/null
	iscsiadm -m discoverydb -t sendtargets -p "$portal" -I "$iface" --discover > /dev/null
	if [ -n "$user" ]; then
		for setting in authmethod=CHAP "username=$user" "password=$password"; do
			iscsiadm -m node -p "$portal" -T "$iqn" -I "$iface" -o update \
				-n "node.session.auth.${setting%%=*}" -v "${setting#*=}"
		done
	fi
	iscsiadm -m node -p "$portal" -T "$iqn" -I "$iface" --login > /dev/null
	iscsiadm -m node -p "$portal" -T "$iqn" -o update -n node.startup -v manual
}
log_out() { # PORTAL IQN VOLUME
	iscsiadm -m node -p "$1" -T "$2" -I "$1:$3" --logout > /dev/null
	iscsiadm -m node -p "$1" -T "$2" -I "$1:$3" -o delete
	iscsiadm -m iface -I "$1:$3" -o delete > /dev/null
}

# pull ADDRESS takes an address off the network, silently, until plug.
pull() {
	nft -f - <<-N
	table inet pulled {
		chain input {
			type filter hook input priority -10
			ip daddr $1 drop
		}
	}
	N
}
plug() { nft delete table inet pulled; }
# paths STATE prints how many paths device mapper has in that state: active or failed.
paths() { multipathd show paths raw format %t | grep -c "^$1" || true; }

# on_node2 COMMAND...: runs a command on the other machine. Its errors are on the console there.
on_node2() { echo "$*" | socat -t 1200 - "TCP:$NODE2:$SHELL_PORT"; }

sessions() { iscsiadm -m session 2>&1 | grep -c "$1" || true; }
