# shellcheck shell=bash
# Sourced by guest.sh on the lab's machine with storage: the kernel's NFS server, and a real Cinder with LVM and the
# kernel's iSCSI target, LIO. The test Cinder's server runs API, scheduler and volume service in one process.
# shellcheck source=lib.sh
. "$LAB/lab/lib.sh"

start_role() {
	nfs_server
	stage "the NFS server runs"
	volume_group
	cinder_conf
	mkdir -p /run/bin
	printf '#!/bin/sh\nexec /usr/bin/python3 -c "from cinder.cmd import rtstool; rtstool.main()" "$@"\n' \
		> /run/bin/cinder-rtstool
	chmod +x /run/bin/cinder-rtstool
	env -i HOME=/root LANG=C.UTF-8 PATH="/run/bin:$PATH" PYTHONPATH=test/cinder/server PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 test/cinder/server/cinder_server.py --config-file /run/cinder.conf > /run/cinder.log 2>&1 &
	stage "Cinder starts"
}

volume_group() {
	modprobe -a dm_mod dm_snapshot target_core_iblock
	truncate -s 8G /run/volumes.img
	vgcreate -q volumes "$(losetup -f --show /run/volumes.img)"
}

# Every target has two portals, one on each network. What is removed is cleared: lvcreate fails where it finds a file system.
cinder_conf() {
	mkdir -p /var/lib/cinder /run/lock/cinder /etc/rtslib-fb-target
	cat > /run/cinder.conf <<-C
	[DEFAULT]
	auth_strategy = noauth
	host = storage
	state_path = /var/lib/cinder
	transport_url = fake://
	api_paste_config = $REPO/test/cinder/server/api-paste.ini
	resource_query_filters_file = $REPO/test/cinder/server/resource_filters.json
	osapi_volume_listen = $STORAGE_IP
	osapi_volume_workers = 1
	enabled_backends = lvm
	default_volume_type = __DEFAULT__
	scheduler_driver_init_wait_time = 2
	rpc_response_timeout = 600
	report_interval = 120
	service_down_time = 600
	periodic_interval = 600
	[database]
	connection = sqlite:////run/cinder.sqlite
	[oslo_concurrency]
	lock_path = /run/lock/cinder
	[oslo_messaging_notifications]
	driver = noop
	[key_manager]
	backend = cinder.keymgr.conf_key_mgr.ConfKeyManager
	fixed_key = 0000000000000000000000000000000000000000000000000000000000000000
	[lvm]
	volume_driver = cinder.volume.drivers.lvm.LVMVolumeDriver
	volume_group = volumes
	lvm_type = default
	volume_clear = zero
	volume_clear_size = 16
	target_helper = lioadm
	target_protocol = iscsi
	target_prefix = iqn.2010-10.org.openstack:
	target_ip_address = $STORAGE_IP
	iscsi_secondary_ip_addresses = $SECOND_NET.5
	use_chap_auth = true
	C
}
