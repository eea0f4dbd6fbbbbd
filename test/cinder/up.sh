#!/bin/bash
# Starts a real Cinder with real iSCSI targets, or says that it runs. Settings, from the environment:
#   AUTH=noauth|keystone          who may call it; noauth is the default
#   PLACE=node|machine            in the test cluster's namespaces, where pods reach it, or on this machine's loopback;
#                                 the default is node if the cluster of this checkout runs
#   CEPH=1                        with a one-OSD Ceph as a second backend and type, "ceph"
#   DISCOVERY_AUTH='user secret'  iSCSI discovery with CHAP; the secret has 12 to 16 characters
#   TOKEN_TTL=3600 TOKEN_CACHE=300  seconds that Keystone's tokens are valid, and that Cinder believes one (-1: not at all)
set -eu
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=conf.sh
. "$HERE/conf.sh"
# shellcheck source=down.sh
. "$HERE/down.sh"

check_settings() {
	AUTH=${AUTH:-noauth} CEPH=${CEPH:-0} DISCOVERY_AUTH=${DISCOVERY_AUTH:-} TOKEN_TTL=${TOKEN_TTL:-3600} TOKEN_CACHE=${TOKEN_CACHE:-300}
	PLACE=${PLACE:-$(the_node > /dev/null && echo node || echo machine)}
	case $AUTH in noauth | keystone) ;; *) die "AUTH=$AUTH: must be noauth or keystone" ;; esac
	case $CEPH in 0 | 1) ;; *) die "CEPH=$CEPH: must be 0 or 1" ;; esac
	case $PLACE in
	machine) HOST=127.0.0.1 ;;
	node) HOST=$NODE1_IP && { the_node > /dev/null || die "PLACE=node: the test cluster is not running: make cluster-up"; } ;;
	*) die "PLACE=$PLACE: must be node or machine" ;;
	esac
	[ ${#CINDER} -le 80 ] || die "the path $CINDER is too long: move the checkout"
}

# already_running is true where what is asked for runs. Something else that runs is not changed.
already_running() {
	local name v was
	alive cinder || return 1
	for v in $SETTINGS; do
		# shellcheck source=/dev/null # written by save_settings
		was=$(. "$STATE/settings" && echo "${!v}")
		[ "${!v}" = "$was" ] || die "is running with $v='$was', not '${!v}': make cinder-down first"
	done
	while read -r name; do
		alive "$name" || die "is running, but $name is dead: see $LOG/$name.log, then make cinder-down"
	done < "$STATE/started"
	healthy || die "is running, but does not answer at $(endpoint): see $LOG/cinder.log, then make cinder-down"
}

save_settings() {
	local v
	for v in $SETTINGS; do printf '%s=%q\n' "$v" "${!v}"; done > "$STATE/settings"
}

install() {
	local p=(curl python3-cinder socat tgt)
	[ "$AUTH" = noauth ] || p+=(python3-keystone)
	[ "$CEPH" = 0 ] || p+=(ceph-common ceph-mgr ceph-mon ceph-osd python3-rbd)
	"$HERE/../cluster/packages.sh" "${p[@]}"
}

endpoint() { echo "http://127.0.0.1:$API_PORT"; }
healthy() { curl -sf -m 10 -o /dev/null "$(endpoint)/healthcheck"; }

# need_free refuses to start beside a stranger, who would be taken for ours.
need_free() {
	local port
	for port in $API_PORT $KEYSTONE_PORT $ISCSI_PORT; do
		! on_place bash -c ": < /dev/tcp/$HOST/$port" 2> /dev/null || die "port $port of $HOST ($PLACE) is taken"
		! bash -c ": < /dev/tcp/127.0.0.1/$port" 2> /dev/null || die "port $port of this machine's loopback is taken"
	done
}

# start_tgtd starts the iSCSI target daemon with a control socket of its own. Cinder's tgt-admin finds both through a
# wrapper and the environment.
start_tgtd() {
	local began
	began=$(now)
	mkdir -p "$STATE"/{targets,bin}
	echo "include $STATE/targets/*" > "$STATE/targets.conf"
	printf '#!/bin/sh\nexec /usr/sbin/tgt-admin -c %s "$@"\n' "$STATE/targets.conf" > "$STATE/bin/tgt-admin"
	chmod +x "$STATE/bin/tgt-admin"
	launch_tgtd
	step "tgtd listens on $HOST:$ISCSI_PORT" "$began"
}

launch_tgtd() {
	launch tgtd env TGT_IPC_SOCKET="$STATE/tgt.sock" /usr/sbin/tgtd -f --iscsi "portal=$HOST:$ISCSI_PORT"
	until_ok 10 env TGT_IPC_SOCKET="$STATE/tgt.sock" tgtadm --op show --mode sys || die "tgtd did not start: see $LOG/tgtd.log"
}

# serve NAME FILE ARGUMENT...: one of server/'s programs, with the system's Python whatever else the machine has.
serve() {
	local name=$1 file=$2
	shift 2
	launch "$name" env -i HOME=/root LANG=C.UTF-8 PATH="$STATE/bin:/usr/sbin:/usr/bin:/sbin:/bin" PYTHONPATH="$HERE/server" \
		PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TGT_IPC_SOCKET="$STATE/tgt.sock" /usr/bin/python3 "$HERE/server/$file" "$@"
}

# forward NAME PORT makes a port on the node's address reachable on this machine's loopback, through a socket that both see.
forward() {
	[ "$PLACE" = node ] || return 0
	launch "$1-inside" socat "UNIX-LISTEN:$STATE/$1.sock,fork" "TCP:$HOST:$2"
	until_ok 5 test -S "$STATE/$1.sock" || die "no socket $STATE/$1.sock: see $LOG/$1-inside.log"
	PLACE=machine launch "$1-outside" socat "TCP-LISTEN:$2,bind=127.0.0.1,fork,reuseaddr" "UNIX-CONNECT:$STATE/$1.sock"
}

start_cinder() {
	write_cinder_conf
	launch_cinder
	forward cinder "$API_PORT"
}

launch_cinder() { serve cinder cinder_server.py --config-file "$STATE/cinder.conf"; }

start_keystone() {
	local began url=http://$HOST:$KEYSTONE_PORT/v3
	began=$(now)
	write_keystone_conf
	mkdir -p "$STATE"/{fernet,credential}
	export ADMIN_PASSWORD CINDER_PASSWORD DEMO_PASSWORD PYTHONDONTWRITEBYTECODE=1
	/usr/bin/python3 "$HERE/server/keystone_init.py" "$STATE/keystone.conf" "$url" > "$LOG/keystone-init.log" 2>&1 ||
		die "could not set up Keystone: see $LOG/keystone-init.log"
	serve keystone keystone_server.py "$HOST" "$KEYSTONE_PORT" --config-file "$STATE/keystone.conf"
	forward keystone "$KEYSTONE_PORT"
	until_ok 60 curl -sf -o /dev/null "http://127.0.0.1:$KEYSTONE_PORT/v3" || die "Keystone did not start: see $LOG/keystone.log"
	(umask 077; on_place /usr/bin/python3 "$HERE/server/keystone_seed.py" "$url" "http://$HOST:$API_PORT" "$(endpoint)" > "$STATE/appcred") ||
		{ tail -n 20 "$LOG/keystone.log" >&2; die "could not fill Keystone"; }
	step "Keystone, on $url" "$began"
}

# wait_for_cinder gives up at once where the process ended. Beside hundreds of pods on two cores it takes minutes.
wait_for_cinder() {
	until_ok 240 healthy_or_dead
	healthy || { tail -n 20 "$LOG/cinder.log" >&2; die "Cinder did not start: see $LOG/cinder.log"; }
}
healthy_or_dead() { healthy || gone cinder; }

secret() { local s; s=$(cat /proc/sys/kernel/random/uuid); echo "${s//-/}"; }

bring_up() {
	local began
	began=$(now)
	mkdir -p "$PIDS" "$STATE"/{locks,volumes} "$LOG"
	chmod 700 "$STATE"
	rm -f "$LOG"/*.log
	echo "$CINDER" > "$RUN/owner"
	trap take_down EXIT
	save_settings
	need_free
	ADMIN_PASSWORD=$(secret) CINDER_PASSWORD=$(secret) DEMO_PASSWORD=$(secret)
	# shellcheck source=ceph.sh
	[ "$CEPH" = 0 ] || { . "$HERE/ceph.sh" && start_ceph; }
	start_tgtd
	began_cinder=$(now)
	start_cinder
	[ "$AUTH" = noauth ] || start_keystone
	wait_for_cinder
	step "Cinder ($AUTH), on http://$HOST:$API_PORT/v3" "$began_cinder"
	write_env "$ENV" 127.0.0.1 internal
	[ "$PLACE" = machine ] || write_env "$POD_ENV" "$HOST" public
	(cd "$PIDS" && ls) | sed 's/\.pid$//' > "$STATE/started"
	trap - EXIT
	step "ready, $ENV says how to reach it" "$began"
}

main() {
	need_root
	check_settings
	lock
	need_ours
	if already_running; then
		say "is running ($AUTH): $ENV says how to reach it"
	else
		install
		take_down # what a crash may have left
		bring_up
	fi
}
[ "${BASH_SOURCE[0]}" != "$0" ] || main
