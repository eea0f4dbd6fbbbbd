#!/bin/bash
# Prints the cloud.conf by which pods of the test cluster reach the test Cinder.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ -f "$POD_ENV" ] || die "is not running where pods reach it: make cluster-up cinder-up"
# shellcheck source=/dev/null # written by up.sh
. "$POD_ENV"
if [ "$CINDER_AUTH" = noauth ]; then
	printf '[Cinder]\nendpoint = %s\n[Global]\ntenant-name = %s\n' "$CINDER_ENDPOINT" "$CINDER_PROJECT"
else
	printf '[Global]\nauth-url = %s\nusername = %s\npassword = %s\ntenant-name = %s\ndomain-name = %s\nregion = %s\n' \
		"$OS_AUTH_URL" "$OS_USERNAME" "$OS_PASSWORD" "$OS_PROJECT_NAME" "$OS_USER_DOMAIN_NAME" "$OS_REGION_NAME"
fi
