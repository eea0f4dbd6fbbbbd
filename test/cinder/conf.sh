# shellcheck shell=bash
# Sourced by up.sh: the configuration files, from the settings, HOST (the address to listen on) and the passwords.

write_cinder_conf() {
	local backends=sparse
	[ "$CEPH" = 0 ] || backends=sparse,ceph
	cat > "$STATE/cinder.conf" <<-C
	[DEFAULT]
	auth_strategy = $AUTH
	host = node
	state_path = $STATE/cinder
	transport_url = fake://
	api_paste_config = $HERE/server/api-paste.ini
	resource_query_filters_file = $HERE/server/resource_filters.json
	osapi_volume_listen = $HOST
	osapi_volume_listen_port = $API_PORT
	osapi_volume_workers = 1
	enabled_backends = $backends
	default_volume_type = __DEFAULT__
	quota_volumes = 1000
	quota_snapshots = 1000
	quota_gigabytes = 100000
	report_interval = 5
	periodic_interval = 10
	periodic_fuzzy_delay = 0
	scheduler_driver_init_wait_time = 2
	volumes_dir = $STATE/targets
	[database]
	connection = sqlite:///$STATE/cinder.sqlite
	[oslo_concurrency]
	lock_path = $STATE/locks
	[oslo_messaging_notifications]
	driver = noop
	[key_manager]
	backend = cinder.keymgr.conf_key_mgr.ConfKeyManager
	fixed_key = 0000000000000000000000000000000000000000000000000000000000000000
	[keystone_authtoken]
	www_authenticate_uri = http://$HOST:$KEYSTONE_PORT/v3
	auth_url = http://$HOST:$KEYSTONE_PORT/v3
	auth_type = password
	username = cinder
	password = $CINDER_PASSWORD
	project_name = service
	user_domain_id = default
	project_domain_id = default
	token_cache_time = $TOKEN_CACHE
	[sparse]
	volume_driver = sparse.volumes.SparseVolumes
	volume_backend_name = sparse
	sparse_dir = $STATE/volumes
	${DISCOVERY_AUTH:+sparse_discovery_auth = $DISCOVERY_AUTH}
	volumes_dir = $STATE/targets
	target_helper = tgtadm
	target_protocol = iscsi
	target_prefix = iqn.2010-10.org.openstack:
	target_ip_address = $HOST
	target_port = $ISCSI_PORT
	[ceph]
	volume_driver = cinder.volume.drivers.rbd.RBDDriver
	volume_backend_name = ceph
	rbd_pool = volumes
	rbd_user = cinder
	rbd_ceph_conf = $STATE/ceph/client.conf
	rbd_secret_uuid = 5a8b1f2c-0000-4000-8000-000000000001
	rbd_flatten_volume_from_snapshot = false
	report_discard_supported = true
	C
	chmod 600 "$STATE/cinder.conf"
}

# Python's garbage collector may close a connection to SQLite in another thread than the one that opened it. With
# check_same_thread, the default, that fails, and the data base stays locked.
write_keystone_conf() {
	cat > "$STATE/keystone.conf" <<-C
	[DEFAULT]
	log_file = $LOG/keystone.log
	[database]
	connection = sqlite:///$STATE/keystone.sqlite?check_same_thread=false
	[token]
	provider = fernet
	expiration = $TOKEN_TTL
	[fernet_tokens]
	key_repository = $STATE/fernet
	[credential]
	key_repository = $STATE/credential
	[cache]
	enabled = true
	backend = dogpile.cache.memory
	C
}

# write_env FILE ADDRESS INTERFACE: what a client needs at that address.
write_env() {
	(umask 077; env_lines "$2" "$3" > "$1.new")
	mv "$1.new" "$1"
}

env_lines() {
	cat <<-E
	CINDER_AUTH=$AUTH
	CINDER_ENDPOINT=http://$1:$API_PORT/v3
	CINDER_PLACE=$PLACE
	E
	if [ "$AUTH" = keystone ]; then
		cat "$STATE/appcred"
		cat <<-E
		OS_AUTH_TYPE=password
		OS_IDENTITY_API_VERSION=3
		OS_AUTH_URL=http://$1:$KEYSTONE_PORT/v3
		OS_USERNAME=demo
		OS_PASSWORD=$DEMO_PASSWORD
		OS_USER_DOMAIN_NAME=Default
		OS_PROJECT_NAME=demo
		OS_PROJECT_DOMAIN_NAME=Default
		OS_REGION_NAME=RegionOne
		OS_INTERFACE=$2
		ADMIN_USERNAME=admin
		ADMIN_PASSWORD=$ADMIN_PASSWORD
		ADMIN_PROJECT_NAME=admin
		E
	else
		echo CINDER_PROJECT=11111111111111111111111111111111
	fi
	[ "$CEPH" = 0 ] || echo "CEPH_CONF=$STATE/ceph/client.conf"
}
