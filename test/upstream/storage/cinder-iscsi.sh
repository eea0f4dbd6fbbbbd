# shellcheck shell=bash
# A real Cinder, and the credentials for it.
up() {
	test/cinder/up.sh
	(umask 077; test/cinder/cloud-conf.sh > "$DIR/cloud.conf")
	kubectl -n flex-provisioners delete secret cinder-cloud-config --ignore-not-found
	kubectl -n flex-provisioners create secret generic cinder-cloud-config --from-file=cloud.conf="$DIR/cloud.conf" > /dev/null
}
down() {
	kubectl -n flex-provisioners delete secret cinder-cloud-config --ignore-not-found
	test/cinder/down.sh
}
