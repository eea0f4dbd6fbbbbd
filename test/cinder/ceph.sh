# shellcheck shell=bash
# Sourced by up.sh where CEPH=1: a Ceph of one monitor, one manager and one OSD of 10 GiB (a sparse file), with cephx, a pool
# "volumes" and a user "cinder" for it. $STATE/ceph/client.conf is all that a client needs.

start_ceph() {
	local began dir=$STATE/ceph
	began=$(now)
	mkdir -p "$dir"/{mon,mgr,osd} "$STATE/run"
	export CEPH_CONF=$dir/ceph.conf
	write_ceph_conf "$dir" "$(cat /proc/sys/kernel/random/uuid)"
	start_mon "$dir"
	start_mgr "$dir"
	start_osd "$dir"
	make_pool "$dir"
	step "Ceph on $HOST:$CEPH_PORT" "$began"
}

# ceph and rbd reach the monitor where it listens; a monitor that is gone must not block them for minutes.
ceph() { on_place timeout 60 /usr/bin/ceph "$@"; }

write_ceph_conf() {
	cat > "$1/ceph.conf" <<-C
	[global]
	fsid = $2
	mon host = [v2:$HOST:13300,v1:$HOST:$CEPH_PORT]
	mon initial members = a
	public addr = $HOST
	cluster addr = $HOST
	ms bind ipv6 = false
	auth cluster required = cephx
	auth service required = cephx
	auth client required = cephx
	keyring = $1/keyring
	run dir = $STATE/run
	admin socket = $STATE/run/\$name.asok
	log file = $LOG/\$name.log
	mon cluster log file = $LOG/ceph.log
	crash dir = $1
	mon data = $1/mon
	mgr data = $1/mgr
	osd data = $1/osd
	mgr initial modules =
	mon allow pool size one = true
	mon warn on pool no redundancy = false
	osd pool default size = 1
	osd pool default min size = 1
	osd pool default pg num = 8
	osd pool default pgp num = 8
	osd pool default pg autoscale mode = off
	osd crush chooseleaf type = 0
	osd memory target = 939524096
	mon data avail warn = 2
	mon data avail crit = 1
	osd objectstore = bluestore
	bluestore block size = 10737418240
	bluestore block db create = false
	bluestore block wal create = false
	C
}

start_mon() {
	local dir=$1 fsid
	fsid=$(awk '/^fsid/ {print $3}' "$CEPH_CONF")
	(
		umask 077
		ceph-authtool --create-keyring "$dir/mon.keyring" --gen-key -n mon. --cap mon 'allow *'
		ceph-authtool --create-keyring "$dir/keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
		ceph-authtool "$dir/mon.keyring" --import-keyring "$dir/keyring"
		monmaptool --create --clobber --addv a "[v2:$HOST:13300,v1:$HOST:$CEPH_PORT]" --fsid "$fsid" "$dir/monmap"
		on_place ceph-mon --mkfs -i a --monmap "$dir/monmap" --keyring "$dir/mon.keyring" -c "$CEPH_CONF"
	) > "$LOG/ceph-setup.log" 2>&1 || die "could not set up a monitor: see $LOG/ceph-setup.log"
	launch ceph-mon ceph-mon -i a -c "$CEPH_CONF" -f
	until_ok 60 ceph -s || die "the monitor did not start: see $LOG/ceph-mon.log"
}

start_mgr() {
	ceph auth get-or-create mgr.x mon 'allow profile mgr' osd 'allow *' > "$1/mgr/keyring"
	launch ceph-mgr ceph-mgr -i x -c "$CEPH_CONF" --keyring "$1/mgr/keyring" -f
}

start_osd() {
	local dir=$1 uuid key id
	uuid=$(cat /proc/sys/kernel/random/uuid)
	key=$(ceph-authtool --gen-print-key)
	id=$(ceph osd new "$uuid" -i - <<< "{\"cephx_secret\": \"$key\"}")
	(umask 077; printf '[osd.%s]\n\tkey = %s\n' "$id" "$key" > "$dir/osd/keyring")
	truncate -s 10G "$dir/osd/block"
	on_place ceph-osd -i "$id" -c "$CEPH_CONF" --keyring "$dir/osd/keyring" --mkfs --osd-uuid "$uuid" >> "$LOG/ceph-setup.log" 2>&1 ||
		die "could not set up an OSD: see $LOG/ceph-setup.log"
	launch ceph-osd ceph-osd -i "$id" -c "$CEPH_CONF" --keyring "$dir/osd/keyring" -f
}

# make_pool does not wait for HEALTH_OK: it never comes, for want of space and redundancy.
make_pool() {
	local dir=$1
	{ ceph osd pool create volumes 8 && on_place timeout 60 rbd pool init volumes; } >> "$LOG/ceph-setup.log" 2>&1 ||
		die "could not make a pool: see $LOG/ceph-setup.log"
	(umask 077; ceph auth get-or-create client.cinder mon 'profile rbd' osd 'profile rbd pool=volumes' mgr 'profile rbd pool=volumes' > "$dir/client.keyring")
	cat > "$dir/client.conf" <<-C
	[global]
	fsid = $(awk '/^fsid/ {print $3}' "$CEPH_CONF")
	mon host = $HOST:$CEPH_PORT
	auth client required = cephx
	[client.cinder]
	keyring = $dir/client.keyring
	C
}
